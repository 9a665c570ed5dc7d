/* The scanner finds uploaded files, creates videos from them, and keeps the rows consistent with the
 * store.
 *
 * Each object that it sees becomes an entry of the table `uploads` (scanner_read_lists) and is looked at a
 * second time when it is due (scanner_import). If it has not changed in between, it is imported. All
 * decisions about rows are SQL functions (sql/migrations/0010_objects.sql), so that any number of
 * scanners may run, and die, at once.
 */
#pragma once

#include "common/daemon/daemon.h"
#include "common/retention/retention.h"

#include <jansson.h>

struct scanner {
    struct cv_db *db;
    struct cv_store *store;
    struct cv_daemon daemon;
    int64_t settle_ms;   /* how long an upload must stay unchanged */
    int64_t max_pages;   /* of each list, in one look */
    int64_t log_days;    /* of logs of jobs; 0: for ever */
    int64_t output_days; /* of files that commands have written; 0: for ever */
    int64_t expire_at;   /* monotonic: when to remove expired objects next */
    int64_t clip_days;
    int64_t frame_days;   /* until the frames of a video that was read are thinned out */
    const char *owner_id; /* owner of uploads that name neither owner nor team; NULL: nobody */
    bool is_loop;         /* runs on and on, so it has a row in the list of workers */
    int64_t heartbeat_ms; /* how often the row is written */
    int64_t lists;        /* list requests so far */
    int64_t imported;     /* uploads imported so far */
};

/* ---- lists.c ---- */

/* Reads the lists once: the inbox, the newest ids, rows that wait for their original, and the
 * next pages of all originals. Also marks rows whose original is missing from these pages. */
CV_MUST_CHECK int scanner_read_lists(struct scanner *scanner, struct cv_error *error);

/* Milliseconds as text that PostgreSQL accepts as an interval. */
struct interval_text {
    char text[40];
};
struct interval_text scanner_interval(int64_t ms);

/* ---- uploads.c ---- */

/* Imports every upload that is due. If one fails, that is logged and it is tried later; this
 * function fails only for causes that concern all uploads. */
CV_MUST_CHECK int scanner_import(struct scanner *scanner, struct cv_error *error);

/* Milliseconds until the next upload is due; INT64_MAX when there is none. */
CV_MUST_CHECK int scanner_next_due(struct scanner *scanner, int64_t *ret_ms,
                                   struct cv_error *error);

/* ---- events.c ---- */

/* Reads notifications (see notification.h), one per line, until the end of `file`, and announces the
 * objects that they name. Other lines are logged and counted. */
CV_MUST_CHECK int scanner_events(struct scanner *scanner, FILE *file, int64_t *ret_unreadable,
                                 struct cv_error *error);

/* Announces the objects named by the events that accept_object_event() has stored. */
CV_MUST_CHECK int scanner_drain(struct scanner *scanner, struct cv_error *error);

/* ---- main.c ---- */

/* Updates the scanner's row in the list of workers when it is time. A scanner that runs once has
 * no row. */
CV_MUST_CHECK int scanner_report(struct scanner *scanner, struct cv_error *error);
