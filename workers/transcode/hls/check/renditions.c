#include "workers/transcode/hls/check/check_internal.h"

#include <libavformat/avformat.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/mathematics.h>
#include <math.h>
#include <string.h>

struct packet {
    int64_t pts, dts; /* 90 kHz, from the presentation's start */
    bool key;
};

struct packets {
    struct packet *packets; /* in the order of the segment */
    size_t count;
    int streams;
    bool is_video;
    int width, height;
    char codec[64]; /* RFC 6381 name, from the bits; "" without parameter sets */
};

static void packets_deinit(struct packets *packets)
{
    free(packets->packets);
    *packets = (struct packets){0};
}
CV_DEFINE_CLEANUP_ADDRESS(struct packets, packets_deinit)

/* ---- segments as packets --------------------------------------------------------------------- */

enum {
    BOX_HEAD = 8, /* bytes of a box's size and type */
    READ_BUFFER = 32 * 1024,
    NAL_SPS = 7,
    MUX_OFFSET = 126000, /* ticks; time stamps of MPEG-TS are 1.4 s later than the presentation's */
    BRAND_FROM = 8,      /* offset in a file type box: the brand, its version, other brands */
};

/* One or two memory areas, read as if they were one. */
struct bytes {
    const uint8_t *head, *data;
    size_t head_size, size, position; /* size: of both areas */
};

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

/* Names H.264 by profile, constraints and level, which follow the type of the first sequence
 * parameter set. */
static void name_codec(struct packets *packets, const uint8_t *data, size_t size)
{
    for (size_t i = 0; packets->codec[0] == '\0' && i + 6 < size; i++) {
        if (data[i] == 0 && data[i + 1] == 0 && data[i + 2] == 1 && data[i + 3] % 32 == NAL_SPS) {
            (void)snprintf(packets->codec, sizeof(packets->codec), "avc1.%02X%02X%02X", data[i + 4],
                           data[i + 5], data[i + 6]);
        }
    }
}

/* A time larger than this (three thousand years) is invalid; differences of smaller ones cannot
 * overflow. */
#define TICKS_MAX (INT64_C(1) << 53)

/* Converts a packet's time to ticks from the presentation's start. */
static int64_t ticks_of(const AVFormatContext *format, int64_t time)
{
    bool is_ts = (format->iformat->flags & AVFMT_TS_DISCONT) != 0;
    int64_t ticks =
        av_rescale_q(time, format->streams[0]->time_base, (AVRational){1, CV_HLS_CLOCK});
    return av_clip64(ticks, -TICKS_MAX, TICKS_MAX) - (is_ts ? MUX_OFFSET : 0);
}

static int add(struct packets *packets, const AVFormatContext *format, const AVPacket *packet,
               struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(packets->packets, packets->count), error, "packets");
    packets->packets[packets->count++] =
        (struct packet){ticks_of(format, packet->pts), ticks_of(format, packet->dts),
                        (packet->flags & AV_PKT_FLAG_KEY) != 0};
    if (packets->is_video) {
        name_codec(packets, packet->data, (size_t)packet->size);
    }
    return 0;
}

/* Names HEVC by profile, compatibility flags with the first as the lowest bit, tier and level, and
 * constraint bytes without the zeros at their end. */
static void name_hevc(struct packets *packets, const uint8_t *record)
{
    unsigned compatible = 0;
    for (int i = 0; i < 32; i++) {
        compatible |= (record[2 + i / 8] >> (7 - i % 8) & 1U) << i;
    }
    char *name = packets->codec, *end = name + sizeof(packets->codec);
    name += snprintf(name, (size_t)(end - name), "hvc1.%d.%X.%s%d", record[1] & 31, compatible,
                     record[1] & 0x20 ? "H" : "L", record[12]);
    int last = 11;
    while (last > 5 && record[last] == 0) {
        last--;
    }
    for (int i = 6; i <= last; i++) {
        name += snprintf(name, (size_t)(end - name), ".%X", record[i]);
    }
}

static void read_stream(const AVFormatContext *format, struct packets *packets)
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
        /* The decoder configuration of an MP4 has version, profile, constraints, level. */
        (void)snprintf(packets->codec, sizeof(packets->codec), "avc1.%02X%02X%02X",
                       codec->extradata[1], codec->extradata[2], codec->extradata[3]);
    }
    if (codec->codec_id == AV_CODEC_ID_HEVC && codec->codec_tag == MKTAG('h', 'v', 'c', '1') &&
        codec->extradata_size > 23) {
        name_hevc(packets, codec->extradata);
    }
    if (codec->codec_id == AV_CODEC_ID_AV1 && codec->extradata_size >= 4) {
        bool is_deep = codec->format == AV_PIX_FMT_YUV420P10;
        (void)snprintf(packets->codec, sizeof(packets->codec), "av01.%d.%02d%c.%s", codec->profile,
                       codec->level, codec->extradata[2] & 0x80 ? 'H' : 'M', is_deep ? "10" : "08");
    }
    if (codec->codec_id == AV_CODEC_ID_AAC && codec->sample_rate == 48000) {
        (void)snprintf(packets->codec, sizeof(packets->codec), "mp4a.40.%d", codec->profile + 1);
    }
}

