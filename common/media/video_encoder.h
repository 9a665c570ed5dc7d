/* H.264 through libx264, and what other files than MP4 hold. */
#pragma once

#include "common/media/info.h"

#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>

struct cv_video_encoder_params {
    int width, height;
    AVRational time_base;
    double frame_rate; /* for the level; 0: unknown */
    int threads;
    int max_rate;         /* bits per second at most, in the short run; 0: what quality takes */
    bool global_header;   /* parameter sets beside the stream (MP4), not in it (MPEG-TS) */
    bool forced_keys;     /* key frames are where the caller says, and nowhere else */
    const AVFrame *first; /* its colours and aspect become the stream's */
};

/* avcodec_free_context the result. */
CV_MUST_CHECK int cv_video_encoder_open(const struct cv_video_encoder_params *params,
                                        AVCodecContext **ret_encoder, struct cv_error *error);

/* VP9 of ordinary quality, for WebM; and pictures with palettes (cv_palette), for GIF. Errors and
 * ownership as above; rates, bounds and forced keys are not looked at. */
CV_MUST_CHECK int cv_vp9_encoder_open(const struct cv_video_encoder_params *params,
                                      AVCodecContext **ret_encoder, struct cv_error *error);
CV_MUST_CHECK int cv_gif_encoder_open(const struct cv_video_encoder_params *params,
                                      AVCodecContext **ret_encoder, struct cv_error *error);
