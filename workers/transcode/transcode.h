/* The transcode stage: converts an original to HLS in several sizes, with a poster and small
 * pictures for the seek bar. */
#pragma once

#include "common/worker/worker.h"

#include "workers/transcode/hls/hls.h"

/* Which part of the work on a long video a job is (docs/queue.md, long videos). */
enum transcode_split {
    TRANSCODE_WHOLE,
    TRANSCODE_PLAN,  /* decides where to split the video */
    TRANSCODE_CHUNK, /* encodes one chunk */
    TRANSCODE_JOIN,  /* joins all chunks, or converts the whole video if it was not split */
};

enum {
    TRANSCODE_CHUNKS_MAX =
        500, /* the list of chunks is part of a payload, which has at most 64 KiB */
    /* Encoding threads per decoding thread. Decoding takes less time; more threads for it only
     * cost CPU time. */
    TRANSCODE_ENCODE_TO_DECODE = 4,
};

/* The request, from the payload, or else from the environment. */
struct transcode_request {
    const char *video_id; /* borrowed from the payload, as the next */
    const char *original;
    int short_sides
        [CV_LADDER_RENDITIONS_MAX]; /* renditions' shorter sides; none: the default ladder */
    size_t short_side_count;
    enum cv_segment_format format;
    enum transcode_split split;
    int64_t split_us;               /* intended length of a chunk */
    struct cv_ladder_chunk *chunks; /* free() them; for TRANSCODE_CHUNK a single one */
    size_t chunk_count;
    bool copies; /* the largest rendition may be a copy; for chunks and joins set by the plan */
    const char *encoded_because; /* the plan's reason for encoding; may be NULL */
};

/* Measures the intervals between the source's frames. */
struct transcode_meter {
    int64_t frames, first_us, last_us, shortest_us, longest_us;
};

/* The properties of an original, and of what was made from it. */
struct transcode_report {
    struct cv_media_info info;
    struct cv_ladder_summary summary;
    double frame_rate; /* measured over the whole source; 0 for a single frame */
    bool variable_frame_rate;
    int64_t source_frames;
    int64_t damaged_frames;
    bool truncated; /* the file is shorter than its header announces */
    bool is_screen; /* a screen recording, and the request names no renditions */
    char encoded_because[CV_LADDER_REASON_SIZE]; /* "": the largest rendition is a copy */
};

/* cv_stage.run and cv_stage.commit. */
CV_MUST_CHECK int transcode_run(struct cv_stage_context *context, const json_t *payload,
                                json_t **ret_result, struct cv_error *error);
CV_MUST_CHECK int transcode_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                                   struct cv_error *error);

CV_MUST_CHECK int transcode_read_request(const json_t *payload, struct transcode_request *request,
                                         struct cv_error *error);

/* Whether a source in a container with an index is a screen recording, on which small letters must
 * stay readable. False if it cannot be analysed. */
CV_MUST_CHECK int transcode_find_content(const struct cv_byte_source *source,
                                         struct cv_cancel *cancel, bool *ret_is_screen,
                                         struct cv_error *error);

struct transcode_publisher;

/* One run of the stage; everything is borrowed. */
struct transcode_work {
    struct cv_stage_context *context;
    const struct transcode_request *request;
    const char *directory; /* where the ladder writes its files */
    struct transcode_publisher *publisher;
};

/* An opened original. */
struct transcode_input {
    struct cv_store_reader *reader;
    struct cv_byte_source source;
    struct cv_decoder *decoder;
};

/* Opens the request's original. transcode_input_close() also accepts a partly opened one. */
CV_MUST_CHECK int transcode_input_open(struct cv_stage_context *context,
                                       const struct transcode_request *request,
                                       const struct cv_decoder_params *params,
                                       struct transcode_input *input, struct cv_error *error);
void transcode_input_close(struct transcode_input *input);
CV_DEFINE_CLEANUP_ADDRESS(struct transcode_input, transcode_input_close)

