#include "gateway/upload.h"

#include "common/recognise/recognise.h"

#include "gateway/media.h"

#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The database's answer about an upload. */
struct upload {
    json_t *body;
    const char *id, *key; /* borrowed from `body` */
    int64_t size;
    bool is_complete; /* the scanner has been told of its end */
};

static void upload_deinit(struct upload *upload)
{
    json_decref(upload->body);
    *upload = (struct upload){0};
}
CV_DEFINE_CLEANUP_ADDRESS(struct upload, upload_deinit)

static int upload_read(const struct exchange *exchange, struct upload *ret_upload,
                       struct cv_error *error)
{
    json_t *body = answer_json(&exchange->answer);
    const char *state = json_string_value(json_object_get(body, "state"));
    *ret_upload = (struct upload){.body = body,
                                  .id = json_string_value(json_object_get(body, "id")),
                                  .key = json_string_value(json_object_get(body, "key")),
                                  .size = json_integer_value(json_object_get(body, "size")),
                                  .is_complete = state && strcmp(state, "complete") == 0};
    return ret_upload->id ? 0 : cv_fail(error, CV_ERROR_INTERNAL, "an answer without an upload");
}

/* The key of the spool in a directory. */
static int upload_spool_key(const char *id, char **ret_key, struct cv_error *error)
{
    return cv_format(ret_key, error, "%s%s", CV_KEYS_UPLOADS, id);
}

static void upload_answer_empty(struct answer *answer)
{
    answer_set_body(answer, NULL);
    answer->status = 204;
}

static void upload_set_tus_headers(struct answer *answer, int64_t offset, int64_t size)
{
    char number[24];
    answer_set_header(answer, "Tus-Resumable", "1.0.0");
    (void)snprintf(number, sizeof(number), "%lld", (long long)offset);
    answer_set_header(answer, "Upload-Offset", number);
    (void)snprintf(number, sizeof(number), "%lld", (long long)size);
    answer_set_header(answer, "Upload-Length", number);
}

/* Sets the answer's body to a JSON value. */
static int upload_set_body(struct answer *answer, const json_t *body, struct cv_error *error)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(text, error, "an upload");
    answer_set_body(answer, text);
    return 0;
}

/* Finds how many bytes a directory has: in the spool, or in the finished object. */
static int read_offset(struct cv_store *store, const struct upload *upload, int64_t *ret_offset,
                       struct cv_error *error)
{
    cv_auto_free char *spool = NULL;
    struct cv_object_info info = {0};
    CV_TRY(upload_spool_key(upload->id, &spool, error));
    int result = cv_store_head(store, spool, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        result = cv_store_head(store, upload->key, &info, error);
    }
    *ret_offset = result == 0 ? info.size : 0;
    return result < 0 ? result : 0;
}

static int upload_show_parts(struct cv_store *store, const struct upload *upload,
                             int64_t *ret_offset, struct cv_error *error);

int upload_show(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    CV_TRY(upload_read(exchange, &upload, error));
    int64_t offset = upload.size;
    bool is_bucket = !cv_store_directory(store);
    CV_TRY(is_bucket            ? upload_show_parts(store, &upload, &offset, error)
           : upload.is_complete ? 0
                                : read_offset(store, &upload, &offset, error));
    upload_set_tus_headers(&exchange->answer, offset, upload.size);
    (void)json_object_del(upload.body, "key");
    bool good =
        json_object_set_new(upload.body, "mode", json_string(is_bucket ? "parts" : "tus")) == 0 &&
        json_object_set_new(upload.body, "offset", json_integer(offset)) == 0;
    return upload_set_body(&exchange->answer, good ? upload.body : NULL, error);
}

int upload_end(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    CV_TRY(upload_show(store, exchange, error));
    upload_answer_empty(&exchange->answer);
    return 0;
}