static int read_all(AVFormatContext *format, struct packets *packets, struct cv_error *error)
{
    if (avformat_find_stream_info(format, NULL) < 0) {
        return 0;
    }
    read_stream(format, packets);
    AVPacket *packet = av_packet_alloc();
    CV_TRY_MEMORY(packet, error, "packets");
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

/* Checks that the head is CMAF, and that a segment is a sequence of fragments. Returns the first
 * wrong box, or NULL. */
static const char *check_boxes(const void *data, size_t size, bool is_head)
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
            return "is not a run of moof and mdat";
        }
        expects_data = is_box(box, "moof");
        is_first = false;
        box += length;
    }
    return box != end || expects_data || (is_head && !has_moov) ? "ends within a fragment" : NULL;
}

/* Parses MPEG-TS, or a segment of an MP4; times count from the presentation's start. Data that
 * cannot be parsed is not a failure, but gives fewer packets. */
static int read_packets(const struct cv_hls_map *map, const void *data, size_t size,
                        struct packets *ret_packets, struct cv_error *error)
{
    struct bytes bytes = {map->data, data, map->size, map->size + size, 0};
    cv_auto(packets_deinit) struct packets packets = {0};
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
        packets = (struct packets){0};
    }
    return result;
}

enum {
    TOLERANCE = 90,         /* ticks: 1 ms; rounding in EXTINF takes little of it */
    SOUND_PACKET = 1920,    /* 1,024 samples */
    SOUND_END = 2 * 1920,   /* the last packet is padded with silence */
    KEY_TICKS = 10 * 90000, /* the largest distance of key frames in a copied source … */
    KEY_LATE = 50000,       /* … and how late one may be if there is no picture earlier */
    REORDER_MOST = 18000,   /* hls.js, which ignores edit lists, gets over 0.2 s */
};

void cv_hls_rendition_deinit(struct cv_hls_rendition *rendition)
{
    free(rendition->times);
    free(rendition->keys);
    free(rendition->map.data);
    *rendition = (struct cv_hls_rendition){0};
}

static int ascending(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* ---- one segment ----------------------------------------------------------------------------- */

/* Checks where a segment begins, and the conditions at its edges; ticks from the presentation's
 * start. */
static void check_edges(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                        bool is_video, const struct packets *packets,
                        struct cv_hls_rendition *rendition)
{
    double start = rendition->seconds;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < packets->count; i++) {
        int64_t pts = packets->packets[i].pts;
        first = pts < first ? pts : first;
        last = pts > last ? pts : last;
        if (i > 0 && packets->packets[i].dts <= packets->packets[i - 1].dts) {
            cv_hls_tell(checker, entry->name, "decoding times do not grow at packet %zu", i);
        }
    }
    double begin = start * CV_HLS_CLOCK;
    if (fabs((double)first - begin) > TOLERANCE) {
        cv_hls_tell(checker, entry->name, "begins at %.4f s; the playlist says %.4f",
                    (double)first / CV_HLS_CLOCK, start);
    }
    if ((double)last > begin + entry->duration * CV_HLS_CLOCK + TOLERANCE) {
        cv_hls_tell(checker, entry->name, "reaches to %.4f s; the playlist ends it at %.4f",
                    (double)last / CV_HLS_CLOCK, start + entry->duration);
    }
    if (is_video && (!packets->packets[0].key || packets->packets[0].pts != first)) {
        cv_hls_tell(checker, entry->name, "does not begin with a key frame");
    }
    int64_t reorder = packets->packets[0].pts - packets->packets[0].dts;
    rendition->reorder = start > 0 ? rendition->reorder : reorder;
    if (is_video && (reorder != rendition->reorder || reorder < 0 || reorder > REORDER_MOST)) {
        cv_hls_tell(checker, entry->name, "is decoded %.3f s before it is shown",
                    (double)reorder / CV_HLS_CLOCK);
    }
}

