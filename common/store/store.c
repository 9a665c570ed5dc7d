#include "common/store/backend.h"
#include "common/store/dir/dir.h"
#include "common/store/s3/s3.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

int cv_store_judge(int result, struct cv_error *error)
{
    static const enum cv_error_type types[] = {
        CV_ERROR_AUTHENTICATION, CV_ERROR_AUTHORIZATION, CV_ERROR_CONFIGURATION,
        CV_ERROR_CONNECTION,     CV_ERROR_DISK_FULL,     CV_ERROR_IO,
        CV_ERROR_NOT_FOUND,      CV_ERROR_SERVER,        CV_ERROR_THROTTLED,
        CV_ERROR_TIMEOUT,
    };
    for (size_t i = 0; result < 0 && i < CV_COUNT(types); i++) {
        if (error->type == types[i]) {
            cv_error_suspect_environment(error);
        }
    }
    return result;
}

int cv_store_open(const char *url, struct cv_store **ret_store, struct cv_error *error)
{
    const char *where = url ? url : cv_env("STORE_URL", NULL);
    if (!where && cv_env("S3_BUCKET", NULL)) {
        return cv_s3_store_open(NULL, ret_store, error);
    }
    if (!where || !where[0]) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "no object store is configured: set STORE_URL to s3://BUCKET or dir:PATH");
    }
    if (strncmp(where, "dir:", 4) == 0) {
        return cv_directory_store_open(where + 4, ret_store, error);
    }
    if (strncmp(where, "s3://", 5) == 0) {
        return cv_s3_store_open(where, ret_store, error);
    }
    if (strstr(where, "://")) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "unknown kind of object store in STORE_URL; use s3://BUCKET or dir:PATH");
    }
    return cv_directory_store_open(where, ret_store, error);
}

void cv_store_close(struct cv_store *store)
{
    if (store) {
        store->backend->close(store);
    }
}

void cv_store_set_cancel(struct cv_store *store, struct cv_cancel *cancel)
{
    if (store->backend->set_cancel) {
        store->backend->set_cancel(store, cancel);
    }
}

void cv_store_set_deadline(struct cv_store *store, int64_t deadline_ms)
{
    if (store->backend->set_deadline) {
        store->backend->set_deadline(store, deadline_ms);
    }
}

const char *cv_store_directory(const struct cv_store *store)
{
    static const char scheme[] = "dir:";
    return strncmp(store->name, scheme, strlen(scheme)) == 0 ? store->name + strlen(scheme) : NULL;
}

const char *cv_store_name(const struct cv_store *store)
{
    return store->name;
}

int cv_store_head(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
                  struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    struct cv_object_info info;
    CV_TRY(cv_store_judge(store->backend->head(store, key, &info, NULL, error), error));
    if (ret_info) {
        *ret_info = info;
    }
    return 0;
}

int cv_store_head_metadata(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
                           struct cv_metadata *ret_metadata, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    struct cv_object_info info;
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    CV_TRY(cv_store_judge(store->backend->head(store, key, &info, &metadata, error), error));
    if (ret_info) {
        *ret_info = info;
    }
    *ret_metadata = metadata;
    metadata = (struct cv_metadata){0};
    return 0;
}

int cv_store_get_range(struct cv_store *store, const char *key, int64_t offset, void *data,
                       size_t length, size_t *ret_read, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_store_reader_open(store, key, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    return source.read(source.opaque, offset, data, length, ret_read, error);
}

int cv_store_get(struct cv_store *store, const char *key, size_t limit, void **ret_data,
                 size_t *ret_size, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    if (store->backend->get_begin) {
        struct cv_store_get *get = NULL;
        int result = store->backend->get_begin(store, key, limit, &get, error);
        result = result ? result : store->backend->get_end(get, ret_data, ret_size, error);
        return cv_store_judge(result, error);
    }
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_store_reader_open(store, key, &reader, error));
    if ((uint64_t)reader->info.size > limit) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "%s has %lld bytes, more than %zu", key,
                       (long long)reader->info.size, limit);
    }
    size_t size = (size_t)reader->info.size;
    cv_auto_free char *data = malloc(size + 1);
    if (!data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the %zu bytes of %s", size,
                       key);
    }
    size_t read = 0;
    struct cv_byte_source source = cv_store_reader_source(reader);
    CV_TRY(source.read(source.opaque, 0, data, size, &read, error));
    if (read != size) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s changed while it was read", key);
    }
    data[size] = '\0';
    *ret_data = cv_take(data);
    *ret_size = size;
    return 0;
}

