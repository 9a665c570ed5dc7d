/* Converts FFmpeg's errors and log to ours, and frees FFmpeg's objects automatically. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavcodec/packet.h>
#include <libavfilter/avfilter.h>
#include <libavformat/avformat.h>
#include <libavutil/dict.h>
#include <libswscale/swscale.h>

/* Fails with the error for an AVERROR code, by the table in libav.c. Codes that only say "the data
 * is invalid" become `data_error`, which the caller chooses: CV_ERROR_NOT_A_VIDEO when opening,
 * CV_ERROR_DECODE when decoding, CV_ERROR_ENCODE when writing. ": <FFmpeg's text>" is appended to
 * the message. */
CV_MUST_CHECK int cv_fail_av(struct cv_error *error, int av_error, enum cv_error_type data_error,
                             const char *format, ...) CV_PRINTF(4, 5);

/* Ends the calling function with cv_fail_av() if `call`, to FFmpeg, returns a negative value. */
#define CV_TRY_AV(call, error, data_error, ...)                                                  \
    do {                                                                                         \
        int cv_av_result = (call);                                                               \
        CV_TRY(cv_av_result < 0 ? cv_fail_av(error, cv_av_result, data_error, __VA_ARGS__) : 0); \
    } while (0)

/* Redirects FFmpeg's log to ours at debug level. Thread-safe; calls after the first do nothing. */
void cv_media_capture_log(void);

/* FFmpeg's destructors take the pointer's address; ours take the pointer. */
#define CV_DEFINE_AV_FREE(type, name, function) \
    static inline void name(type *value)        \
    {                                           \
        function(&value);                       \
    }                                           \
    CV_DEFINE_CLEANUP(type *, name)

CV_DEFINE_AV_FREE(AVFrame, cv_av_frame_free, av_frame_free)
CV_DEFINE_AV_FREE(AVPacket, cv_av_packet_free, av_packet_free)
CV_DEFINE_AV_FREE(AVCodecContext, cv_av_codec_free, avcodec_free_context)
CV_DEFINE_AV_FREE(AVDictionary, cv_av_dict_free, av_dict_free)
CV_DEFINE_AV_FREE(AVFilterInOut, cv_av_inout_free, avfilter_inout_free)
CV_DEFINE_CLEANUP(struct SwsContext *, sws_freeContext)

/* ---- what FFmpeg 6.1 moved: Debian 12 has 5.1, Debian 13 has 7.1 ------------------------------ */

/* Where a frame's duration is, in the stream's time base. */
int64_t *cv_av_duration(AVFrame *frame);

bool cv_av_is_key_frame(const AVFrame *frame);
void cv_av_forget_key_frame(AVFrame *frame);
bool cv_av_is_interlaced(const AVFrame *frame);

/* Data of this type that the container has for the stream, borrowed; NULL if there is none. */
const uint8_t *cv_av_stream_data(const AVStream *stream, enum AVPacketSideDataType type,
                                 size_t *ret_size);

/* Gives an encoder the size, pixel format and colours of a stream, and nothing else of it. */
void cv_av_copy_picture_form(AVCodecContext *codec, const AVCodecParameters *source);

/* Gives a stream of an output the codec parameters of another stream, and its display matrix. False
 * if there is no memory. */
CV_MUST_CHECK bool cv_av_copy_parameters(AVStream *stream, const AVStream *source);

/* ---- files that are written -------------------------------------------------------------------- */

/* Creates the file at the muxer's URL and writes its header, with one option of the muxer. */
CV_MUST_CHECK int cv_av_file_begin(AVFormatContext *muxer, const char *option, const char *value,
                                   struct cv_error *error);

/* Closes a muxer's file, and tells its size (unless NULL). */
CV_MUST_CHECK int cv_av_file_end(AVFormatContext *muxer, int64_t *ret_bytes,
                                 struct cv_error *error);

/* Frees the muxer (may be NULL), and closes its file if it is open. */
void cv_av_file_free(AVFormatContext *muxer);

/* ---- a queue of encoded packets ---------------------------------------------------------------- */

struct cv_packet_queue {
    AVPacket **packets;
    size_t first, count;
};

void cv_packet_queue_deinit(struct cv_packet_queue *queue);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_packet_queue, cv_packet_queue_deinit)

/* Appends the packet: moves its data and leaves it blank. */
CV_MUST_CHECK int cv_packet_queue_push(struct cv_packet_queue *queue, AVPacket *packet,
                                       struct cv_error *error);

/* Removes the first packet and returns it; NULL if the queue is empty. av_packet_free the result. */
AVPacket *cv_packet_queue_pop(struct cv_packet_queue *queue);
