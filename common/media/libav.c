#include "common/media/libav.h"

#include <libavutil/error.h>
#include <libavutil/log.h>
#include <pthread.h>
#include <string.h>

static const struct {
    int av_error;
    enum cv_error_type type;
} av_error_types[] = {
    {AVERROR(ENOMEM), CV_ERROR_OUT_OF_MEMORY},
    {AVERROR(ENOSPC), CV_ERROR_DISK_FULL},
    {AVERROR(EDQUOT), CV_ERROR_DISK_FULL},
    {AVERROR(EFBIG), CV_ERROR_LIMIT_EXCEEDED},
    {AVERROR(EIO), CV_ERROR_IO},
    {AVERROR(EACCES), CV_ERROR_AUTHORIZATION},
    {AVERROR(EROFS), CV_ERROR_AUTHORIZATION},
    {AVERROR(ETIMEDOUT), CV_ERROR_TIMEOUT},
    {AVERROR_EXIT, CV_ERROR_CANCELED},
    {AVERROR_DECODER_NOT_FOUND, CV_ERROR_UNSUPPORTED_MEDIA},
    {AVERROR_PATCHWELCOME, CV_ERROR_UNSUPPORTED_MEDIA},
    {AVERROR_EXPERIMENTAL, CV_ERROR_UNSUPPORTED_MEDIA},
    {AVERROR_ENCODER_NOT_FOUND, CV_ERROR_CONFIGURATION},
    {AVERROR_MUXER_NOT_FOUND, CV_ERROR_CONFIGURATION},
    {AVERROR_FILTER_NOT_FOUND, CV_ERROR_CONFIGURATION},
    {AVERROR_PROTOCOL_NOT_FOUND, CV_ERROR_CONFIGURATION},
    {AVERROR_OPTION_NOT_FOUND, CV_ERROR_CONFIGURATION},
    {AVERROR_BUG, CV_ERROR_INTERNAL},
    {AVERROR_BUG2, CV_ERROR_INTERNAL},
};

int cv_fail_av(struct cv_error *error, int av_error, enum cv_error_type data_error,
               const char *format, ...)
{
    enum cv_error_type type = data_error;
    for (size_t i = 0; i < CV_COUNT(av_error_types); i++) {
        if (av_error_types[i].av_error == av_error) {
            type = av_error_types[i].type;
        }
    }
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    char reason[AV_ERROR_MAX_STRING_SIZE];
    if (av_error == AVERROR_PATCHWELCOME) {
        (void)snprintf(reason, sizeof(reason), "FFmpeg does not know this variant of the format");
    } else {
        (void)av_make_error_string(reason, sizeof(reason), av_error);
    }
    return cv_fail(error, type, "%s: %s", message, reason);
}

static void log_line(void *context, int level, const char *format, va_list arguments)
{
    if (level > AV_LOG_WARNING) {
        return;
    }
    char line[512];
    int print_prefix = 1;
    (void)av_log_format_line2(context, level, format, arguments, line, sizeof(line), &print_prefix);
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0') {
        cv_log(CV_LOG_DEBUG, "%s", line);
    }
}

static void set_callback(void)
{
    av_log_set_callback(log_line);
}

void cv_media_capture_log(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_callback);
}

/* ---- what FFmpeg 6.1 moved ------------------------------------------------------------------- */

#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(58, 29, 100)

int64_t *cv_av_duration(AVFrame *frame)
{
    return &frame->duration;
}

bool cv_av_is_key_frame(const AVFrame *frame)
{
    return (frame->flags & AV_FRAME_FLAG_KEY) != 0;
}

void cv_av_forget_key_frame(AVFrame *frame)
{
    frame->flags &= ~AV_FRAME_FLAG_KEY;
}

bool cv_av_is_interlaced(const AVFrame *frame)
{
    return (frame->flags & AV_FRAME_FLAG_INTERLACED) != 0;
}

const uint8_t *cv_av_stream_data(const AVStream *stream, enum AVPacketSideDataType type,
                                 size_t *ret_size)
{
    const AVCodecParameters *codec = stream->codecpar;
    const AVPacketSideData *found =
        av_packet_side_data_get(codec->coded_side_data, codec->nb_coded_side_data, type);
    *ret_size = found ? found->size : 0;
    return found ? found->data : NULL;
}