static int take_times(struct cv_hls_rendition *rendition, const struct packets *packets,
                      struct cv_error *error)
{
    size_t before = rendition->count;
    for (size_t i = 0; i < packets->count; i++) {
        const struct packet *packet = &packets->packets[i];
        CV_TRY_MEMORY(CV_MAKE_ROOM(rendition->times, rendition->count), error, "timestamps");
        rendition->times[rendition->count++] = packet->pts;
        if (packet->key) {
            CV_TRY_MEMORY(CV_MAKE_ROOM(rendition->keys, rendition->key_count), error, "timestamps");
            rendition->keys[rendition->key_count++] = packet->pts;
        }
    }
    qsort(rendition->times + before, rendition->count - before, sizeof(int64_t), ascending);
    return 0;
}

static int check_segment(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                         bool is_video, struct cv_hls_rendition *rendition, double *ret_bits,
                         double *ret_frames, struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = (size_t)entry->size;
    CV_TRY(entry->size != 0
               ? cv_hls_get_range(checker, entry, &data, error)
               : cv_hls_get(checker, checker->stream_prefix, entry->name, &data, &size, error));
    if (!data) {
        return 0;
    }
    cv_auto(packets_deinit) struct packets packets = {0};
    CV_TRY(read_packets(&rendition->map, data, size, &packets, error));
    checker->summary->segments++;
    *ret_bits = 8.0 * (double)size;
    *ret_frames = (double)packets.count;
    if (packets.count == 0 || packets.streams != 1 || packets.is_video != is_video) {
        cv_hls_tell(checker, entry->name, "is not a segment with one stream of %s",
                    is_video ? "pictures" : "sound");
        return 0;
    }
    const char *box = rendition->map.data ? check_boxes(data, size, false) : NULL;
    if (box) {
        cv_hls_tell(checker, entry->name, "%s", box);
    }
    check_edges(checker, entry, is_video, &packets, rendition);
    if (rendition->codec[0] == '\0') {
        (void)snprintf(rendition->codec, sizeof(rendition->codec), "%s", packets.codec);
        rendition->width = packets.width;
        rendition->height = packets.height;
    } else if (strcmp(rendition->codec, packets.codec) != 0 || rendition->width != packets.width ||
               rendition->height != packets.height) {
        cv_hls_tell(checker, entry->name, "is %s of %dx%d; those before it are not", packets.codec,
                    packets.width, packets.height);
    }
    return take_times(rendition, &packets, error);
}

/* ---- one rendition --------------------------------------------------------------------------- */

/* The highest rate of any run of segments that lasts 0.5 to 1.5 target durations. */
static double peak_rate(const struct cv_hls_media *media, const double *bits)
{
    double peak = 0;
    for (size_t first = 0; first < media->count; first++) {
        double sum = 0, seconds = 0;
        for (size_t i = first; i < media->count && seconds <= 1.5 * media->target; i++) {
            sum += bits[i];
            seconds += media->entries[i].duration;
            if (seconds >= 0.5 * media->target && seconds <= 1.5 * media->target) {
                peak = fmax(peak, sum / seconds);
            }
        }
    }
    return peak;
}

static void check_times(struct cv_hls_checker *checker, const struct cv_hls_rendition *rendition,
                        bool is_video)
{
    for (size_t i = 1; i < rendition->count; i++) {
        int64_t step = rendition->times[i] - rendition->times[i - 1];
        if (step <= 0 || (!is_video && llabs(step - SOUND_PACKET) > 1)) {
            cv_hls_tell(checker, rendition->name, "%s at %.4f s",
                        step <= 0  ? "two packets of one time"
                        : is_video ? "no picture"
                                   : "a gap in the sound",
                        (double)rendition->times[i] / CV_HLS_CLOCK);
            return;
        }
    }
    if (!is_video && rendition->count > 0) {
        double end = (double)(rendition->times[rendition->count - 1] + SOUND_PACKET);
        if (fabs(end - rendition->seconds * CV_HLS_CLOCK) > SOUND_END) {
            cv_hls_tell(checker, rendition->name, "the sound ends at %.3f s of %.3f",
                        end / CV_HLS_CLOCK, rendition->seconds);
        }
    }
    for (size_t i = 1; is_video && i < rendition->key_count; i++) {
        int64_t step = rendition->keys[i] - rendition->keys[i - 1];
        if (step > KEY_TICKS + KEY_LATE) {
            cv_hls_tell(checker, rendition->name, "no key frame for %.3f s before %.3f s",
                        (double)step / CV_HLS_CLOCK, (double)rendition->keys[i] / CV_HLS_CLOCK);
        }
    }
}

static void add_up(struct cv_hls_rendition *rendition, const struct cv_hls_media *media,
                   const double *bits, const double *frames)
{
    double all_frames = 0;
    rendition->seconds = 0;
    for (size_t i = 0; i < media->count; i++) {
        double duration = media->entries[i].duration;
        rendition->seconds += duration;
        rendition->bits += bits[i];
        all_frames += frames[i];
        if (duration >= 1) {
            rendition->most_frames = fmax(rendition->most_frames, frames[i] / duration);
        }
    }
    if (rendition->most_frames <= 0 && rendition->seconds > 0) {
        rendition->most_frames = all_frames / rendition->seconds;
    }
    rendition->target = media->target;
    rendition->peak = fmax(peak_rate(media, bits),
                           rendition->seconds > 0 ? rendition->bits / rendition->seconds : 0);
}

