#include "cli/commands/gc.h"

#include "common/retention/retention.h"

#include <string.h>

struct gc {
    struct cv_db *db;
    struct cv_store *store;
    const struct cv_gc_params *params;
    struct cv_gc_summary summary;
    int64_t now_ms;
};

/* The rows to compare with one page of a list: those with an id above `after_id` ("" for the first
 * page) and up to `until_id` (NULL: to the last) whose key is not among `keys`. */
struct gc_range {
    enum cv_object_place place;
    const char *after_id;
    const char *until_id;
    const struct cv_object_list *page;
};

enum { MS_PER_DAY = 24 * 60 * 60 * 1000 };

static const char *const kind_names[CV_GC_KIND_COUNT] = {
    [CV_GC_ORPHAN] = "orphan",
    [CV_GC_OLD_CLIP] = "old clip",
    [CV_GC_LEFTOVER] = "leftover",
    [CV_GC_UNREGISTERED] = "not imported yet",
    [CV_GC_STRAY] = "stray",
    [CV_GC_LOST_ORIGINAL] = "original gone",
    [CV_GC_LOST_PROXY] = "playlist gone",
    [CV_GC_LOST_THUMB] = "poster gone",
    [CV_GC_DEAD_ROW] = "row without objects",
};

const char *cv_gc_kind_name(enum cv_gc_kind kind)
{
    return kind_names[kind];
}

/* Counts a finding and reports it. */
static void gc_report(struct gc *gc, enum cv_gc_kind kind, const char *key, int64_t size)
{
    gc->summary.found[kind]++;
    if (gc->params->report) {
        gc->params->report(kind, key, size);
    }
}

/* ---- objects of unsuccessful attempts -------------------------------------------------------- */

static bool gc_is_leftover(const struct cv_db_result *leftovers, const char *key)
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

/* ---- rows without objects -------------------------------------------------------------------- */

enum { ROWS_A_TIME = 1000 };

/* The column of a place's key, and the finding if its object is missing. */
static const struct {
    const char *column;
    enum cv_gc_kind kind;
} named_keys[CV_OBJECT_PLACE_COUNT] = {
    [CV_OBJECT_ORIGINAL] = {"s3_original_path", CV_GC_LOST_ORIGINAL},
    [CV_OBJECT_PROXY] = {"s3_proxy_path", CV_GC_LOST_PROXY},
    [CV_OBJECT_THUMBS] = {"s3_thumb_path", CV_GC_LOST_THUMB},
};

/* Whether rows name keys of this place. */
static bool gc_has_rows(enum cv_object_place place)
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

/* Handles a row without its original; if playlist and poster are also missing, nothing is left. */
static int on_lost_original(struct gc *gc, const struct cv_db_result *rows, int row,
                            struct cv_error *error)
{
    const char *id = cv_db_text(rows, row, "id");
    const char *key = cv_db_text(rows, row, "key");
    bool has_proxy = false, has_thumb = false;
    CV_TRY(is_there(gc, cv_db_text(rows, row, "s3_proxy_path"), &has_proxy, error));
    CV_TRY(is_there(gc, cv_db_text(rows, row, "s3_thumb_path"), &has_thumb, error));
    if (has_proxy || has_thumb) {
        gc_report(gc, CV_GC_LOST_ORIGINAL, key, 0);
        return gc->params->remove_objects
                   ? cv_db_run(gc->db, NULL, error, "SELECT mark_original_missing($1::uuid, $2)",
                               id, key)
                   : 0;
    }
    gc_report(gc, CV_GC_DEAD_ROW, key, 0);
    if (gc->params->remove_rows) {
        CV_TRY(cv_db_run(gc->db, NULL, error, "SELECT delete_video($1::uuid)", id));
        gc->summary.rows_removed++;
    }
    return 0;
}

static int compare_key(const void *key, const void *entry)
{
    return strcmp(key, ((const struct cv_object_entry *)entry)->key);
}