int upload_forget(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    cv_auto_free char *spool = NULL;
    CV_TRY(upload_read(exchange, &upload, error));
    CV_TRY(upload_spool_key(upload.id, &spool, error));
    CV_TRY(cv_store_delete(store, spool, error));
    CV_TRY(upload.key ? cv_store_parts_drop(store, upload.key, error) : 0);
    upload_answer_empty(&exchange->answer);
    return 0;
}

/* ---- in parts ------------------------------------------------------------------------------------ */

enum {
    URL_SECONDS = 3600,
    PART_BYTES = 16 << 20, /* bytes; few requests, and little is sent again after an error */
    PARTS_MOST = 9000,     /* below S3's limit */
};

/* The size of all parts except the last, in whole MiB. */
static int64_t part_size(int64_t size)
{
    const int64_t mib = 1 << 20;
    int64_t needed = (size / PARTS_MOST / mib + 1) * mib;
    return needed > PART_BYTES ? needed : PART_BYTES;
}

static int64_t part_count(int64_t size)
{
    return (size + part_size(size) - 1) / part_size(size);
}

/* The size that a part must have; 0: there is no such part. */
static int64_t size_of_part(int64_t size, int64_t number)
{
    int64_t each = part_size(size);
    int64_t count = part_count(size);
    return number < 1 || number > count ? 0 : number < count ? each : size - (count - 1) * each;
}

/* Finds an upload's bytes in the bucket: 0 and its parts, or CV_STORE_EXISTS if the whole object is
 * stored. */
static int find_parts(struct cv_store *store, const struct upload *upload,
                      struct cv_store_parts *ret_parts, struct cv_error *error)
{
    struct cv_object_info info;
    *ret_parts = (struct cv_store_parts){0};
    int result = cv_store_head(store, upload->key, &info, error);
    if (result == 0 && info.size == upload->size) {
        return CV_STORE_EXISTS;
    }
    return result < 0 ? result : cv_store_parts_find(store, upload->key, ret_parts, error);
}

/* Adds "part_size" and "parts" to an upload; *ret_offset: the number of bytes so far. */
static int upload_show_parts(struct cv_store *store, const struct upload *upload,
                             int64_t *ret_offset, struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    json_t *list = json_array();
    bool good =
        list && json_object_set_new(upload->body, "parts", list) == 0 &&
        json_object_set_new(upload->body, "part_size", json_integer(part_size(upload->size))) == 0;
    int result =
        upload->is_complete ? (int)CV_STORE_EXISTS : find_parts(store, upload, &parts, error);
    *ret_offset = result == CV_STORE_EXISTS ? upload->size : 0;
    for (size_t i = 0; good && i < parts.count; i++) {
        const struct cv_store_part *part = &parts.items[i];
        if (part->size == size_of_part(upload->size, part->number)) {
            good = json_array_append_new(list, json_integer(part->number)) == 0;
            *ret_offset += part->size;
        }
    }
    CV_TRY_MEMORY(good, error, "an upload");
    return result < 0 ? result : 0;
}

/* ---- URLs ---------------------------------------------------------------------------------------- */

static int sign_part(struct cv_store *store, const struct cv_signed_url *allowed, json_t *items,
                     struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    CV_TRY(cv_store_presign(store, allowed, &url, error));
    json_t *item = json_pack("{s:i, s:I, s:s}", "number", allowed->part->number, "size",
                             (json_int_t)allowed->part->size, "url", url);
    CV_TRY_MEMORY(json_array_append_new(items, item) == 0, error, "URLs");
    return 0;
}

