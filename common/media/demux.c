#include "common/media/demux.h"

#include "common/media/libav.h"

#include <libavcodec/avcodec.h>
#include <libavutil/avstring.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <string.h>

/* ---- which streams there are, and what is known of them -------------------------------------- */

enum {
    FRAME_RATE_MAX = 480,              /* above it, the number is a time base and no rate */
    ASPECT_MAX = 16,                   /* a pixel more stretched than this is a broken header */
    DURATION_MAX_S = 30 * 24 * 60 * 60 /* what a header may claim and still be believed */
};

#define TAG_ENCRYPTED_VIDEO MKTAG('e', 'n', 'c', 'v')

static bool is_picture(const AVStream *stream)
{
    return stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           (stream->disposition &
            (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS)) == 0;
}

static bool is_encrypted(const AVStream *stream)
{
    return stream->codecpar->codec_tag == TAG_ENCRYPTED_VIDEO ||
           av_stream_get_side_data(stream, AV_PKT_DATA_ENCRYPTION_INIT_INFO, NULL) != NULL;
}

/* Higher is better: decodable, with frames, the default, large. */
static int64_t rank(const AVStream *stream)
{
    const AVCodecParameters *codec = stream->codecpar;
    int64_t value = 0;
    if (avcodec_find_decoder(codec->codec_id)) {
        value += (int64_t)8 << 56;
    }
    if (stream->nb_frames > 0 || avformat_index_get_entries_count(stream) > 0) {
        value += (int64_t)4 << 56;
    }
    if (codec->format >= 0 && (codec->width > 0 || codec->sample_rate > 0)) {
        value += (int64_t)2 << 56;
    }
    if (stream->disposition & AV_DISPOSITION_DEFAULT) {
        value += (int64_t)1 << 56;
    }
    if (codec->codec_type == AVMEDIA_TYPE_VIDEO) {
        return value + (int64_t)codec->width * codec->height;
    }
    return value + codec->ch_layout.nb_channels;
}

static bool is_sound(const AVStream *stream)
{
    return stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO &&
           avcodec_find_decoder(stream->codecpar->codec_id) &&
           stream->codecpar->sample_rate >= CV_SOURCE_RATE_MIN;
}

static void pick(struct cv_input *input)
{
    AVFormatContext *format = input->format;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        stream->discard = AVDISCARD_ALL;
        if (is_picture(stream) && (!input->video || rank(stream) > rank(input->video))) {
            input->video = stream;
        }
        if (stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) {
            input->info.audio_streams++;
            if (is_sound(stream) && (!input->audio || rank(stream) > rank(input->audio))) {
                input->audio = stream;
            }
        }
    }
}

/* Text of the container as one that fits between quotes; what is not UTF-8 is left out. */
static void clean_text(const AVStream *stream, const char *key, char *text, size_t size)
{
    const AVDictionaryEntry *entry = av_dict_get(stream->metadata, key, NULL, 0);
    const uint8_t *rest = entry ? (const uint8_t *)entry->value : (const uint8_t *)"";
    const uint8_t *end = rest + strlen((const char *)rest);
    size_t length = 0;
    while (rest < end) {
        const uint8_t *from = rest;
        int32_t letter;
        bool good = av_utf8_decode(&letter, &rest, end, 0) >= 0 && letter >= ' ' &&
                    letter != 0x7f && letter != '"' && letter != '\\' && rest <= end;
        size_t bytes = (size_t)(rest - from);
        if (good && length + bytes < size) {
            (void)memcpy(text + length, from, bytes);
            length += bytes;
        }
    }
    text[length] = '\0';
}

/* The best track first, the others as they lie. */
static void pick_tracks(struct cv_input *input)
{
    struct cv_media_info *info = &input->info;
    if (input->audio) {
        input->tracks[info->track_count++] = input->audio;
    }
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        AVStream *stream = input->format->streams[i];
        if (is_sound(stream) && stream != input->audio && info->track_count < CV_MEDIA_TRACKS_MAX) {
            input->tracks[info->track_count++] = stream;
        }
    }
    for (int i = 0; i < info->track_count; i++) {
        struct cv_media_track *track = &info->tracks[i];
        clean_text(input->tracks[i], "language", track->language, sizeof(track->language));
        clean_text(input->tracks[i], "title", track->title, sizeof(track->title));
        if (strcmp(track->language, "und") == 0) {
            track->language[0] = '\0';
        }
    }
}

