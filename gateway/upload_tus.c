#include "gateway/upload_tus.h"

#include "common/store/store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PUT_SECONDS = 24 * 3600, /* that a bucket takes an upload by the URL it is given */
    STATUS_LOCKED = 423,
};

struct upload {
    json_t *body;
    const char *id, *key;
    int64_t size;
    bool is_complete; /* its end was told to the scanner */
};

static void upload_deinit(struct upload *upload)
{
    json_decref(upload->body);
}
CV_DEFINE_CLEANUP_ADDRESS(struct upload, upload_deinit)

static bool read_upload(const struct exchange *exchange, struct upload *upload)
{
    const struct answer *answer = &exchange->answer;
    upload->body = json_loadb(answer->body ? answer->body : "", answer->length, 0, NULL);
    upload->id = json_string_value(json_object_get(upload->body, "id"));
    upload->key = json_string_value(json_object_get(upload->body, "key"));
    upload->size = json_integer_value(json_object_get(upload->body, "size"));
    const char *state = json_string_value(json_object_get(upload->body, "state"));
    upload->is_complete = state && strcmp(state, "complete") == 0;
    return upload->id != NULL;
}

static void refuse(struct exchange *exchange, unsigned status, const char *kind, const char *title,
                   const char *detail)
{
    answer_refuse(
        &exchange->answer,
        &(struct problem){.status = status, .kind = kind, .title = title, .detail = detail},
        exchange->id);
}

static void refuse_store(struct exchange *exchange, const struct cv_error *error)
{
    if (error) {
        cv_log_error(error, exchange->operation->name);
    }
    exchange->answer.retry_after_s = 1;
    refuse(exchange, 503, "unavailable", "The store is away", "try again in a moment");
}

static int spool_key(const char *id, char **ret_key, struct cv_error *error)
{
    return cv_format(ret_key, error, "%s%s", CV_KEYS_UPLOADS, id);
}

/* The directory of a store; NULL: it is a bucket. */
static const char *directory_of(const struct cv_store *store)
{
    const char *name = cv_store_name(store);
    return strncmp(name, "dir:", 4) == 0 ? name + 4 : NULL;
}

/* How many bytes there are: in the spool, or at the object's place. */
static int read_offset(struct cv_store *store, const struct upload *upload, int64_t *ret_offset,
                       struct cv_error *error)
{
    cv_auto_free char *spool = NULL;
    struct cv_object_info info = {0};
    int result = spool_key(upload->id, &spool, error);
    result = result ? result : cv_store_head(store, spool, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        result = cv_store_head(store, upload->key, &info, error);
    }
    *ret_offset = result == 0 ? info.size : 0;
    return result < 0 ? result : 0;
}

static void set_tus_headers(struct answer *answer, int64_t offset, int64_t size)
{
    char number[2][24];
    (void)snprintf(number[0], sizeof(number[0]), "%lld", (long long)offset);
    (void)snprintf(number[1], sizeof(number[1]), "%lld", (long long)size);
    if (!answer->headers) {
        answer->headers = json_object();
    }
    (void)json_object_set_new(answer->headers, "Tus-Resumable", json_string("1.0.0"));
    (void)json_object_set_new(answer->headers, "Upload-Offset", json_string(number[0]));
    (void)json_object_set_new(answer->headers, "Upload-Length", json_string(number[1]));
}

static void empty_answer(struct answer *answer)
{
    free(cv_take(answer->body));
    answer->length = 0;
    answer->status = 204;
}

static int show(struct cv_store *store, struct exchange *exchange, const struct upload *upload,
                struct cv_error *error)
{
    struct answer *answer = &exchange->answer;
    cv_auto_free char *url = NULL;
    int64_t offset = upload->size;
    bool is_bucket = !directory_of(store);
    int result = upload->is_complete ? 0 : read_offset(store, upload, &offset, error);
    if (result == 0 && is_bucket && !upload->is_complete) {
        result = cv_store_presign(store, upload->key, "PUT", PUT_SECONDS, &url, error);
    }
    if (result != 0) {
        return result;
    }
    set_tus_headers(answer, offset, upload->size);
    if (exchange->is_last_part) {
        empty_answer(answer);
        return 0;
    }
    (void)json_object_del(upload->body, "key");
    bool good =
        json_object_set_new(upload->body, "mode", json_string(is_bucket ? "put" : "tus")) == 0 &&
        json_object_set_new(upload->body, "offset", json_integer(offset)) == 0 &&
        json_object_set_new(upload->body, "url", url ? json_string(url) : json_null()) == 0;
    char *text = good ? json_dumps(upload->body, JSON_COMPACT) : NULL;
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for an upload");
    }
    free(answer->body);
    answer->body = text;
    answer->length = strlen(text);
    return 0;
}

