/* The object store: keys to bytes, one interface over a directory and S3.
 *
 * A key is 1 to 1,024 bytes of UTF-8, in segments separated by '/', without empty, "." or ".."
 * segments, NUL or control characters, and without '/' at either end. Any other key is
 * CV_ERROR_INVALID_KEY, and nothing is done.
 *
 * The directory store adds two rules of file systems: a segment has at most 255 bytes, and a key may
 * not continue another object's key ("a" and "a/b" cannot both exist). Breaking them is also
 * CV_ERROR_INVALID_KEY, and so is the key ".incoming", the directory of unfinished puts.
 *
 * An object becomes visible under its key only when it is complete. Several processes may write at
 * once; the last complete put wins. A store handle is used by one thread at a time.
 */
#pragma once

#include "common/base/base.h"
#include "common/store/keys.h"

struct cv_store;

/* Named outcomes. */
enum cv_store_outcome {
    CV_STORE_OK = 0,
    CV_STORE_NOT_FOUND = 1,
    CV_STORE_EXISTS = 2,      /* create_only, and there is an object already */
    CV_STORE_CHANGED = 3,     /* if_etag, and the object has another */
    CV_STORE_UNSUPPORTED = 4, /* this kind of store has no such thing */
};

enum {
    CV_STORE_ETAG_SIZE = 80, /* buffer sizes, NUL included */
    CV_STORE_SHA256_SIZE = 65,
    CV_STORE_PAGE_MAX = 1000,     /* entries of one page of a list, keys of one batch; S3's */
    CV_STORE_METADATA_MAX = 2048, /* bytes of all names and values of an object; S3's */
    CV_STORE_METADATA_NAME_MAX = 64,
};

struct cv_object_info {
    int64_t size;                      /* bytes */
    int64_t modified_ms;               /* wall clock */
    char etag[CV_STORE_ETAG_SIZE];     /* changes whenever the bytes change */
    char sha256[CV_STORE_SHA256_SIZE]; /* lower-case hex, "" when the store does not know it */
};

/* Metadata that users attach to an object (S3's x-amz-meta-NAME). A name has 1 to 64 characters of
 * a…z, 0…9, '-', '_'; a value is printable UTF-8 without spaces at its ends. */
struct cv_metadata_entry {
    char *name;
    char *value;
};

struct cv_metadata {
    struct cv_metadata_entry *entries;
    size_t count;
};

void cv_metadata_deinit(struct cv_metadata *metadata);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_metadata, cv_metadata_deinit)

/* Sets or replaces an entry; copies name and value. CV_ERROR_CONSTRAINT when they break these
 * rules. */
CV_MUST_CHECK int cv_metadata_set(struct cv_metadata *metadata, const char *name, const char *value,
                                  struct cv_error *error);

/* The value of that name, borrowed; NULL when there is none. */
const char *cv_metadata_get(const struct cv_metadata *metadata, const char *name);

/* An object to be stored: its key, its bytes, and what else the store is told about it. Its media
 * type follows from its key (cv_media_type). */
struct cv_new_object {
    const char *key;
    const void *data; /* the bytes, if `path` is NULL */
    size_t size;
    const char *path;   /* the file that holds the bytes; NULL: `data` holds them */
    const char *sha256; /* expected, lower-case hex; a mismatch fails and publishes nothing */
    const struct cv_metadata *metadata; /* NULL: none */
    bool create_only; /* CV_STORE_EXISTS when the object exists; in a directory only */
};

/* `url`: "s3://BUCKET[/PREFIX]", "dir:PATH" or a plain path. NULL: STORE_URL from the environment,
 * else S3_BUCKET. A directory is made when it is missing; a bucket is not asked for yet, its
 * endpoint and credentials come from the environment (docs/environment.md). */
CV_MUST_CHECK int cv_store_open(const char *url, struct cv_store **ret_store,
                                struct cv_error *error);
void cv_store_close(struct cv_store *store);
CV_DEFINE_CLEANUP(struct cv_store *, cv_store_close)

/* When `cancel` (borrowed; NULL: never) aborts, requests stop waiting and fail with
 * CV_ERROR_CANCELED. */
void cv_store_set_cancel(struct cv_store *store, struct cv_cancel *cancel);

/* Reads (GET, HEAD) of a bucket that are not over at this time (cv_monotonic_ms) fail with
 * CV_ERROR_TIMEOUT; INT64_MAX, as at first: those that the store itself gives up. */
void cv_store_set_deadline(struct cv_store *store, int64_t deadline_ms);

