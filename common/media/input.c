#include "common/media/input.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/streams.h"

#include <libavutil/opt.h>
#include <string.h>

enum {
    READ_BUFFER = 256 * 1024,        /* one store read; a few frames of a phone recording */
    READ_FIRST = 32 * 1024,          /* behind a seek, when a few bytes of a header may be all */
    PROBE_BYTES = 32 * 1024 * 1024,  /* enough for one intra frame of 8K video */
    PROBE_US = 5 * 1000 * 1000,      /* of stream time, for containers without a header */
    STREAMS_MAX = 128,               /* a real recording has fewer than ten */
    ENCRYPTION_SCAN = 1024 * 1024,   /* where a protected file's sample entries are looked for */
    CLOCK_JUMP_BACK_US = 1000 * 1000 /* more than any reordering or interleaving error */
};

/* A pause longer than this is a broken timestamp; recordings paused over a meal are not. */
#define CLOCK_JUMP_AHEAD_US (INT64_C(6) * 3600 * 1000 * 1000)

/* Moving pictures with a clock of their own. Not here, on purpose: whatever opens further files
 * (hls, dash, concat, sdp, imf), still pictures (image2, *_pipe), text as a terminal (tty), and
 * devices. */
static const char *const format_whitelist =
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,flv,live_flv,mpegts,mpeg,mpegvideo,m4v,asf,ogg,gif,"
    "apng,mxf,nut,ivf,obu,h264,hevc,rm,wtv,dv,yuv4mpegpipe,wav,mp3,aac,flac";

static int read_source(void *opaque, uint8_t *data, int size)
{
    struct cv_input *input = opaque;
    if (input->read_failed) {
        return AVERROR(EIO);
    }
    size_t got = 0;
    if (input->position < 0 || input->position >= input->source.size) {
        return AVERROR_EOF;
    }
    if (input->position != input->read_end) {
        input->read_size = READ_FIRST;
    }
    size_t wanted = size < input->read_size ? (size_t)size : (size_t)input->read_size;
    if (input->source.read(input->source.opaque, input->position, data, wanted, &got,
                           &input->read_error) != 0) {
        input->read_failed = true;
        return AVERROR(EIO);
    }
    if (got == 0) {
        return AVERROR_EOF;
    }
    input->position += (int64_t)got;
    input->read_end = input->position;
    input->read_size = input->read_size < READ_BUFFER ? 2 * input->read_size : READ_BUFFER;
    return (int)got;
}

static int64_t seek_source(void *opaque, int64_t offset, int whence)
{
    struct cv_input *input = opaque;
    switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE:
        return input->source.size;
    case SEEK_SET:
        break;
    case SEEK_CUR:
        offset += input->position;
        break;
    case SEEK_END:
        offset += input->source.size;
        break;
    default:
        return AVERROR(EINVAL);
    }
    if (offset < 0) {
        return AVERROR(EINVAL);
    }
    input->position = offset;
    return offset;
}

static int refuse_open(struct AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                       AVDictionary **options)
{
    (void)format, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EPERM);
}

static int is_interrupted(void *opaque)
{
    return cv_cancel_level(opaque) >= CV_CANCEL_ABORT;
}

/* What stopped a call: the cancel object, the byte source, or the data itself. */
static int fail_input(struct cv_input *input, int av_error, enum cv_error_type data_error,
                      const char *what, struct cv_error *error)
{
    if (is_interrupted(input->cancel)) {
        return cv_fail(error, CV_ERROR_CANCELED, "%s: stopped", what);
    }
    if (input->read_failed) {
        *error = input->read_error;
        return -1;
    }
    return cv_fail_av(error, av_error, data_error, "%s", what);
}

