#include "common/media/demux.h"

#include "common/media/boxes.h"
#include "common/media/libav.h"
#include "common/media/refuse.h"
#include "common/media/streams.h"

#include <string.h>

/* ---- the container --------------------------------------------------------------------------- */

enum {
    READ_BUFFER = 256 * 1024,        /* one store read; a few frames of a phone recording */
    READ_FIRST = 32 * 1024,          /* after a seek, when perhaps few bytes are needed */
    PROBE_BYTES = 32 * 1024 * 1024,  /* enough for one intra frame of 8K video */
    PROBE_US = 5 * 1000 * 1000,      /* of stream time, for containers without a header */
    STREAMS_MAX = 128,               /* a real recording has fewer than ten */
    MEMORY_PROBE = 64 * 1024 * 1024, /* larger than the tables or one packet of any real file */
    AHEAD_BYTES = 4 * 1024 * 1024,   /* of packets that are read ahead */
    /* How often a file's bytes may be read. Once is usual; a few times if an edit list repeats a
     * part, or if blocks were compressed. A hostile table of a megabyte can refer to the same bytes
     * for days. */
    TIMES_MAX = 4,
    TIMES_FREE = 64 * 1024, /* bytes allowed in addition, for small files */
};

/* A time stamp larger than this (three centuries) is ignored; sums of smaller ones cannot overflow. */
#define TIME_MAX_US (INT64_C(1) << 53)

/* Formats of moving pictures with time stamps. Deliberately missing: formats that open further
 * files (hls, dash, concat, sdp, imf), still pictures (image2, *_pipe), text shown as a terminal
 * (tty), and devices. */
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

/* Whether an allocation failed because it was absurdly large, although memory is available. */
static bool memory_is_left(void)
{
    void *volatile probe = malloc(MEMORY_PROBE);
    bool is_left = probe != NULL;
    free(probe);
    return is_left;
}

/* Fails with what stopped a call of libavformat: the cancel object, the byte source, or the data. */
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
    if (av_error == AVERROR(ENOMEM) && memory_is_left()) {
        return cv_fail(
            error, CV_ERROR_DECODE,
            "the file is damaged: a count in it asks for more memory than a video needs");
    }
    return cv_fail_av(error, av_error, data_error, "%s", what);
}

/* Fails for a file in which libavformat found no video: with what the file is, else in general. */
static int refuse_file(struct cv_input *input, int av_error, struct cv_error *error)
{
    bool is_data = av_error == AVERROR_INVALIDDATA || av_error == AVERROR(EINVAL) ||
                   av_error == AVERROR(EIO) || av_error == AVERROR_EOF;
    if (is_data && !input->read_failed && !is_interrupted(input->cancel)) {
        CV_TRY(cv_refuse_recognised(&input->source, error));
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                       "the file is in no video format that is known here, or damaged where it "
                       "begins; check that it plays elsewhere");
    }
    return fail_input(input, av_error, CV_ERROR_NOT_A_VIDEO, "cannot read the file's head", error);
}

static int open_container(struct cv_input *input, struct cv_error *error)
{
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    CV_TRY_MEMORY(av_dict_set(&options, "format_whitelist", format_whitelist, 0) >= 0 &&
                      av_dict_set(&options, "protocol_whitelist", "none", 0) >= 0 &&
                      av_dict_set_int(&options, "probesize", PROBE_BYTES, 0) >= 0 &&
                      av_dict_set_int(&options, "analyzeduration", PROBE_US, 0) >= 0 &&
                      av_dict_set_int(&options, "max_streams", STREAMS_MAX, 0) >= 0,
                  error, "a container's options");
    int result = avformat_open_input(&input->format, NULL, NULL, &options);
    return result == 0 ? 0 : refuse_file(input, result, error);
}

static int probe_streams(struct cv_input *input, struct cv_error *error)
{
    unsigned count = input->format->nb_streams;
    AVDictionary **options = count > 0 ? calloc(count, sizeof(*options)) : NULL;
    if (count > 0 && !options) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for %u streams", count);
    }
    /* Probing decodes a frame or two, so the size limit of decoding must hold here, too. */
    for (unsigned i = 0; i < count; i++) {
        (void)av_dict_set_int(&options[i], "max_pixels", CV_MEDIA_AREA_MAX, 0);
    }
    int result = avformat_find_stream_info(input->format, options);
    for (unsigned i = 0; i < count; i++) {
        av_dict_free(&options[i]);
    }
    free(options);
    if (result < 0 || input->read_failed || is_interrupted(input->cancel)) {
        return refuse_file(input, result, error);
    }
    return 0;
}