/* The path of a store that is a directory, whose objects are opened without asking another machine;
 * borrowed. NULL: the store is a bucket. */
const char *cv_store_directory(const struct cv_store *store);

/* The store's name in task_artifacts and logs; borrowed. */
const char *cv_store_name(const struct cv_store *store);

/* Reads what is known of an object: CV_STORE_NOT_FOUND, or 0 and *ret_info (may be NULL). */
CV_MUST_CHECK int cv_store_head(struct cv_store *store, const char *key,
                                struct cv_object_info *ret_info, struct cv_error *error);

/* The same, with the object's metadata; *ret_metadata is initialised here. */
CV_MUST_CHECK int cv_store_head_metadata(struct cv_store *store, const char *key,
                                         struct cv_object_info *ret_info,
                                         struct cv_metadata *ret_metadata, struct cv_error *error);

/* Reads up to `length` bytes from `offset`; *ret_read < length only at the object's end. */
CV_MUST_CHECK int cv_store_get_range(struct cv_store *store, const char *key, int64_t offset,
                                     void *data, size_t length, size_t *ret_read,
                                     struct cv_error *error);

/* Reads the whole object into new memory (free() it), followed by a NUL; CV_ERROR_LIMIT_EXCEEDED
 * when it is larger than `limit` bytes. CV_STORE_NOT_FOUND is an outcome. */
CV_MUST_CHECK int cv_store_get(struct cv_store *store, const char *key, size_t limit,
                               void **ret_data, size_t *ret_size, struct cv_error *error);

/* Stores an object. `ret_info` may be NULL. Durable (fsync) when it returns. */
CV_MUST_CHECK int cv_store_put(struct cv_store *store, const struct cv_new_object *object,
                               struct cv_object_info *ret_info, struct cv_error *error);

/* Deletes an object. Success, as on S3, also when it does not exist. */
CV_MUST_CHECK int cv_store_delete(struct cv_store *store, const char *key, struct cv_error *error);

/* Deletes any number of objects, in few requests if the store supports that. All are tried; a
 * failure names the first that could not be deleted. */
CV_MUST_CHECK int cv_store_delete_many(struct cv_store *store, const char *const *keys,
                                       size_t count, struct cv_error *error);

struct cv_object_move {
    const char *from;
    const char *to;
    const char *if_etag; /* NULL: any */
};

/* Moves an object with its type and metadata, replacing any object at `to`. With `if_etag` only if
 * the object at `from` has that ETag; otherwise CV_STORE_CHANGED, and nothing is done.
 * CV_STORE_NOT_FOUND is an outcome. `ret_info` (may be NULL) describes the new object; its ETag may
 * differ from the old one. On S3 a move is a copy and a delete: after a failure the object may be at
 * both places, and moving it again fixes that. */
CV_MUST_CHECK int cv_store_move(struct cv_store *store, const struct cv_object_move *move,
                                struct cv_object_info *ret_info, struct cv_error *error);

struct cv_object_entry {
    char *key;
    int64_t size;
    int64_t modified_ms;
    char etag[CV_STORE_ETAG_SIZE]; /* the one that head would give */
};

struct cv_object_list {
    struct cv_object_entry *entries;
    size_t count;
    char *continuation; /* pass it to the next call; NULL when this was the last page */
};

void cv_object_list_deinit(struct cv_object_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_object_list, cv_object_list_deinit)

/* A page of the list of the keys that begin with `prefix`, in byte order. */
struct cv_listing {
    const char *prefix;       /* may be "" */
    const char *start_after;  /* the first page begins behind this key; NULL: with the first key */
    const char *continuation; /* that of the page before; NULL: this is the first page */
    size_t limit;             /* entries; 0: CV_STORE_PAGE_MAX, which is also the most */
};

/* Reads one page. A page may be short or empty and have a continuation. Names that are not valid
 * keys (folders made by a console, "a//b") are left out. *ret_page is initialised here. */
CV_MUST_CHECK int cv_store_list(struct cv_store *store, const struct cv_listing *listing,
                                struct cv_object_list *ret_page, struct cv_error *error);

/* ---- logs of jobs: logs/pipeline/{job_id}.json -------------------------------------------------- */

enum { CV_STORE_JOB_LOG_KEY_SIZE = 64 };

/* CORTANA_LOG_DAYS: how many days logs of jobs are kept (30); 0: none are written. */
CV_MUST_CHECK int cv_store_job_log_days(int64_t *ret_days, struct cv_error *error);

/* The key of a job's log; `job_id` is a UUID. */
void cv_store_job_log_key(const char *job_id, char key[CV_STORE_JOB_LOG_KEY_SIZE]);

