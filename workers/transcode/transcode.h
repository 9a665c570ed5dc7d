/* The transcode stage: an original becomes HLS in several sizes, a poster, and small pictures for
 * the seek bar. */
#pragma once

#include "common/media/media.h"
#include "common/worker/worker.h"

/* What is asked for, by the payload or else by the environment. */
struct transcode_request {
    const char *video_id; /* borrowed from the payload, as the next */
    const char *original;
    int short_sides[CV_LADDER_RUNGS_MAX]; /* of the renditions; none: the default ladder */
    size_t short_side_count;
    enum cv_segment_format format;
    bool progressive; /* the smallest rendition can be played while the rest is under way */
};

/* What one original was found to be, and what was made of it. */
struct transcode_report {
    struct cv_media_info info;
    struct cv_ladder_summary summary;
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

CV_MUST_CHECK int transcode_read_request(const json_t *payload, struct transcode_request *request,
                                         struct cv_error *error);

/* The stage's result. */
CV_MUST_CHECK int transcode_result(const struct transcode_report *report, const char *video_id,
                                   json_t **ret_result, struct cv_error *error);

/* Files on their way from the scratch directory into the store. */
struct transcode_publisher;
CV_MUST_CHECK int transcode_publisher_new(struct cv_stage_context *context, const char *video_id,
                                          struct transcode_publisher **ret_publisher,
                                          struct cv_error *error);
void transcode_publisher_free(struct transcode_publisher *publisher);
CV_DEFINE_CLEANUP(struct transcode_publisher *, transcode_publisher_free)

/* Removes what a failed attempt has put so far, its own playlists first, unless an earlier one left
 * a playlist that may name it. Best effort. */
void transcode_publisher_discard(struct transcode_publisher *publisher);

/* Whether no run before has left playlists: provisional ones may be put. */
CV_MUST_CHECK int transcode_publisher_is_first(struct transcode_publisher *publisher,
                                               bool *ret_is_first, struct cv_error *error);

/* A cv_ladder_finished of a publisher: notes the file, and begins to put what names no other. A
 * provisional playlist is put when all that was begun is whole. */
CV_MUST_CHECK int transcode_publisher_take(void *publisher, const struct cv_ladder_file *file,
                                           struct cv_error *error);

/* Puts what was noted, in that order, then deletes what an earlier run left and this one does not
 * have. */
CV_MUST_CHECK int transcode_publisher_finish(struct transcode_publisher *publisher,
                                             struct cv_error *error);

/* Object keys of the contract; free() the result. */
CV_MUST_CHECK int transcode_playlist_key(const char *video_id, char **ret_key,
                                         struct cv_error *error);
CV_MUST_CHECK int transcode_poster_key(const char *video_id, char **ret_key,
                                       struct cv_error *error);