static void forget_ahead(struct cv_input *input)
{
    for (size_t i = 0; i < input->ahead_count; i++) {
        av_packet_free(&input->ahead[i]);
    }
    input->ahead_count = input->ahead_bytes = 0;
    input->ended = false;
    input->last_is_corrupt = false;
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
        return cv_refuse_recognised(source, error);
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
    input->left_out_us = INT64_MAX;
    cv_timeline_reset(&input->timeline, 0);
    input->timeline.file_bytes = source->size;
    input->format = avformat_alloc_context();
    CV_TRY_MEMORY(input->format, error, "a container");
    input->format->pb = input->io;
    input->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    input->format->io_open = refuse_open;
    input->format->interrupt_callback = (AVIOInterruptCB){is_interrupted, cancel};

    CV_TRY(open_container(input, error));
    CV_TRY(probe_streams(input, error));
    CV_TRY(cv_input_choose_streams(input, error));
    input->timeline.restarts = (input->format->iformat->flags & AVFMT_TS_DISCONT) != 0;
    if (input->format->duration_estimation_method == AVFMT_DURATION_FROM_STREAM) {
        /* The longer of the stream's and the container's; of an MP4, both may count decoding times
         * (read_movie_length). */
        int64_t whole_us = input->format->duration < TIME_MAX_US ? input->format->duration : 0;
        input->timeline.claimed_us =
            whole_us > input->info.duration_us ? whole_us : input->info.duration_us;
    }
    *ret_input = cv_take(input);
    return 0;
}

void cv_input_close(struct cv_input *input)
{
    if (input) {
        forget_ahead(input);
        cv_subtitle_tracks_close(input->subtitles);
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

/* ---- a file that was cut off ----------------------------------------------------------------- */

/* Returns whether a file was cut off, as by an interrupted download. */

enum {
    TOLERANCE_PARTS = 50
}; /* tolerated part of the duration: muxers round, and sound ends at its last packet */

/* Records the end time of a packet that was read. */
static void record_end(struct cv_input *input, const AVPacket *packet)
{
    const AVStream *stream = input->format->streams[packet->stream_index];
    input->last_is_corrupt = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    int64_t time_us = cv_input_time_us(input, stream, packet->pts);
    int64_t duration_us = av_rescale_q(packet->duration, stream->time_base, AV_TIME_BASE_Q);
    if (time_us != AV_NOPTS_VALUE && av_sat_add64(time_us, duration_us) > input->read_end_us) {
        input->read_end_us = av_sat_add64(time_us, duration_us);
    }
}

/* Whether the index of an MP4 lists bytes behind the end of the file. */
static bool lists_too_much(const struct cv_input *input)
{
    int count = avformat_index_get_entries_count(input->video);
    for (int i = 0; i < count; i++) {
        const AVIndexEntry *entry = avformat_index_get_entry(input->video, i);
        if (av_sat_add64(entry->pos, entry->size) > input->source.size) {
            return true;
        }
    }
    return false;
}

/* Whether the packets recorded so far end before the length that the file announces. */
static bool ends_early(const struct cv_input *input)
{
    /* The duration in the header of a fragmented MP4 means nothing. */
    if (input->last_is_corrupt || strstr(input->format->iformat->name, "mp4")) {
        return input->last_is_corrupt || lists_too_much(input);
    }
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        const AVStream *stream = input->format->streams[i];
        if (stream != input->video && cv_input_track(input, stream) < 0) {
            return false; /* a stream that is not read, such as subtitles, may be longer */
        }
    }
    int64_t tolerance_us = input->info.duration_us / TOLERANCE_PARTS;
    tolerance_us = tolerance_us > AV_TIME_BASE ? tolerance_us : AV_TIME_BASE;
    return input->info.duration_us - input->read_end_us > tolerance_us;
}

/* ---- packets --------------------------------------------------------------------------------- */

static int64_t moment_us(const struct cv_input *input, const AVStream *stream, int64_t timestamp)
{
    int64_t time_us = cv_input_time_us(input, stream, timestamp);
    return llabs(time_us) <= TIME_MAX_US ? time_us : AV_NOPTS_VALUE;
}

static struct cv_moment moment_of(const struct cv_input *input, const AVPacket *packet)
{
    const AVStream *stream = input->format->streams[packet->stream_index];
    int64_t duration_us = av_rescale_q(packet->duration, stream->time_base, AV_TIME_BASE_Q);
    return (struct cv_moment){
        .stream = 1 + cv_input_track(input, stream),
        .dts_us = moment_us(input, stream, packet->dts),
        .pts_us = moment_us(input, stream, packet->pts),
        .duration_us = duration_us > TIME_MAX_US ? TIME_MAX_US : duration_us,
        .bytes = packet->size,
    };
}

static int count_bytes(struct cv_input *input, const AVPacket *packet, struct cv_error *error)
{
    input->packet_bytes += packet->size;
    input->seek_bytes += packet->size;
    if (input->seek_bytes > TIMES_MAX * input->source.size + TIMES_FREE) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "the file shows the same bytes again and again: %lld KiB of it make more "
                       "than %lld KiB of pictures and sound",
                       (long long)input->source.size >> 10, (long long)input->seek_bytes >> 10);
    }
    return 0;
}

