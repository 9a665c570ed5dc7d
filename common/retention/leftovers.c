#include "common/retention/retention.h"

#include <string.h>

/* Finds what unsuccessful attempts have left for existing videos: a transcode that was canceled
 * half way leaves thousands of segments that no playlist names. */

/* The jobs that write to a place, and the evidence that one of them has succeeded. Places whose
 * objects are removed by another rule (clips by their age) have no jobs here. */
static const struct {
    const char *job_types;
    const char *committed; /* condition on the row `v` of videos */
} writers[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_PROXY] = {"'transcode'", "v.s3_proxy_path IS NOT NULL"},
    [CV_OBJECT_THUMBS] = {"'transcode'", "v.s3_proxy_path IS NOT NULL"},
    [CV_OBJECT_FRAMES] = {"'sample', 'ocr'",
                          "(v.status = 'ready' OR EXISTS (SELECT FROM segments s WHERE s.video_id "
                          "= v.id AND s.source IN ('screen', 'code'))"
                          " OR EXISTS (SELECT FROM jobs d WHERE d.video_id = v.id"
                          " AND d.job_type = 'sample' AND d.status = 'done'))"},
    [CV_OBJECT_LINES] = {"'ocr'",
                         "(v.status = 'ready' OR EXISTS (SELECT FROM segments s WHERE s.video_id = "
                         "v.id AND s.source IN ('screen', 'code'))"
                         " OR EXISTS (SELECT FROM cortana.line_packs p WHERE p.video_id = v.id))"},
};

/* Videos with an unsuccessful attempt and none under way. If an attempt also succeeded, its list of
 * outputs is needed for comparison: archived jobs have none, so their videos are skipped. The list
 * must name the playlist, because a chunk of a later run may also have succeeded. */
static const char suspects_format[] =
    "SELECT v.id FROM videos v WHERE v.id = ANY ($1::uuid[])"
    " AND EXISTS (SELECT FROM jobs j WHERE j.video_id = v.id AND j.job_type IN (%s)"
    " AND (j.status IN ('failed', 'canceled') OR j.attempt > 1))"
    " AND NOT cortana.has_open_job(v.id)"
    " AND (v.s3_proxy_path IS NULL OR cortana.is_output($2, v.s3_proxy_path))"
    " AND (NOT %s OR EXISTS (SELECT FROM jobs j JOIN task_artifacts a ON a.job_id = j.id"
    " WHERE j.video_id = v.id AND j.job_type IN (%s) AND j.status = 'done'"
    " AND a.bucket = $2 AND a.kind = 'output' AND starts_with(a.key, $3 || v.id || '/')))";

/* Keys without a reference. */
static const char unreferenced[] =
    "SELECT given.key FROM unnest($1::text[], $2::uuid[]) AS given (key, video_id)"
    " JOIN videos v ON v.id = given.video_id"
    " WHERE given.key IS DISTINCT FROM v.s3_original_path AND given.key IS DISTINCT FROM "
    "v.s3_proxy_path"
    " AND given.key IS DISTINCT FROM v.s3_thumb_path"
    " AND NOT cortana.is_output($3, given.key)"
    " AND NOT EXISTS (SELECT FROM cortana.line_packs p WHERE p.video_id = v.id AND p.key = "
    "given.key)"
    " ORDER BY given.key COLLATE \"C\"";

int cv_leftovers_find_suspects(struct cv_db *db, const char *bucket, enum cv_object_place place,
                               const char *ids, struct cv_db_result **ret_rows,
                               struct cv_error *error)
{
    *ret_rows = NULL;
    if (!writers[place].job_types) {
        return 0;
    }
    cv_auto_free char *sql = NULL;
    CV_TRY(cv_format(&sql, error, suspects_format, writers[place].job_types,
                     writers[place].committed, writers[place].job_types));
    return cv_db_run(db, ret_rows, error, sql, ids, bucket, cv_object_prefix(place));
}

bool cv_leftovers_is_suspect(const struct cv_db_result *suspects, const char *video_id)
{
    for (int i = 0; suspects && i < cv_db_rows(suspects); i++) {
        if (strcmp(cv_db_text(suspects, i, "id"), video_id) == 0) {
            return true;
        }
    }
    return false;
}

