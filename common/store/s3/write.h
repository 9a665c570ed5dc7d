/* The S3 store's parts. */
#pragma once

#include "common/store/s3_client.h"

enum {
    CV_S3_PART_SIZE = 8 << 20,       /* of a multipart upload; at least 5 MiB by S3's rules */
    CV_S3_MULTIPART_FROM = 16 << 20, /* bytes; smaller objects are one request */
    CV_S3_PARTS_MAX = 10000,
    CV_S3_SLOW_STALL_S = 300, /* while a server copies or joins, it may say nothing */
    CV_S3_MD5_SIZE = 33,
};

struct cv_s3_store {
    struct cv_store store;
    struct cv_s3_client *client;
    bool etag_is_md5; /* S3_ETAG_MD5: a plain ETag is the MD5 of the bytes */
};

static inline struct cv_s3_store *cv_s3_of(struct cv_store *store)
{
    return (struct cv_s3_store *)store;
}

/* Whether an ETag looks like the MD5 of an object's bytes (and not of a multipart upload's). */
bool cv_s3_is_md5(const char *etag);

/* The digests of a body: SHA-256 where `sha256` is not NULL, MD5 where `md5` is not. */
CV_MUST_CHECK int cv_s3_digest(const struct cv_store_input *input, int64_t offset, size_t size,
                               char *sha256, char *md5, struct cv_error *error);

/* Content-MD5 wants it in base 64: 25 bytes. */
void cv_s3_md5_base64(const char *md5_hex, char base64[25]);

/* Sets the body of a request, and what signs or checks it: the payload's hash over http, its
 * Content-MD5 over TLS. `md5` (may be NULL) gets the MD5 when it was computed, else "". */
CV_MUST_CHECK int cv_s3_request_body(struct cv_s3_request *request,
                                     const struct cv_s3_client *client,
                                     const struct cv_store_input *input, int64_t offset,
                                     size_t size, char md5[CV_S3_MD5_SIZE], struct cv_error *error);

/* Content type and metadata of a new object as headers. */
void cv_s3_request_describe(struct cv_s3_request *request, const char *key,
                            const struct cv_put_params *params, const char *sha256);

/* HEAD: CV_STORE_NOT_FOUND, or 0. `metadata` may be NULL. */
CV_MUST_CHECK int cv_s3_head(struct cv_store *store, const char *key,
                             struct cv_object_info *ret_info, struct cv_metadata *metadata,
                             struct cv_error *error);

CV_MUST_CHECK int cv_s3_get(struct cv_store *store, const char *key, size_t limit, void **ret_data,
                            size_t *ret_size, struct cv_error *error);
CV_MUST_CHECK int cv_s3_get_begin(struct cv_store *store, const char *key, size_t limit,
                                  struct cv_store_get **ret_get, struct cv_error *error);
CV_MUST_CHECK int cv_s3_get_end(struct cv_store_get *get, void **ret_data, size_t *ret_size,
                                struct cv_error *error);
void cv_s3_get_stop(struct cv_store_get *get);
CV_MUST_CHECK int cv_s3_put(struct cv_store *store, const char *key,
                            const struct cv_store_input *input, const struct cv_put_params *params,
                            struct cv_object_info *ret_info, struct cv_error *error);
CV_MUST_CHECK int cv_s3_put_begin(struct cv_store *store, const char *key,
                                  const struct cv_store_input *input,
                                  const struct cv_put_params *params, struct cv_store_put **ret_put,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_s3_put_end(struct cv_store_put *put, struct cv_object_info *ret_info,
                                struct cv_error *error);
void cv_s3_put_stop(struct cv_store_put *put);
CV_MUST_CHECK int cv_s3_put_multipart(struct cv_store *store, const char *key,
                                      const struct cv_store_input *input,
                                      const struct cv_put_params *params,
                                      struct cv_object_info *ret_info, struct cv_error *error);
CV_MUST_CHECK int cv_s3_list(struct cv_store *store, const char *prefix, const char *start_after,
                             const char *continuation, size_t limit,
                             struct cv_object_list *ret_list, struct cv_error *error);
CV_MUST_CHECK int cv_s3_delete(struct cv_store *store, const char *key, struct cv_error *error);
CV_MUST_CHECK int cv_s3_delete_many(struct cv_store *store, const char *const *keys, size_t count,
                                    struct cv_error *error);
CV_MUST_CHECK int cv_s3_copy(struct cv_store *store, const char *from, const char *to,
                             const char *if_etag, struct cv_object_info *ret_info,
                             struct cv_error *error);
CV_MUST_CHECK int cv_s3_move(struct cv_store *store, const char *from, const char *to,
                             const char *if_etag, struct cv_object_info *ret_info,
                             struct cv_error *error);
CV_MUST_CHECK int cv_s3_open_reader(struct cv_store *store, const char *key,
                                    struct cv_store_reader **ret_reader, struct cv_error *error);

/* A multipart upload by its parts, for put and copy. */
CV_MUST_CHECK int cv_s3_multipart_begin(struct cv_s3_store *store, const char *key,
                                        const struct cv_put_params *params, const char *sha256,
                                        char **ret_upload_id, struct cv_error *error);
/* `etags` of the parts 1…count. Reads the new object's info. */
CV_MUST_CHECK int cv_s3_multipart_end(struct cv_s3_store *store, const char *key,
                                      const char *upload_id, char (*etags)[CV_STORE_ETAG_SIZE],
                                      int count, int64_t size, struct cv_object_info *ret_info,
                                      struct cv_error *error);
/* Best effort: what stays is the bucket's lifecycle rule's to remove. */
void cv_s3_multipart_abort(struct cv_s3_store *store, const char *key, const char *upload_id);
