/* The S3 store's parts. */
#pragma once

#include "common/store/s3/client.h"

enum {
    CV_S3_PART_SIZE = 8 << 20,       /* part of a multipart upload; S3 requires 5 MiB or more */
    CV_S3_MULTIPART_FROM = 16 << 20, /* bytes; smaller objects are sent in one request */
    CV_S3_PARTS_MAX = 10000,
    CV_S3_SLOW_STALL_S = 300, /* a server may be silent for this long while it copies or joins */
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

/* Whether an ETag has the form of an MD5 (that of a multipart upload has not). */
bool cv_s3_is_md5(const char *etag);

/* Sends a HEAD: CV_STORE_NOT_FOUND, or 0. `metadata` may be NULL. */
CV_MUST_CHECK int cv_s3_head(struct cv_store *store, const char *key,
                             struct cv_object_info *ret_info, struct cv_metadata *metadata,
                             struct cv_error *error);

/* Checks by requesting its first byte that an object which is empty according to a HEAD is empty. 0
 * if it is; CV_ERROR_SERVER (retryable) if the server sends a byte, because a wrong length would
 * look like a damaged file. */
CV_MUST_CHECK int cv_s3_confirm_empty(struct cv_store *store, const char *key,
                                      struct cv_error *error);

CV_MUST_CHECK int cv_s3_delete(struct cv_store *store, const char *key, struct cv_error *error);
