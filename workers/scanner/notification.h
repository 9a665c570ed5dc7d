/* Reads notifications of a store: JSON of S3, MinIO or EventBridge, also inside messages of SNS
 * and SQS. Anyone who may write to the queue can write them. So a notification is only a hint that
 * something happened to an object. */
#pragma once

#include "common/base/base.h"

/* Called for each key of an original or of the inbox. A failure ends the reading. */
typedef int scanner_key_found(void *opaque, const char *key, struct cv_error *error);

struct scanner_notification {
    const char *text; /* JSON, not terminated */
    size_t length;
    const char *store_name; /* as from cv_store_name(); events about other buckets are ignored */
    scanner_key_found *found;
    void *opaque;
};

/* Reads one message. *ret_readable is false if the text, or a part of it, is not a notification;
 * that is logged. */
CV_MUST_CHECK int scanner_read_notification(const struct scanner_notification *notification,
                                            bool *ret_readable, struct cv_error *error);