static bool is_on_page(const struct cv_object_list *page, const char *key)
{
    return page->count > 0 &&
           bsearch(key, page->entries, page->count, sizeof(page->entries[0]), compare_key);
}

/* Checks each row's object itself, because the list may be older than the row, and a page may end
 * within a video. */
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
    gc_report(gc, named_keys[range->place].kind, key, 0);
    return 0;
}

static int gc_check_rows(struct gc *gc, const struct gc_range *range, struct cv_error *error)
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
        /* No video has this id, which sorts first. */
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

/* Fails with CV_ERROR_CONFLICT if store and database cannot belong together. */
static int gc_check_pair(struct gc *gc, struct cv_error *error)
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
    const struct cv_listing listing = {.prefix = cv_object_prefix(CV_OBJECT_ORIGINAL), .limit = 1};
    CV_TRY(cv_store_list(gc->store, &listing, &list, error));
    if (list.count == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "%s holds no original, so that every row would go: is it the right store?",
                       cv_store_name(gc->store));
    }
    return 0;
}

/* ---- the objects of the store ------------------------------------------------------------------ */

/* The database's knowledge about the videos of one page. */
struct page_videos {
    struct cv_db_result *rows;      /* ids without a row; is_removed: the video was deleted */
    struct cv_db_result *suspects;  /* ids for which unsuccessful attempts may have left objects */
    struct cv_db_result *leftovers; /* keys of such objects */
};

static void page_videos_deinit(struct page_videos *videos)
{
    cv_db_result_free(videos->rows);
    cv_db_result_free(videos->suspects);
    cv_db_result_free(videos->leftovers);
}
CV_DEFINE_CLEANUP_ADDRESS(struct page_videos, page_videos_deinit)

static int find_absent_videos(struct gc *gc, enum cv_object_place place,
                              const struct cv_object_list *page, struct page_videos *videos,
                              struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer ids = CV_BUFFER_INIT;
    char id[CV_OBJECT_ID_SIZE];
    char last[CV_OBJECT_ID_SIZE] = "";
    cv_buffer_text(&ids, "{");
    for (size_t i = 0; i < page->count; i++) {
        if (cv_object_video(place, page->entries[i].key, id) && strcmp(id, last) != 0) {
            cv_buffer_printf(&ids, "%s%s", last[0] ? "," : "", id);
            memcpy(last, id, sizeof(last));
        }
    }
    cv_buffer_text(&ids, "}");
    CV_TRY_MEMORY(!ids.failed, error, "a list of videos");
    CV_TRY(cv_db_run(gc->db, &videos->rows, error,
                     "SELECT given.id, r.video_id IS NOT NULL AS is_removed"
                     " FROM unnest($1::uuid[]) AS given (id)"
                     " LEFT JOIN object_removals r ON r.video_id = given.id"
                     " WHERE NOT EXISTS (SELECT FROM videos v WHERE v.id = given.id)",
                     ids.data));
    CV_TRY(cv_leftovers_find_suspects(gc->db, cv_store_name(gc->store), place, ids.data,
                                      &videos->suspects, error));
    const struct cv_leftovers_page looked_at = {
        .bucket = cv_store_name(gc->store),
        .place = place,
        .list = page,
        .suspects = videos->suspects,
        .until_ms = gc->now_ms - gc->params->min_age_ms,
    };
    return cv_leftovers_find(gc->db, &looked_at, &videos->leftovers, error);
}

/* Whether there is no row for the video; *ret_removed: because it was deleted. */
static bool is_unknown(const struct page_videos *videos, const char *id, bool *ret_removed)
{
    for (int i = 0; i < cv_db_rows(videos->rows); i++) {
        if (strcmp(cv_db_text(videos->rows, i, "id"), id) == 0) {
            *ret_removed = cv_db_bool(videos->rows, i, "is_removed");
            return true;
        }
    }
    return false;
}