int upload_sign_parts(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    cv_auto(json_decref) json_t *body = json_pack("{s:[]}", "items");
    size_t i;
    json_t *number;
    CV_TRY(upload_read(exchange, &upload, error));
    int result = cv_store_directory(store) ? 0 : find_parts(store, &upload, &parts, error);
    if (cv_store_directory(store) || result == CV_STORE_EXISTS) {
        exchange_refuse(exchange, REFUSE_WRONG_STATE,
                        result ? "all bytes are there: complete this upload"
                               : "this upload is sent by PATCH to its location, not in parts");
        return 0;
    }
    CV_TRY(result);
    json_array_foreach(json_object_get(exchange->values, "numbers"), i, number)
    {
        int64_t size = size_of_part(upload.size, json_integer_value(number));
        struct cv_store_part part = {.number = (int)json_integer_value(number), .size = size};
        if (part.size == 0) {
            exchange_refuse(
                exchange, REFUSE_BAD_REQUEST,
                "numbers holds one that this upload has no part for: they begin with 1, "
                "and every part has part_size bytes");
            return 0;
        }
        const struct cv_signed_url allowed = {upload.key, "PUT",           URL_SECONDS,
                                              NULL,       parts.upload_id, &part};
        CV_TRY(sign_part(store, &allowed, json_object_get(body, "items"), error));
    }
    return upload_set_body(&exchange->answer, body, error);
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* Joins the parts. 0, or CV_STORE_NOT_FOUND if a part is missing or has a wrong size. */
static int join(struct cv_store *store, const struct upload *upload, struct cv_error *error)
{
    cv_auto(cv_store_parts_deinit) struct cv_store_parts parts = {0};
    struct cv_object_info info;
    int result = find_parts(store, upload, &parts, error);
    if (result != 0) {
        return result == CV_STORE_EXISTS ? 0 : result;
    }
    bool is_whole = (int64_t)parts.count == part_count(upload->size);
    for (size_t i = 0; is_whole && i < parts.count; i++) {
        is_whole = parts.items[i].number == (int)i + 1 &&
                   parts.items[i].size == size_of_part(upload->size, (int64_t)i + 1);
    }
    return is_whole ? cv_store_parts_join(store, upload->key, &parts, &info, error)
                    : (int)CV_STORE_NOT_FOUND;
}

static int see_whole(struct cv_store *store, const struct upload *upload, struct cv_error *error)
{
    struct cv_object_info info;
    int result = cv_store_head(store, upload->key, &info, error);
    return result == 0 && info.size != upload->size ? (int)CV_STORE_NOT_FOUND : result;
}

int upload_join(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    CV_TRY(upload_read(exchange, &upload, error));
    int result = upload.is_complete          ? 0
                 : cv_store_directory(store) ? see_whole(store, &upload, error)
                                             : join(store, &upload, error);
    if (result > 0) {
        exchange_refuse(exchange, REFUSE_WRONG_STATE,
                        "bytes are missing: GET this upload says which are there");
        return 0;
    }
    return result;
}

int upload_keep_text(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    const json_t *text = json_object_get(exchange->values, "text");
    struct cv_object_info info;
    const struct cv_new_object object = {.key = json_string_value(json_object_get(body, "key")),
                                         .data = json_string_value(text),
                                         .size = json_string_length(text)};
    if (!object.key || !object.data) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no text to store, or no key for it");
    }
    CV_TRY(cv_store_put(store, &object, &info, error));
    cv_auto(json_decref) json_t *stored =
        json_pack("{s:s, s:I}", "etag", info.etag, "size", (json_int_t)info.size);
    CV_TRY_MEMORY(stored && json_object_update(exchange->values, stored) == 0 &&
                      json_object_del(exchange->values, "text") == 0,
                  error, "an upload");
    answer_deinit(&exchange->answer);
    return 0;
}

/* ---- tus ----------------------------------------------------------------------------------------- */

enum {
    IS_LOCKED = 100,           /* another request writes; not one of the outcomes of the store */
    METADATA_VALUE_MAX = 2048, /* bytes of Base64, more than any member of the body may have */
};

struct upload_part {
    struct upload upload;
    char *spool;
    int fd;     /* -1: the object is complete */
    int64_t at; /* offset of the next byte */
};

void upload_part_free(struct upload_part *part)
{
    if (!part) {
        return;
    }
    if (part->fd >= 0) {
        (void)close(part->fd); /* this also releases the lock */
    }
    upload_deinit(&part->upload);
    free(part->spool);
    free(part);
}
CV_DEFINE_CLEANUP(struct upload_part *, upload_part_free)

