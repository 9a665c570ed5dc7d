/* What attempts that did not succeed have left under a video that there is: a transcode that was canceled
 * half way leaves thousands of segments that no playlist names. */
#include "cli/commands/gc_internal.h"

#include <string.h>

/* Which jobs write to a place, and what shows that one of them has succeeded. Places whose objects go
 * in another way (clips by their age) have no jobs here. */
static const struct {
    const char *job_types;
    const char *committed; /* of the row `v` of videos */
} writers[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_PROXY] = {"'transcode'", "v.s3_proxy_path IS NOT NULL"},
    [CV_OBJECT_THUMBS] = {"'transcode'", "v.s3_proxy_path IS NOT NULL"},
    [CV_OBJECT_FRAMES] =
        {"'sample', 'ocr'",
         "(v.status = 'ready' OR EXISTS (SELECT FROM segments s WHERE s.video_id = v.id)"
         " OR EXISTS (SELECT FROM jobs d WHERE d.video_id = v.id"
         " AND d.job_type = 'sample' AND d.status = 'done'))"},
    [CV_OBJECT_LINES] =
        {"'ocr'", "(v.status = 'ready' OR EXISTS (SELECT FROM segments s WHERE s.video_id = v.id)"
                  " OR EXISTS (SELECT FROM cortana.line_packs p WHERE p.video_id = v.id))"},
};

/* Videos of a page at which an attempt ended without success and nothing is under way any more. Where an
 * attempt succeeded, too, its list of outputs must be there to compare with: jobs that were archived have
 * none, and then nothing is said. */
static const char suspects_format[] =
    "SELECT v.id FROM videos v WHERE v.id = ANY ($1::uuid[])"
    " AND EXISTS (SELECT FROM jobs j WHERE j.video_id = v.id AND j.job_type IN (%s)"
    " AND (j.status IN ('failed', 'canceled') OR j.attempt > 1))"
    " AND NOT EXISTS (SELECT FROM jobs j WHERE j.video_id = v.id AND (j.status IN ('queued', "
    "'processing')"
    " OR (j.status = 'failed' AND j.scheduled_for IS NOT NULL)))"
    " AND (NOT %s OR EXISTS (SELECT FROM jobs j JOIN task_artifacts a ON a.job_id = j.id"
    " WHERE j.video_id = v.id AND j.job_type IN (%s) AND j.status = 'done'"
    " AND a.bucket = $2 AND a.kind = 'output' AND starts_with(a.key, $3 || v.id || '/')))";

/* Keys that nothing refers to. */
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

int gc_find_suspects(struct gc *gc, enum cv_object_place place, const char *ids,
                     struct cv_db_result **ret_rows, struct cv_error *error)
{
    if (!writers[place].job_types) {
        *ret_rows = NULL;
        return 0;
    }
    cv_auto_free char *sql = NULL;
    CV_TRY(cv_format(&sql, error, suspects_format, writers[place].job_types,
                     writers[place].committed, writers[place].job_types));
    return cv_db_run(gc->db, ret_rows, error, sql, ids, cv_store_name(gc->store),
                     cv_object_prefix(place));
}

bool gc_is_suspect(const struct cv_db_result *suspects, const char *video_id)
{
    for (int i = 0; suspects && i < cv_db_rows(suspects); i++) {
        if (strcmp(cv_db_text(suspects, i, "id"), video_id) == 0) {
            return true;
        }
    }
    return false;
}

/* Keys hold no control characters; quotes and backslashes are what an array's text has to escape. */
static void append_element(struct cv_buffer *list, const char *text)
{
    cv_buffer_text(list, list->length > 1 ? ",\"" : "\"");
    for (const char *c = text; *c; c++) {
        cv_buffer_printf(list, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    cv_buffer_text(list, "\"");
}

int gc_find_leftovers(struct gc *gc, enum cv_object_place place, const struct cv_object_list *page,
                      const struct cv_db_result *suspects, struct cv_db_result **ret_rows,
                      struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer keys = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer ids = CV_BUFFER_INIT;
    char id[CV_OBJECT_ID_SIZE];
    *ret_rows = NULL;
    cv_buffer_text(&keys, "{");
    cv_buffer_text(&ids, "{");
    for (size_t i = 0; i < page->count; i++) {
        const struct cv_object_entry *entry = &page->entries[i];
        if (gc->now_ms - entry->modified_ms >= gc->params->min_age_ms &&
            cv_object_video(place, entry->key, id) && gc_is_suspect(suspects, id)) {
            append_element(&keys, entry->key);
            append_element(&ids, id);
        }
    }
    bool has_none = keys.length == 1;
    cv_buffer_text(&keys, "}");
    cv_buffer_text(&ids, "}");
    CV_TRY_MEMORY(!keys.failed && !ids.failed, error, "a list of keys");
    return has_none ? 0
                    : cv_db_run(gc->db, ret_rows, error, unreferenced, keys.data, ids.data,
                                cv_store_name(gc->store));
}

bool gc_is_leftover(const struct cv_db_result *leftovers, const char *key)
{
    int low = 0, high = leftovers ? cv_db_rows(leftovers) : 0;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(cv_db_text(leftovers, middle, "key"), key);
        if (order == 0) {
            return true;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return false;
}
