/* The scanner: finds what was uploaded, makes videos of it, and keeps the rows true to the store.
 *
 * Whatever it sees becomes an entry of the table `uploads` (note) and is looked at a second time when
 * it is due (look); what has not moved in between is taken. All decisions about rows are SQL functions
 * (sql/migrations/0010_objects.sql), so that any number of scanners may run, and die, at once.
 */
#pragma once

#include "common/daemon/daemon.h"
#include "common/retention/retention.h"

#include <jansson.h>

struct scanner {
    struct cv_db *db;
    struct cv_store *store;
    struct cv_daemon daemon;
    int64_t settle_ms;   /* an upload has to stand still for this long */
    int64_t max_pages;   /* of each list, in one pass */
    int64_t log_days;    /* of logs of jobs; 0: for ever */
    int64_t output_days; /* of files that commands have written; 0: for ever */
    int64_t expire_at;   /* monotonic: when to look for old ones next */
    int64_t clip_days;
    int64_t frame_days;   /* until the frames of a video that was read are thinned out */
    const char *owner_id; /* of what says by itself neither owner nor team; NULL: nobody */
    bool is_loop;         /* it has a row among the workers */
    int64_t heartbeat_ms; /* how often the row is written */
    int64_t lists;        /* asked for so far */
    int64_t taken;        /* uploads that were taken so far */
};

/* ---- lists.c ---- */

/* One look at the lists: the inbox, the newest ids, rows that wait for their original, and the next
 * pages of all originals, where rows whose original is gone are marked, too. */
CV_MUST_CHECK int scanner_note(struct scanner *scanner, struct cv_error *error);

/* Milliseconds as PostgreSQL reads an interval. */
struct interval_text {
    char text[40];
};
struct interval_text scanner_interval(int64_t ms);

/* ---- uploads.c ---- */

/* Looks at every upload that is due. One that fails is logged and put off; only what concerns all of
 * them is a failure here. */
CV_MUST_CHECK int scanner_look(struct scanner *scanner, struct cv_error *error);

/* Milliseconds until an upload is due, INT64_MAX when none is noted. */
CV_MUST_CHECK int scanner_next_due(struct scanner *scanner, int64_t *ret_ms,
                                   struct cv_error *error);

/* ---- registration.c ---- */

/* An original as the store shows it, and what is known of whose it is; texts may be NULL. */
struct scanner_original {
    const char *key;
    const char *video_id;
    const char *owner_id, *team_id, *name;
    const char *upload_key; /* where it lay before it was moved */
    struct cv_object_info info;
};

/* Registers it; reads its bytes, and those of its possible twins, only where that is what it takes to
 * tell whether they are the same. */
CV_MUST_CHECK int scanner_register(struct scanner *scanner, struct scanner_original *original,
                                   struct cv_error *error);

/* ---- events.c ---- */

/* Notifications are S3's and MinIO's own JSON, EventBridge's, or either within what SNS and SQS put
 * around it.
 *
 * Reads them one JSON text a line until the end of `file`, and looks at what they name. Lines that are
 * none are logged and counted. */
CV_MUST_CHECK int scanner_events(struct scanner *scanner, FILE *file, int64_t *ret_unreadable,
                                 struct cv_error *error);

/* Announces what the events name that accept_object_event() has taken in. */
CV_MUST_CHECK int scanner_drain(struct scanner *scanner, struct cv_error *error);

/* ---- main.c ---- */

/* Writes the row among the workers when it is time; a scanner that runs once has none. */
CV_MUST_CHECK int scanner_report(struct scanner *scanner, struct cv_error *error);
