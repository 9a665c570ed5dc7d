/* Requests to one bucket. A thread runs any number of requests at once over persistent connections,
 * signs each attempt, and repeats attempts that may succeed. The thread starts with the first
 * request, so that a store may be opened before a sandbox is entered. One thread starts the
 * requests and waits for them. */
#pragma once

#include "common/store/s3/answer.h"
#include "common/store/s3/credentials.h"
#include "common/store/s3/sign.h"

enum {
    CV_S3_CONNECTIONS = 12, /* connections at once; the best number for one client of RGW or AWS */
    CV_S3_ANSWER_MAX =
        16 << 20, /* bytes of text: a list of 1,000 longest keys, encoded, has 4 MiB */
    CV_S3_KEY_ENCODED_MAX = 3 * CV_STORE_KEY_MAX,
};

struct cv_s3_request {
    /* The request; it belongs to the caller and must not change until the request is done. */
    const char *method;
    char *key; /* key on the server, including the store's prefix; NULL: the bucket; owned */
    struct cv_s3_pairs query;
    struct cv_s3_pairs headers; /* additional to host, date, token and payload hash; lower case */
    const void *body;           /* used if body_fd is -1 */
    size_t body_size;
    int body_fd; /* a regular file, from body_offset on; borrowed */
    int64_t body_offset;
    char payload_hash[CV_S3_HASH_SIZE];
    void *target; /* gets the body of a success, exactly target_size bytes; NULL: `text` gets it */
    size_t target_size;
    size_t text_limit;       /* largest `text`; more is a failure */
    int64_t stall_timeout_s; /* 0: that of the store */
    /* Checks a success; if it fails with the verdict RETRY, the request is repeated. Called in the
     * client's thread. */
    int (*check)(struct cv_s3_request *request, struct cv_error *error);
    void *opaque; /* for `check` */

    /* The answer; valid when the request is done. */
    struct cv_s3_answer answer;
    struct cv_buffer text; /* body of a success without target, and of any failure */
    size_t received;       /* bytes in target */
    int result;            /* 0: an answer of 200…299 */
    struct cv_error error;
    bool done;

    /* Private to the client. */
    struct cv_s3_request *next;
    struct cv_s3_attempt *attempt;
    int64_t not_before_ms;
    int64_t pause_ms;
    int64_t begun_ms; /* start of the first attempt */
    int attempts;
    bool renewed;
    bool canceled;
};

/* Sets the defaults: an empty body, text up to CV_S3_ANSWER_MAX. `key` is without the prefix, NULL
 * for the bucket. */
struct cv_s3_client;
CV_MUST_CHECK int cv_s3_request_init(struct cv_s3_request *request,
                                     const struct cv_s3_client *client, const char *method,
                                     const char *key, struct cv_error *error);
/* Frees the request's members; it must not be under way. */
void cv_s3_request_deinit(struct cv_s3_request *request);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_s3_request, cv_s3_request_deinit)

/* Makes a client; takes ownership of the configuration. */
CV_MUST_CHECK int cv_s3_client_open(struct cv_s3_config *config, struct cv_s3_client **ret_client,
                                    struct cv_error *error);
/* Cancels requests under way, and closes the client. */
void cv_s3_client_close(struct cv_s3_client *client);

const struct cv_s3_config *cv_s3_client_config(const struct cv_s3_client *client);
struct cv_s3_identity *cv_s3_client_identity(const struct cv_s3_client *client);

/* Starts a request, which must stay valid until it is done. */
CV_MUST_CHECK int cv_s3_start(struct cv_s3_client *client, struct cv_s3_request *request,
                              struct cv_error *error);

/* Waits until the request is done and returns its result: 0, or a failure that names method and
 * key. If the store's cancellation aborts, CV_ERROR_CANCELED. */
CV_MUST_CHECK int cv_s3_finish(struct cv_s3_client *client, struct cv_s3_request *request,
                               struct cv_error *error);

/* Cancels a request and waits until it has ended. */
void cv_s3_cancel(struct cv_s3_client *client, struct cv_s3_request *request);

/* cv_s3_start and cv_s3_finish. */
CV_MUST_CHECK int cv_s3_perform(struct cv_s3_client *client, struct cv_s3_request *request,
                                struct cv_error *error);

/* When `cancel` aborts, requests stop waiting; borrowed, NULL: never. */
void cv_s3_client_set_cancel(struct cv_s3_client *client, struct cv_cancel *cancel);

/* When GET and HEAD requests stop waiting, with CV_ERROR_TIMEOUT (cv_monotonic_ms); INT64_MAX: never. */
void cv_s3_client_set_deadline(struct cv_s3_client *client, int64_t deadline_ms);