void upload_show(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    struct cv_error error;
    if (!store || !read_upload(exchange, &upload)) {
        refuse_store(exchange, NULL);
    } else if (show(store, exchange, &upload, &error) != 0) {
        refuse_store(exchange, &error);
    }
}

/* ---- a part -------------------------------------------------------------------------------------- */

/* Opens the file that the parts are gathered in, made durably when it is not there, as its only writer. 0, or
 * STATUS_LOCKED. */
static int open_spool(struct cv_store *store, const char *key, int *ret_fd, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    struct cv_object_info info;
    int result = cv_store_head(store, key, &info, error);
    if (result == CV_STORE_NOT_FOUND) {
        const struct cv_put_params once = {.create_only = true};
        result = cv_store_put(store, key, "", 0, &once, NULL, error);
    }
    result = result < 0 ? result : cv_format(&path, error, "%s/%s", directory_of(store), key);
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

static int write_part(int fd, const struct cv_buffer *part, int64_t offset, struct cv_error *error)
{
    for (size_t done = 0; done < part->length;) {
        ssize_t written =
            pwrite(fd, part->data + done, part->length - done, (off_t)(offset + (int64_t)done));
        if (written < 0 && errno != EINTR) {
            int failure = errno;
            /* A part that did not fit leaves nothing behind. */
            return ftruncate(fd, (off_t)offset) == 0
                       ? cv_fail_errno(error, failure, "cannot write an upload")
                       : cv_fail_errno(error, errno, "cannot take back a part of an upload");
        }
        done += written > 0 ? (size_t)written : 0;
    }
    return fsync(fd) == 0 ? 0 : cv_fail_errno(error, errno, "cannot write an upload to disk");
}

/* The part of an upload that is open. The lock ends with `fd`, and the last part's file is moved while it is held. */
static int append(struct cv_store *store, struct exchange *exchange, const struct upload *upload,
                  int64_t offset, struct cv_error *error)
{
    cv_auto_free char *spool = NULL;
    cv_auto_fd int fd = -1;
    struct stat status;
    int64_t there = 0;
    int64_t end = offset + (int64_t)exchange->body.length;
    int result = spool_key(upload->id, &spool, error);
    result = result ? result : read_offset(store, upload, &there, error);
    bool is_in_place = there == upload->size; /* or all bytes are in the spool */
    if (result == 0 && !is_in_place) {
        result = open_spool(store, spool, &fd, error);
    }
    if (result != 0) {
        return result;
    }
    if (fd >= 0) {
        there = fstat(fd, &status) == 0 ? (int64_t)status.st_size : -1;
    }
    if (there != offset || end > upload->size) {
        refuse(exchange, 409, "offset", "The upload goes on elsewhere",
               "ask by HEAD for Upload-Offset, and send what is behind it");
        set_tus_headers(&exchange->answer, there, upload->size);
        return 0;
    }
    result = fd >= 0 ? write_part(fd, &exchange->body, offset, error) : 0;
    if (result == 0 && end == upload->size) {
        result = cv_store_move(store, spool, upload->key, NULL, NULL, error);
        result = result == CV_STORE_NOT_FOUND ? 0 : result; /* it was moved, and nobody was told */
        exchange->is_last_part = result == 0;
    }
    if (result == 0) {
        empty_answer(&exchange->answer);
        set_tus_headers(&exchange->answer, end, upload->size);
    }
    return result;
}

void upload_append(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    struct cv_error error;
    int64_t offset = -1;
    const char *text =
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Upload-Offset");
    if (!store || !read_upload(exchange, &upload)) {
        refuse_store(exchange, NULL);
    } else if (!text || !cv_parse_int(text, 0, INT64_MAX / 2, &offset)) {
        refuse(exchange, 400, "bad-request", "The request cannot be understood",
               "the header Upload-Offset is to say where the bytes go");
    } else if (!directory_of(store)) {
        refuse(exchange, 409, "wrong-state", "Its state forbids this",
               "this upload is put to its url, not here");
    } else {
        int result = append(store, exchange, &upload, offset, &error);
        if (result == STATUS_LOCKED) {
            exchange->answer.retry_after_s = 1;
            refuse(exchange, STATUS_LOCKED, "locked", "Somebody else writes",
                   "another request sends bytes of this upload at this moment");
        } else if (result != 0) {
            refuse_store(exchange, result < 0 ? &error : NULL);
        }
    }
}

void upload_forget(struct cv_store *store, struct exchange *exchange)
{
    cv_auto(upload_deinit) struct upload upload = {0};
    cv_auto_free char *spool = NULL;
    struct cv_error error;
    int result = store && read_upload(exchange, &upload) ? spool_key(upload.id, &spool, &error) : 1;
    result = result ? result : cv_store_delete(store, spool, &error);
    if (result != 0) {
        refuse_store(exchange, result < 0 ? &error : NULL);
    } else {
        empty_answer(&exchange->answer);
    }
}
