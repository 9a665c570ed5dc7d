#include "common/proxy/proxy_internal.h"

#include <libavformat/avformat.h>
#include <libavutil/intreadwrite.h>
#include <string.h>

enum {
    READ_BUFFER = 32 * 1024,
    NAL_SPS = 7,
    MUX_OFFSET = 126000, /* MPEG-TS timestamps lie 1.4 s after the presentation's */
    BOX_HEAD = 8,
    BRAND_FROM = 8, /* of a file type box: the brand, its version, other brands */
};

/* One or two stretches of memory, one behind the other. */
struct bytes {
    const uint8_t *head, *data;
    size_t head_size, size, position; /* size: of both */
};

void cv_proxy_packets_deinit(struct cv_proxy_packets *packets)
{
    free(packets->packets);
    *packets = (struct cv_proxy_packets){0};
}

static int read_bytes(void *opaque, uint8_t *buffer, int size)
{
    struct bytes *bytes = opaque;
    bool in_head = bytes->position < bytes->head_size;
    size_t left = (in_head ? bytes->head_size : bytes->size) - bytes->position;
    size_t count = left < (size_t)size ? left : (size_t)size;
    if (count == 0) {
        return AVERROR_EOF;
    }
    const uint8_t *from = in_head ? bytes->head + bytes->position
                                  : bytes->data + (bytes->position - bytes->head_size);
    (void)memcpy(buffer, from, count);
    bytes->position += count;
    return (int)count;
}

static int64_t seek_bytes(void *opaque, int64_t offset, int whence)
{
    struct bytes *bytes = opaque;
    if (whence == AVSEEK_SIZE) {
        return (int64_t)bytes->size;
    }
    if (whence != SEEK_SET || offset < 0 || offset > (int64_t)bytes->size) {
        return AVERROR(EINVAL);
    }
    bytes->position = (size_t)offset;
    return offset;
}

/* Profile, constraints and level stand behind the type of the first sequence parameter set. */
static void name_codec(struct cv_proxy_packets *packets, const uint8_t *data, size_t size)
{
    for (size_t i = 0; packets->codec[0] == '\0' && i + 6 < size; i++) {
        if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1 && data[i + 3] % 32 == NAL_SPS) {
            (void)snprintf(packets->codec, sizeof(packets->codec), "avc1.%02X%02X%02X", data[i + 4],
                           data[i + 5], data[i + 6]);
        }
    }
}

/* The times of a packet as ticks from the presentation's start. */
static int64_t ticks_of(const AVFormatContext *format, int64_t time)
{
    bool is_ts = (format->iformat->flags & AVFMT_TS_DISCONT) != 0;
    return av_rescale_q(time, format->streams[0]->time_base, (AVRational){1, CV_PROXY_CLOCK}) -
           (is_ts ? MUX_OFFSET : 0);
}

static int add(struct cv_proxy_packets *packets, const AVFormatContext *format,
               const AVPacket *packet, struct cv_error *error)
{
    if (packets->count == packets->capacity) {
        size_t capacity = packets->capacity ? 2 * packets->capacity : 256;
        struct cv_proxy_packet *more = reallocarray(packets->packets, capacity, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for packets");
        }
        packets->packets = more;
        packets->capacity = capacity;
    }
    packets->packets[packets->count++] =
        (struct cv_proxy_packet){ticks_of(format, packet->pts), ticks_of(format, packet->dts),
                                 (packet->flags & AV_PKT_FLAG_KEY) != 0};
    if (packets->is_video) {
        name_codec(packets, packet->data, (size_t)packet->size);
    }
    return 0;
}