/* ---- the beginning of a request ------------------------------------------------------------------ */

/* Opens the spool as its only writer; makes it, durably, if it is missing. 0, or IS_LOCKED. */
static int open_spool(struct cv_store *store, const char *key, int *ret_fd, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    struct cv_object_info info;
    int result = cv_store_head(store, key, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        const struct cv_new_object spool = {.key = key, .data = "", .create_only = true};
        result = cv_store_put(store, &spool, NULL, error);
    }
    result = result < 0 ? result : cv_format(&path, error, "%s/%s", cv_store_directory(store), key);
    if (result != 0) {
        return result;
    }
    cv_auto_fd int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    CV_TRY_ERRNO(fd >= 0, error, "cannot open %s", key);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? IS_LOCKED
                                    : cv_fail_errno(error, errno, "cannot lock %s", key);
    }
    *ret_fd = cv_take_fd(&fd);
    return 0;
}

/* Opens the file of an upload, and finds how many bytes it has; fd -1 if the object is complete. */
static int open_part(struct cv_store *store, struct upload_part *part, struct cv_error *error)
{
    struct stat status;
    struct cv_object_info info;
    int result = upload_spool_key(part->upload.id, &part->spool, error);
    result = result ? result : cv_store_head(store, part->upload.key, &info, error);
    if (result == 0 && info.size == part->upload.size) {
        part->at = info.size;
        return 0;
    }
    result = result < 0 ? result : open_spool(store, part->spool, &part->fd, error);
    if (result == 0 && cv_store_head(store, part->upload.key, &info, error) == 0) {
        /* Another request has moved the file before this one opened it, so that this one made a new
         * one. */
        part->at = info.size;
        return cv_store_delete(store, part->spool, error);
    }
    if (result == 0 && fstat(part->fd, &status) != 0) {
        return cv_fail_errno(error, errno, "cannot look at %s", part->spool);
    }
    part->at = result == 0 ? (int64_t)status.st_size : 0;
    return result;
}

static int64_t content_length(const struct exchange *exchange)
{
    const char *text = exchange_header(exchange, "Content-Length");
    int64_t bytes = 0;
    return text && cv_parse_int(text, 0, INT64_MAX / 2, &bytes) ? bytes : 0;
}

static void refuse_offset(struct exchange *exchange, int64_t offset, int64_t size)
{
    exchange_refuse(exchange, REFUSE_OFFSET,
                    "ask by HEAD for Upload-Offset, and send what is behind it, up to its length");
    upload_set_tus_headers(&exchange->answer, offset, size);
}

int upload_open(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_part_free) struct upload_part *part = calloc(1, sizeof(*part));
    int64_t offset = -1;
    const char *text = exchange_header(exchange, "Upload-Offset");
    CV_TRY_MEMORY(part, error, "an upload");
    part->fd = -1;
    CV_TRY(upload_read(exchange, &part->upload, error));
    if (!text || !cv_parse_int(text, 0, INT64_MAX / 2, &offset)) {
        exchange_refuse(exchange, REFUSE_BAD_REQUEST,
                        "the header Upload-Offset is to say where the bytes go");
        return 0;
    }
    if (!cv_store_directory(store)) {
        exchange_refuse(exchange, REFUSE_WRONG_STATE,
                        "this upload goes to a bucket: POST …/parts has the URLs for its parts");
        return 0;
    }
    int result = open_part(store, part, error);
    if (result == IS_LOCKED) {
        exchange_refuse(exchange, REFUSE_LOCKED,
                        "another request sends bytes of this upload at this moment");
        return 0;
    }
    CV_TRY(result);
    if (part->at != offset || offset + content_length(exchange) > part->upload.size) {
        refuse_offset(exchange, part->at, part->upload.size);
    } else {
        answer_deinit(&exchange->answer); /* there is no answer before the body is complete */
        exchange->part = cv_take(part);
    }
    return 0;
}

