/* Requests to one bucket: a thread of its own drives any number of them at once over kept
 * connections, signs each attempt anew, and tries again what may succeed.
 *
 * The thread starts with the first request, so that a store may be opened before a sandbox is
 * entered. Requests are started and waited for by one thread. */
#pragma once

#include "common/store/s3/answer.h"
#include "common/store/s3/credentials.h"
#include "common/store/s3/sign.h"

enum {
    CV_S3_CONNECTIONS = 12,      /* at once; what one client of RGW or AWS is served best with */
    CV_S3_ANSWER_MAX = 16 << 20, /* of text: a list of 1,000 longest keys, encoded, is 4 MiB */
    CV_S3_KEY_ENCODED_MAX = 3 * CV_STORE_KEY_MAX,
};

struct cv_s3_request {
    /* What is asked; of the caller, untouched until the request is done. */
    const char *method;
    char *key; /* on the server, with the store's prefix; NULL: the bucket; owned */
    struct cv_s3_pairs query;
    struct cv_s3_pairs headers; /* besides host, date, token and payload hash; lower case */
    const void *body;           /* when body_fd is -1 */
    size_t body_size;
    int body_fd; /* a regular file, from body_offset on; borrowed */
    int64_t body_offset;
    char payload_hash[CV_S3_HASH_SIZE];
    void *target; /* takes the body of a success, exactly target_size bytes; NULL: `text` does */
    size_t target_size;
    size_t text_limit;       /* of `text`; more is a failure */
    int64_t stall_timeout_s; /* 0: the store's */
    /* Looks at a success before it counts as one; a failure with the verdict RETRY is tried again.
     * In the client's thread. */
    int (*check)(struct cv_s3_request *request, struct cv_error *error);
    void *opaque; /* for `check` */

    /* The answer; valid when it is done. */
    struct cv_s3_answer answer;
    struct cv_buffer text; /* body of a success without target, and of any failure */
    size_t received;       /* bytes in target */
    int result;            /* 0: an answer of 200…299 */
    struct cv_error error;
    bool done;

    /* The client's own. */
    struct cv_s3_request *next;
    struct cv_s3_attempt *attempt;
    int64_t not_before_ms;
    int64_t pause_ms;
    int64_t begun_ms; /* of the first attempt */
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
/* Not while it is under way. */
void cv_s3_request_deinit(struct cv_s3_request *request);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_s3_request, cv_s3_request_deinit)

/* Takes the configuration over. */
CV_MUST_CHECK int cv_s3_client_open(struct cv_s3_config *config, struct cv_s3_client **ret_client,
                                    struct cv_error *error);
/* Cancels what is under way. */
void cv_s3_client_close(struct cv_s3_client *client);

const struct cv_s3_config *cv_s3_client_config(const struct cv_s3_client *client);
struct cv_s3_identity *cv_s3_client_identity(const struct cv_s3_client *client);

/* Hands a request over; it lives until it is done. */
CV_MUST_CHECK int cv_s3_start(struct cv_s3_client *client, struct cv_s3_request *request,
                              struct cv_error *error);

/* Waits until it is done and returns its result: 0, or a failure that names method and key. An
 * abort of the store's cancellation ends it with CV_ERROR_CANCELED. */
CV_MUST_CHECK int cv_s3_finish(struct cv_s3_client *client, struct cv_s3_request *request,
                               struct cv_error *error);

/* Ends a request that nobody waits for any more, and waits for that. */
void cv_s3_cancel(struct cv_s3_client *client, struct cv_s3_request *request);

/* Start and finish. */
CV_MUST_CHECK int cv_s3_perform(struct cv_s3_client *client, struct cv_s3_request *request,
                                struct cv_error *error);

/* Requests wait no longer than until this asks to abort; borrowed, NULL: never. */
void cv_s3_client_set_cancel(struct cv_s3_client *client, struct cv_cancel *cancel);