/* A codec that nothing knows is named by the four letters that the file has for it. */
static int fail_codec(const AVCodecParameters *codec, struct cv_error *error)
{
    if (codec->codec_id != AV_CODEC_ID_NONE) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the video is encoded as %s, which cannot be "
                       "decoded here",
                       avcodec_get_name(codec->codec_id));
    }
    if (codec->codec_tag == 0) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the file does not say how its pictures are encoded: it is damaged, or of a "
                       "kind that is not known here");
    }
    char tag[AV_FOURCC_MAX_STRING_SIZE];
    return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                   "the video is encoded in a way (\"%s\") that is not known here",
                   av_fourcc_make_string(tag, codec->codec_tag));
}

static int check(const struct cv_input *input, struct cv_error *error)
{
    if (!input->video) {
        return cv_fail(error, CV_ERROR_NOT_A_VIDEO, "the file has no video stream%s",
                       input->info.audio_streams > 0 ? ", only sound" : "");
    }
    const AVCodecParameters *codec = input->video->codecpar;
    if (is_encrypted(input->video)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the video is encrypted and cannot be read without its key");
    }
    if (!avcodec_find_decoder(codec->codec_id)) {
        return fail_codec(codec, error);
    }
    if (codec->width > CV_MEDIA_SIDE_MAX || codec->height > CV_MEDIA_SIDE_MAX ||
        (int64_t)codec->width * codec->height > CV_MEDIA_AREA_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "a picture of %d×%d pixels is larger than the limit of %d a side and %d in "
                       "all",
                       codec->width, codec->height, CV_MEDIA_SIDE_MAX, CV_MEDIA_AREA_MAX);
    }
    return 0;
}

/* The display matrix takes a point of the coded picture to (a·x + c·y, b·x + d·y). What is neither
 * along nor across the axes is taken to the nearest quarter turn. */
static void read_orientation(struct cv_input *input)
{
    struct cv_orientation *orientation = &input->orientation;
    size_t size = 0;
    const uint8_t *data = av_stream_get_side_data(input->video, AV_PKT_DATA_DISPLAYMATRIX, &size);
    if (!data || size < 9 * sizeof(int32_t)) {
        return;
    }
    int32_t matrix[9];
    (void)memcpy(matrix, data, sizeof(matrix));
    int64_t a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    orientation->transpose = llabs(b) + llabs(c) > llabs(a) + llabs(d);
    orientation->flip_x = orientation->transpose ? c < 0 : a < 0;
    orientation->flip_y = orientation->transpose ? b < 0 : d < 0;

    struct cv_media_info *info = &input->info;
    info->mirrored = (orientation->flip_x != orientation->flip_y) != orientation->transpose;
    if (orientation->transpose) {
        info->rotation = orientation->flip_x ? 90 : 270;
    } else {
        info->rotation = orientation->flip_y ? 180 : 0;
    }
}

static void read_start(struct cv_input *input)
{
    int64_t earliest = INT64_MAX;
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        const AVStream *stream = input->format->streams[i];
        bool counts = is_picture(stream) || stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
        if (counts && stream->start_time != AV_NOPTS_VALUE) {
            int64_t start = av_rescale_q(stream->start_time, stream->time_base, AV_TIME_BASE_Q);
            earliest = start < earliest ? start : earliest;
        }
    }
    input->zero_us = earliest == INT64_MAX ? 0 : earliest;
}

static int64_t stream_end_us(const struct cv_input *input, const AVStream *stream)
{
    if (!stream || stream->duration == AV_NOPTS_VALUE || stream->duration <= 0) {
        return 0;
    }
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;
    return cv_input_time_us(input, stream, av_sat_add64(start, stream->duration));
}