int cv_store_open_file(const char *path, struct cv_store_input *ret_input, struct cv_error *error)
{
    /* O_NONBLOCK: a FIFO must not hang the open; it has no effect on regular files. */
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return cv_fail(error, CV_ERROR_IO, "file %s does not exist", path);
    }
    CV_TRY_ERRNO(fd >= 0, error, "open %s", path);
    struct stat status;
    CV_TRY_ERRNO(fstat(fd, &status) == 0, error, "look at %s", path);
    if (!S_ISREG(status.st_mode)) {
        return cv_fail(error, CV_ERROR_IO, "%s is not a regular file", path);
    }
    *ret_input = (struct cv_store_input){.size = (size_t)status.st_size, .fd = cv_take_fd(&fd)};
    return 0;
}

int cv_store_read_file(int fd, int64_t offset, void *data, size_t length, size_t *ret_read,
                       struct cv_error *error)
{
    size_t done = 0;
    while (done < length) {
        ssize_t step = pread(fd, (char *)data + done, length - done, offset + (int64_t)done);
        if (step < 0 && errno == EINTR) {
            continue;
        }
        CV_TRY_ERRNO(step >= 0, error, "read an object");
        if (step == 0) {
            return cv_fail(error, CV_ERROR_CONFLICT, "an object was cut short while it was read");
        }
        done += (size_t)step;
    }
    *ret_read = done;
    return 0;
}

int cv_store_put(struct cv_store *store, const struct cv_new_object *object,
                 struct cv_object_info *ret_info, struct cv_error *error)
{
    struct cv_store_input input = {.data = object->data, .size = object->size, .fd = -1};
    struct cv_object_info info;
    CV_TRY(cv_store_check_key(object->key, error));
    CV_TRY(cv_store_check_put(object, error));
    CV_TRY(object->path ? cv_store_open_file(object->path, &input, error) : 0);
    cv_auto_fd int fd = input.fd;
    CV_TRY(cv_store_judge(store->backend->put(store, object, &input, &info, error), error));
    if (ret_info) {
        *ret_info = info;
    }
    return 0;
}

int cv_store_delete(struct cv_store *store, const char *key, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    return cv_store_judge(store->backend->delete (store, key, error), error);
}

/* Deletes a batch; *ret_tried is how many keys that covers. */
static int delete_batch(struct cv_store *store, const char *const *keys, size_t count,
                        size_t *ret_tried, struct cv_error *error)
{
    if (!store->backend->delete_many) {
        *ret_tried = 1;
        return cv_store_delete(store, keys[0], error);
    }
    const char *valid[CV_STORE_PAGE_MAX];
    size_t valid_count = 0, at = 0;
    int result = 0;
    for (; at < count && valid_count < CV_COUNT(valid); at++) {
        struct cv_error other;
        if (cv_store_check_key(keys[at], &other) == 0) {
            valid[valid_count++] = keys[at];
        } else if (result == 0) {
            result = -1;
            *error = other;
        }
    }
    *ret_tried = at;
    struct cv_error other;
    int deleted =
        valid_count > 0
            ? cv_store_judge(store->backend->delete_many(store, valid, valid_count, &other), &other)
            : 0;
    if (deleted < 0 && result == 0) {
        *error = other;
        return deleted;
    }
    return result;
}

int cv_store_delete_many(struct cv_store *store, const char *const *keys, size_t count,
                         struct cv_error *error)
{
    int first = 0;
    for (size_t at = 0, tried = 0; at < count; at += tried) {
        struct cv_error other;
        int result = delete_batch(store, keys + at, count - at, &tried, &other);
        if (result < 0 && first == 0) {
            first = result;
            *error = other;
        }
    }
    return first;
}

int cv_store_move(struct cv_store *store, const struct cv_object_move *move,
                  struct cv_object_info *ret_info, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(move->from, error));
    CV_TRY(cv_store_check_key(move->to, error));
    if (strcmp(move->from, move->to) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "cannot put %s in its own place", move->from);
    }
    struct cv_object_info info;
    CV_TRY(cv_store_judge(store->backend->move(store, move, &info, error), error));
    if (ret_info) {
        *ret_info = info;
    }
    return 0;
}

int cv_store_presign(struct cv_store *store, const struct cv_signed_url *allowed, char **ret_url,
                     struct cv_error *error)
{
    CV_TRY(cv_store_check_key(allowed->key, error));
    return store->backend->presign(store, allowed, ret_url, error);
}

void cv_store_parts_deinit(struct cv_store_parts *parts)
{
    free(parts->upload_id);
    free(parts->items);
    *parts = (struct cv_store_parts){0};
}

int cv_store_parts_find(struct cv_store *store, const char *key, struct cv_store_parts *ret_parts,
                        struct cv_error *error)
{
    *ret_parts = (struct cv_store_parts){0};
    CV_TRY(cv_store_check_key(key, error));
    if (!store->backend->parts_find) {
        return CV_STORE_UNSUPPORTED;
    }
    int result = store->backend->parts_find(store, key, ret_parts, error);
    return cv_store_judge(result, error);
}