/* Reads one more packet of the chosen streams and appends it to those that were read ahead. */
static int read_ahead(struct cv_input *input, struct cv_error *error)
{
    AVPacket *packet = av_packet_alloc();
    CV_TRY_MEMORY(packet, error, "a packet");
    while (!input->ended) {
        av_packet_unref(packet);
        int result = av_read_frame(input->format, packet);
        if (input->read_failed || is_interrupted(input->cancel) || result == AVERROR(ENOMEM)) {
            av_packet_free(&packet);
            return fail_input(input, result, CV_ERROR_DECODE, "cannot read the video", error);
        }
        if (result < 0) {
            /* The end of the file, or nothing more can be read from a damaged or truncated file. */
            input->ended = true;
            input->cut_off = result != AVERROR_EOF || ends_early(input);
            break;
        }
        const AVStream *stream = input->format->streams[packet->stream_index];
        if (count_bytes(input, packet, error) != 0) {
            av_packet_free(&packet);
            return -1;
        }
        bool is_subtitle;
        if (cv_subtitle_tracks_read(input->subtitles, packet, input->zero_us, &is_subtitle,
                                    error) != 0) {
            av_packet_free(&packet);
            return -1;
        }
        if (is_subtitle) {
            continue;
        }
        record_end(input, packet);
        if (stream == input->video &&
            av_packet_get_side_data(packet, AV_PKT_DATA_ENCRYPTION_INFO, NULL)) {
            av_packet_free(&packet);
            return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, CV_MEDIA_ENCRYPTED);
        }
        if (stream == input->video || cv_input_track(input, stream) >= 0) {
            input->ahead[input->ahead_count++] = packet;
            input->ahead_bytes += (size_t)packet->size;
            return 0;
        }
    }
    av_packet_free(&packet);
    return 0;
}

/* Whether a packet is a picture that an edit list leaves out. */
static bool is_left_out(const struct cv_input *input, const AVPacket *packet)
{
    return packet->stream_index == input->video->index && (packet->flags & AV_PKT_FLAG_DISCARD);
}

/* Has the timeline know the length of the presentation that an MP4's header announces. The stream's
 * duration counts decoding times, and so does the container's in FFmpeg 7.1: without the time that
 * the last picture waits, if pictures are reordered. Few files need it, so it is read when one does. */
static int read_movie_length(struct cv_input *input, struct cv_error *error)
{
    int64_t movie_us = 0;
    if (!input->knows_movie && strcmp(input->info.container, "mov") == 0) {
        CV_TRY(cv_read_movie_us(&input->source, &movie_us, error));
    }
    input->knows_movie = true;
    if (movie_us > input->timeline.claimed_us && movie_us < TIME_MAX_US) {
        input->timeline.claimed_us = movie_us;
    }
    return 0;
}

/* Reads the packets that are needed to judge the first packet's times; for nearly all packets none
 * is needed. */
