/* Encodes a stretch of pictures and sound into one file. */
#pragma once

#include "common/media/decode.h"

enum cv_output_kind {
    CV_OUTPUT_MP4,  /* H.264 and AAC, index in front */
    CV_OUTPUT_WEBM, /* VP9 and Opus; times to the millisecond, which is what WebM counts in */
    CV_OUTPUT_GIF,  /* 256 colours a picture, silent; times to the hundredth of a second */
};

struct cv_output_params {
    enum cv_output_kind kind;
    const char *path;                   /* the file */
    const struct cv_media_info *source; /* borrowed until the output is freed */
    struct cv_cancel *cancel;           /* borrowed; an abort ends what takes long; may be NULL */
    int threads;                        /* 0 = 1 */
    int max_side;                       /* longest side in pixels; 0 = that of the source */
    int max_frame_rate;                 /* frames per second in the long run; 0 = all frames */
};

struct cv_output_summary {
    int width, height;
    int64_t frames;      /* shown; repeated ones included */
    int64_t duration_us; /* of the output */
    bool sound;
};

/* Encodes one file: H.264 (High, 4:2:0, libx264) and stereo AAC at 48 kHz, or what the kind says;
 * sound when the source has any. Time 0 is the first frame, and the sound is cut to the sample at
 * both ends. Even sizes, never enlarged; times are those of the frames, exact to the source's tick
 * in MP4. */
struct cv_output;
CV_MUST_CHECK int cv_output_new(const struct cv_output_params *params,
                                struct cv_output **ret_output, struct cv_error *error);
void cv_output_free(struct cv_output *output);
CV_DEFINE_CLEANUP(struct cv_output *, cv_output_free)

/* Frames and sound each in presentation order, interleaved as a decoder hands them out. An MP4
 * starts with its first frame: sound before that is left out. */
CV_MUST_CHECK int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_output_sound(struct cv_output *output, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Ends picture and sound together: where the longer of the two ends, in an MP4 at the end of the
 * last frame (but the last frame is held for sound that goes on much longer), and never after
 * `end_us` on the source's presentation axis (INT64_MAX: no bound). Completes the files. */
CV_MUST_CHECK int cv_output_finish(struct cv_output *output, int64_t end_us,
                                   struct cv_output_summary *ret_summary, struct cv_error *error);
