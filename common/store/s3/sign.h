/* Signature Version 4 as AWS defines it for S3: the path is encoded once and not normalised. Pure
 * functions on libcrypto. */
#pragma once

#include "common/base/base.h"

enum { CV_S3_HASH_SIZE = 65, CV_S3_DATE_SIZE = 17 };

/* The payload is not part of the signature; only over TLS. */
#define CV_S3_UNSIGNED "UNSIGNED-PAYLOAD"
/* SHA-256 of nothing. */
#define CV_S3_EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct cv_s3_pair {
    char *name;
    char *value;
};

/* Query parameters (not encoded) or headers (names in lower case). A failed allocation is
 * remembered, callers check `failed` once. */
struct cv_s3_pairs {
    struct cv_s3_pair *items;
    size_t count;
    bool failed;
};

void cv_s3_pairs_deinit(struct cv_s3_pairs *pairs);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_s3_pairs, cv_s3_pairs_deinit)
void cv_s3_pairs_add(struct cv_s3_pairs *pairs, const char *name, const char *value);
void cv_s3_pairs_format(struct cv_s3_pairs *pairs, const char *name, const char *format, ...)
    CV_PRINTF(3, 4);

struct cv_s3_signing {
    const char *access_key;
    const char *secret_key;
    const char
        *session_token; /* NULL: none. In a header the caller adds it, in a URL it is added here */
    const char *region;
    const char *service; /* "s3" */
    int64_t time_s;      /* seconds since 1970 */
};

struct cv_s3_message {
    const char *method;
    const char *path; /* not encoded; begins with '/' */
    const struct cv_s3_pairs *query;
    const struct cv_s3_pairs *headers; /* all signed headers, including "host" */
    const char *payload_hash;          /* lower-case hex, or CV_S3_UNSIGNED */
};

/* Writes "name=value&…" in canonical order; this text is signed and sent. */
CV_MUST_CHECK int cv_s3_query_text(const struct cv_s3_pairs *query, char **ret_text,
                                   struct cv_error *error);

/* Writes "20150830T123600Z". */
void cv_s3_format_date(int64_t time_s, char text[CV_S3_DATE_SIZE]);

/* Makes the value of the Authorization header; free() it. */
CV_MUST_CHECK int cv_s3_sign(const struct cv_s3_signing *signing,
                             const struct cv_s3_message *message, char **ret_authorization,
                             struct cv_error *error);

/* Makes the query of a URL that is valid for `seconds` without credentials; free() it. The signed
 * headers (at least "host") must be sent with it unchanged. */
CV_MUST_CHECK int cv_s3_presign(const struct cv_s3_signing *signing,
                                const struct cv_s3_message *message, int64_t seconds,
                                char **ret_query, struct cv_error *error);