/* The finding for an object; CV_GC_KIND_COUNT if there is nothing wrong. */
static enum cv_gc_kind judge(const struct gc *gc, enum cv_object_place place,
                             const struct cv_object_entry *entry, const struct page_videos *videos,
                             char id[CV_OBJECT_ID_SIZE])
{
    int64_t age_ms = gc->now_ms - entry->modified_ms;
    bool is_removed = false;
    id[0] = '\0';
    if (!cv_object_video(place, entry->key, id)) {
        return CV_GC_STRAY;
    }
    if (is_unknown(videos, id, &is_removed)) {
        if (place == CV_OBJECT_ORIGINAL && !is_removed) {
            return CV_GC_UNREGISTERED;
        }
        return age_ms >= gc->params->min_age_ms ? CV_GC_ORPHAN : CV_GC_KIND_COUNT;
    }
    if (gc_is_leftover(videos->leftovers, entry->key)) {
        return CV_GC_LEFTOVER;
    }
    bool is_old = place == CV_OBJECT_CLIPS && gc->params->clip_days > 0 &&
                  age_ms >= gc->params->clip_days * MS_PER_DAY;
    return is_old ? CV_GC_OLD_CLIP : CV_GC_KIND_COUNT;
}

static int remove_one_page(struct gc *gc, const char *const *keys, size_t count,
                           enum cv_object_place place, struct cv_error *error)
{
    CV_TRY(cv_store_delete_many(gc->store, keys, count, error));
    for (size_t i = 0; place == CV_OBJECT_CLIPS && i < count; i++) {
        char id[CV_OBJECT_ID_SIZE];
        if (cv_object_video(place, keys[i], id)) {
            CV_TRY(cv_db_run(gc->db, NULL, error, "SELECT mark_clip_removed($1::uuid, $2)", id,
                             keys[i]));
        }
    }
    return 0;
}

/* Checks a page's objects. *ret_look_on: the last video may have more objects to remove after this
 * page. */
static int check_objects(struct gc *gc, enum cv_object_place place,
                         const struct cv_object_list *page, bool *ret_look_on,
                         struct cv_error *error)
{
    cv_auto(page_videos_deinit) struct page_videos videos = {NULL};
    int64_t orphans = gc->summary.found[CV_GC_ORPHAN];
    const char *doomed[CV_STORE_PAGE_MAX];
    size_t count = 0;
    CV_TRY(find_absent_videos(gc, place, page, &videos, error));
    for (size_t i = 0; i < page->count; i++) {
        const struct cv_object_entry *entry = &page->entries[i];
        char id[CV_OBJECT_ID_SIZE];
        enum cv_gc_kind kind = judge(gc, place, entry, &videos, id);
        if (kind == CV_GC_KIND_COUNT) {
            continue;
        }
        gc_report(gc, kind, entry->key, entry->size);
        if (kind == CV_GC_ORPHAN || kind == CV_GC_OLD_CLIP || kind == CV_GC_LEFTOVER) {
            gc->summary.bytes += entry->size;
            doomed[count++] = entry->key;
        }
    }
    char last[CV_OBJECT_ID_SIZE];
    *ret_look_on =
        gc->summary.found[CV_GC_ORPHAN] > orphans ||
        (page->count > 0 && cv_object_video(place, page->entries[page->count - 1].key, last) &&
         cv_leftovers_is_suspect(videos.suspects, last));
    gc->summary.objects += (int64_t)page->count;
    return count > 0 && gc->params->remove_objects
               ? remove_one_page(gc, doomed, count, place, error)
               : 0;
}

/* The key after which the next page starts: after all objects of the last video, because one object
 * shows whether the video is known; clips are checked one by one. */
static int next_start(enum cv_object_place place, const struct cv_object_list *page,
                      char **ret_start, struct cv_error *error)
{
    const char *last = page->entries[page->count - 1].key;
    char id[CV_OBJECT_ID_SIZE];
    bool may_skip = place != CV_OBJECT_CLIPS && cv_object_video(place, last, id);
    /* '0' is the character after '/' */
    return may_skip ? cv_format(ret_start, error, "%s%s0", cv_object_prefix(place), id)
                    : cv_format(ret_start, error, "%s", last);
}

