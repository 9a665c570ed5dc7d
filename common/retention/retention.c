#include "common/retention/retention.h"

#include <string.h>

enum {
    CLIP_DAYS = 30,
    CLIP_DAYS_MAX = 36500, /* a century */
};

int cv_clip_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_CLIP_DAYS", CLIP_DAYS, 0, CLIP_DAYS_MAX, ret_days, error);
}

/* The object first: whoever is stopped in between finds the job's row unmarked, and does it again. */
int cv_clips_expire(struct cv_db *db, struct cv_store *store, int64_t days, int64_t limit,
                    struct cv_cancel *cancel, int64_t *ret_removed, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    char days_text[24], limit_text[24];
    *ret_removed = 0;
    if (days == 0) {
        return 0;
    }
    (void)snprintf(days_text, sizeof(days_text), "%lld", (long long)days);
    (void)snprintf(limit_text, sizeof(limit_text), "%lld", (long long)limit);
    int result = cv_db_run(db, &rows, error, "SELECT * FROM expired_clips($1::int, $2::int)",
                           days_text, limit_text);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            break;
        }
        char owner[CV_OBJECT_ID_SIZE];
        const char *key = cv_db_text(rows, i, "key");
        const char *video_id = cv_db_text(rows, i, "video_id");
        /* A job's result came from a stage that has read a stranger's file: its own clips alone. */
        if (cv_object_video(CV_OBJECT_CLIPS, key, owner) && strcmp(owner, video_id) == 0) {
            result = cv_store_delete(store, key, error);
        }
        result = result ? result
                        : cv_db_run(db, NULL, error, "SELECT mark_clip_removed($1::uuid, $2)",
                                    video_id, key);
        *ret_removed += result == 0;
    }
    return result;
}
