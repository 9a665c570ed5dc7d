/* The transcode stage: an original becomes HLS and a poster. */
#pragma once

#include "common/media/media.h"
#include "common/worker/worker.h"

/* What one original was found to be, and what was made of it. */
struct transcode_report {
    struct cv_media_info info;
    struct cv_output_summary summary;
    double frame_rate; /* measured over the whole source; 0 for a single frame */
    bool variable_frame_rate;
    int64_t source_frames;
    int64_t damaged_frames;
};

/* cv_stage.run and cv_stage.commit. */
CV_MUST_CHECK int transcode_run(struct cv_stage_context *context, const json_t *payload,
                                json_t **ret_result, struct cv_error *error);
CV_MUST_CHECK int transcode_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                                   struct cv_error *error);

/* Puts the segments of `directory`, the poster and at last the playlist into the store, then
 * deletes the segments of an earlier run that the new playlist does not name. */
CV_MUST_CHECK int transcode_publish(struct cv_stage_context *context, const char *video_id,
                                    const char *directory, int segments, const void *poster,
                                    size_t poster_size, struct cv_error *error);

/* Object keys of the contract; free() the result. */
CV_MUST_CHECK int transcode_playlist_key(const char *video_id, char **ret_key,
                                         struct cv_error *error);
CV_MUST_CHECK int transcode_poster_key(const char *video_id, char **ret_key,
                                       struct cv_error *error);