/* ---- room ---------------------------------------------------------------------------------------- */

/* The bytes that uploads may still use of a directory's disk. They leave twice the reserve: the
 * workers, which stop at the reserve, can then still process what was uploaded. */
static int64_t room_for_uploads(const char *directory)
{
    struct cv_error error;
    struct cv_disk disk;
    if (cv_disk_read(directory, &disk, &error)) {
        cv_log_error(&error, "uploads");
        return INT64_MAX;
    }
    int64_t room = disk.free_bytes - 2 * cv_disk_reserve(disk.total_bytes);
    return room > 0 ? room : 0;
}

/* ---- its body ------------------------------------------------------------------------------------ */

static int write_piece(struct upload_part *part, const struct cv_buffer *piece,
                       struct cv_error *error)
{
    for (size_t done = 0; done < piece->length;) {
        ssize_t written = pwrite(part->fd, piece->data + done, piece->length - done,
                                 (off_t)(part->at + (int64_t)done));
        if (written < 0 && errno != EINTR) {
            int failure = errno;
            /* A piece that could not be written completely is removed. */
            return ftruncate(part->fd, (off_t)part->at) == 0
                       ? cv_fail_errno(error, failure, "cannot write an upload")
                       : cv_fail_errno(error, errno, "cannot take back a piece of an upload");
        }
        done += written > 0 ? (size_t)written : 0;
    }
    part->at += (int64_t)piece->length;
    return 0;
}

/* Refuses a file whose first bytes show that it is no video; whether it did. */
static bool refuse_what_is_no_video(struct exchange *exchange)
{
    const struct upload_part *part = exchange->part;
    const struct cv_buffer *piece = &exchange->body;
    struct cv_error error;
    if (part->fd < 0 || part->at > 0 || piece->length == 0 ||
        cv_recognise_surely((const unsigned char *)piece->data, piece->length,
                            (int64_t)piece->length == part->upload.size, &error) == 0) {
        return false;
    }
    cv_buffer_clear(&exchange->body);
    exchange_refuse(exchange, REFUSE_NO_VIDEO, error.message);
    return true;
}

int upload_write(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    struct upload_part *part = exchange->part;
    if (refuse_what_is_no_video(exchange)) {
        return 0;
    }
    int64_t length = part->fd >= 0 ? (int64_t)exchange->body.length : 0;
    bool has_room = length == 0 || length <= room_for_uploads(cv_store_directory(store));
    int result = !has_room ? cv_fail(error, CV_ERROR_DISK_FULL, "no room for an upload on the disk")
                 : length > 0 ? write_piece(part, &exchange->body, error)
                              : 0;
    cv_buffer_clear(&exchange->body);
    if (result < 0 && error->type == CV_ERROR_DISK_FULL && ftruncate(part->fd, 0) == 0) {
        part->at = 0;
    }
    return result;
}

/* Makes the bytes durable, and moves the object to its place if it is complete; holds the lock
 * until then. */
static int finish(struct cv_store *store, const struct upload_part *part, struct cv_error *error)
{
    if (part->fd >= 0 && fsync(part->fd) != 0) {
        return cv_fail_errno(error, errno, "cannot write an upload to disk");
    }
    if (part->at < part->upload.size) {
        return 0;
    }
    const struct cv_object_move move = {.from = part->spool, .to = part->upload.key};
    int result = cv_store_move(store, &move, NULL, error);
    return result == CV_STORE_NOT_FOUND ? 0 : result; /* it was moved, but not reported */
}

int upload_close(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    cv_auto(upload_part_free) struct upload_part *part = exchange->part;
    int result = upload_write(store, exchange, error);
    exchange->part = NULL;
    if (result != 0 || exchange->answer.status) {
        return result;
    }
    CV_TRY(finish(store, part, error));
    upload_answer_empty(&exchange->answer);
    upload_set_tus_headers(&exchange->answer, part->at, part->upload.size);
    while (part->at < part->upload.size && *exchange->at != STEP_SEND) {
        exchange->at++; /* there is nothing to finish yet */
    }
    return 0;
}

