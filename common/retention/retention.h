/* Removes clips and frames whose retention time has passed. The rules for rows are SQL
 * (sql/migrations/0010_objects.sql); keys are in common/store/keys.h. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

/* What the removals work on, and how far they are. */
struct cv_retention {
    struct cv_db *db;
    struct cv_store *store;
    struct cv_cancel *cancel; /* ends a removal early */
    int64_t removed;          /* set by each call: clips, or objects of frames */
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
