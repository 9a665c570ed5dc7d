#include "common/proxy/proxy_internal.h"

#include <libavformat/avformat.h>
#include <string.h>

enum { READ_BUFFER = 32 * 1024, NAL_SPS = 7 };

struct bytes {
    const uint8_t *data;
    size_t size, position;
};

void cv_proxy_packets_deinit(struct cv_proxy_packets *packets)
{
    free(packets->packets);
    *packets = (struct cv_proxy_packets){0};
}

static int read_bytes(void *opaque, uint8_t *buffer, int size)
{
    struct bytes *bytes = opaque;
    size_t left = bytes->size - bytes->position;
    size_t count = left < (size_t)size ? left : (size_t)size;
    if (count == 0) {
        return AVERROR_EOF;
    }
    (void)memcpy(buffer, bytes->data + bytes->position, count);
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

static int add(struct cv_proxy_packets *packets, const AVPacket *packet, struct cv_error *error)
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
        (struct cv_proxy_packet){packet->pts, packet->dts, (packet->flags & AV_PKT_FLAG_KEY) != 0};
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
        result = packet->stream_index == 0 ? add(packets, packet, error) : 0;
        av_packet_unref(packet);
    }
    av_packet_free(&packet);
    return result;
}

int cv_proxy_read_packets(const void *data, size_t size, struct cv_proxy_packets *ret_packets,
                          struct cv_error *error)
{
    struct bytes bytes = {data, size, 0};
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
        if (avformat_open_input(&format, NULL, av_find_input_format("mpegts"), NULL) == 0) {
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