static int fill_ahead(struct cv_input *input, struct cv_error *error)
{
    int result = input->ahead_count == 0 ? read_ahead(input, error) : 0;
    if (result != 0 || input->ahead_count == 0) {
        return result;
    }
    struct cv_moment first = moment_of(input, input->ahead[0]);
    bool is_doubted = cv_timeline_doubts(&input->timeline, &first);
    if (is_doubted || is_left_out(input, input->ahead[0])) {
        CV_TRY(read_movie_length(input, error));
    }
    if (!is_doubted) {
        return 0;
    }
    while (result == 0 && !input->ended && input->ahead_count < CV_INPUT_AHEAD_MAX &&
           input->ahead_bytes < AHEAD_BYTES) {
        result = read_ahead(input, error);
    }
    return result;
}

static int64_t shift_time(int64_t time, bool is_kept, int64_t shift)
{
    return is_kept && time != AV_NOPTS_VALUE ? time + shift : AV_NOPTS_VALUE;
}

static void judge_first(struct cv_input *input)
{
    struct cv_moment window[CV_INPUT_AHEAD_MAX];
    for (size_t i = 0; i < input->ahead_count; i++) {
        window[i] = moment_of(input, input->ahead[i]);
    }
    AVPacket *packet = input->ahead[0];
    const AVStream *stream = input->format->streams[packet->stream_index];
    struct cv_timeline_verdict verdict =
        cv_timeline_judge(&input->timeline, window, input->ahead_count);
    int64_t shift = av_rescale_q(verdict.shift_us, AV_TIME_BASE_Q, stream->time_base);
    packet->dts = shift_time(packet->dts, verdict.keeps_dts, shift);
    packet->pts = shift_time(packet->pts, verdict.keeps_pts, shift);
}

/* Keeps the time of the earliest picture that is left out behind all that are shown. It may be later
 * than the presentation ends, so it is not judged. */
static void record_left_out(struct cv_input *input, const AVPacket *packet)
{
    int64_t time_us = moment_us(input, input->video, packet->pts);
    if (packet->stream_index != input->video->index || time_us == AV_NOPTS_VALUE) {
        return;
    }
    if (is_left_out(input, packet)) {
        input->left_out_us = time_us < input->left_out_us ? time_us : input->left_out_us;
    } else if (time_us >= input->left_out_us) {
        input->left_out_us = INT64_MAX;
    }
}

int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error)
{
    av_packet_unref(packet);
    CV_TRY(fill_ahead(input, error));
    if (input->ahead_count == 0) {
        return CV_INPUT_END;
    }
    record_left_out(input, input->ahead[0]);
    judge_first(input);
    input->ahead_bytes -= (size_t)input->ahead[0]->size;
    av_packet_move_ref(packet, input->ahead[0]);
    av_packet_free(&input->ahead[0]);
    input->ahead_count--;
    (void)memmove(input->ahead, input->ahead + 1, input->ahead_count * sizeof(*input->ahead));
    return CV_INPUT_PACKET;
}

double cv_input_consumed(const struct cv_input *input)
{
    double part = (double)input->packet_bytes / (double)input->source.size;
    return part < 1 ? part : 1;
}

/* ---- seeking --------------------------------------------------------------------------------- */

/* Seeks to byte 0 in transport and program streams: they have no index and guess positions from
 * times, which misses the very first pictures, but they can be read from any byte. */
static int seek_start(struct cv_input *input)
{
    const AVStream *stream = input->video;
    if (input->format->iformat->flags & AVFMT_TS_DISCONT) {
        return av_seek_frame(input->format, -1, 0, AVSEEK_FLAG_BYTE);
    }
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;
    /* An index holds decoding times; its first may be earlier than the first presentation time. */
    const AVIndexEntry *first = avformat_index_get_entry(input->video, 0);
    start = first && first->timestamp < start ? first->timestamp : start;
    int result = avformat_seek_file(input->format, stream->index, INT64_MIN, start, INT64_MAX,
                                    AVSEEK_FLAG_BACKWARD);
    return result < 0 ? av_seek_frame(input->format, -1, 0, AVSEEK_FLAG_BYTE) : result;
}

int cv_input_seek(struct cv_input *input, int64_t time_us, struct cv_error *error)
{
    forget_ahead(input);
    cv_timeline_reset(&input->timeline, time_us > 0 ? time_us : 0);
    input->seek_bytes = 0;
    input->left_out_us = INT64_MAX;
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