static void read_duration(struct cv_input *input)
{
    int64_t video = stream_end_us(input, input->video);
    int64_t audio = stream_end_us(input, input->audio);
    int64_t duration = video > audio ? video : audio;
    if (duration <= 0 && input->format->duration != AV_NOPTS_VALUE) {
        duration = input->format->duration;
    }
    bool believable = duration > 0 && duration / AV_TIME_BASE < DURATION_MAX_S;
    input->info.duration_us = believable ? duration : 0;
}

static double rate(AVRational value)
{
    double number = value.den > 0 ? av_q2d(value) : 0;
    return number > 0 && number <= FRAME_RATE_MAX ? number : 0;
}

static void read_frame_rate(struct cv_input *input)
{
    const AVStream *stream = input->video;
    struct cv_media_info *info = &input->info;
    double average = rate(stream->avg_frame_rate);
    double base = rate(stream->r_frame_rate);
    if (stream->nb_frames == 1) {
        average = base = 0;
    }
    info->frame_rate = average > 0 ? average : base;
    info->variable_frame_rate = average > 0 && base > 0 && fabs(base - average) > 0.02 * average;
}

static AVRational read_aspect(struct cv_input *input)
{
    AVRational aspect = av_guess_sample_aspect_ratio(input->format, input->video, NULL);
    if (aspect.num <= 0 || aspect.den <= 0 || av_q2d(aspect) > ASPECT_MAX ||
        av_q2d(aspect) < 1.0 / ASPECT_MAX) {
        return (AVRational){1, 1};
    }
    return input->orientation.transpose ? av_inv_q(aspect) : aspect;
}

void cv_shown_size(const struct cv_media_info *info, int *ret_width, int *ret_height)
{
    double aspect = av_q2d(info->sample_aspect);
    bool turned = info->rotation % 180 != 0;
    double width = info->width * (turned ? 1 : aspect);
    double height = info->height / (turned ? aspect : 1);
    *ret_width = (int)fmax(lrint(width), 1);
    *ret_height = (int)fmax(lrint(height), 1);
}

static void keep(char *target, size_t size, const char *text)
{
    (void)snprintf(target, size, "%.*s", (int)strcspn(text, ","), text);
}

static void read_info(struct cv_input *input)
{
    const AVCodecParameters *codec = input->video->codecpar;
    struct cv_media_info *info = &input->info;
    info->coded_width = codec->width;
    info->coded_height = codec->height;
    info->width = input->orientation.transpose ? codec->height : codec->width;
    info->height = input->orientation.transpose ? codec->width : codec->height;
    info->sample_aspect = read_aspect(input);
    info->time_base = input->video->time_base;
    info->interlaced = codec->field_order > AV_FIELD_PROGRESSIVE;
    info->high_dynamic_range =
        codec->color_trc == AVCOL_TRC_SMPTE2084 || codec->color_trc == AVCOL_TRC_ARIB_STD_B67;
    keep(info->container, sizeof(info->container), input->format->iformat->name);
    keep(info->video_codec, sizeof(info->video_codec), avcodec_get_name(codec->codec_id));
    const char *pixel_format = av_get_pix_fmt_name(codec->format);
    keep(info->pixel_format, sizeof(info->pixel_format), pixel_format ? pixel_format : "");
    if (input->audio) {
        const AVCodecParameters *sound = input->audio->codecpar;
        keep(info->audio_codec, sizeof(info->audio_codec), avcodec_get_name(sound->codec_id));
        info->audio_channels = sound->ch_layout.nb_channels;
        info->audio_sample_rate = sound->sample_rate;
    }
}

/* Picks the streams, discards the others, and fills video, audio, orientation, zero_us and info. */
static int choose_streams(struct cv_input *input, struct cv_error *error)
{
    pick(input);
    pick_tracks(input);
    int result = check(input, error);
    if (result != 0) {
        return result;
    }
    input->video->discard = AVDISCARD_DEFAULT;
    read_orientation(input);
    read_start(input);
    read_duration(input);
    read_frame_rate(input);
    read_info(input);
    return 0;
}

