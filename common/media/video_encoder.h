/* Opens video encoders: H.264 (libx264), VP9 for WebM, palette pictures for GIF. */
#pragma once

#include "common/media/info.h"

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>

struct cv_video_encoder_params {
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

/* Opens an encoder for VP9 of ordinary quality (WebM), or for pictures with palettes (cv_palette;
 * GIF). Errors and ownership as above; frame_rate, max_rate and forced_keys are ignored. */
CV_MUST_CHECK int cv_vp9_encoder_open(const struct cv_video_encoder_params *params,
                                      AVCodecContext **ret_encoder, struct cv_error *error);
CV_MUST_CHECK int cv_gif_encoder_open(const struct cv_video_encoder_params *params,
                                      AVCodecContext **ret_encoder, struct cv_error *error);