/* CORTANA_OUTPUT_DAYS: how many days files that commands have written are kept (90); 0: for ever. */
CV_MUST_CHECK int cv_store_output_days(int64_t *ret_days, struct cv_error *error);

/* Removes objects whose keys begin with `prefix` and that are older than `days`; *ret_removed is
 * their number. Lists all objects with that prefix. */
CV_MUST_CHECK int cv_store_expire(struct cv_store *store, const char *prefix, int64_t days,
                                  struct cv_cancel *cancel, int64_t *ret_removed,
                                  struct cv_error *error);

/* A request about the bucket itself, in S3's protocol. */
struct cv_bucket_request {
    const char *method;
    const char *subresource; /* "" (create it, look at it), "lifecycle", "cors", "versioning" … */
    const char *body;        /* XML, or NULL */
};

struct cv_bucket_answer {
    int status; /* 200, 404, 501 … */
    char *text;
};

void cv_bucket_answer_deinit(struct cv_bucket_answer *answer);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_bucket_answer, cv_bucket_answer_deinit)

/* Sends such a request. CV_STORE_UNSUPPORTED for a store that is not a bucket. */
CV_MUST_CHECK int cv_store_bucket_request(struct cv_store *store,
                                          const struct cv_bucket_request *request,
                                          struct cv_bucket_answer *ret_answer,
                                          struct cv_error *error);

/* ---- uploads in parts by others ---------------------------------------------------------------- */

struct cv_store_part {
    int number; /* 1…10,000 */
    int64_t size;
    char etag[CV_STORE_ETAG_SIZE];
};

/* An unfinished upload. The bucket keeps all of its state. */
struct cv_store_parts {
    char *upload_id;
    struct cv_store_part *items; /* the parts that the bucket has, by number */
    size_t count;
};

void cv_store_parts_deinit(struct cv_store_parts *parts);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_store_parts, cv_store_parts_deinit)

/* Finds the unfinished upload of a key, or starts one. *ret_parts is initialised here. CV_STORE_UNSUPPORTED for a store that is not
 * a bucket. */
CV_MUST_CHECK int cv_store_parts_find(struct cv_store *store, const char *key,
                                      struct cv_store_parts *ret_parts, struct cv_error *error);

/* What a URL allows without credentials. */
struct cv_signed_url {
    const char *key;
    const char *method; /* "GET" or "PUT" */
    int64_t seconds;    /* for which it works */
    /* For a GET: the Content-Disposition of the answer; NULL: none. Its media type is the key's, also
     * where another program has stored the object with another type. */
    const char *disposition;
    /* For a PUT of one part of an unfinished upload: its id, and the part's number and exact size. */
    const char *upload_id;
    const struct cv_store_part *part; /* NULL: for the whole object */
};

/* Makes such a URL; free() it. The directory store has file:// URLs for GET and refuses PUT
 * (CV_ERROR_CONFIGURATION). */
CV_MUST_CHECK int cv_store_presign(struct cv_store *store, const struct cv_signed_url *allowed,
                                   char **ret_url, struct cv_error *error);

/* Joins the parts to the object. Their numbers must begin with 1 and have no gaps
 * (CV_ERROR_CONSTRAINT). */
CV_MUST_CHECK int cv_store_parts_join(struct cv_store *store, const char *key,
                                      const struct cv_store_parts *parts,
                                      struct cv_object_info *ret_info, struct cv_error *error);

/* Cancels the unfinished upload of a key and removes its parts. Success when there is none, and
 * for a store that is not a bucket. */
CV_MUST_CHECK int cv_store_parts_drop(struct cv_store *store, const char *key,
                                      struct cv_error *error);

/* ---- does it work? --------------------------------------------------------------------------- */

enum cv_store_access { CV_STORE_READ, CV_STORE_WRITE };

/* Checks whether the store works now: lists, and for CV_STORE_WRITE also puts, gets and deletes a
 * small object with a name of its own, and deletes such objects that killed processes left more than
 * an hour ago. The failure says what does not work. */
CV_MUST_CHECK int cv_store_probe(struct cv_store *store, enum cv_store_access access,
                                 struct cv_error *error);

/* ---- reading with seeks ---------------------------------------------------------------------- */

/* An object opened for reading at any offset. If it is overwritten meanwhile, reading either
 * continues with the old bytes or fails with CV_ERROR_CONFLICT. */
struct cv_store_reader;

/* CV_STORE_NOT_FOUND is an outcome. Borrows `store`. */
CV_MUST_CHECK int cv_store_reader_open(struct cv_store *store, const char *key,
                                       struct cv_store_reader **ret_reader, struct cv_error *error);