/* ---- the container --------------------------------------------------------------------------- */

enum {
    READ_BUFFER = 256 * 1024,        /* one store read; a few frames of a phone recording */
    READ_FIRST = 32 * 1024,          /* behind a seek, when a few bytes of a header may be all */
    PROBE_BYTES = 32 * 1024 * 1024,  /* enough for one intra frame of 8K video */
    PROBE_US = 5 * 1000 * 1000,      /* of stream time, for containers without a header */
    STREAMS_MAX = 128,               /* a real recording has fewer than ten */
    ENCRYPTION_SCAN = 1024 * 1024,   /* where a protected file's sample entries are looked for */
    MEMORY_PROBE = 64 * 1024 * 1024, /* more than a real file's tables or one of its packets */
    AHEAD_BYTES = 4 * 1024 * 1024,   /* of packets that are read ahead */
};

/* A time stamp beyond this (three centuries) is none, and sums of those within it cannot overflow. */
#define TIME_MAX_US (INT64_C(1) << 53)

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

/* Whether a refused allocation was out of all proportion, memory being there. */
static bool memory_is_left(void)
{
    void *volatile probe = malloc(MEMORY_PROBE);
    bool is_left = probe != NULL;
    free(probe);
    return is_left;
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
    if (av_error == AVERROR(ENOMEM) && memory_is_left()) {
        return cv_fail(
            error, CV_ERROR_DECODE,
            "the file is damaged: a count in it asks for more memory than a video needs");
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
    cv_timeline_reset(&input->timeline, 0);
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
    result = result ? result : choose_streams(input, error);
    if (result != 0) {
        return result;
    }
    input->timeline.restarts = (input->format->iformat->flags & AVFMT_TS_DISCONT) != 0;
    if (input->format->duration_estimation_method == AVFMT_DURATION_FROM_STREAM) {
        /* The longer of what streams and container say: an MP4's stream counts decoding times. */
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
    };
}

/* Reads one more packet of the chosen streams behind those that were read ahead. */
static int read_ahead(struct cv_input *input, struct cv_error *error)
{
    AVPacket *packet = av_packet_alloc();
    if (!packet) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a packet");
    }
    while (!input->ended) {
        av_packet_unref(packet);
        int result = av_read_frame(input->format, packet);
        if (input->read_failed || is_interrupted(input->cancel) || result == AVERROR(ENOMEM)) {
            av_packet_free(&packet);
            return fail_input(input, result, CV_ERROR_DECODE, "cannot read the video", error);
        }
        if (result < 0) {
            /* The end, or nothing further can be found in a damaged or truncated file. */
            input->ended = true;
            input->cut_off = result != AVERROR_EOF || cv_input_ends_early(input);
            break;
        }
        const AVStream *stream = input->format->streams[packet->stream_index];
        input->packet_bytes += packet->size;
        cv_input_note_end(input, packet);
        if (stream == input->video || cv_input_track(input, stream) >= 0) {
            input->ahead[input->ahead_count++] = packet;
            input->ahead_bytes += (size_t)packet->size;
            return 0;
        }
    }
    av_packet_free(&packet);
    return 0;
}

/* Reads what the first packet's times are judged by: nothing, for nearly all packets. */
static int fill_ahead(struct cv_input *input, struct cv_error *error)
{
    int result = input->ahead_count == 0 ? read_ahead(input, error) : 0;
    if (result != 0 || input->ahead_count == 0) {
        return result;
    }
    struct cv_moment first = moment_of(input, input->ahead[0]);
    if (!cv_timeline_doubts(&input->timeline, &first)) {
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

int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error)
{
    av_packet_unref(packet);
    int result = fill_ahead(input, error);
    if (result != 0) {
        return result;
    }
    if (input->ahead_count == 0) {
        return CV_INPUT_END;
    }
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
    forget_ahead(input);
    cv_timeline_reset(&input->timeline, time_us > 0 ? time_us : 0);
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
