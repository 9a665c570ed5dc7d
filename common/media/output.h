/* Encodes pictures and sound into one file. */
#pragma once

#include "common/media/decode.h"
#include "common/media/info.h"

#include <libavcodec/avcodec.h>

enum cv_output_kind {
    CV_OUTPUT_MP4,  /* H.264 and AAC, index at the front */
    CV_OUTPUT_WEBM, /* VP9 and Opus; times are whole milliseconds */
    CV_OUTPUT_GIF,  /* 256 colours per picture, silent; times are multiples of 10 ms */
};

struct cv_output_params {
    enum cv_output_kind kind;
    const char *path;                   /* the file */
    const struct cv_media_info *source; /* borrowed until the output is freed */
    struct cv_cancel *cancel;           /* borrowed; an abort ends long operations; may be NULL */
    int threads;                        /* 0 = 1 */
    int max_side;                       /* longest side in pixels; 0: that of the source */
    int max_frame_rate;                 /* frames per second at most; 0: all frames */
};

struct cv_output_summary {
    int width, height;
    int64_t frames;      /* number of frames, repeated ones included */
    int64_t duration_us; /* of the output */
    bool sound;
};

/* Encodes one file: H.264 (High, 4:2:0, libx264) and stereo AAC at 48 kHz, or the codecs of the
 * kind; with sound if the source has any. Sound is cut at both ends to the sample. Width and height
 * are even, and never larger than the source's.
 *
 * At each of its times the output shows the frame that the source shows at that time. So it starts
 * with the frame that is shown at time 0, a frame that is too short for the output's times is
 * left out, and one that comes too early for `max_frame_rate` is shown later, if it is still shown
 * then. If the frames start later, the first one is shown from there on. The times
 * of an MP4 are exact to the source's tick. */
struct cv_output;
CV_MUST_CHECK int cv_output_new(const struct cv_output_params *params,
                                struct cv_output **ret_output, struct cv_error *error);
void cv_output_free(struct cv_output *output);
CV_DEFINE_CLEANUP(struct cv_output *, cv_output_free)

/* Adds a frame or a block of sound. Frames and sound each come in presentation order, interleaved
 * as a decoder returns them. Frames and sound from before time 0 may be given. */
CV_MUST_CHECK int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_output_sound(struct cv_output *output, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Fills up sound that ends earlier than `until_us` with silence, so that what comes then and is of before it is
 * dropped. */
CV_MUST_CHECK int cv_output_silence(struct cv_output *output, int64_t until_us,
                                    struct cv_error *error);

/* Adds a chapter to an MP4 or a WebM, of which a frame was shown already. */
CV_MUST_CHECK int cv_output_chapter(struct cv_output *output, int64_t start_us, int64_t end_us,
                                    const char *title, struct cv_error *error);

/* Ends pictures and sound at `end_us`, and completes the file: the last frame
 * is shown until then, and silence is added to sound that is shorter. */
CV_MUST_CHECK int cv_output_finish(struct cv_output *output, int64_t end_us,
                                   struct cv_output_summary *ret_summary, struct cv_error *error);

/* The time base of the pictures in an MP4. It has both the source's ticks and milliseconds, so that
 * pictures of the source and a start that was asked for in milliseconds are exact. */
AVRational cv_mp4_clock(AVRational source);