bool cv_av_copy_parameters(AVStream *stream, const AVStream *source)
{
    return avcodec_parameters_copy(stream->codecpar, source->codecpar) >= 0;
}

#else

int64_t *cv_av_duration(AVFrame *frame)
{
    return &frame->pkt_duration;
}

bool cv_av_is_key_frame(const AVFrame *frame)
{
    return frame->key_frame != 0;
}

void cv_av_forget_key_frame(AVFrame *frame)
{
    frame->key_frame = 0;
}

bool cv_av_is_interlaced(const AVFrame *frame)
{
    return frame->interlaced_frame != 0;
}

const uint8_t *cv_av_stream_data(const AVStream *stream, enum AVPacketSideDataType type,
                                 size_t *ret_size)
{
    return av_stream_get_side_data(stream, type, ret_size);
}

bool cv_av_copy_parameters(AVStream *stream, const AVStream *source)
{
    size_t size = 0;
    const uint8_t *matrix = av_stream_get_side_data(source, AV_PKT_DATA_DISPLAYMATRIX, &size);
    uint8_t *copy = NULL;
    if (avcodec_parameters_copy(stream->codecpar, source->codecpar) < 0 ||
        (matrix && !(copy = av_stream_new_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, size)))) {
        return false;
    }
    if (copy) {
        (void)memcpy(copy, matrix, size);
    }
    return true;
}

#endif

void cv_av_copy_picture_form(AVCodecContext *codec, const AVCodecParameters *source)
{
    codec->width = source->width;
    codec->height = source->height;
    codec->pix_fmt = source->format;
    codec->color_range = source->color_range;
    codec->colorspace = source->color_space;
    codec->color_primaries = source->color_primaries;
    codec->color_trc = source->color_trc;
}

/* ---- files that are written -------------------------------------------------------------------- */

int cv_av_file_begin(AVFormatContext *muxer, const char *option, const char *value,
                     struct cv_error *error)
{
    CV_TRY_AV(avio_open2(&muxer->pb, muxer->url, AVIO_FLAG_WRITE, NULL, NULL), error, CV_ERROR_IO,
              "cannot create %s", muxer->url);
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    int result = av_dict_set(&options, option, value, 0);
    result = result < 0 ? result : avformat_write_header(muxer, &options);
    return result < 0
               ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write %s", muxer->oformat->name)
               : 0;
}

int cv_av_file_end(AVFormatContext *muxer, int64_t *ret_bytes, struct cv_error *error)
{
    avio_flush(muxer->pb);
    int result = muxer->pb->error;
    int64_t bytes = avio_tell(muxer->pb);
    int closed = avio_closep(&muxer->pb);
    result = result < 0 ? result : closed;
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot complete the %s file",
                          muxer->oformat->name);
    }
    if (ret_bytes) {
        *ret_bytes = bytes;
    }
    return 0;
}

void cv_av_file_free(AVFormatContext *muxer)
{
    if (muxer) {
        (void)avio_closep(&muxer->pb);
    }
    avformat_free_context(muxer);
}

/* ---- a queue of packets ---------------------------------------------------------------------- */

void cv_packet_queue_deinit(struct cv_packet_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        av_packet_free(&queue->packets[queue->first + i]);
    }
    free(queue->packets);
    *queue = (struct cv_packet_queue){0};
}

int cv_packet_queue_push(struct cv_packet_queue *queue, AVPacket *packet, struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(queue->packets, queue->first + queue->count), error, "packets");
    AVPacket *own = av_packet_alloc();
    CV_TRY_MEMORY(own, error, "packets");
    av_packet_move_ref(own, packet);
    queue->packets[queue->first + queue->count++] = own;
    return 0;
}

AVPacket *cv_packet_queue_pop(struct cv_packet_queue *queue)
{
    if (queue->count == 0) {
        return NULL;
    }
    AVPacket *packet = queue->packets[queue->first++];
    queue->first = --queue->count == 0 ? 0 : queue->first;
    return packet;
}
