/* FFmpeg's errors as ours, its log in ours, its objects as self-cleaning locals. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavformat/avformat.h>
#include <libavutil/dict.h>
#include <libswscale/swscale.h>

/* Raises an AVERROR code: one table (libav.c) says what each code means. A code that only says
 * "something about the data was wrong" becomes `data_error`, which the caller knows best: at
 * opening that is CV_ERROR_NOT_A_VIDEO, at decoding CV_ERROR_DECODE, at writing CV_ERROR_ENCODE.
 * ": <FFmpeg's words>" is put behind the message. */
CV_MUST_CHECK int cv_fail_av(struct cv_error *error, int av_error, enum cv_error_type data_error,
                             const char *format, ...) CV_PRINTF(4, 5);

/* Sends FFmpeg's log to ours at debug level. Thread-safe; costs nothing after the first call. */
void cv_media_capture_log(void);

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
