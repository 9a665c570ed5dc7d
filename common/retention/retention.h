/* Removes clips and frames whose retention time has passed, and what unsuccessful attempts have left.
 * The rules for rows are SQL (sql/migrations/0010_objects.sql); keys are in common/store/keys.h. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

/* What the removals work on, and how far they are. */
struct cv_retention {
    struct cv_db *db;
    struct cv_store *store;
    struct cv_cancel *cancel; /* ends a removal early */
    int64_t removed;          /* set by each call: clips, or objects */
};

/* CORTANA_CLIP_DAYS: how many days clips are kept (30); 0: for ever. */
CV_MUST_CHECK int cv_clip_days(int64_t *ret_days, struct cv_error *error);

/* Removes clips older than `days` and records this in the results of their jobs; at most `limit`
 * clips per call. */
CV_MUST_CHECK int cv_clips_expire(struct cv_retention *retention, int64_t days, int64_t limit,
                                  struct cv_error *error);

/* CORTANA_FRAME_DAYS: how many days all frames of a video that was read are kept (1); 0: for ever. */
CV_MUST_CHECK int cv_frame_days(int64_t *ret_days, struct cv_error *error);

/* For every video that was read more than `days` ago and has no open job: keeps the frames in
 * which its lines are shown, and removes everything else under frames/. Must not be called within a
 * transaction. */
CV_MUST_CHECK int cv_frames_thin(struct cv_retention *retention, int64_t days,
                                 struct cv_error *error);

/* ---- objects of unsuccessful attempts -------------------------------------------------------- */

/* A page of a list of objects in one place. */
struct cv_leftovers_page {
    const char *bucket; /* cv_store_name() */
    enum cv_object_place place;
    const struct cv_object_list *list;
    const struct cv_db_result *suspects; /* of cv_leftovers_find_suspects() */
    int64_t until_ms;                    /* only objects that were written until then, Unix time */
};

/* Finds those videos of the array `ids` ("{id,…}") for which unsuccessful attempts may have left
 * objects in a place, and that have no open job: rows of "id" (free them). NULL if no job leaves
 * objects there. */
CV_MUST_CHECK int cv_leftovers_find_suspects(struct cv_db *db, const char *bucket,
                                             enum cv_object_place place, const char *ids,
                                             struct cv_db_result **ret_rows,
                                             struct cv_error *error);

/* Whether the video is one of the suspects, which may be NULL. */
bool cv_leftovers_is_suspect(const struct cv_db_result *suspects, const char *video_id);

/* Finds the objects of a page that no row names, no job has recorded as its output, and that belong
 * to one of the suspects: rows of "key", in byte order (free them). NULL: there are none. */
CV_MUST_CHECK int cv_leftovers_find(struct cv_db *db, const struct cv_leftovers_page *page,
                                    struct cv_db_result **ret_rows, struct cv_error *error);

/* Removes what unsuccessful attempts have left of every video that has no open job, as soon as that
 * is so. The rows of its jobs and the video are locked meanwhile, so that no attempt can begin. Must
 * not be called within a transaction. */
CV_MUST_CHECK int cv_leftovers_remove(struct cv_retention *retention, struct cv_error *error);
