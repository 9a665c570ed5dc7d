#include "workers/scanner/scanner.h"

#include <inttypes.h>
#include <string.h>

enum {
    AWAITED_MAX = 200, /* rows without an upload yet, whose objects are looked up in one pass */
    UNSEEN_MAX = 1000, /* rows without their original that are handled per page */
    MS_PER_DAY = 24 * 60 * 60 * 1000,
};

/* One of the lists that the scanner reads. */
struct scan {
    const char *name;   /* of its stored position; NULL: read from `start` each time */
    const char *prefix; /* of the keys */
    const char *start;  /* the list begins behind this key */
    const char *stop;   /* the last key; NULL: no limit */
    bool is_inbox;
};

struct interval_text scanner_interval(int64_t ms)
{
    struct interval_text interval;
    (void)snprintf(interval.text, sizeof(interval.text), "%" PRId64 " ms", ms);
    return interval;
}

/* ---- a page ---------------------------------------------------------------------------------- */

/* The object in the form for record_objects(); NULL if it is not one of ours, or if there is no
 * memory (*ret_failed). */
static json_t *describe(const struct scan *scan, const struct cv_object_entry *entry,
                        bool *ret_failed)
{
    char id[CV_OBJECT_ID_SIZE];
    struct cv_inbox_key inbox;
    json_t *object = NULL;
    if (scan->is_inbox) {
        if (cv_inbox_read(entry->key, &inbox) == CV_INBOX_OTHER) {
            return NULL;
        }
        object = json_pack("{s:s, s:I, s:s}", "key", entry->key, "size", (json_int_t)entry->size,
                           "etag", entry->etag);
    } else {
        if (!cv_object_is_original(entry->key, id) && !cv_object_is_subtitles(entry->key, id)) {
            return NULL;
        }
        object = json_pack("{s:s, s:I, s:s, s:s}", "key", entry->key, "size",
                           (json_int_t)entry->size, "etag", entry->etag, "video_id", id);
    }
    *ret_failed = *ret_failed || !object;
    return object;
}

static int record_page(struct scanner *scanner, const struct scan *scan,
                       const struct cv_object_list *page, struct cv_error *error)
{
    cv_auto(json_decref) json_t *objects = json_array();
    bool failed = !objects;
    for (size_t i = 0; i < page->count && !failed; i++) {
        if (scan->stop && strcmp(page->entries[i].key, scan->stop) > 0) {
            break;
        }
        json_t *object = describe(scan, &page->entries[i], &failed);
        failed = failed || (object && json_array_append_new(objects, object) != 0);
    }
    cv_auto_free char *text = failed ? NULL : json_dumps(objects, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a page of objects");
    if (json_array_size(objects) == 0) {
        return 0;
    }
    return cv_db_run(scanner->db, NULL, error, "SELECT record_objects($1::jsonb, $2::interval)",
                     text, scanner_interval(scanner->settle_ms).text);
}

/* ---- originals that are gone ----------------------------------------------------------------- */

/* An object that is missing from the list may have been added or moved while the list was read, so
 * each one is looked up. */
static int check_missing(struct scanner *scanner, const char *after, const char *until,
                         const struct cv_object_list *page, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer seen = CV_BUFFER_INIT;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_buffer_text(&seen, "{");
    for (size_t i = 0; i < page->count; i++) {
        cv_db_array_append(&seen, page->entries[i].key);
    }
    cv_buffer_text(&seen, "}");
    CV_TRY_MEMORY(!seen.failed, error, "a page of objects");
    int result = cv_db_run(scanner->db, &rows, error,
                           "SELECT * FROM unseen_originals($1, $2, $3::text[], $4::int)", after,
                           until, seen.data, cv_db_number(UNSEEN_MAX).text);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        const char *key = cv_db_text(rows, i, "key");
        result = cv_store_head(scanner->store, key, NULL, error);
        if (result == CV_STORE_NOT_FOUND) {
            cv_log(CV_LOG_WARN, "the original %s is gone", key);
            result =
                cv_db_run(scanner->db, NULL, error, "SELECT mark_original_missing($1::uuid, $2)",
                          cv_db_text(rows, i, "id"), key);
        }
    }
    return result;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static int read_position(struct scanner *scanner, const char *name, char **ret_position,
                         struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(scanner->db, NULL, error,
                     "INSERT INTO scan_positions (name) VALUES ($1) ON CONFLICT DO NOTHING", name));
    CV_TRY(cv_db_run(scanner->db, &rows, error,
                     "SELECT position FROM scan_positions WHERE name = $1", name));
    return cv_format(ret_position, error, "%s", cv_db_text(rows, 0, "position"));
}

/* Stores the position. If another scanner is further by now, its position is kept. */
static int write_position(struct scanner *scanner, const char *name, const char *from,
                          const char *to, struct cv_error *error)
{
    return cv_db_run(scanner->db, NULL, error,
                     "UPDATE scan_positions SET position = $3, updated_at = now(),"
                     " rounds = rounds + ($3 = '')::int WHERE name = $1 AND position = $2",
                     name, from, to);
}