struct place_walk {
    enum cv_object_place place;
    char *start;        /* list after this key, or … */
    char *continuation; /* … continue a list whose page was empty */
    char after_id[CV_OBJECT_ID_SIZE];
    bool is_done;
};

static void place_walk_deinit(struct place_walk *walk)
{
    free(walk->start);
    free(walk->continuation);
}
CV_DEFINE_CLEANUP_ADDRESS(struct place_walk, place_walk_deinit)

static int list_page(struct gc *gc, const struct place_walk *walk, struct cv_object_list *page,
                     struct cv_error *error)
{
    const struct cv_listing listing = {
        .prefix = cv_object_prefix(walk->place),
        .start_after = walk->start,
        .continuation = walk->continuation,
    };
    gc->summary.pages++;
    return cv_store_list(gc->store, &listing, page, error);
}

/* The last video of a page; NULL if the page has none. */
static const char *last_video(enum cv_object_place place, const struct cv_object_list *page,
                              char id[CV_OBJECT_ID_SIZE])
{
    for (size_t i = page->count; i > 0; i--) {
        if (cv_object_video(place, page->entries[i - 1].key, id)) {
            return id;
        }
    }
    return NULL;
}

static int walk_page(struct gc *gc, struct place_walk *walk, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
    char id[CV_OBJECT_ID_SIZE];
    bool look_on = false;
    int result = list_page(gc, walk, &page, error);
    result = result ? result : check_objects(gc, walk->place, &page, &look_on, error);
    if (result != 0) {
        return result;
    }
    walk->is_done = !page.continuation;
    const char *until = last_video(walk->place, &page, id);
    if (gc_has_rows(walk->place) && (until || walk->is_done)) {
        const struct gc_range range = {
            .place = walk->place,
            .after_id = walk->after_id,
            .until_id = walk->is_done ? NULL : until,
            .page = &page,
        };
        result = gc_check_rows(gc, &range, error);
        if (until) {
            memcpy(walk->after_id, until, CV_OBJECT_ID_SIZE);
        }
    }
    free(walk->continuation);
    walk->continuation = page.count == 0 ? cv_take(page.continuation) : NULL;
    if (result != 0 || walk->is_done || page.count == 0) {
        return result;
    }
    free(cv_take(walk->start));
    return look_on ? cv_format(&walk->start, error, "%s", page.entries[page.count - 1].key)
                   : next_start(walk->place, &page, &walk->start, error);
}

static int walk_place(struct gc *gc, enum cv_object_place place, struct cv_error *error)
{
    cv_auto(place_walk_deinit) struct place_walk walk = {.place = place};
    for (int64_t page = 0; !walk.is_done; page++) {
        if (gc->params->max_pages > 0 && page == gc->params->max_pages) {
            gc->summary.is_complete = false;
            return 0;
        }
        if (cv_cancel_level(gc->params->cancel) != CV_CANCEL_NONE) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped");
        }
        CV_TRY(walk_page(gc, &walk, error));
    }
    return 0;
}

int cv_gc_run(struct cv_db *db, struct cv_store *store, const struct cv_gc_params *params,
              struct cv_gc_summary *ret_summary, struct cv_error *error)
{
    struct gc gc = {
        .db = db,
        .store = store,
        .params = params,
        .summary = {.is_complete = true},
        .now_ms = cv_wall_ms(),
    };
    CV_TRY(params->remove_objects || params->remove_rows ? gc_check_pair(&gc, error) : 0);
    for (int place = 0; place < CV_OBJECT_PLACE_COUNT; place++) {
        CV_TRY(walk_place(&gc, (enum cv_object_place)place, error));
    }
    *ret_summary = gc.summary;
    return 0;
}