void cv_store_reader_close(struct cv_store_reader *reader);
CV_DEFINE_CLEANUP(struct cv_store_reader *, cv_store_reader_close)

/* The opened object; valid while the reader is open. */
const struct cv_object_info *cv_store_reader_info(const struct cv_store_reader *reader);

/* The object as an open file, borrowed; -1 for an object in a bucket. */
int cv_store_reader_fd(const struct cv_store_reader *reader);

/* The reader as a byte source; valid while the reader is open. */
struct cv_byte_source cv_store_reader_source(struct cv_store_reader *reader);

/* ---- many gets at once ----------------------------------------------------------------------- */

/* Gets a list of objects in order. On S3 the next ones are fetched while the caller works on one;
 * in a directory each is read when it is requested. Used by the thread that uses the store. Memory
 * is limited: what is fetched ahead has about CV_DOWNLOADS_BYTES_MAX bytes, estimated from the
 * sizes of the previous objects, and at most CV_DOWNLOADS_MAX objects. */
struct cv_downloads;

enum { CV_DOWNLOADS_MAX = 16, CV_DOWNLOADS_BYTES_MAX = 16 << 20 };

/* Borrows `store`, and `keys` with their texts. Objects of more than `limit` bytes fail. */
CV_MUST_CHECK int cv_downloads_new(struct cv_store *store, const char *const *keys, size_t count,
                                   size_t limit, struct cv_downloads **ret_downloads,
                                   struct cv_error *error);

/* Stops what is under way. */
void cv_downloads_free(struct cv_downloads *downloads);
CV_DEFINE_CLEANUP(struct cv_downloads *, cv_downloads_free)

/* The next object, as from cv_store_get(). CV_STORE_NOT_FOUND is an outcome; after it, as after a
 * failure, the next call continues with the next object. CV_ERROR_INTERNAL after the end of the
 * list. */
CV_MUST_CHECK int cv_downloads_next(struct cv_downloads *downloads, void **ret_data,
                                    size_t *ret_size, struct cv_error *error);

/* ---- many puts at once ----------------------------------------------------------------------- */

/* Puts objects while the caller works: on S3 several at once, in a directory one by one during the
 * call. Used by the thread that uses the store. Memory is limited: unfinished puts have at most
 * CV_UPLOADS_BYTES_MAX bytes (a larger put runs alone) and CV_UPLOADS_MAX files. */
struct cv_uploads;

enum { CV_UPLOADS_MAX = 24, CV_UPLOADS_BYTES_MAX = 32 << 20 };

/* Called for each object that is completely stored, in the order of the puts, from within the
 * functions below, which pass its failure up. */
typedef int cv_uploads_stored(void *opaque, const char *key, const struct cv_object_info *info,
                              struct cv_error *error);

/* Borrows `store`. `stored` may be NULL. */
CV_MUST_CHECK int cv_uploads_new(struct cv_store *store, cv_uploads_stored *stored, void *opaque,
                                 struct cv_uploads **ret_uploads, struct cv_error *error);

/* Stops unfinished puts; their objects may or may not exist. */
void cv_uploads_free(struct cv_uploads *uploads);
CV_DEFINE_CLEANUP(struct cv_uploads *, cv_uploads_free)

/* Begins a put. `data` is from malloc and taken over, also on failure; a file may be unlinked but not
 * changed after the call. Waits while the limits are reached. A failure may be that of an earlier
 * put; the others must then still be waited for. */
CV_MUST_CHECK int cv_uploads_put(struct cv_uploads *uploads, const struct cv_new_object *object,
                                 struct cv_error *error);

/* Waits until all puts have ended. Returns the first failure. */
CV_MUST_CHECK int cv_uploads_wait(struct cv_uploads *uploads, struct cv_error *error);

/* ---- SHA-256 in pieces ------------------------------------------------------------------------- */

struct cv_sha256;

CV_MUST_CHECK int cv_sha256_new(struct cv_sha256 **ret_sha256, struct cv_error *error);
void cv_sha256_free(struct cv_sha256 *sha256);
CV_DEFINE_CLEANUP(struct cv_sha256 *, cv_sha256_free)

CV_MUST_CHECK int cv_sha256_add(struct cv_sha256 *sha256, const void *data, size_t size,
                                struct cv_error *error);

/* The digest of everything that was added, in lower-case hex. Called once. */
CV_MUST_CHECK int cv_sha256_text(struct cv_sha256 *sha256, char text[CV_STORE_SHA256_SIZE],
                                 struct cv_error *error);
