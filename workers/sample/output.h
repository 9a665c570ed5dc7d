/* The output of a sample job: JPEGs in the store, and lists of them. The ocr job names these lists
 * instead of every frame. A list is an object {"frames": [{"path", "t_start", …}]}. The first one also has the pictures of tracks of
 * subtitles, {"subtitles": [{"path", "language", "t_start", "t_end"}], "lost_subtitles"}. */
#pragma once

#include "common/media/media.h"
#include "common/worker/worker.h"

#include "workers/sample/sampler.h"

/* So many lists a video at the most: their keys are a payload, which has 64 KiB. */
enum { OUTPUT_LISTS_MAX = 500 };

struct output {
    struct cv_stage_context *context; /* borrowed */
    const char *video_id;             /* borrowed */
    json_t *frames;
    json_t *lists;    /* keys of the lists of frames */
    json_t *pictures; /* of subtitles: their keys by what they show */
    struct cv_subtitle_pictures subtitles;
    int64_t last_ms;     /* of the last kept frame; -1: none */
    int64_t from_ms;     /* where this part of the video begins; 0: it is the first */
    int64_t duration_ms; /* of the whole video, as its header says; 0: unknown */
};

CV_MUST_CHECK int output_init(struct output *output, struct cv_stage_context *context,
                              const char *video_id, int64_t from_ms, struct cv_error *error);
void output_deinit(struct output *output);
CV_DEFINE_CLEANUP_ADDRESS(struct output, output_deinit)

/* Puts one kept frame into the store and on the list; a sampler_keep. */
CV_MUST_CHECK int output_keep(void *output, const struct sampler_frame *frame,
                              struct cv_error *error);

/* Puts the picture of a subtitle into the store, once; keep of cv_subtitle_pictures. */
CV_MUST_CHECK int output_keep_subtitle(void *output, const AVFrame *picture, int64_t start_ms,
                                       char name[CV_SUBTITLE_NAME_SIZE], struct cv_error *error);

/* Closes the last frame's time on screen, stores the lists of frames, and removes what other runs left in the store:
 * of this part of the video, and, where it is the last one, of all that is behind it. */
CV_MUST_CHECK int output_finish(struct output *output, int64_t end_us, bool is_last,
                                struct cv_error *error);

/* Removes what this run has put; failures are ignored, a later run removes the rest. */
void output_discard(struct output *output);

/* "frames/{video_id}/{timestamp_ms}.jpg"; free() it. */
CV_MUST_CHECK int output_key(const char *video_id, int64_t time_ms, char **ret_key,
                             struct cv_error *error);

/* Whole milliseconds, rounded. */
int64_t output_ms(int64_t time_us);