/* ---- creation ------------------------------------------------------------------------------------ */

/* Reads Upload-Metadata: "name Base64,name Base64". Names that are not members of the body are
 * ignored, as tus requires. */
static void read_metadata(json_t *body, const char *text)
{
    static const struct {
        const char *name, *member;
    } known[] = {{"filename", "name"},
                 {"name", "name"},
                 {"title", "title"},
                 {"team_id", "team_id"},
                 {"sha256", "sha256"}};
    while (*text) {
        unsigned char bytes[METADATA_VALUE_MAX];
        text += strspn(text, ", ");
        size_t name = strcspn(text, " ,");
        const char *value = text + name + strspn(text + name, " ");
        size_t length = strcspn(value, ",");
        for (size_t i = 0; i < CV_COUNT(known); i++) {
            bool is_it = strlen(known[i].name) == name && memcmp(text, known[i].name, name) == 0;
            if (is_it && length > 0 && length % 4 == 0 && length < sizeof(bytes)) {
                int count = EVP_DecodeBlock(bytes, (const unsigned char *)value, (int)length);
                for (size_t at = length; count > 0 && at > length - 2 && value[at - 1] == '=';
                     at--) {
                    count--; /* OpenSSL also counts the padding */
                }
                json_t *string =
                    count >= 0 ? json_stringn((const char *)bytes, (size_t)count) : NULL;
                (void)(string && json_object_set_new(body, known[i].member, string));
            }
        }
        text = value + length;
    }
}

bool upload_is_tus_creation(const struct exchange *exchange)
{
    return exchange_header(exchange, "Upload-Length");
}

bool upload_translate_creation(struct exchange *exchange)
{
    const char *length = exchange_header(exchange, "Upload-Length");
    const char *metadata = exchange_header(exchange, "Upload-Metadata");
    int64_t bytes = -1;
    if (!length || content_length(exchange) > 0) {
        return false;
    }
    cv_auto(json_decref) json_t *body = json_object();
    read_metadata(body, metadata ? metadata : "");
    json_t *size =
        cv_parse_int(length, 0, INT64_MAX, &bytes) ? json_integer(bytes) : json_string(length);
    if (!body || !size || json_object_set_new(body, "size", size) != 0) {
        return false;
    }
    cv_auto_free char *text = json_dumps(body, JSON_COMPACT);
    cv_buffer_text(&exchange->body, text ? text : "");
    return text != NULL;
}

void upload_check_room(struct exchange *exchange)
{
    const char *directory = exchange->media->directory;
    int64_t size = json_integer_value(json_object_get(exchange->values, "size"));
    struct cv_error error;
    if (directory && size > room_for_uploads(directory) &&
        cv_fail(&error, CV_ERROR_DISK_FULL, "no room on the disk for an upload of %lld bytes",
                (long long)size)) {
        exchange_refuse_store(exchange, &error);
    }
}

static double longest_upload(void)
{
    for (size_t i = 0; i < operation_count; i++) {
        for (size_t k = 0; operations[i].is_creation && k < operations[i].rule_count; k++) {
            if (strcmp(operations[i].rules[k].name, "size") == 0) {
                return operations[i].rules[k].high;
            }
        }
    }
    return 0;
}

void upload_answer_options(struct exchange *exchange)
{
    char most[24];
    const char *directory = exchange->media->directory;
    double room = directory ? (double)room_for_uploads(directory) : INFINITY;
    (void)snprintf(most, sizeof(most), "%.0f", room < longest_upload() ? room : longest_upload());
    exchange->answer.headers = json_pack(
        "{s:s, s:s, s:s, s:s}", "Tus-Resumable", "1.0.0", "Tus-Version", "1.0.0", "Tus-Extension",
        exchange->media->is_bucket ? "termination" : "creation,termination", "Tus-Max-Size", most);
    exchange->answer.status = 204;
}
