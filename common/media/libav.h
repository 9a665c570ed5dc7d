/* Destructors of FFmpeg's objects as self-cleaning locals. Private to common/media. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavformat/avformat.h>
#include <libavutil/dict.h>
#include <libswscale/swscale.h>

static inline void cv_av_frame_free(AVFrame *frame)
{
    av_frame_free(&frame);
}
CV_DEFINE_CLEANUP(AVFrame *, cv_av_frame_free)

static inline void cv_av_packet_free(AVPacket *packet)
{
    av_packet_free(&packet);
}
CV_DEFINE_CLEANUP(AVPacket *, cv_av_packet_free)

static inline void cv_av_codec_free(AVCodecContext *codec)
{
    avcodec_free_context(&codec);
}
CV_DEFINE_CLEANUP(AVCodecContext *, cv_av_codec_free)

static inline void cv_av_dict_free(AVDictionary *dictionary)
{
    av_dict_free(&dictionary);
}
CV_DEFINE_CLEANUP(AVDictionary *, cv_av_dict_free)

static inline void cv_av_graph_free(AVFilterGraph *graph)
{
    avfilter_graph_free(&graph);
}
CV_DEFINE_CLEANUP(AVFilterGraph *, cv_av_graph_free)

static inline void cv_av_inout_free(AVFilterInOut *ends)
{
    avfilter_inout_free(&ends);
}
CV_DEFINE_CLEANUP(AVFilterInOut *, cv_av_inout_free)

CV_DEFINE_CLEANUP(struct SwsContext *, sws_freeContext)