static int walk_page(struct scanner *scanner, const struct scan *scan, char **position,
                     char **continuation, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
    scanner->lists++;
    cv_probe_beat(scanner->daemon.probe);
    const struct cv_listing listing = {
        .prefix = scan->prefix,
        .start_after = **position ? *position : NULL,
        .continuation = *continuation,
    };
    int result = cv_store_list(scanner->store, &listing, &page, error);
    result = result ? result : record_page(scanner, scan, &page, error);
    const char *last = page.count > 0 ? page.entries[page.count - 1].key : NULL;
    bool is_end = !page.continuation || (last && scan->stop && strcmp(last, scan->stop) > 0);
    if (result == 0 && scan->name && !scan->is_inbox && (last || is_end)) {
        result = check_missing(scanner, *position, is_end ? NULL : last, &page, error);
    }
    free(*continuation);
    *continuation = is_end ? NULL : cv_take(page.continuation);
    if (result != 0 || (!last && !is_end)) {
        return result;
    }
    cv_auto_free char *next = NULL;
    result = cv_format(&next, error, "%s", is_end ? "" : last);
    if (result == 0 && scan->name) {
        result = write_position(scanner, scan->name, *position, next, error);
    }
    if (result == 0) {
        free(*position);
        *position = cv_take(next);
    }
    return result;
}

/* Reads the next pages of a list, from where the previous pass ended. */
static int walk(struct scanner *scanner, const struct scan *scan, struct cv_error *error)
{
    cv_auto_free char *position = NULL;
    cv_auto_free char *continuation = NULL;
    CV_TRY(scan->name ? read_position(scanner, scan->name, &position, error)
                      : cv_format(&position, error, "%s", scan->start));
    for (int64_t page = 0; page < scanner->max_pages; page++) {
        if (cv_daemon_is_stopping(&scanner->daemon)) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped");
        }
        CV_TRY(walk_page(scanner, scan, &position, &continuation, error));
        CV_TRY(scanner_report(scanner, error));
        if (!continuation) {
            break; /* the end: the next pass starts at the beginning */
        }
    }
    return 0;
}

/* The key at which the ids made at a time begin (UUID version 7). */
static void time_key(char *key, size_t size, int64_t wall_ms)
{
    uint64_t ms = (uint64_t)(wall_ms > 0 ? wall_ms : 0);
    (void)snprintf(key, size, "%s%08" PRIx64 "-%04" PRIx64 "-7",
                   cv_object_prefix(CV_OBJECT_ORIGINAL), ms >> 16, ms & 0xffff);
}

/* Ids that begin with the time are adjacent in a list. So one list shows those of the last day,
 * however many originals there are. */
static int walk_newest(struct scanner *scanner, struct cv_error *error)
{
    char start[96], stop[96];
    time_key(start, sizeof(start), cv_wall_ms() - MS_PER_DAY);
    time_key(stop, sizeof(stop), cv_wall_ms() + MS_PER_DAY);
    const struct scan scan = {
        .prefix = cv_object_prefix(CV_OBJECT_ORIGINAL), .start = start, .stop = stop};
    return walk(scanner, &scan, error);
}

/* Finds the originals of rows that an application has created before the upload, whatever their
 * ids are. */
static int record_awaited(struct scanner *scanner, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(scanner->db, &rows, error,
                  "SELECT s3_original_path AS key FROM videos v WHERE registered_at IS NULL"
                  " AND status = 'new' AND created_at > now() - interval '2 days'"
                  " AND starts_with(s3_original_path, '" CV_KEYS_ORIGINALS "')"
                  " AND NOT EXISTS (SELECT FROM uploads u WHERE u.key = v.s3_original_path)"
                  " ORDER BY created_at DESC LIMIT $1::int",
                  cv_db_number(AWAITED_MAX).text);
    static const struct scan scan = {.is_inbox = false};
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        struct cv_object_entry entry = {.key = (char *)cv_db_text(rows, i, "key")};
        struct cv_object_info info;
        struct cv_error ignored;
        if (cv_store_check_key(entry.key, &ignored) != 0) {
            continue;
        }
        result = cv_store_head(scanner->store, entry.key, &info, error);
        if (result != 0) {
            result = result == CV_STORE_NOT_FOUND ? 0 : result;
            continue;
        }
        entry.size = info.size;
        memcpy(entry.etag, info.etag, sizeof(entry.etag));
        const struct cv_object_list page = {.entries = &entry, .count = 1};
        result = record_page(scanner, &scan, &page, error);
    }
    return result;
}

int scanner_read_lists(struct scanner *scanner, struct cv_error *error)
{
    static const struct scan inbox = {.name = "inbox", .prefix = CV_KEYS_INBOX, .is_inbox = true};
    const struct scan originals = {.name = "originals",
                                   .prefix = cv_object_prefix(CV_OBJECT_ORIGINAL)};
    CV_TRY(walk(scanner, &inbox, error));
    CV_TRY(walk_newest(scanner, error));
    CV_TRY(record_awaited(scanner, error));
    return walk(scanner, &originals, error);
}