int cv_leftovers_find(struct cv_db *db, const struct cv_leftovers_page *page,
                      struct cv_db_result **ret_rows, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer keys = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer ids = CV_BUFFER_INIT;
    char id[CV_OBJECT_ID_SIZE];
    *ret_rows = NULL;
    cv_buffer_text(&keys, "{");
    cv_buffer_text(&ids, "{");
    for (size_t i = 0; i < page->list->count; i++) {
        const struct cv_object_entry *entry = &page->list->entries[i];
        if (entry->modified_ms <= page->until_ms && cv_object_video(page->place, entry->key, id) &&
            cv_leftovers_is_suspect(page->suspects, id)) {
            cv_db_array_append(&keys, entry->key);
            cv_db_array_append(&ids, id);
        }
    }
    bool has_none = keys.length == 1;
    cv_buffer_text(&keys, "}");
    cv_buffer_text(&ids, "}");
    CV_TRY_MEMORY(!keys.failed && !ids.failed, error, "a list of keys");
    return has_none
               ? 0
               : cv_db_run(db, ret_rows, error, unreferenced, keys.data, ids.data, page->bucket);
}

/* ---- removing them at once ------------------------------------------------------------------- */

static int remove_found(struct cv_retention *retention, const struct cv_leftovers_page *page,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *keys[CV_STORE_PAGE_MAX];
    CV_TRY(cv_leftovers_find(retention->db, page, &rows, error));
    size_t count = rows ? (size_t)cv_db_rows(rows) : 0;
    for (size_t i = 0; i < count; i++) {
        keys[i] = cv_db_text(rows, (int)i, "key");
    }
    CV_TRY(count > 0 ? cv_store_delete_many(retention->store, keys, count, error) : 0);
    retention->removed += (int64_t)count;
    return 0;
}

/* Removes the leftovers of one video in one place. */
static int remove_of(struct cv_retention *retention, const char *video_id,
                     enum cv_object_place place, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *suspects = NULL;
    cv_auto_free char *ids = NULL;
    cv_auto_free char *prefix = NULL;
    cv_auto_free char *continuation = NULL;
    const char *bucket = cv_store_name(retention->store);
    CV_TRY(cv_format(&ids, error, "{%s}", video_id));
    CV_TRY(cv_leftovers_find_suspects(retention->db, bucket, place, ids, &suspects, error));
    bool more = cv_leftovers_is_suspect(suspects, video_id);
    int result = more ? cv_object_folder(place, video_id, &prefix, error) : 0;
    while (result == 0 && more) {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        const struct cv_leftovers_page page = {bucket, place, &list, suspects, INT64_MAX};
        result = cv_store_list(retention->store, &listing, &list, error);
        result = result ? result : remove_found(retention, &page, error);
        free(continuation);
        continuation = cv_take(list.continuation);
        more = continuation != NULL;
    }
    return result;
}

/* Removes the leftovers of one video, within a transaction. *ret_found is false if there was none. */
static int remove_one(struct cv_retention *retention, bool *ret_found, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *due = NULL;
    CV_TRY(cv_db_run(retention->db, &due, error, "SELECT lock_video_to_clear() AS video_id"));
    const char *video_id = cv_db_text(due, 0, "video_id");
    *ret_found = video_id != NULL;
    for (int place = 0; video_id && place < CV_OBJECT_PLACE_COUNT; place++) {
        CV_TRY(remove_of(retention, video_id, (enum cv_object_place)place, error));
    }
    return 0;
}

/* Removes the objects before the transaction commits: after an interruption the video is found
 * again. */
int cv_leftovers_remove(struct cv_retention *retention, struct cv_error *error)
{
    bool found = true;
    int result = 0;
    retention->removed = 0;
    while (result == 0 && found && cv_cancel_level(retention->cancel) == CV_CANCEL_NONE) {
        CV_TRY(cv_db_begin(retention->db, error));
        result = remove_one(retention, &found, error);
        result = result ? result : cv_db_commit(retention->db, error);
    }
    cv_db_rollback(retention->db);
    return result;
}
