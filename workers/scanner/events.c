#include "workers/scanner/scanner.h"

#include <string.h>

enum {
    LINE_MAX_BYTES = 4 << 20, /* queues carry 256 KiB; a server that batches, a little more */
    RECORDS_MAX = 10000,      /* of one line */
};

/* "a%20b+c" as S3 writes keys in events; false for what is no key. */
static bool decode_key(const char *text, size_t length, char key[CV_STORE_KEY_MAX + 1])
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        if (count == CV_STORE_KEY_MAX) {
            return false;
        }
        unsigned byte = (unsigned char)text[i];
        if (text[i] == '+') {
            byte = ' ';
        } else if (text[i] == '%') {
            char digits[3] = {0};
            char *end = digits;
            memcpy(digits, text + i + 1, i + 2 < length ? 2 : 0);
            byte = (unsigned)strtoul(digits, &end, 16);
            if (end != digits + 2 || digits[0] == '+' || digits[0] == '-' || digits[0] == ' ') {
                return false;
            }
            i += 2;
        }
        if (byte == 0) {
            return false;
        }
        key[count++] = (char)byte;
    }
    key[count] = '\0';
    struct cv_error ignored;
    return cv_store_check_key(key, &ignored) == 0;
}

static const json_t *member(const json_t *object, const char *first, const char *second)
{
    const json_t *inner = json_object_get(object, first);
    return second ? json_object_get(inner, second) : inner;
}

/* The key within our store ("s3://BUCKET[/PREFIX]") of one in a bucket; NULL when it is not ours. */
static const char *own_key(const struct scanner *scanner, const char *bucket, const char *key)
{
    static const char scheme[] = "s3://";
    const char *name = cv_store_name(scanner->store);
    if (strncmp(name, scheme, strlen(scheme)) != 0) {
        return key; /* a directory has no bucket's name */
    }
    name += strlen(scheme);
    size_t length = strcspn(name, "/");
    if (!bucket || strlen(bucket) != length || strncmp(bucket, name, length) != 0) {
        return NULL;
    }
    const char *prefix = name[length] == '/' ? name + length + 1 : "";
    size_t prefix_length = strlen(prefix);
    if (prefix_length == 0) {
        return key;
    }
    return strncmp(key, prefix, prefix_length) == 0 && key[prefix_length] == '/'
               ? key + prefix_length + 1
               : NULL;
}

/* One of Records: what happened is not believed, only that something did. */
static int take_record(struct scanner *scanner, const json_t *record, struct cv_error *error)
{
    const char *event = json_string_value(json_object_get(record, "eventName"));
    const json_t *s3 = json_object_get(record, "s3");
    const json_t *written = member(s3, "object", "key");
    const char *bucket = json_string_value(member(s3, "bucket", "name"));
    char full[CV_STORE_KEY_MAX + 1];
    char id[CV_OBJECT_ID_SIZE];
    if (!event || (!strstr(event, "ObjectCreated") && !strstr(event, "ObjectRemoved")) ||
        !json_is_string(written) ||
        !decode_key(json_string_value(written), json_string_length(written), full)) {
        cv_log(CV_LOG_DEBUG, "an event that is not about an object of ours, ignoring it");
        return 0;
    }
    const char *key = own_key(scanner, bucket, full);
    if (!key || (!cv_object_is_original(key, id) &&
                 strncmp(key, CV_OBJECT_INBOX, strlen(CV_OBJECT_INBOX)) != 0)) {
        return 0;
    }
    return cv_db_run(scanner->db, NULL, error, "SELECT announce_upload($1)", key);
}

/* False: this line is no notification. */
static int take_line(struct scanner *scanner, const char *line, size_t length, bool *ret_readable,
                     struct cv_error *error)
{
    json_error_t reason;
    cv_auto(json_decref) json_t *event = json_loadb(line, length, 0, &reason);
    const json_t *records = json_object_get(event, "Records");
    /* What a bucket sends when notifications are switched on. */
    bool is_test = json_is_string(json_object_get(event, "Event"));
    *ret_readable = (json_is_array(records) && json_array_size(records) <= RECORDS_MAX) || is_test;
    if (!*ret_readable) {
        cv_log(CV_LOG_WARN, "a line of %zu bytes is no notification of a store (%s), ignoring it",
               length, event ? "no list of Records" : reason.text);
        return 0;
    }
    int result = 0;
    for (size_t i = 0; result == 0 && i < json_array_size(records); i++) {
        result = take_record(scanner, json_array_get(records, i), error);
    }
    return result ? result : scanner_look(scanner, error);
}

/* The next line without its end; what is longer than it may be is skipped (*ret_too_long). */
static bool read_line(FILE *file, struct cv_buffer *line, bool *ret_too_long)
{
    bool any = false;
    cv_buffer_clear(line);
    *ret_too_long = false;
    for (int c; (c = getc_unlocked(file)) != EOF;) {
        any = true;
        if (c == '\n') {
            break;
        }
        char byte = (char)c;
        if (line->length < LINE_MAX_BYTES) {
            cv_buffer_append(line, &byte, 1);
        } else {
            *ret_too_long = true;
        }
    }
    return any;
}

static bool is_blank(const struct cv_buffer *line)
{
    return line->length == 0 || strspn(line->data, " \t\r") == line->length;
}

int scanner_events(struct scanner *scanner, FILE *file, int64_t *ret_unreadable,
                   struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer line = CV_BUFFER_INIT;
    int64_t unreadable = 0;
    bool too_long = false;
    int result = 0;
    while (result == 0 && cv_cancel_level(scanner->cancel) == CV_CANCEL_NONE &&
           read_line(file, &line, &too_long)) {
        bool readable = !too_long;
        if (line.failed) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a notification");
        }
        if (too_long) {
            cv_log(CV_LOG_WARN, "a line is longer than %d bytes, ignoring it", LINE_MAX_BYTES);
        } else if (!is_blank(&line)) {
            result = take_line(scanner, line.data, line.length, &readable, error);
        }
        unreadable += !readable;
    }
    if (result == 0 && ferror(file)) {
        return cv_fail(error, CV_ERROR_IO, "cannot read the notifications");
    }
    *ret_unreadable = unreadable;
    return result;
}
