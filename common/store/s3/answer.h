/* Interprets a server's answer, or the failure of a connection. */
#pragma once

#include "common/base/base.h"
#include "common/store/backend.h"

#include <curl/curl.h>

/* The parts of an answer's head that are used. */
struct cv_s3_answer {
    int status;             /* 0: none yet */
    int64_t content_length; /* -1: unknown */
    int64_t range_start;    /* Content-Range; -1: none */
    int64_t range_end;
    int64_t range_size;
    int64_t modified_ms;
    int64_t date_ms;                   /* the server's clock; 0: unknown */
    int64_t retry_after_ms;            /* 0: not said */
    char etag[CV_STORE_ETAG_SIZE];     /* without its quotes */
    char sha256[CV_STORE_SHA256_SIZE]; /* recorded by this program at the put */
    char region[64];                   /* region of the bucket, if the server names it */
    bool etag_is_no_md5;               /* encrypted with its own key: the ETag is not an MD5 */
    struct cv_metadata metadata;       /* entries that conform to our rules */
};

/* The metadata name under which a put records the object's SHA-256. */
#define CV_S3_DIGEST_NAME "cortana-sha256"

void cv_s3_answer_init(struct cv_s3_answer *answer);
void cv_s3_answer_deinit(struct cv_s3_answer *answer);

/* Parses one line of the head; a new status line resets the answer. */
void cv_s3_answer_header(struct cv_s3_answer *answer, const char *line, size_t length);

/* Makes the object info from the answer to a HEAD or GET. */
void cv_s3_answer_info(const struct cv_s3_answer *answer, struct cv_object_info *ret_info);

/* What to do after an attempt. */
enum cv_s3_remedy {
    CV_S3_GIVE_UP,
    CV_S3_RETRY,        /* after a pause */
    CV_S3_RETRY_SLOWLY, /* after a longer pause: the server is overloaded */
    CV_S3_RENEW,        /* with new credentials, once */
};

/* For an answer that is not a success: fills `error`. `body` is the error's XML, if any. */
enum cv_s3_remedy cv_s3_answer_failure(const struct cv_s3_answer *answer, const char *body,
                                       size_t size, struct cv_error *error);

/* For a transfer that ended without an answer: fills `error`. `detail` is curl's text, or "". */
enum cv_s3_remedy cv_s3_transfer_failure(CURLcode code, const char *detail, struct cv_error *error);

/* Finds the error code in an answer's body ("NoSuchKey"); "" if there is none. */
void cv_s3_error_code(const char *body, size_t size, char code[64]);

/* ---- metadata as header values: ASCII as it is, the rest in RFC 2047's base 64 form, as S3 itself
 * gives it back ---- */

/* Encodes a metadata value for a header; free() the text. */
CV_MUST_CHECK int cv_s3_metadata_encode(const char *value, char **ret_text, struct cv_error *error);

/* Decodes such a value in place; text in another form is left unchanged. */
void cv_s3_metadata_decode(char *text);

/* Reads the XML of S3: lists, results and errors. */

/* Called at the end of each element with the names from the root on ("ListBucketResult/Contents/Key")
 * and its text. */
typedef int cv_s3_xml_element(void *opaque, const char *path, const char *text,
                              struct cv_error *error);

/* Parses a document. CV_ERROR_CONNECTION if the text is not a complete document: the answer was
 * truncated or damaged. */
CV_MUST_CHECK int cv_s3_xml_read(const char *text, size_t length, cv_s3_xml_element *element,
                                 void *opaque, struct cv_error *error);

/* Copies the text of the element with that path to the caller's buffer; "" if there is none. */
CV_MUST_CHECK int cv_s3_xml_find(const char *text, size_t length, const char *path, char *value,
                                 size_t size, struct cv_error *error);

/* Appends text with '&' and similar characters escaped. */
void cv_s3_xml_escape(struct cv_buffer *buffer, const char *text);
