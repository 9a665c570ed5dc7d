/* The S3 store's parts. */
#pragma once

#include "common/store/s3/client.h"

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

/* HEAD: CV_STORE_NOT_FOUND, or 0. `metadata` may be NULL. */
CV_MUST_CHECK int cv_s3_head(struct cv_store *store, const char *key,
                             struct cv_object_info *ret_info, struct cv_metadata *metadata,
                             struct cv_error *error);

/* Whether an object that a HEAD calls empty is empty: its first byte is asked for. CV_ERROR_SERVER
 * (retryable) when the server sends bytes of it, because a wrong length would otherwise pass for a
 * damaged file. 0 when it is empty. */
CV_MUST_CHECK int cv_s3_confirm_empty(struct cv_store *store, const char *key,
                                      struct cv_error *error);

CV_MUST_CHECK int cv_s3_delete(struct cv_store *store, const char *key, struct cv_error *error);

/* A URL that somebody else uses without credentials. */
struct cv_s3_url_params {
    const char *method;
    const char *key;                   /* without the store's prefix */
    int64_t seconds;                   /* that it works for */
    const struct cv_s3_pairs *query;   /* NULL: none */
    const struct cv_s3_pairs *headers; /* that are to be sent with it as they are; NULL: none */
};
CV_MUST_CHECK int cv_s3_url(struct cv_store *store, const struct cv_s3_url_params *params,
                            char **ret_url, struct cv_error *error);
