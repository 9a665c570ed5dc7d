/* Finds objects without a row and rows without their objects. The rules for rows are in SQL
 * (sql/migrations/0010_objects.sql). */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

enum cv_gc_kind {
    CV_GC_ORPHAN,        /* an object of a video that does not exist: removed */
    CV_GC_OLD_CLIP,      /* a clip that is too old: removed */
    CV_GC_LEFTOVER,      /* an unreferenced object of an unsuccessful attempt: removed */
    CV_GC_UNREGISTERED,  /* an original that the scanner has not registered yet: kept */
    CV_GC_STRAY,         /* a key that cannot belong to a video: kept */
    CV_GC_LOST_ORIGINAL, /* a row whose original, playlist or poster is gone */
    CV_GC_LOST_PROXY,
    CV_GC_LOST_THUMB,
    CV_GC_DEAD_ROW, /* a row without any of its objects: removed if rows are */
    CV_GC_KIND_COUNT,
};

const char *cv_gc_kind_name(enum cv_gc_kind kind);

struct cv_gc_summary {
    int64_t objects; /* number of objects checked */
    int64_t pages;   /* number of lists requested */
    int64_t found[CV_GC_KIND_COUNT];
    int64_t bytes; /* bytes of objects to remove */
    int64_t rows_removed;
    bool is_complete; /* false: max_pages was reached */
};

struct cv_gc_params {
    bool remove_objects;
    bool remove_rows;
    int64_t min_age_ms; /* objects and rows younger than this are left alone */
    int64_t clip_days;  /* 0: clips are kept */
    int64_t max_pages;  /* for each prefix; 0: all */
    struct cv_cancel *cancel;
    /* Called for every finding, before anything is removed. `key`: of the object, or in the row;
     * `size`: bytes, 0 for a missing object. May be NULL. */
    void (*report)(enum cv_gc_kind kind, const char *key, int64_t size);
};

/* Compares the store with the tables, prefix by prefix. It requests few lists: if a page ends
 * within a known video, the video's other objects are skipped. min_age_ms protects running attempts
 * and uploads. CV_ERROR_CONFLICT if objects are to be removed and the database has no video at all. */
CV_MUST_CHECK int cv_gc_run(struct cv_db *db, struct cv_store *store,
                            const struct cv_gc_params *params, struct cv_gc_summary *ret_summary,
                            struct cv_error *error);
