/* Encodes pictures, and sound without gaps. */
#pragma once

#include "common/media/decode.h"
#include "common/media/info.h"
#include "common/media/sound.h"

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>

/* ---- sound: stereo AAC or Opus at 48 kHz ------------------------------------------------------ */

enum { CV_SOUND_RATE = 48000 };

struct cv_sound_encoder;

struct cv_sound_encoder_params {
    int64_t origin_us; /* time of sample 0 on the presentation's axis */
    bool opus;         /* Opus (for WebM) instead of AAC */
    bool global_header;
    struct cv_cancel *cancel; /* borrowed; an abort ends the filling of gaps with silence */
    /* Must remove the packets that cv_sound_encoder_packet has ready. Called for each second of
     * silence that fills a gap, so that the packets of a long gap do not accumulate in memory. */
    int (*drain)(void *opaque, struct cv_error *error);
    void *opaque;
};

CV_MUST_CHECK int cv_sound_encoder_new(const struct cv_sound_encoder_params *params,
                                       struct cv_sound_encoder **ret_encoder,
                                       struct cv_error *error);
void cv_sound_encoder_free(struct cv_sound_encoder *encoder);
CV_DEFINE_CLEANUP(struct cv_sound_encoder *, cv_sound_encoder_free)

const AVCodecContext *cv_sound_encoder_codec(const struct cv_sound_encoder *encoder);

/* The end of the sound that was written so far, on the presentation's axis. */
int64_t cv_sound_encoder_end_us(const struct cv_sound_encoder *encoder);

/* As cv_sound_line_write(). */
CV_MUST_CHECK int cv_sound_encoder_write(struct cv_sound_encoder *encoder,
                                         const struct cv_sound *sound, struct cv_error *error);

/* Fills up with silence to `time_us` if the sound ends earlier. */
CV_MUST_CHECK int cv_sound_encoder_pad(struct cv_sound_encoder *encoder, int64_t time_us,
                                       struct cv_error *error);

/* Ends the sound at exactly `time_us`, by adding silence or dropping samples; then
 * cv_sound_encoder_packet returns the remaining packets. */
CV_MUST_CHECK int cv_sound_encoder_finish(struct cv_sound_encoder *encoder, int64_t time_us,
                                          struct cv_error *error);

enum cv_sound_encoder_outcome { CV_SOUND_PACKET = 0, CV_SOUND_NEEDS_MORE = 1, CV_SOUND_END = 2 };

/* Returns the next packet, with time base 1/48000. Sample 0 has time 0; the encoder's priming is
 * before it. */
CV_MUST_CHECK int cv_sound_encoder_packet(struct cv_sound_encoder *encoder, AVPacket *packet,
                                          struct cv_error *error);

/* ---- pictures: H.264 (libx264), VP9 for WebM, palettes for GIF -------------------------------- */

enum cv_video_codec {
    CV_VIDEO_H264,
    CV_VIDEO_VP9, /* for WebM */
    CV_VIDEO_GIF, /* of pictures with palettes (cv_palette) */
};

struct cv_video_encoder_params {
    enum cv_video_codec codec;
    int width, height;
    AVRational time_base;
    double frame_rate; /* for the level; 0: unknown */
    int threads;
    int max_rate;         /* highest bits per second over a short time; 0: no limit */
    bool global_header;   /* parameter sets in the header (MP4), not in the stream (MPEG-TS) */
    bool forced_keys;     /* only the frames that the caller marks are key frames */
    const AVFrame *first; /* the stream takes its colours and aspect ratio */
};

/* avcodec_free_context the result. */
CV_MUST_CHECK int cv_video_encoder_open(const struct cv_video_encoder_params *params,
                                        AVCodecContext **ret_encoder, struct cv_error *error);
