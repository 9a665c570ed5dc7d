/* What a server's answer or a connection's end means. */
#pragma once

#include "common/store/backend.h"

#include <curl/curl.h>

/* The parts of an answer's head that somebody reads. */
struct cv_s3_answer {
    int status;             /* 0: none yet */
    int64_t content_length; /* -1: not said */
    int64_t range_start;    /* Content-Range; -1: none */
    int64_t range_end;
    int64_t range_size;
    int64_t modified_ms;
    int64_t date_ms;               /* the server's clock; 0: not said */
    int64_t retry_after_ms;        /* 0: not said */
    char etag[CV_STORE_ETAG_SIZE]; /* without its quotes */
    char content_type[CV_STORE_TYPE_SIZE];
    char sha256[CV_STORE_SHA256_SIZE]; /* what we noted at the put */
    char region[64];                   /* of the bucket, when the server says so */
    bool etag_is_no_md5;               /* encrypted with a key of its own: the ETag is no MD5 */
    struct cv_metadata metadata;       /* as far as it keeps our rules */
};

/* The name under which a put notes the SHA-256 of the object. */
#define CV_S3_DIGEST_NAME "cortana-sha256"

void cv_s3_answer_init(struct cv_s3_answer *answer);
void cv_s3_answer_deinit(struct cv_s3_answer *answer);

/* Takes one line of the head in; a new status line starts over. */
void cv_s3_answer_header(struct cv_s3_answer *answer, const char *line, size_t length);

/* Object info of a HEAD or GET. */
void cv_s3_answer_info(const struct cv_s3_answer *answer, const char *key,
                       struct cv_object_info *ret_info);

/* How an attempt ended, beyond the error itself. */
enum cv_s3_remedy {
    CV_S3_GIVE_UP,
    CV_S3_RETRY,        /* after a pause */
    CV_S3_RETRY_SLOWLY, /* after a longer pause: the server is overloaded */
    CV_S3_RENEW,        /* with new credentials, once */
};

/* An answer that is not a success: `body` is the error's XML, if any. Fills `error`. */
enum cv_s3_remedy cv_s3_answer_failure(const struct cv_s3_answer *answer, const char *body,
                                       size_t size, struct cv_error *error);

/* A transfer that did not end with an answer. `detail` is curl's own text, or "". */
enum cv_s3_remedy cv_s3_transfer_failure(CURLcode code, const char *detail, struct cv_error *error);

/* The error code in an answer's body ("NoSuchKey"), "" when there is none. */
void cv_s3_error_code(const char *body, size_t size, char code[64]);

/* ---- metadata as header values: ASCII as it is, the rest in RFC 2047's base 64 form, as S3 itself
 * gives it back ---- */

/* free() it. */
CV_MUST_CHECK int cv_s3_metadata_encode(const char *value, char **ret_text, struct cv_error *error);

/* In place; what is not in that form stays as it is. */
void cv_s3_metadata_decode(char *text);
