/* Objects that no row knows, and rows whose objects are gone. The rules for rows live in SQL
 * (sql/migrations/0010_objects.sql). */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

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