static int read_map(struct cv_hls_checker *checker, const char *name,
                    const struct cv_hls_media *media, struct cv_hls_rendition *rendition,
                    struct cv_error *error)
{
    if (media->map[0] == '\0') {
        return 0;
    }
    struct cv_hls_map *map = &rendition->map;
    int result =
        cv_hls_get(checker, checker->stream_prefix, media->map, &map->data, &map->size, error);
    const char *box = result == 0 && map->data ? check_boxes(map->data, map->size, true) : NULL;
    if (box) {
        cv_hls_tell(checker, name, "%s: %s", media->map, box);
    }
    return result;
}

int cv_hls_check_media(struct cv_hls_checker *checker, const char *name, bool is_video,
                       struct cv_hls_rendition *rendition, struct cv_error *error)
{
    (void)snprintf(rendition->name, sizeof(rendition->name), "%s", name);
    cv_auto_free void *text = NULL;
    size_t size = 0;
    CV_TRY(cv_hls_get(checker, checker->stream_prefix, name, &text, &size, error));
    if (!text) {
        return 0;
    }
    cv_auto(cv_hls_media_deinit) struct cv_hls_media media = {0};
    CV_TRY(cv_hls_read_media(checker, name, text, &media, error));
    if (media.count == 0) {
        return 0;
    }
    if (!media.independent || media.key_frames_only) {
        cv_hls_tell(checker, name, "does not say that its segments are independent");
    }
    CV_TRY(read_map(checker, name, &media, rendition, error));
    cv_auto_free double *bits = calloc(media.count, sizeof(double));
    cv_auto_free double *frames = calloc(media.count, sizeof(double));
    CV_TRY_MEMORY(bits && frames, error, "a playlist");
    for (size_t i = 0; i < media.count; i++) {
        CV_TRY(check_segment(checker, &media.entries[i], is_video, rendition, &bits[i], &frames[i],
                             error));
        rendition->seconds += media.entries[i].duration;
    }
    add_up(rendition, &media, bits, frames);
    check_times(checker, rendition, is_video);
    return 0;
}

/* ---- key frames alone ------------------------------------------------------------------------ */

static int check_range(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                       const char *name, const struct cv_hls_rendition *rendition, int64_t key,
                       struct cv_error *error)
{
    enum {
        RANGE_MAX = 64 << 20
    }; /* bytes; enough for a key frame of the largest allowed picture */
    if (entry->size > RANGE_MAX) {
        cv_hls_tell(checker, name, "an entry for %s without a usable range", entry->name);
        return 0;
    }
    cv_auto_free void *data = NULL;
    CV_TRY(cv_hls_get_range(checker, entry, &data, error));
    if (!data) {
        return 0;
    }
    cv_auto(packets_deinit) struct packets packets = {0};
    CV_TRY(read_packets(&rendition->map, data, (size_t)entry->size, &packets, error));
    if (packets.count != 1 || !packets.packets[0].key || packets.packets[0].pts != key ||
        packets.codec[0] == '\0') {
        cv_hls_tell(checker, name, "%lld+%lld of %s is not the key frame of %.3f s alone",
                    (long long)entry->offset, (long long)entry->size, entry->name,
                    (double)key / CV_HLS_CLOCK);
    }
    return 0;
}

int cv_hls_check_keys(struct cv_hls_checker *checker, const char *name,
                      const struct cv_hls_rendition *rendition, struct cv_error *error)
{
    cv_auto_free void *text = NULL;
    size_t size = 0;
    CV_TRY(cv_hls_get(checker, checker->stream_prefix, name, &text, &size, error));
    if (!text) {
        return 0;
    }
    cv_auto(cv_hls_media_deinit) struct cv_hls_media media = {0};
    CV_TRY(cv_hls_read_media(checker, name, text, &media, error));
    if ((media.map[0] != '\0') != (rendition->map.data != NULL)) {
        cv_hls_tell(checker, name, "names another head than %s", rendition->name);
    }
    if (!media.key_frames_only || media.count != rendition->key_count) {
        cv_hls_tell(checker, name, "has %zu key frames of %zu", media.count, rendition->key_count);
        return 0;
    }
    for (size_t i = 0; i < media.count; i++) {
        CV_TRY(check_range(checker, &media.entries[i], name, rendition, rendition->keys[i], error));
    }
    return 0;
}