static void read_stream(const AVFormatContext *format, struct cv_proxy_packets *packets)
{
    packets->streams = (int)format->nb_streams;
    if (format->nb_streams == 0) {
        return;
    }
    const AVCodecParameters *codec = format->streams[0]->codecpar;
    packets->is_video = codec->codec_type == AVMEDIA_TYPE_VIDEO;
    packets->width = codec->width;
    packets->height = codec->height;
    if (codec->codec_id == AV_CODEC_ID_H264 && codec->extradata_size > 3 &&
        codec->extradata[0] == 1) {
        /* An MP4's decoder configuration: version, profile, constraints, level. */
        (void)snprintf(packets->codec, sizeof(packets->codec), "avc1.%02X%02X%02X",
                       codec->extradata[1], codec->extradata[2], codec->extradata[3]);
    }
    if (codec->codec_id == AV_CODEC_ID_AAC && codec->sample_rate == 48000) {
        (void)snprintf(packets->codec, sizeof(packets->codec), "mp4a.40.%d", codec->profile + 1);
    }
}

static int read_all(AVFormatContext *format, struct cv_proxy_packets *packets,
                    struct cv_error *error)
{
    if (avformat_find_stream_info(format, NULL) < 0) {
        return 0;
    }
    read_stream(format, packets);
    AVPacket *packet = av_packet_alloc();
    if (!packet) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for packets");
    }
    int result = 0;
    while (result == 0 && av_read_frame(format, packet) >= 0) {
        result = packet->stream_index == 0 ? add(packets, format, packet, error) : 0;
        av_packet_unref(packet);
    }
    av_packet_free(&packet);
    return result;
}

static bool is_box(const uint8_t *box, const char *type)
{
    return memcmp(box + 4, type, 4) == 0;
}

static bool has_brand(const uint8_t *box, size_t size, const char *brand)
{
    for (size_t at = BRAND_FROM; at + 4 <= size; at += 4) {
        if (memcmp(box + at, brand, 4) == 0) {
            return true;
        }
    }
    return false;
}

const char *cv_proxy_check_boxes(const void *data, size_t size, bool is_head)
{
    const uint8_t *box = data, *end = box + size;
    bool is_first = true, has_moov = false, expects_data = false;
    while (end - box >= BOX_HEAD) {
        size_t length = AV_RB32(box);
        if (length < BOX_HEAD || length > (size_t)(end - box)) {
            return "a box reaches beyond the end";
        }
        if (is_head && is_first && !(is_box(box, "ftyp") && has_brand(box, length, "cmfc"))) {
            return "does not say that it is CMAF";
        }
        has_moov = has_moov || is_box(box, "moov");
        if (is_head && !is_first && !is_box(box, "moov")) {
            return "the head has more than its moov";
        }
        if (!is_head && (expects_data ? !is_box(box, "mdat") : !is_box(box, "moof"))) {
            return "is no run of moof and mdat";
        }
        expects_data = is_box(box, "moof");
        is_first = false;
        box += length;
    }
    return box != end || expects_data || (is_head && !has_moov) ? "ends within a fragment" : NULL;
}

int cv_proxy_read_packets(const struct cv_proxy_map *map, const void *data, size_t size,
                          struct cv_proxy_packets *ret_packets, struct cv_error *error)
{
    struct bytes bytes = {map->data, data, map->size, map->size + size, 0};
    cv_auto(cv_proxy_packets_deinit) struct cv_proxy_packets packets = {0};
    unsigned char *buffer = av_malloc(READ_BUFFER);
    AVIOContext *io =
        buffer ? avio_alloc_context(buffer, READ_BUFFER, 0, &bytes, read_bytes, NULL, seek_bytes)
               : NULL;
    AVFormatContext *format = io ? avformat_alloc_context() : NULL;
    int result = 0;
    if (!format) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a segment");
    } else {
        format->pb = io;
        if (avformat_open_input(&format, NULL, av_find_input_format(map->data ? "mp4" : "mpegts"),
                                NULL) == 0) {
            result = read_all(format, &packets, error);
        }
    }
    avformat_close_input(&format);
    if (io) {
        av_freep(&io->buffer);
        avio_context_free(&io);
    } else {
        av_free(buffer);
    }
    if (result == 0) {
        *ret_packets = packets;
        packets = (struct cv_proxy_packets){0};
    }
    return result;
}
