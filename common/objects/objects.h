/* Videos and their objects: the removal of all that belongs to one, clips that have had their time, objects
 * that no row knows, and what a bucket is to look like. Where objects lie says common/store/keys.h.
 *
 * The rules for rows live in SQL (sql/migrations/0010_objects.sql). Functions are as thread-bound as
 * the connection and the store that they are given.
 */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"
#include "common/store/store.h"

/* ---- removal --------------------------------------------------------------------------------- */

/* Called now and then with what was removed so far. */
typedef void cv_objects_progress(void *opaque, int64_t removed);

/* Removes every object of a video, and looks again until a look finds none. *ret_removed counts. */
CV_MUST_CHECK int cv_objects_remove_video(struct cv_store *store, const char *video_id,
                                          struct cv_cancel *cancel, cv_objects_progress *progress,
                                          void *opaque, int64_t *ret_removed,
                                          struct cv_error *error);

/* ---- retention ------------------------------------------------------------------------------- */

/* CORTANA_CLIP_DAYS: how many days clips are kept (30); 0: for ever. */
CV_MUST_CHECK int cv_clip_days(int64_t *ret_days, struct cv_error *error);

/* Removes clips older than `days` and notes it in the results of their jobs; at most `limit` in one
 * call. *ret_removed counts. */
CV_MUST_CHECK int cv_clips_expire(struct cv_db *db, struct cv_store *store, int64_t days,
                                  int64_t limit, struct cv_cancel *cancel, int64_t *ret_removed,
                                  struct cv_error *error);

/* ---- what does not belong --------------------------------------------------------------------- */

enum cv_gc_kind {
    CV_GC_ORPHAN,        /* an object of a video that there is not: removed */
    CV_GC_OLD_CLIP,      /* a clip beyond its time: removed */
    CV_GC_LEFTOVER,      /* what an attempt without success left, and nothing refers to: removed */
    CV_GC_UNREGISTERED,  /* an original that the scanner has not taken yet: left alone */
    CV_GC_STRAY,         /* a key that no video can own: left alone */
    CV_GC_LOST_ORIGINAL, /* a row whose original, playlist or poster is gone */
    CV_GC_LOST_PROXY,
    CV_GC_LOST_THUMB,
    CV_GC_DEAD_ROW, /* a row all of whose objects are gone: removed if rows are */
    CV_GC_KIND_COUNT,
};

const char *cv_gc_kind_name(enum cv_gc_kind kind);

struct cv_gc_finding {
    enum cv_gc_kind kind;
    const char *key;      /* of the object, or the one that the row names */
    const char *video_id; /* "" for a stray */
    int64_t size;         /* bytes; 0 for what is gone */
};

struct cv_gc_summary {
    int64_t objects; /* looked at */
    int64_t pages;   /* lists asked for */
    int64_t found[CV_GC_KIND_COUNT];
    int64_t bytes;   /* of what is to go */
    int64_t removed; /* objects */
    int64_t rows_removed;
    bool is_complete; /* false: max_pages was reached */
};

struct cv_gc_params {
    bool remove_objects;
    bool remove_rows;
    int64_t min_age_ms; /* what changed later than this long ago is left alone, rows too */
    int64_t clip_days;  /* 0: clips are kept */
    int64_t max_pages;  /* a prefix; 0: all */
    struct cv_cancel *cancel;
    /* Called for every finding, before anything is done about it. May be NULL. */
    void (*tell)(void *opaque, const struct cv_gc_finding *finding);
    void *opaque;
};

/* Compares the store with the tables, prefix by prefix, in as few lists as there are pages of videos:
 * the objects of a known video are skipped where a page ends within them. Running attempts and uploads
 * are safe by min_age_ms; removing by a database that knows no video at all is CV_ERROR_CONFLICT. */
CV_MUST_CHECK int cv_gc_run(struct cv_db *db, struct cv_store *store,
                            const struct cv_gc_params *params, struct cv_gc_summary *ret_summary,
                            struct cv_error *error);

/* ---- the bucket ------------------------------------------------------------------------------ */

enum cv_bucket_rules {
    CV_BUCKET_RULES_SET = 0,
    CV_BUCKET_RULES_UNKNOWN = 1, /* the server knows no lifecycle rules: gc and the scanner do it */
    CV_BUCKET_IS_DIRECTORY = 2,  /* a directory store: folders were made */
};

/* Makes the bucket where it is missing, and sets its lifecycle rules (unfinished multipart uploads,
 * clips); rules that are not ours stay. */
CV_MUST_CHECK int cv_bucket_init(struct cv_store *store, int64_t clip_days, bool *ret_created,
                                 struct cv_error *error);
