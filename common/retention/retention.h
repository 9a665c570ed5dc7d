/* Clips and frames that have had their time. The rules for rows live in SQL (sql/migrations/0010_objects.sql); where objects lie
 * says common/store/keys.h. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

/* CORTANA_CLIP_DAYS: how many days clips are kept (30); 0: for ever. */
CV_MUST_CHECK int cv_clip_days(int64_t *ret_days, struct cv_error *error);

/* Removes clips older than `days` and notes it in the results of their jobs; at most `limit` in one
 * call. *ret_removed counts. */
CV_MUST_CHECK int cv_clips_expire(struct cv_db *db, struct cv_store *store, int64_t days,
                                  int64_t limit, struct cv_cancel *cancel, int64_t *ret_removed,
                                  struct cv_error *error);

/* CORTANA_FRAME_DAYS: how many days all frames of a video that was read are kept (1); 0: for ever. */
CV_MUST_CHECK int cv_frame_days(int64_t *ret_days, struct cv_error *error);

/* Of every video that was read more than `days` ago and that nothing works on, leaves the frames in which its lines are
 * seen, and removes everything else under frames/. *ret_removed counts objects. Not within a transaction. */
CV_MUST_CHECK int cv_frames_thin(struct cv_db *db, struct cv_store *store, int64_t days,
                                 struct cv_cancel *cancel, int64_t *ret_removed,
                                 struct cv_error *error);
