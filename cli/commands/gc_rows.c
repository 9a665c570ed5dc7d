#include "cli/commands/gc_internal.h"

#include <string.h>

enum { ROWS_A_TIME = 1000 };

/* The column of a place's key, and what its loss is. */
static const struct {
    const char *column;
    enum cv_gc_kind kind;
} named_keys[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_ORIGINAL] = {"s3_original_path", CV_GC_LOST_ORIGINAL},
    [CV_OBJECT_PROXY] = {"s3_proxy_path", CV_GC_LOST_PROXY},
    [CV_OBJECT_THUMBS] = {"s3_thumb_path", CV_GC_LOST_THUMB},
};

bool gc_has_rows(enum cv_object_place place)
{
    return named_keys[place].column != NULL;
}

static int is_there(struct gc *gc, const char *key, bool *ret_there, struct cv_error *error)
{
    struct cv_error reason;
    int result = key ? cv_store_head(gc->store, key, NULL, &reason) : (int)CV_STORE_NOT_FOUND;
    if (result < 0 && reason.type != CV_ERROR_INVALID_KEY) {
        *error = reason;
        return result;
    }
    *ret_there = result == 0;
    return 0;
}

/* A row has lost its original; where playlist and poster are gone, too, it has lost everything. */
static int on_lost_original(struct gc *gc, const struct cv_db_result *rows, int row,
                            struct cv_error *error)
{
    const char *id = cv_db_text(rows, row, "id");
    const char *key = cv_db_text(rows, row, "key");
    bool has_proxy = false, has_thumb = false;
    CV_TRY(is_there(gc, cv_db_text(rows, row, "s3_proxy_path"), &has_proxy, error));
    CV_TRY(is_there(gc, cv_db_text(rows, row, "s3_thumb_path"), &has_thumb, error));
    if (has_proxy || has_thumb) {
        gc_tell(gc, CV_GC_LOST_ORIGINAL, key, id, 0);
        return gc->params->remove_objects
                   ? cv_db_run(gc->db, NULL, error, "SELECT mark_original_missing($1::uuid, $2)",
                               id, key)
                   : 0;
    }
    gc_tell(gc, CV_GC_DEAD_ROW, key, id, 0);
    if (gc->params->remove_rows) {
        CV_TRY(cv_db_run(gc->db, NULL, error, "SELECT delete_video($1::uuid)", id));
        gc->summary.rows_removed++;
    }
    return 0;
}

static bool is_on_page(const struct cv_object_list *page, const char *key)
{
    size_t low = 0, high = page->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(page->entries[middle].key, key);
        if (order == 0) {
            return true;
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return false;
}

/* A list may be older than the row, and a page may end within a video: each is looked at itself. */
static int check_row(struct gc *gc, const struct gc_range *range, const struct cv_db_result *rows,
                     int row, struct cv_error *error)
{
    const char *key = cv_db_text(rows, row, "key");
    bool there = is_on_page(range->page, key);
    CV_TRY(there ? 0 : is_there(gc, key, &there, error));
    if (there) {
        return 0;
    }
    if (range->place == CV_OBJECT_ORIGINAL) {
        return on_lost_original(gc, rows, row, error);
    }
    gc_tell(gc, named_keys[range->place].kind, key, cv_db_text(rows, row, "id"), 0);
    return 0;
}

int gc_check_rows(struct gc *gc, const struct gc_range *range, struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    char after[CV_OBJECT_ID_SIZE];
    (void)snprintf(after, sizeof(after), "%s", range->after_id);
    CV_TRY(cv_format(&sql, error,
                     "SELECT v.id, v.%s AS key, v.s3_proxy_path, v.s3_thumb_path FROM videos v"
                     " WHERE v.id > $1::uuid AND ($2::uuid IS NULL OR v.id <= $2::uuid)"
                     " AND v.%s IS NOT NULL"
                     " AND v.updated_at <= clock_timestamp() - $3::bigint * interval '1 ms'"
                     " AND NOT EXISTS (SELECT FROM jobs j WHERE j.video_id = v.id"
                     " AND j.status IN ('queued', 'processing'))"
                     " ORDER BY v.id LIMIT %d",
                     named_keys[range->place].column, named_keys[range->place].column,
                     ROWS_A_TIME));
    if (after[0] == '\0') {
        /* No video has this id: the first of the order. */
        (void)snprintf(after, sizeof(after), "00000000-0000-0000-0000-000000000000");
    }
    for (int count = ROWS_A_TIME; count == ROWS_A_TIME;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(gc->db, &rows, error, sql, after, range->until_id,
                         cv_db_number(gc->params->min_age_ms).text));
        count = cv_db_rows(rows);
        for (int i = 0; i < count; i++) {
            CV_TRY(cv_cancel_level(gc->params->cancel) == CV_CANCEL_NONE
                       ? check_row(gc, range, rows, i, error)
                       : cv_fail(error, CV_ERROR_CANCELED, "stopped"));
        }
        if (count > 0) {
            (void)snprintf(after, sizeof(after), "%s", cv_db_text(rows, count - 1, "id"));
        }
        if (gc->params->max_pages > 0 && count == ROWS_A_TIME) {
            gc->summary.is_complete = false;
            break;
        }
    }
    return 0;
}

int gc_check_pair(struct gc *gc, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    CV_TRY(cv_db_run(gc->db, &rows, error,
                     "SELECT EXISTS (SELECT FROM videos)"
                     " OR EXISTS (SELECT FROM object_removals) AS knows_videos"));
    if (!cv_db_bool(rows, 0, "knows_videos")) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "this database knows no video, so that every object of %s would go: is it "
                       "the right one?",
                       cv_store_name(gc->store));
    }
    if (!gc->params->remove_rows) {
        return 0;
    }
    CV_TRY(cv_store_list(gc->store, cv_object_prefix(CV_OBJECT_ORIGINAL), NULL, 1, &list, error));
    if (list.count == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "%s holds no original, so that every row would go: is it the right store?",
                       cv_store_name(gc->store));
    }
    return 0;
}
