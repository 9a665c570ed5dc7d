/* The object store: keys to bytes, one interface over a directory (and, later, S3).
 *
 * A key is 1 to 1,024 bytes of UTF-8, segments parted by '/'; no empty, "." or ".." segment, no NUL
 * or control character, no '/' at either end. Whatever breaks this is CV_ERROR_INVALID_KEY and
 * touches nothing.
 *
 * The directory store adds two rules of file systems: a segment has at most 255 bytes, and a key may
 * not continue another object's key ("a" and "a/b" cannot both exist). Breaking them is
 * CV_ERROR_INVALID_KEY too, as is ".incoming", where puts in progress lie.
 *
 * An object is visible under its key only whole. Several processes may write at once; the last
 * whole put wins. A store handle is used by one thread at a time; open one per thread.
 */
#pragma once

#include "common/base/base.h"

struct cv_store;

/* Named outcomes. */
enum cv_store_outcome {
    CV_STORE_OK = 0,
    CV_STORE_NOT_FOUND = 1,
};

enum {
    CV_STORE_KEY_MAX = 1024, /* bytes; S3's own limit */
    CV_STORE_ETAG_SIZE = 80, /* buffer sizes, NUL included */
    CV_STORE_TYPE_SIZE = 96,
    CV_STORE_SHA256_SIZE = 65,
};

struct cv_object_info {
    int64_t size;                  /* bytes */
    int64_t modified_ms;           /* wall clock */
    char etag[CV_STORE_ETAG_SIZE]; /* changes whenever the bytes change */
    char content_type[CV_STORE_TYPE_SIZE];
    char sha256[CV_STORE_SHA256_SIZE]; /* lower-case hex, "" when the store does not know it */
};

struct cv_put_params {
    const char *content_type; /* NULL: by the key's extension, else application/octet-stream */
    const char *sha256;       /* expected, lower-case hex; a mismatch fails and publishes nothing */
};

/* `url`: "dir:PATH" or a plain path. NULL: STORE_URL from the environment. The directory is made
 * when it is missing. */
CV_MUST_CHECK int cv_store_open(const char *url, struct cv_store **ret_store,
                                struct cv_error *error);
void cv_store_close(struct cv_store *store);
CV_DEFINE_CLEANUP(struct cv_store *, cv_store_close)

/* What the bucket is called in task_artifacts and logs; borrowed. */
const char *cv_store_name(const struct cv_store *store);

/* Checks a key against the rules above. */
CV_MUST_CHECK int cv_store_check_key(const char *key, struct cv_error *error);

/* CV_STORE_NOT_FOUND, or 0 and *ret_info (may be NULL). */
CV_MUST_CHECK int cv_store_head(struct cv_store *store, const char *key,
                                struct cv_object_info *ret_info, struct cv_error *error);

/* Reads up to `length` bytes from `offset`; *ret_read < length only at the object's end. */
CV_MUST_CHECK int cv_store_get_range(struct cv_store *store, const char *key, int64_t offset,
                                     void *data, size_t length, size_t *ret_read,
                                     struct cv_error *error);

/* The whole object in fresh memory (free() it), NUL behind it; larger than `limit` bytes is
 * CV_ERROR_LIMIT_EXCEEDED. CV_STORE_NOT_FOUND is an outcome. */
CV_MUST_CHECK int cv_store_get(struct cv_store *store, const char *key, size_t limit,
                               void **ret_data, size_t *ret_size, struct cv_error *error);

/* Writes an object from memory or from a file. `params` may be NULL; `ret_info` may be NULL.
 * Durable (fsync) when it returns. */
CV_MUST_CHECK int cv_store_put(struct cv_store *store, const char *key, const void *data,
                               size_t size, const struct cv_put_params *params,
                               struct cv_object_info *ret_info, struct cv_error *error);
CV_MUST_CHECK int cv_store_put_file(struct cv_store *store, const char *key, const char *path,
                                    const struct cv_put_params *params,
                                    struct cv_object_info *ret_info, struct cv_error *error);

/* Deleting what is not there is a success, as on S3. */
CV_MUST_CHECK int cv_store_delete(struct cv_store *store, const char *key, struct cv_error *error);

struct cv_object_entry {
    char *key;
    int64_t size;
    int64_t modified_ms;
};

struct cv_object_list {
    struct cv_object_entry *entries;
    size_t count;
    char *continuation; /* pass it to the next call; NULL when this was the last page */
};

void cv_object_list_deinit(struct cv_object_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_object_list, cv_object_list_deinit)

/* One page (up to `limit` entries, 1…1000) of the keys that start with `prefix` (may be ""), in
 * byte order. `continuation` is NULL for the first page. The list is initialised here. */
CV_MUST_CHECK int cv_store_list(struct cv_store *store, const char *prefix,
                                const char *continuation, size_t limit,
                                struct cv_object_list *ret_list, struct cv_error *error);

/* A URL under which `method` ("GET" or "PUT") works without credentials for `seconds`; free() it.
 * The directory store has file:// URLs for GET and refuses PUT (CV_ERROR_CONFIGURATION). */
CV_MUST_CHECK int cv_store_presign(struct cv_store *store, const char *key, const char *method,
                                   int64_t seconds, char **ret_url, struct cv_error *error);

/* ---- reading with seeks ---------------------------------------------------------------------- */

/* An object opened for reading at random places; the object that was opened is what is read: one
 * that is overwritten meanwhile either goes on with the old bytes or fails with CV_ERROR_CONFLICT.
 */
struct cv_store_reader;

/* CV_STORE_NOT_FOUND is an outcome. Borrows `store`. */
CV_MUST_CHECK int cv_store_reader_open(struct cv_store *store, const char *key,
                                       struct cv_store_reader **ret_reader, struct cv_error *error);
void cv_store_reader_close(struct cv_store_reader *reader);
CV_DEFINE_CLEANUP(struct cv_store_reader *, cv_store_reader_close)

/* What was opened; valid while the reader is open. */
const struct cv_object_info *cv_store_reader_info(const struct cv_store_reader *reader);

/* The reader as a byte source; valid while the reader is open. */
struct cv_byte_source cv_store_reader_source(struct cv_store_reader *reader);