/* A protected MP4 whose tables cannot be read still names its scheme in the sample entries. */
static bool looks_encrypted(struct cv_input *input)
{
    cv_auto_free char *data = malloc(ENCRYPTION_SCAN);
    struct cv_error ignored;
    size_t length = 0;
    while (data && length < ENCRYPTION_SCAN) {
        size_t got = 0;
        if (input->source.read(input->source.opaque, (int64_t)length, data + length,
                               ENCRYPTION_SCAN - length, &got, &ignored) != 0 ||
            got == 0) {
            break;
        }
        length += got;
    }
    return data && length > 8 && memcmp(data + 4, "ftyp", 4) == 0 &&
           memmem(data, length, "encv", 4) && memmem(data, length, "schm", 4);
}

static int open_container(struct cv_input *input, struct cv_error *error)
{
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    if (av_dict_set(&options, "format_whitelist", format_whitelist, 0) < 0 ||
        av_dict_set(&options, "protocol_whitelist", "none", 0) < 0 ||
        av_dict_set_int(&options, "probesize", PROBE_BYTES, 0) < 0 ||
        av_dict_set_int(&options, "analyzeduration", PROBE_US, 0) < 0 ||
        av_dict_set_int(&options, "max_streams", STREAMS_MAX, 0) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a container's options");
    }
    int result = avformat_open_input(&input->format, NULL, NULL, &options);
    if (result == 0) {
        return 0;
    }
    if (result == AVERROR_INVALIDDATA && !input->read_failed && looks_encrypted(input)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the video is encrypted and cannot be read without its key");
    }
    return fail_input(input, result == AVERROR(EIO) ? AVERROR_INVALIDDATA : result,
                      CV_ERROR_NOT_A_VIDEO, "the file is not a video in any known format", error);
}

static int probe_streams(struct cv_input *input, struct cv_error *error)
{
    unsigned count = input->format->nb_streams;
    AVDictionary **options = count > 0 ? calloc(count, sizeof(*options)) : NULL;
    if (count > 0 && !options) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for %u streams", count);
    }
    /* Probing decodes a frame or two: no picture larger than what would be decoded later. */
    for (unsigned i = 0; i < count; i++) {
        (void)av_dict_set_int(&options[i], "max_pixels", CV_MEDIA_AREA_MAX, 0);
    }
    int result = avformat_find_stream_info(input->format, options);
    for (unsigned i = 0; i < count; i++) {
        av_dict_free(&options[i]);
    }
    free(options);
    if (result < 0 || input->read_failed || is_interrupted(input->cancel)) {
        return fail_input(input, result, CV_ERROR_NOT_A_VIDEO, "cannot read the file's streams",
                          error);
    }
    return 0;
}

static void forget_times(struct cv_input *input)
{
    for (size_t i = 0; i < CV_COUNT(input->last_dts_us); i++) {
        input->last_dts_us[i] = AV_NOPTS_VALUE;
    }
}

int cv_input_track(const struct cv_input *input, const AVStream *stream)
{
    for (int i = 0; i < input->info.track_count; i++) {
        if (input->tracks[i] == stream) {
            return i;
        }
    }
    return -1;
}

int cv_input_open(const struct cv_byte_source *source, struct cv_cancel *cancel,
                  struct cv_input **ret_input, struct cv_error *error)
{
    cv_media_capture_log();
    if (source->size == 0) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "the file is empty");
    }
    cv_auto(cv_input_close) struct cv_input *input = calloc(1, sizeof(*input));
    unsigned char *buffer = av_malloc(READ_BUFFER);
    if (input && buffer) {
        input->io =
            avio_alloc_context(buffer, READ_BUFFER, 0, input, read_source, NULL, seek_source);
    }
    if (!input || !input->io) {
        av_free(buffer);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a container");
    }
    input->source = *source;
    input->cancel = cancel;
    input->read_size = READ_FIRST;
    forget_times(input);
    input->format = avformat_alloc_context();
    if (!input->format) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a container");
    }
    input->format->pb = input->io;
    input->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    input->format->io_open = refuse_open;
    input->format->interrupt_callback = (AVIOInterruptCB){is_interrupted, cancel};

    int result = open_container(input, error);
    result = result ? result : probe_streams(input, error);
    result = result ? result : cv_streams_choose(input, error);
    if (result != 0) {
        return result;
    }
    *ret_input = cv_take(input);
    return 0;
}

