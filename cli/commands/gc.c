#include "cli/commands/gc_internal.h"

#include <string.h>

enum { MS_PER_DAY = 24 * 60 * 60 * 1000 };

static const char *const kind_names[CV_GC_KIND_COUNT] = {
    [CV_GC_ORPHAN] = "orphan",
    [CV_GC_OLD_CLIP] = "old clip",
    [CV_GC_LEFTOVER] = "leftover",
    [CV_GC_UNREGISTERED] = "not taken in yet",
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

void gc_tell(struct gc *gc, enum cv_gc_kind kind, const char *key, const char *video_id,
             int64_t size)
{
    const struct cv_gc_finding finding = {
        .kind = kind, .key = key, .video_id = video_id, .size = size};
    gc->summary.found[kind]++;
    if (gc->params->tell) {
        gc->params->tell(gc->params->opaque, &finding);
    }
}

/* What the tables say of the videos of one page. */
struct page_videos {
    struct cv_db_result *rows;      /* ids that no row has; is_removed: it was deleted */
    struct cv_db_result *suspects;  /* ids that unsuccessful attempts may have left something of */
    struct cv_db_result *leftovers; /* keys of that */
};

static void page_videos_deinit(struct page_videos *videos)
{
    cv_db_result_free(videos->rows);
    cv_db_result_free(videos->suspects);
    cv_db_result_free(videos->leftovers);
}
CV_DEFINE_CLEANUP_ADDRESS(struct page_videos, page_videos_deinit)

static int look_up(struct gc *gc, enum cv_object_place place, const struct cv_object_list *page,
                   struct page_videos *videos, struct cv_error *error)
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
    CV_TRY(gc_find_suspects(gc, place, ids.data, &videos->suspects, error));
    return gc_find_leftovers(gc, place, page, videos->suspects, &videos->leftovers, error);
}

/* True when no row has the video; *ret_removed: because it was deleted. */
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

/* The finding that an object is, CV_GC_KIND_COUNT when nothing is wrong with it. */
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
    int result = cv_store_delete_many(gc->store, keys, count, error);
    for (size_t i = 0; result == 0 && place == CV_OBJECT_CLIPS && i < count; i++) {
        char id[CV_OBJECT_ID_SIZE];
        if (cv_object_video(place, keys[i], id)) {
            result = cv_db_run(gc->db, NULL, error, "SELECT mark_clip_removed($1::uuid, $2)", id,
                               keys[i]);
        }
    }
    gc->summary.removed += result == 0 ? (int64_t)count : 0;
    return result;
}

/* *ret_look_on: the page's last video may have more that is to go, behind this page. */
static int check_objects(struct gc *gc, enum cv_object_place place,
                         const struct cv_object_list *page, bool *ret_look_on,
                         struct cv_error *error)
{
    cv_auto(page_videos_deinit) struct page_videos videos = {NULL};
    int64_t orphans = gc->summary.found[CV_GC_ORPHAN];
    const char *doomed[CV_STORE_PAGE_MAX];
    size_t count = 0;
    CV_TRY(look_up(gc, place, page, &videos, error));
    for (size_t i = 0; i < page->count; i++) {
        const struct cv_object_entry *entry = &page->entries[i];
        char id[CV_OBJECT_ID_SIZE];
        enum cv_gc_kind kind = judge(gc, place, entry, &videos, id);
        if (kind == CV_GC_KIND_COUNT) {
            continue;
        }
        gc_tell(gc, kind, entry->key, id, entry->size);
        if (kind == CV_GC_ORPHAN || kind == CV_GC_OLD_CLIP || kind == CV_GC_LEFTOVER) {
            gc->summary.bytes += entry->size;
            doomed[count++] = entry->key;
        }
    }
    char last[CV_OBJECT_ID_SIZE];
    *ret_look_on =
        gc->summary.found[CV_GC_ORPHAN] > orphans ||
        (page->count > 0 && cv_object_video(place, page->entries[page->count - 1].key, last) &&
         gc_is_suspect(videos.suspects, last));
    gc->summary.objects += (int64_t)page->count;
    return count > 0 && gc->params->remove_objects
               ? remove_one_page(gc, doomed, count, place, error)
               : 0;
}

/* Where the list goes on behind a page that is not the last: behind the last video as a whole, for
 * what is known of it by one object is known by all; clips are looked at one by one. */
static int next_start(enum cv_object_place place, const struct cv_object_list *page,
                      char **ret_start, struct cv_error *error)
{
    const char *last = page->entries[page->count - 1].key;
    char id[CV_OBJECT_ID_SIZE];
    bool may_skip = place != CV_OBJECT_CLIPS && cv_object_video(place, last, id);
    /* '0' is the character behind '/'. */
    return may_skip ? cv_format(ret_start, error, "%s%s0", cv_object_prefix(place), id)
                    : cv_format(ret_start, error, "%s", last);
}

struct place_walk {
    enum cv_object_place place;
    char *start;        /* list from behind this key, or … */
    char *continuation; /* … go on with a list whose page was empty */
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
    const char *prefix = cv_object_prefix(walk->place);
    gc->summary.pages++;
    return walk->continuation ? cv_store_list(gc->store, prefix, walk->continuation,
                                              CV_STORE_PAGE_MAX, page, error)
                              : cv_store_list_after(gc->store, prefix, walk->start,
                                                    CV_STORE_PAGE_MAX, page, error);
}

/* The highest video of a page, or NULL where the page shows none. */
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
