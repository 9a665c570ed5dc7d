/* One attempt at a request, signed at its start, on an easy handle of curl. */
#pragma once

#include "common/store/s3/client.h"

struct cv_s3_attempt {
    struct cv_s3_request *request;
    CURL *easy;
    struct curl_slist *lines; /* the headers for curl */
    char detail[CURL_ERROR_SIZE];
    size_t sent;      /* bytes of the body so far */
    int error_number; /* errno of reading the body's file */
    bool is_too_long; /* the answer has more bytes than allowed */
};

/* Prepares `easy`, and resets the request's answer. */
CV_MUST_CHECK int cv_s3_attempt_begin(struct cv_s3_attempt *attempt, struct cv_s3_client *client,
                                      struct cv_s3_request *request, CURL *easy,
                                      struct cv_error *error);
/* The time limit of one attempt, and the latest start of the last attempt, counted from the first;
 * ms, depending on the bytes to transfer. */
int64_t cv_s3_attempt_patience_ms(const struct cv_s3_request *request,
                                  const struct cv_s3_config *config);

void cv_s3_attempt_end(struct cv_s3_attempt *attempt);

/* The outcome of the attempt: CV_S3_GIVE_UP with *ret_result 0 is success. */
enum cv_s3_remedy cv_s3_attempt_judge(struct cv_s3_attempt *attempt, CURLcode code, int *ret_result,
                                      struct cv_error *error);
