/* Decodes the packets of one stream with FFmpeg's own decoder. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

/* Opens a decoder for a stream of any kind; avcodec_free_context() it. */
CV_MUST_CHECK int cv_codec_open(const AVStream *stream, int threads, AVCodecContext **ret_context,
                                struct cv_error *error);

/* Named outcomes of the functions below. */
enum cv_picture_codec_outcome {
    CV_PICTURE_TAKEN = 0,
    CV_PICTURE_NEEDS_PACKET = 1,
    CV_PICTURE_END = 2,
    CV_PICTURE_DAMAGED = 3, /* a picture or a packet was skipped */
    CV_PICTURE_TORN = 4,    /* a picture that could be decoded in part */
};

/* Sends a packet of a video, or with NULL the end; only after cv_codec_receive has asked for one. */
CV_MUST_CHECK int cv_codec_send(AVCodecContext *context, const AVPacket *packet,
                                struct cv_error *error);

/* Reads the next picture, in presentation order, into `picture`, which is empty. */
CV_MUST_CHECK int cv_codec_receive(AVCodecContext *context, AVFrame *picture,
                                   struct cv_error *error);
