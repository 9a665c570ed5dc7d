/* Encodes pictures and sound into one file. */
#pragma once

#include "common/media/decode.h"
#include "common/media/info.h"

#include <libavcodec/avcodec.h>

enum cv_output_kind {
    CV_OUTPUT_MP4,  /* H.264 and AAC, index at the front */
    CV_OUTPUT_WEBM, /* VP9 and Opus; times are rounded to WebM's milliseconds */
    CV_OUTPUT_GIF,  /* 256 colours per picture, silent; times are rounded to 10 ms */
};

struct cv_output_params {
    enum cv_output_kind kind;
    const char *path;                   /* the file */
    const struct cv_media_info *source; /* borrowed until the output is freed */
    struct cv_cancel *cancel;           /* borrowed; an abort ends long operations; may be NULL */
    int threads;                        /* 0 = 1 */
    int max_side;                       /* longest side in pixels; 0: that of the source */
    int max_frame_rate;                 /* frames per second in the long run; 0: all frames */
};

struct cv_output_summary {
    int width, height;
    int64_t frames;      /* number of frames, repeated ones included */
    int64_t duration_us; /* of the output */
    bool sound;
};

/* Encodes one file: H.264 (High, 4:2:0, libx264) and stereo AAC at 48 kHz, or the codecs of the
 * kind; with sound if the source has any. Time 0 is the first frame, and the sound is cut at both
 * ends to the sample. Width and height are even, and never larger than the source's. Times are
 * those of the frames, in MP4 exact to the source's tick. */
struct cv_output;
CV_MUST_CHECK int cv_output_new(const struct cv_output_params *params,
                                struct cv_output **ret_output, struct cv_error *error);
void cv_output_free(struct cv_output *output);
CV_DEFINE_CLEANUP(struct cv_output *, cv_output_free)

/* Adds a frame or a block of sound. Frames and sound each come in presentation order, interleaved
 * as a decoder returns them. An MP4 starts with its first frame: earlier sound is dropped. */
CV_MUST_CHECK int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_output_sound(struct cv_output *output, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Ends pictures and sound at the same time and completes the file. That time is the end of the
 * longer of the two; in an MP4 it is the end of the last frame, but if sound continues much longer,
 * the last frame is shown until the sound ends. It is never later than `end_us` on the source's
 * presentation axis (INT64_MAX: no limit). */
CV_MUST_CHECK int cv_output_finish(struct cv_output *output, int64_t end_us,
                                   struct cv_output_summary *ret_summary, struct cv_error *error);

/* Writes encoded packets to a file of one format. */

struct cv_sink_streams {
    const AVCodecContext *video;
    const AVCodecContext *audio; /* NULL: silent */
};

/* One output format. `sink` is the object that open() returned. */
struct cv_sink_type {
    int (*open)(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                struct cv_error *error);
    /* Writes one packet. Packets of both streams must come in order of their decoding times, in
     * their encoder's time base. Takes the packet's data over. */
    int (*write)(void *sink, AVPacket *packet, bool is_video, struct cv_error *error);
    /* Completes the files; `end_us` is where the presentation ends. */
    int (*finish)(void *sink, int64_t end_us, struct cv_error *error);
    void (*close)(void *sink);
    bool global_header;
};

/* `path` is the file. A GIF takes no sound. */
extern const struct cv_sink_type cv_sink_mp4, cv_sink_webm, cv_sink_gif;

/* The time base of the pictures in an MP4: the source's own, so that its time stamps stay exact,
 * multiplied if MP4 needs a finer one. */
AVRational cv_sink_mp4_clock(AVRational source);