/* Decodes `range` of the original into a ladder. Frames from from_us to until_us are measured. */
CV_MUST_CHECK int transcode_convert(struct cv_stage_context *context, struct cv_decoder *decoder,
                                    struct cv_ladder *ladder, const struct cv_ladder_chunk *range,
                                    struct transcode_meter *meter, struct cv_error *error);
/* The ladder parameters that are the same for a whole, a chunk and a join. Everything is borrowed.
 */
struct cv_ladder_params transcode_ladder_params(const struct transcode_work *work,
                                                const struct transcode_input *input);
/* Whether to copy the original's own pictures as the largest rendition. `reason` says why not; the
 * caller may have written a reason before. */
bool transcode_copies(const struct transcode_request *request,
                      const struct cv_ladder_params *params, const struct transcode_input *input,
                      char reason[CV_LADDER_REASON_SIZE]);
/* Writes the figures of the meter to the report. */
void transcode_conclude(const struct transcode_meter *meter, struct transcode_report *report);

/* The parts of a split job; each starts with a new publisher in `work`. CV_LADDER_UNSUITABLE: the
 * original cannot be copied after all; call again with report->encoded_because, which says why. */
CV_MUST_CHECK int transcode_run_plan(struct cv_stage_context *context,
                                     const struct transcode_request *request, json_t **ret_result,
                                     struct cv_error *error);
CV_MUST_CHECK int transcode_run_chunk(const struct transcode_work *work,
                                      struct transcode_report *report, json_t **ret_result,
                                      struct cv_error *error);
CV_MUST_CHECK int transcode_run_join(const struct transcode_work *work,
                                     struct transcode_report *report, struct cv_error *error);

/* Reads the members of a payload that are about splitting. */
CV_MUST_CHECK int transcode_read_split(const json_t *payload, struct transcode_request *request,
                                       struct cv_error *error);

/* The stage's result. */
CV_MUST_CHECK int transcode_result(const struct transcode_report *report, const char *video_id,
                                   json_t **ret_result, struct cv_error *error);

/* The publisher uploads files from the scratch directory to the store. */
CV_MUST_CHECK int transcode_publisher_new(struct cv_stage_context *context, const char *video_id,
                                          struct transcode_publisher **ret_publisher,
                                          struct cv_error *error);
void transcode_publisher_free(struct transcode_publisher *publisher);
CV_DEFINE_CLEANUP(struct transcode_publisher *, transcode_publisher_free)

/* A cv_ladder_finished function; `publisher` is its opaque argument. Records the file, and starts
 * its upload if it refers to no other file. */
CV_MUST_CHECK int transcode_publisher_add(void *publisher, const struct cv_ladder_file *file,
                                          struct cv_error *error);

/* Stores the recorded files in their order, then deletes objects of an earlier run that this one
 * does not have. */
CV_MUST_CHECK int transcode_publisher_finish(struct transcode_publisher *publisher,
                                             struct cv_error *error);

/* Stores bytes as an object of the stream or of the seek bar pictures. */
CV_MUST_CHECK int transcode_publisher_put(struct transcode_publisher *publisher,
                                          enum cv_ladder_part part, const char *name,
                                          const void *data, size_t size, struct cv_error *error);
/* Reads an object that an earlier job has stored; free() the data. If it is missing, the failure
 * allows a retry. */
CV_MUST_CHECK int transcode_publisher_get(struct transcode_publisher *publisher,
                                          enum cv_ladder_part part, const char *name,
                                          void **ret_data, size_t *ret_size,
                                          struct cv_error *error);

/* The keys of the playlist and of the poster; free() the result. */
CV_MUST_CHECK int transcode_playlist_key(const char *video_id, char **ret_key,
                                         struct cv_error *error);
CV_MUST_CHECK int transcode_poster_key(const char *video_id, char **ret_key,
                                       struct cv_error *error);
