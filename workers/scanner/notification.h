/* What a store's notifications say: S3's and MinIO's own JSON, EventBridge's, or either within what SNS and
 * SQS put around it. Whoever writes to the queue writes these: nothing in them is believed but that
 * something has happened to an object. */
#pragma once

#include "common/base/base.h"

/* Called for each key of ours, an original's or one of the inbox. A failure ends the reading. */
typedef int scanner_key_found(void *opaque, const char *key, struct cv_error *error);

struct scanner_notification {
    const char *text; /* JSON, not terminated */
    size_t length;
    const char
        *store_name; /* as cv_store_name() gives it: events about other buckets are not ours */
    scanner_key_found *found;
    void *opaque;
};

/* *ret_readable is false for what is not a notification, wholly or in a part; that is logged. */
CV_MUST_CHECK int scanner_read_notification(const struct scanner_notification *notification,
                                            bool *ret_readable, struct cv_error *error);
