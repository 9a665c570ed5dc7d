/* Notifications of a store, from whoever may write to the queue. The keys that are found are ours. */
#include "common/store/store.h"

#include "tests/fuzz/fuzz.h"
#include "workers/scanner/notification.h"

#include <stdlib.h>
#include <string.h>

static int found(void *opaque, const char *key, struct cv_error *error)
{
    char id[CV_OBJECT_ID_SIZE];
    (void)opaque;
    if (cv_store_check_key(key, error) ||
        (!cv_object_is_original(key, id) &&
         strncmp(key, CV_KEYS_INBOX, strlen(CV_KEYS_INBOX)) != 0)) {
        abort();
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"s3://bucket", "s3://bucket/prefix", "dir:/store"};
    struct cv_error error;
    bool readable = false;
    if (size == 0) {
        return 0;
    }
    cv_log_set_level(CV_LOG_ERROR);
    const struct scanner_notification notification = {
        .text = (const char *)data + 1,
        .length = size - 1,
        .store_name = names[data[0] % CV_COUNT(names)],
        .found = found,
    };
    if (scanner_read_notification(&notification, &readable, &error)) {
        abort();
    }
    return 0;
}
