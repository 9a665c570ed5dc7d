#include "common/retention/retention.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIP_DAYS = 30,
    FRAME_DAYS = 1,   /* a person may still look at what a video was read from */
    DAYS_MAX = 36500, /* a century */
};

int cv_clip_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_CLIP_DAYS", CLIP_DAYS, 0, DAYS_MAX, ret_days, error);
}

int cv_frame_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_FRAME_DAYS", FRAME_DAYS, 0, DAYS_MAX, ret_days, error);
}

/* Removes the object before marking the row: after an interruption the row is still unmarked, and
 * the removal is repeated. */
int cv_clips_expire(struct cv_retention *retention, int64_t days, int64_t limit,
                    struct cv_error *error)
{
    struct cv_db *db = retention->db;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    retention->removed = 0;
    if (days == 0) {
        return 0;
    }
    CV_TRY(cv_db_run(db, &rows, error, "SELECT * FROM expired_clips($1::int, $2::int)",
                     cv_db_number(days).text, cv_db_number(limit).text));
    for (int i = 0; i < cv_db_rows(rows) && cv_cancel_level(retention->cancel) == CV_CANCEL_NONE;
         i++) {
        char owner[CV_OBJECT_ID_SIZE];
        const char *key = cv_db_text(rows, i, "key");
        const char *video_id = cv_db_text(rows, i, "video_id");
        /* The result comes from a stage that has read a stranger's file: accept only clips of its own video. */
        if (cv_object_video(CV_OBJECT_CLIPS, key, owner) && strcmp(owner, video_id) == 0) {
            CV_TRY(cv_store_delete(retention->store, key, error));
        }
        CV_TRY(cv_db_run(db, NULL, error, "SELECT mark_clip_removed($1::uuid, $2)", video_id, key));
        retention->removed++;
    }
    return 0;
}

static int compare_keys(const void *key, const void *other)
{
    return strcmp(key, *(const char *const *)other);
}

/* Removes all objects of a video under frames/ except those of `shown`, which is sorted. */
static int remove_frames(struct cv_retention *retention, const char *video_id, const char **shown,
                         size_t count, struct cv_error *error)
{
    cv_auto_free char *prefix = NULL;
    cv_auto_free char *continuation = NULL;
    bool more = true;
    int result = cv_object_folder(CV_OBJECT_FRAMES, video_id, &prefix, error);
    while (result == 0 && more) {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
        const char *doomed[CV_STORE_PAGE_MAX];
        size_t doomed_count = 0;
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        result = cv_store_list(retention->store, &listing, &page, error);
        for (size_t i = 0; result == 0 && i < page.count; i++) {
            const char *key = page.entries[i].key;
            if (!bsearch(key, shown, count, sizeof(*shown), compare_keys)) {
                doomed[doomed_count++] = key;
            }
        }
        if (result == 0 && doomed_count > 0) {
            result = cv_store_delete_many(retention->store, doomed, doomed_count, error);
            retention->removed += result == 0 ? (int64_t)doomed_count : 0;
        }
        free(continuation);
        continuation = cv_take(page.continuation);
        more = continuation != NULL;
    }
    return result;
}

/* Thins the frames of one video, within a transaction. *ret_found is false if there was none. */
static int thin_one(struct cv_retention *retention, int64_t days, bool *ret_found,
                    struct cv_error *error)
{
    struct cv_db *db = retention->db;
    cv_auto(cv_db_result_free) struct cv_db_result *due = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &due, error, "SELECT lock_frames_to_thin($1::int) AS video_id",
                           cv_db_number(days).text);
    const char *video_id = result == 0 ? cv_db_text(due, 0, "video_id") : NULL;
    *ret_found = video_id != NULL;
    if (!video_id) {
        return result;
    }
    CV_TRY(cv_db_run(db, &rows, error, "SELECT thin_frames($1::uuid) AS key", video_id));
    size_t count = (size_t)cv_db_rows(rows);
    cv_auto_free const char **shown = calloc(count + 1, sizeof(*shown));
    if (!shown) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu frames", count);
    }
    for (size_t i = 0; i < count; i++) {
        shown[i] = cv_db_text(rows, (int)i, "key");
    }
    return remove_frames(retention, video_id, shown, count, error);
}

/* Removes the objects before the transaction commits: after an interruption the video is found
 * again. */
int cv_frames_thin(struct cv_retention *retention, int64_t days, struct cv_error *error)
{
    bool found = days > 0;
    int result = 0;
    retention->removed = 0;
    while (result == 0 && found && cv_cancel_level(retention->cancel) == CV_CANCEL_NONE) {
        CV_TRY(cv_db_begin(retention->db, error));
        result = thin_one(retention, days, &found, error);
        result = result ? result : cv_db_commit(retention->db, error);
    }
    cv_db_rollback(retention->db);
    return result;
}
