#include "gateway/upload_tus.h"

#include "gateway/media.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STATUS_LOCKED = 423,
    METADATA_VALUE_MAX = 2048, /* bytes of Base64: more than any member of the body may have */
};

struct upload_part {
    struct upload upload;
    char *spool;
    int fd;     /* -1: all bytes are in place */
    int64_t at; /* where the next byte goes */
};

void upload_part_free(struct upload_part *part)
{
    if (!part) {
        return;
    }
    if (part->fd >= 0) {
        (void)close(part->fd); /* the lock goes with it */
    }
    upload_deinit(&part->upload);
    free(part->spool);
    free(part);
}
CV_DEFINE_CLEANUP(struct upload_part *, upload_part_free)

/* ---- the beginning of a request ------------------------------------------------------------------ */

/* Opens the spool, made durably when it is not there, as its only writer. 0, or STATUS_LOCKED. */
static int open_spool(struct cv_store *store, const char *key, int *ret_fd, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    struct cv_object_info info;
    int result = cv_store_head(store, key, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        const struct cv_put_params once = {.create_only = true};
        result = cv_store_put(store, key, "", 0, &once, NULL, error);
    }
    result = result < 0 ? result : cv_format(&path, error, "%s/%s", upload_directory(store), key);
    if (result != 0) {
        return result;
    }
    cv_auto_fd int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return cv_fail_errno(error, errno, "cannot open %s", key);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? STATUS_LOCKED
                                    : cv_fail_errno(error, errno, "cannot lock %s", key);
    }
    *ret_fd = cv_take_fd(&fd);
    return 0;
}

/* The file of an upload that is open, and how many bytes there are; fd -1 where all of them are in their place. */
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
        /* Another request has moved the file before this one has opened, and so made, it. */
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
    exchange_refuse(exchange, 409, "offset", "The upload goes on elsewhere",
                    "ask by HEAD for Upload-Offset, and send what is behind it, up to its length");
    upload_set_tus_headers(&exchange->answer, offset, size);
}

void upload_open(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_part_free) struct upload_part *part = calloc(1, sizeof(*part));
    struct cv_error error;
    int64_t offset = -1;
    const char *text = exchange_header(exchange, "Upload-Offset");
    if (part) {
        part->fd = -1;
    }
    if (!store || !part || !upload_read(exchange, &part->upload)) {
        exchange_refuse_store(exchange, NULL);
        return;
    }
    if (!text || !cv_parse_int(text, 0, INT64_MAX / 2, &offset)) {
        exchange_refuse(exchange, 400, "bad-request", "The request cannot be understood",
                        "the header Upload-Offset is to say where the bytes go");
        return;
    }
    if (!upload_directory(store)) {
        exchange_refuse(exchange, 409, "wrong-state", "Its state forbids this",
                        "this upload goes to a bucket: POST …/parts has the URLs for its parts");
        return;
    }
    int result = open_part(store, part, &error);
    if (result == STATUS_LOCKED) {
        exchange->answer.retry_after_s = 1;
        exchange_refuse(exchange, STATUS_LOCKED, "locked", "Somebody else writes",
                        "another request sends bytes of this upload at this moment");
    } else if (result != 0) {
        exchange_refuse_store(exchange, &error);
    } else if (part->at != offset || offset + content_length(exchange) > part->upload.size) {
        refuse_offset(exchange, part->at, part->upload.size);
    } else {
        answer_deinit(&exchange->answer); /* the request has none before its body */
        exchange->part = cv_take(part);
    }
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
            /* A piece that did not fit leaves nothing behind. */
            return ftruncate(part->fd, (off_t)part->at) == 0
                       ? cv_fail_errno(error, failure, "cannot write an upload")
                       : cv_fail_errno(error, errno, "cannot take back a piece of an upload");
        }
        done += written > 0 ? (size_t)written : 0;
    }
    part->at += (int64_t)piece->length;
    return 0;
}

void upload_write(struct cv_store *store, struct exchange *exchange)
{
    struct upload_part *part = exchange->part;
    struct cv_error error;
    (void)store;
    if (part->fd >= 0 && write_piece(part, &exchange->body, &error) != 0) {
        exchange_refuse_store(exchange, &error);
    }
    cv_buffer_clear(&exchange->body);
}

/* Durable, and the object in its place where it is whole; the lock is held until that is done. */
static int finish(struct cv_store *store, struct exchange *exchange, struct upload_part *part,
                  struct cv_error *error)
{
    if (part->fd >= 0 && fsync(part->fd) != 0) {
        return cv_fail_errno(error, errno, "cannot write an upload to disk");
    }
    if (part->at < part->upload.size) {
        return 0;
    }
    int result = cv_store_move(store, part->spool, part->upload.key, NULL, NULL, error);
    result = result == CV_STORE_NOT_FOUND ? 0 : result; /* it was moved, and nobody was told */
    exchange->is_last_part = result == 0;
    return result;
}

void upload_close(struct cv_store *store, struct exchange *exchange)
{
    struct upload_part *part = exchange->part;
    struct cv_error error;
    upload_write(store, exchange);
    if (!exchange->answer.status) {
        if (!store || finish(store, exchange, part, &error) != 0) {
            exchange_refuse_store(exchange, store ? &error : NULL);
        } else {
            upload_answer_empty(&exchange->answer);
            upload_set_tus_headers(&exchange->answer, part->at, part->upload.size);
        }
    }
    upload_part_free(cv_take(exchange->part));
}

/* ---- creation ------------------------------------------------------------------------------------ */

/* Upload-Metadata: "name Base64,name Base64". What the body has no member for is left out, as tus has it. */
static void take_metadata(json_t *body, const char *text)
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
                    count--; /* OpenSSL counts what was padded */
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
    take_metadata(body, metadata ? metadata : "");
    json_t *size =
        cv_parse_int(length, 0, INT64_MAX, &bytes) ? json_integer(bytes) : json_string(length);
    if (!body || !size || json_object_set_new(body, "size", size) != 0) {
        return false;
    }
    cv_auto_free char *text = json_dumps(body, JSON_COMPACT);
    cv_buffer_text(&exchange->body, text ? text : "");
    return text != NULL;
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
    (void)snprintf(most, sizeof(most), "%.0f", longest_upload());
    exchange->answer.headers = json_pack(
        "{s:s, s:s, s:s, s:s}", "Tus-Resumable", "1.0.0", "Tus-Version", "1.0.0", "Tus-Extension",
        exchange->media->is_bucket ? "termination" : "creation,termination", "Tus-Max-Size", most);
    exchange->answer.status = 204;
}
