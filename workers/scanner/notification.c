#include "workers/scanner/notification.h"

#include "common/store/store.h"

#include <jansson.h>
#include <string.h>

enum {
    RECORDS_MAX = 10000, /* of one event */
    ENVELOPES_MAX = 4,   /* SQS around SNS is two */
};

/* The state of reading one event, which may contain others as texts. */
struct reading {
    const char *store_name;
    scanner_key_found *found;
    void *opaque;
    size_t records; /* so far */
    int depth;      /* number of envelopes around this one */
    bool is_readable;
};

/* Decodes "a%20b+c", as S3 writes keys in events; false if the result is not a valid key. */
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

/* The key within our store ("s3://BUCKET[/PREFIX]") of a key in a bucket; NULL for another bucket
 * or prefix. */
static const char *own_key(const char *store_name, const char *bucket, const char *key)
{
    static const char scheme[] = "s3://";
    const char *name = store_name;
    if (strncmp(name, scheme, strlen(scheme)) != 0) {
        return key; /* a directory has no bucket name */
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

/* Reports the key only. The rest of the event (text from anyone, or JSON that is not text) is not
 * trusted. */
static int report_key(const struct reading *reading, const json_t *bucket, const json_t *written,
                      bool is_encoded, struct cv_error *error)
{
    char full[CV_STORE_KEY_MAX + 1];
    char id[CV_OBJECT_ID_SIZE];
    struct cv_error ignored;
    const char *text = json_string_value(written);
    size_t length = json_string_length(written);
    bool is_key = text && (is_encoded ? decode_key(text, length, full)
                                      : length < sizeof(full) && strlen(text) == length &&
                                            cv_store_check_key(text, &ignored) == 0);
    if (!is_key) {
        cv_log(CV_LOG_DEBUG, "ignoring an event about an object that is not ours");
        return 0;
    }
    const char *key =
        own_key(reading->store_name, json_string_value(bucket), is_encoded ? full : text);
    if (!key || (!cv_object_is_original(key, id) && !cv_object_is_subtitles(key, id) &&
                 strncmp(key, CV_KEYS_INBOX, strlen(CV_KEYS_INBOX)) != 0)) {
        return 0;
    }
    return reading->found(reading->opaque, key, error);
}

/* ---- envelopes ------------------------------------------------------------------------------- */

static int read_event(struct reading *reading, const json_t *event, struct cv_error *error);

/* Reads an event that is a text inside another one. */
static int read_nested(struct reading *reading, const json_t *text, struct cv_error *error)
{
    cv_auto(json_decref) json_t *event =
        json_is_string(text)
            ? json_loadb(json_string_value(text), json_string_length(text), 0, NULL)
            : NULL;
    if (!event || reading->depth == ENVELOPES_MAX) {
        reading->is_readable = false;
        return 0;
    }
    reading->depth++;
    CV_TRY(read_event(reading, event, error));
    reading->depth--;
    return 0;
}

/* Reads one of Records: an event of S3, or one that SQS or SNS passes to a cloud function. */
static int read_record(struct reading *reading, const json_t *record, struct cv_error *error)
{
    const char *name = json_string_value(json_object_get(record, "eventName"));
    const json_t *s3 = json_object_get(record, "s3");
    const json_t *body = json_object_get(record, "body");
    const json_t *message = member(record, "Sns", "Message");
    if (body || message) {
        return read_nested(reading, body ? body : message, error);
    }
    if (!name || (!strstr(name, "ObjectCreated") && !strstr(name, "ObjectRemoved"))) {
        return 0;
    }
    return report_key(reading, member(s3, "bucket", "name"), member(s3, "object", "key"), true,
                      error);
}

static int read_list(struct reading *reading, const json_t *list, bool is_messages,
                     struct cv_error *error)
{
    size_t count = json_array_size(list);
    if (count > RECORDS_MAX - reading->records) {
        reading->is_readable = false;
        return 0;
    }
    reading->records += count;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        CV_TRY(is_messages ? read_nested(reading, json_object_get(item, "Body"), error)
                           : read_record(reading, item, error));
    }
    return 0;
}

/* Reads an event of EventBridge, in which keys are not encoded. */
static int read_detail(struct reading *reading, const char *kind, const json_t *detail,
                       struct cv_error *error)
{
    if (strcmp(kind, "Object Created") != 0 && strcmp(kind, "Object Deleted") != 0) {
        return 0;
    }
    return report_key(reading, member(detail, "bucket", "name"), member(detail, "object", "key"),
                      false, error);
}

static int read_event(struct reading *reading, const json_t *event, struct cv_error *error)
{
    const json_t *records = json_object_get(event, "Records");
    const json_t *messages = json_object_get(event, "Messages"); /* an answer of SQS */
    const json_t *body = json_object_get(event, "Body");         /* one message of SQS */
    const json_t *message = json_object_get(event, "Message");   /* SNS */
    const json_t *detail = json_object_get(event, "detail");
    const char *kind = json_string_value(json_object_get(event, "detail-type"));
    const char *type = json_string_value(json_object_get(event, "Type"));
    if (json_is_array(records)) {
        return read_list(reading, records, false, error);
    }
    if (json_is_array(messages)) {
        return read_list(reading, messages, true, error);
    }
    if (json_is_string(body)) {
        return read_nested(reading, body, error);
    }
    if (type && strcmp(type, "SubscriptionConfirmation") == 0) {
        cv_log(CV_LOG_WARN,
               "a topic of SNS wants its subscription confirmed: open its SubscribeURL");
        return 0;
    }
    if (json_is_string(message)) {
        return read_nested(reading, message, error);
    }
    if (kind && json_is_object(detail)) {
        return read_detail(reading, kind, detail, error);
    }
    /* A bucket sends this when notifications are turned on. */
    reading->is_readable &= json_is_string(json_object_get(event, "Event"));
    return 0;
}

int scanner_read_notification(const struct scanner_notification *notification, bool *ret_readable,
                              struct cv_error *error)
{
    json_error_t reason = {.text = ""};
    cv_auto(json_decref) json_t *event =
        json_loadb(notification->text, notification->length, 0, &reason);
    struct reading reading = {
        .store_name = notification->store_name,
        .found = notification->found,
        .opaque = notification->opaque,
        .is_readable = event,
    };
    CV_TRY(event ? read_event(&reading, event, error) : 0);
    if (!reading.is_readable) {
        cv_log(CV_LOG_WARN,
               "an event of %zu bytes is not a notification of a store (%s), ignoring it",
               notification->length, event ? "unknown form" : reason.text);
    }
    *ret_readable = reading.is_readable;
    return 0;
}
