#include "common/store/keys.h"
#include "common/store/store.h"

#include <string.h>

enum {
    LOG_DAYS = 30,
    OUTPUT_DAYS = 90, /* as long as `cortana jobs archive` leaves a job in the tables */
    DAYS_MAX = 36500, /* a century */
    DAY_MS = 24 * 60 * 60 * 1000,
};

int cv_store_job_log_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_LOG_DAYS", LOG_DAYS, 0, DAYS_MAX, ret_days, error);
}

int cv_store_output_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_OUTPUT_DAYS", OUTPUT_DAYS, 0, DAYS_MAX, ret_days, error);
}

void cv_store_job_log_key(const char *job_id, char key[CV_STORE_JOB_LOG_KEY_SIZE])
{
    (void)snprintf(key, CV_STORE_JOB_LOG_KEY_SIZE, "%s%s.json", CV_KEYS_JOB_LOGS, job_id);
}

static int remove_old(struct cv_store *store, const struct cv_object_list *page, int64_t before_ms,
                      struct cv_cancel *cancel, int64_t *removed, struct cv_error *error)
{
    for (size_t i = 0; i < page->count && cv_cancel_level(cancel) == CV_CANCEL_NONE; i++) {
        if (page->entries[i].modified_ms < before_ms) {
            int result = cv_store_delete(store, page->entries[i].key, error);
            if (result < 0) {
                return result;
            }
            ++*removed;
        }
    }
    return 0;
}

int cv_store_expire(struct cv_store *store, const char *prefix, int64_t days,
                    struct cv_cancel *cancel, int64_t *ret_removed, struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    int64_t before_ms = cv_wall_ms() - days * DAY_MS;
    *ret_removed = 0;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {.count = 0};
        int result = cv_store_list(store, prefix, continuation, CV_STORE_PAGE_MAX, &page, error);
        result = result ? result : remove_old(store, &page, before_ms, cancel, ret_removed, error);
        if (result < 0) {
            return result;
        }
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation && cv_cancel_level(cancel) == CV_CANCEL_NONE);
    return 0;
}
