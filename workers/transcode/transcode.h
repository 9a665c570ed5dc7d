/* The transcode stage: an original becomes HLS in several sizes, a poster, and small pictures for
 * the seek bar. */
#pragma once

#include "common/worker/worker.h"

#include "workers/transcode/hls/hls.h"

/* Which part of the work on a long video a job is (docs/queue.md, long videos). */
enum transcode_split {
    TRANSCODE_WHOLE,
    TRANSCODE_PLAN,  /* says where to split */
    TRANSCODE_CHUNK, /* encodes one stretch */
    TRANSCODE_JOIN,  /* makes one of all; the whole, when the plan has split nothing */
};

enum {
    TRANSCODE_CHUNKS_MAX = 500, /* the list of them is a payload, which has 64 KiB */
    /* Threads of encoding for each of decoding, which is the lesser part: more cost CPU alone. */
    TRANSCODE_ENCODE_TO_DECODE = 4,
};

/* What is asked for, by the payload or else by the environment. */
struct transcode_request {
    const char *video_id; /* borrowed from the payload, as the next */
    const char *original;
    int short_sides[CV_LADDER_RENDITIONS_MAX]; /* of the renditions; none: the default ladder */
    size_t short_side_count;
    enum cv_segment_format format;
    int64_t object_us; /* segments that begin in one such stretch share an object; 0: none does */
    enum transcode_split split;
    int64_t split_us;               /* how long a chunk is to be */
    struct cv_ladder_chunk *chunks; /* free() them; of a chunk: the one */
    size_t chunk_count;
    bool progressive; /* the smallest rendition can be played while the rest is under way */
    bool copies;      /* the original's own pictures may be the largest rendition; of a chunk and
                         of a join: the plan has found that they can be */
    bool copies_hevc, copies_av1; /* CORTANA_COPY_CODECS: their pictures may be, too */
    const char *encoded_because; /* why the plan has found that they cannot; NULL: it did not say */
};

/* Intervals between the source's frames as they pass. */
struct transcode_meter {
    int64_t frames, first_us, last_us, shortest_us, longest_us;
};

/* What one original was found to be, and what was made of it. */
struct transcode_report {
    struct cv_media_info info;
    struct cv_ladder_summary summary;
    double frame_rate; /* measured over the whole source; 0 for a single frame */
    bool variable_frame_rate;
    int64_t source_frames;
    int64_t damaged_frames;
    bool truncated; /* the file ends before what it announces */
    bool is_screen; /* a recording of a screen, and no renditions were asked for */
    char encoded_because[CV_LADDER_REASON_SIZE]; /* "": the source's own pictures are a rendition */
};

/* cv_stage.run and cv_stage.commit. */
CV_MUST_CHECK int transcode_run(struct cv_stage_context *context, const json_t *payload,
                                json_t **ret_result, struct cv_error *error);
CV_MUST_CHECK int transcode_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                                   struct cv_error *error);

CV_MUST_CHECK int transcode_read_request(const json_t *payload, struct transcode_request *request,
                                         struct cv_error *error);

/* Whether a source, in a container with an index, is the recording of a screen, on which small letters
 * have to stay readable. What cannot be looked at is none. */
CV_MUST_CHECK int transcode_look(const struct cv_byte_source *source, struct cv_cancel *cancel,
                                 bool *ret_is_screen, struct cv_error *error);

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

/* Opens the request's original. transcode_input_close() takes one that is half opened, too. */
CV_MUST_CHECK int transcode_input_open(struct cv_stage_context *context,
                                       const struct transcode_request *request,
                                       const struct cv_decoder_params *params,
                                       struct transcode_input *input, struct cv_error *error);
void transcode_input_close(struct transcode_input *input);
CV_DEFINE_CLEANUP_ADDRESS(struct transcode_input, transcode_input_close)

/* A stretch of the original into a ladder: frames are measured from `from_us` to `until_us`. */
CV_MUST_CHECK int transcode_convert(struct cv_stage_context *context, struct cv_decoder *decoder,
                                    struct cv_ladder *ladder, const struct cv_ladder_chunk *range,
                                    struct transcode_meter *meter, struct cv_error *error);
/* What the ladders of a whole, of a chunk and of a join have in common. Everything is borrowed. */
struct cv_ladder_params transcode_ladder_params(const struct transcode_work *work,
                                                const struct transcode_input *input);
/* Whether the original's own pictures are to be the largest rendition. `reason` says why not; the caller may have
 * written one before. */
bool transcode_copies(const struct transcode_request *request,
                      const struct cv_ladder_params *params, const struct transcode_input *input,
                      char reason[CV_LADDER_REASON_SIZE]);
/* Writes the figures of a meter into a report. */
void transcode_conclude(const struct transcode_meter *meter, struct transcode_report *report);

/* The parts of a split job; the work's publisher is new. CV_LADDER_UNSUITABLE: the original cannot be copied after all,
 * and report->encoded_because, with which they are to be called again, says why. */
CV_MUST_CHECK int transcode_run_plan(struct cv_stage_context *context,
                                     const struct transcode_request *request, json_t **ret_result,
                                     struct cv_error *error);
CV_MUST_CHECK int transcode_run_chunk(const struct transcode_work *work,
                                      struct transcode_report *report, json_t **ret_result,
                                      struct cv_error *error);
CV_MUST_CHECK int transcode_run_join(const struct transcode_work *work,
                                     struct transcode_report *report, struct cv_error *error);

/* Deep values of a payload, read with it. */
CV_MUST_CHECK int transcode_read_split(const json_t *payload, struct transcode_request *request,
                                       struct cv_error *error);

/* The stage's result. */
CV_MUST_CHECK int transcode_result(const struct transcode_report *report, const char *video_id,
                                   json_t **ret_result, struct cv_error *error);

/* Files on their way from the scratch directory into the store. */
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

/* Puts bytes beside the stream, or beside the pictures. */
CV_MUST_CHECK int transcode_publisher_put(struct transcode_publisher *publisher,
                                          enum cv_ladder_part part, const char *name,
                                          const void *data, size_t size, const char *content_type,
                                          struct cv_error *error);
/* An object that an earlier job has put; free() the data. A missing one is a failure that may pass. */
CV_MUST_CHECK int transcode_publisher_get(struct transcode_publisher *publisher,
                                          enum cv_ladder_part part, const char *name,
                                          void **ret_data, size_t *ret_size,
                                          struct cv_error *error);

/* Object keys of the contract; free() the result. */
CV_MUST_CHECK int transcode_playlist_key(const char *video_id, char **ret_key,
                                         struct cv_error *error);
CV_MUST_CHECK int transcode_poster_key(const char *video_id, char **ret_key,
                                       struct cv_error *error);