void cv_input_close(struct cv_input *input)
{
    if (input) {
        avformat_close_input(&input->format);
        if (input->io) {
            av_freep(&input->io->buffer);
            avio_context_free(&input->io);
        }
        free(input);
    }
}

int64_t cv_input_time_us(const struct cv_input *input, const AVStream *stream, int64_t timestamp)
{
    if (timestamp == AV_NOPTS_VALUE) {
        return AV_NOPTS_VALUE;
    }
    return av_rescale_q(timestamp, stream->time_base, AV_TIME_BASE_Q) - input->zero_us;
}

/* Recordings that were joined start their clock again: the jump is taken out of both streams, so
 * that sound and picture stay together. */
static void follow_clock(struct cv_input *input, const AVStream *stream, AVPacket *packet)
{
    if (packet->dts == AV_NOPTS_VALUE) {
        return;
    }
    int64_t *last = &input->last_dts_us[1 + cv_input_track(input, stream)];
    int64_t dts = av_rescale_q(packet->dts, stream->time_base, AV_TIME_BASE_Q) + input->shift_us;
    bool jumps = *last != AV_NOPTS_VALUE &&
                 (dts < *last - CLOCK_JUMP_BACK_US || dts > *last + CLOCK_JUMP_AHEAD_US);
    if (jumps) {
        input->shift_us += *last - dts;
        dts = *last;
    }
    *last = dts;
    if (input->shift_us != 0) {
        int64_t shift = av_rescale_q(input->shift_us, AV_TIME_BASE_Q, stream->time_base);
        packet->dts += shift;
        packet->pts = packet->pts == AV_NOPTS_VALUE ? AV_NOPTS_VALUE : packet->pts + shift;
    }
}

int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error)
{
    for (;;) {
        av_packet_unref(packet);
        int result = av_read_frame(input->format, packet);
        if (input->read_failed || is_interrupted(input->cancel) || result == AVERROR(ENOMEM)) {
            return fail_input(input, result, CV_ERROR_DECODE, "cannot read the video", error);
        }
        if (result < 0) {
            /* The end, or nothing further can be found in a damaged or truncated file. */
            return CV_INPUT_END;
        }
        const AVStream *stream = input->format->streams[packet->stream_index];
        if (stream == input->video || cv_input_track(input, stream) >= 0) {
            follow_clock(input, stream, packet);
            return CV_INPUT_PACKET;
        }
    }
}

/* Transport and program streams have no index and find times by guessing, which the very first
 * pictures escape; but they can be read from any byte. */
static int seek_start(struct cv_input *input)
{
    const AVStream *stream = input->video;
    if (input->format->iformat->flags & AVFMT_TS_DISCONT) {
        return av_seek_frame(input->format, -1, 0, AVSEEK_FLAG_BYTE);
    }
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;
    /* An index goes by decoding times, and may begin before anything is shown. */
    const AVIndexEntry *first = avformat_index_get_entry(input->video, 0);
    start = first && first->timestamp < start ? first->timestamp : start;
    int result = avformat_seek_file(input->format, stream->index, INT64_MIN, start, INT64_MAX,
                                    AVSEEK_FLAG_BACKWARD);
    return result < 0 ? av_seek_frame(input->format, -1, 0, AVSEEK_FLAG_BYTE) : result;
}

int cv_input_seek(struct cv_input *input, int64_t time_us, struct cv_error *error)
{
    forget_times(input);
    input->shift_us = 0;
    const AVStream *stream = input->video;
    int64_t target = av_rescale_q(time_us + input->zero_us, AV_TIME_BASE_Q, stream->time_base);
    int result = -1;
    if (time_us > 0) {
        result = av_seek_frame(input->format, stream->index, target, AVSEEK_FLAG_BACKWARD);
    }
    if (result < 0) {
        result = seek_start(input);
    }
    if (result < 0 || input->read_failed || is_interrupted(input->cancel)) {
        return fail_input(input, result, CV_ERROR_DECODE, "cannot seek in the video", error);
    }
    return 0;
}