int cv_store_parts_join(struct cv_store *store, const char *key, const struct cv_store_parts *parts,
                        struct cv_object_info *ret_info, struct cv_error *error)
{
    return store->backend->parts_join
               ? cv_store_judge(store->backend->parts_join(store, key, parts, ret_info, error),
                                error)
               : (int)CV_STORE_UNSUPPORTED;
}

int cv_store_parts_drop(struct cv_store *store, const char *key, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    return !store->backend->parts_drop
               ? 0
               : cv_store_judge(store->backend->parts_drop(store, key, error), error);
}

void cv_bucket_answer_deinit(struct cv_bucket_answer *answer)
{
    free(cv_take(answer->text));
}

int cv_store_bucket_request(struct cv_store *store, const struct cv_bucket_request *request,
                            struct cv_bucket_answer *ret_answer, struct cv_error *error)
{
    return store->backend->bucket_request
               ? store->backend->bucket_request(store, request, ret_answer, error)
               : (int)CV_STORE_UNSUPPORTED;
}

/* ---- reader ---------------------------------------------------------------------------------- */

int cv_store_reader_open(struct cv_store *store, const char *key,
                         struct cv_store_reader **ret_reader, struct cv_error *error)
{
    CV_TRY(cv_store_check_key(key, error));
    return cv_store_judge(store->backend->open_reader(store, key, ret_reader, error), error);
}

void cv_store_reader_close(struct cv_store_reader *reader)
{
    if (reader) {
        reader->backend->close(reader);
    }
}

const struct cv_object_info *cv_store_reader_info(const struct cv_store_reader *reader)
{
    return &reader->info;
}

int cv_store_reader_fd(const struct cv_store_reader *reader)
{
    return reader->backend->fd ? reader->backend->fd(reader) : -1;
}

static int read_source(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                       struct cv_error *error)
{
    struct cv_store_reader *reader = opaque;
    if (offset < 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "read at the negative offset %lld",
                       (long long)offset);
    }
    if (offset >= reader->info.size) {
        *ret_read = 0;
        return 0;
    }
    uint64_t left = (uint64_t)(reader->info.size - offset);
    return cv_store_judge(reader->backend->read(reader, offset, data,
                                                length < left ? length : (size_t)left, ret_read,
                                                error),
                          error);
}

struct cv_byte_source cv_store_reader_source(struct cv_store_reader *reader)
{
    return (struct cv_byte_source){
        .opaque = reader, .size = reader->info.size, .read = read_source};
}

/* ---- does it work? ------------------------------------------------------------------------------- */

enum {
    LEFT_MS = 60 * 60 *
              1000, /* a probe takes seconds: what is older was left by a process that was killed */
    LEFT_MAX = 100, /* objects that one probe removes at most */
};

/* The reason of a refusal stands in the answer's text, so that nothing is asked for by a HEAD. */
static int list_probes(struct cv_store *store, struct cv_object_list *list, struct cv_error *error)
{
    int result = store->backend->check_place ? store->backend->check_place(store, error) : 0;
    result = cv_store_judge(result, error);
    const struct cv_listing listing = {.prefix = CV_KEYS_PROBES, .limit = LEFT_MAX};
    return result ? result : cv_store_list(store, &listing, list, error);
}

static int remove_left(struct cv_store *store, const struct cv_object_list *list,
                       struct cv_error *error)
{
    int64_t left_ms = cv_wall_ms() - LEFT_MS;
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_object_entry *entry = &list->entries[i];
        CV_TRY(entry->modified_ms < left_ms ? cv_store_delete(store, entry->key, error) : 0);
    }
    return 0;
}

static int write_and_read(struct cv_store *store, const char *key, const char *text,
                          struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    const struct cv_new_object object = {.key = key, .data = text, .size = strlen(text)};
    CV_TRY(cv_store_put(store, &object, NULL, error));
    int result = cv_store_get(store, key, strlen(text), &data, &size, error);
    if (result == CV_STORE_NOT_FOUND ||
        (result == 0 && (size != strlen(text) || memcmp(data, text, size) != 0))) {
        result = cv_fail(error, CV_ERROR_SERVER, "%s does not give back what was put into it",
                         cv_store_name(store));
        result = cv_store_judge(result, error);
    }
    return result;
}

int cv_store_probe(struct cv_store *store, enum cv_store_access access, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    int result = list_probes(store, &list, error);
    if (result || access == CV_STORE_READ) {
        return result;
    }
    uint64_t random = 0;
    char key[sizeof(CV_KEYS_PROBES) + 16];
    CV_TRY_ERRNO(getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random), error,
                 "make a key for a probe of the store");
    (void)snprintf(key, sizeof(key), CV_KEYS_PROBES "%016llx", (unsigned long long)random);
    result = write_and_read(store, key, key, error);
    struct cv_error other;
    int deleted = cv_store_delete(store, key, &other);
    if (result == 0 && deleted) {
        *error = other;
        result = deleted;
    }
    return result ? result : remove_left(store, &list, error);
}
