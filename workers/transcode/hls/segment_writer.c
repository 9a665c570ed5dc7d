/* Writes segments of fragmented MP4 and of MPEG-TS. */
#include "workers/transcode/hls/segment_writer.h"

#include "common/media/media.h"

#include "workers/transcode/hls/segments.h"

#include <libavutil/intreadwrite.h>
#include <libavutil/opt.h>
#include <string.h>

enum {
    BOX_HEAD = 8,            /* bytes of a box's size and type */
    EDIT_MEDIA_TIME_AT = 28, /* position in an edit list of one edit */
};

/* Fragmented MP4 according to CMAF (ISO/IEC 23000-19). The head is a file of its own; one muxer
 * writes all segments, and its output file is changed at each cut. A key picture is a fragment (a
 * CMAF chunk) of its own, so that a byte range contains exactly it; the pictures up to the next one
 * are another fragment. Each packet is held back until the next one shows its duration. */
struct mp4 {
    struct cv_segment_writer_params params;
    AVFormatContext *muxer;
    AVRational clock;
    AVPacket *held; /* blank: none */
    bool is_video;
};

static void mp4_close(void *writer)
{
    struct mp4 *mp4 = writer;
    if (mp4) {
        cv_av_file_free(mp4->muxer);
        av_packet_free(&mp4->held);
        free(mp4);
    }
}

static int open_muxer(struct mp4 *mp4, struct cv_error *error)
{
    CV_TRY_AV(avformat_alloc_output_context2(&mp4->muxer, NULL, "mp4", NULL), error,
              CV_ERROR_ENCODE, "cannot open the MP4 muxer");
    mp4->muxer->avoid_negative_ts = AVFMT_AVOID_NEG_TS_DISABLED;
    AVStream *stream = avformat_new_stream(mp4->muxer, NULL);
    CV_TRY_MEMORY(stream &&
                      avcodec_parameters_from_context(stream->codecpar, mp4->params.codec) >= 0,
                  error, "a segment");
    stream->time_base = mp4->clock;
    stream->codecpar->initial_padding = 0; /* the priming was dropped */
    return 0;
}

static int open_file(struct mp4 *mp4, const char *path, struct cv_error *error)
{
    int result = avio_open2(&mp4->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path) : 0;
}

/* Where in the head the first box of a type is, between two positions; `end` if there is none. */
static size_t find_box(const uint8_t *head, size_t at, size_t end, const char *type)
{
    while (end - at >= BOX_HEAD && memcmp(head + at + 4, type, 4) != 0) {
        size_t length = AV_RB32(head + at);
        at = length < BOX_HEAD || length > end - at ? end : at + length;
    }
    return end - at >= BOX_HEAD ? at : end;
}

/* Writes the head to `file`, with an edit list (ISO/IEC 14496-12, 8.6.6) in its only track that
 * leaves the first `reorder` ticks out. The muxer could write one only if it knew the first
 * packet. */
static int write_edited(uint8_t *head, size_t size, int64_t reorder, FILE *file,
                        struct cv_error *error)
{
    uint8_t list[] = {0, 0, 0, 36, 'e', 'd', 't', 's', 0, 0, 0, 28, 'e', 'l', 's', 't', 0, 0,
                      0, 0, 0, 0,  0,   1,   0,   0,   0, 0, 0, 0,  0,   0,   0,   1,   0, 0};
    AV_WB32(list + EDIT_MEDIA_TIME_AT, (uint32_t)reorder);
    size_t movie = find_box(head, 0, size, "moov");
    size_t track = movie < size ? find_box(head, movie + BOX_HEAD, size, "trak") : size;
    size_t media = track < size ? find_box(head, track + BOX_HEAD, size, "mdia") : size;
    if (media == size) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the MP4 muxer has written no track");
    }
    AV_WB32(head + movie, AV_RB32(head + movie) + sizeof(list));
    AV_WB32(head + track, AV_RB32(head + track) + sizeof(list));
    CV_TRY_ERRNO(fwrite(head, media, 1, file) == 1 && fwrite(list, sizeof(list), 1, file) == 1 &&
                     fwrite(head + media, size - media, 1, file) == 1,
                 error, "cannot write a segment's head");
    return 0;
}

static int write_head_file(struct mp4 *mp4, uint8_t *head, size_t size, struct cv_error *error)
{
    cv_auto_free char *name = NULL;
    cv_auto_free char *path = NULL;
    CV_TRY(cv_format(&name, error, "init_%s.mp4", mp4->params.name));
    CV_TRY(cv_format(&path, error, "%s/%s", cv_files_directory(mp4->params.files), name));
    cv_auto_file FILE *file = fopen(path, "wbe");
    CV_TRY_ERRNO(file, error, "cannot create %s", path);
    int64_t reorder =
        av_rescale_q(mp4->params.reorder, mp4->clock, mp4->muxer->streams[0]->time_base);
    if (reorder > 0) {
        CV_TRY(write_edited(head, size, reorder, file, error));
    } else {
        CV_TRY_ERRNO(fwrite(head, size, 1, file) == 1, error, "cannot write %s", path);
    }
    CV_TRY_ERRNO(fflush(file) == 0, error, "cannot write %s", path);
    return cv_files_add(mp4->params.files, CV_LADDER_STREAM, name, error);
}

/* Writes the file that every segment needs before it. */
static int write_head(struct mp4 *mp4, struct cv_error *error)
{
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    /* Not the flag "cmaf": with it the muxer writes negative composition offsets, by the largest of
     * which FFmpeg, when reading, delays the whole stream. */
    static const char *const flags = "frag_custom+empty_moov+default_base_moof+frag_discont";
    int result = av_dict_set(&options, "movflags", flags, 0);
    result = result < 0 ? result : av_dict_set(&options, "brand", "cmfc", 0);
    result = result < 0 ? result : av_dict_set(&options, "use_editlist", "0", 0);
    result = result < 0 ? result : avio_open_dyn_buf(&mp4->muxer->pb);
    if (result >= 0) {
        result = avformat_write_header(mp4->muxer, &options);
    }
    uint8_t *head = NULL;
    int size = mp4->muxer->pb ? avio_close_dyn_buf(mp4->muxer->pb, &head) : 0;
    mp4->muxer->pb = NULL;
    if (result >= 0 && size > 0) {
        result = write_head_file(mp4, head, (size_t)size, error);
    } else {
        result = cv_fail_av(error, result < 0 ? result : AVERROR_BUG, CV_ERROR_ENCODE,
                            "cannot write fragmented MP4");
    }
    av_free(head);
    return result;
}

static int mp4_open(const struct cv_segment_writer_params *params, void **ret_writer,
                    struct cv_error *error)
{
    struct mp4 *mp4 = calloc(1, sizeof(*mp4));
    CV_TRY_MEMORY(mp4, error, "segments");
    *ret_writer = mp4;
    mp4->params = *params;
    mp4->clock = params->codec->time_base;
    mp4->is_video = params->codec->codec_type == AVMEDIA_TYPE_VIDEO;
    mp4->held = av_packet_alloc();
    CV_TRY_MEMORY(mp4->held, error, "segments");
    CV_TRY(open_muxer(mp4, error));
    return write_head(mp4, error);
}

static int mp4_begin(void *writer, const char *path, struct cv_error *error)
{
    return open_file(writer, path, error);
}

/* Writes the packets that the muxer has collected as one fragment. */
static int flush(struct mp4 *mp4, struct cv_error *error)
{
    int result = av_write_frame(mp4->muxer, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a fragment") : 0;
}

/* Writes the held packet; `next` is the decoding time of the packet after it. */
static int write_held(struct mp4 *mp4, int64_t next, struct cv_error *error)
{
    AVPacket *packet = mp4->held;
    bool is_key_picture = mp4->is_video && (packet->flags & AV_PKT_FLAG_KEY) != 0;
    int64_t pts = packet->pts, offset = 0;
    packet->duration = next > packet->dts ? next - packet->dts : 1;
    packet->pts += mp4->params.reorder;
    packet->stream_index = 0;
    av_packet_rescale_ts(packet, mp4->clock, mp4->muxer->streams[0]->time_base);
    CV_TRY(is_key_picture ? flush(mp4, error) : 0);
    offset = avio_tell(mp4->muxer->pb);
    int result = av_write_frame(mp4->muxer, packet);
    av_packet_unref(packet);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a segment");
    }
    if (!is_key_picture) {
        return 0;
    }
    CV_TRY(flush(mp4, error));
    return mp4->params.key(mp4->params.opaque, pts, offset, avio_tell(mp4->muxer->pb) - offset,
                           error);
}

static int mp4_write(void *writer, AVPacket *packet, struct cv_error *error)
{
    struct mp4 *mp4 = writer;
    CV_TRY(mp4->held->size > 0 ? write_held(mp4, packet->dts, error) : 0);
    CV_TRY_MEMORY(av_packet_make_refcounted(packet) >= 0, error, "a packet");
    av_packet_move_ref(mp4->held, packet);
    return 0;
}

static int mp4_end(void *writer, int64_t end, int64_t *ret_bytes, struct cv_error *error)
{
    struct mp4 *mp4 = writer;
    CV_TRY(mp4->held->size > 0 ? write_held(mp4, end, error) : 0);
    CV_TRY(flush(mp4, error));
    return cv_av_file_end(mp4->muxer, ret_bytes, error);
}

const struct cv_segment_writer_type cv_segment_writer_mp4 = {
    .extension = "m4s",
    .global_header = true,
    .has_map = true,
    .open = mp4_open,
    .begin = mp4_begin,
    .write = mp4_write,
    .end = mp4_end,
    .close = mp4_close,
};

/* ---- MPEG-TS ------------------------------------------------------------------------------------- */

/* The muxer writes every timestamp plus twice its delay: 1.4 s, as players know it from FFmpeg. It
 * leaves room for pictures that are decoded before time 0, and is the same in every rendition. */
enum { MUX_DELAY_US = 700 * 1000 };

/* One muxer writes all segments, so that its counters continue; its output file is changed at each
 * cut. */
struct ts {
    struct cv_segment_writer_params params;
    AVFormatContext *muxer;
    AVRational clock;
    bool has_header;
};

static void ts_close(void *writer)
{
    struct ts *ts = writer;
    if (ts) {
        cv_av_file_free(ts->muxer);
        free(ts);
    }
}

static int ts_open(const struct cv_segment_writer_params *params, void **ret_writer,
                   struct cv_error *error)
{
    struct ts *ts = calloc(1, sizeof(*ts));
    CV_TRY_MEMORY(ts, error, "segments");
    *ret_writer = ts;
    ts->params = *params;
    ts->clock = params->codec->time_base;
    CV_TRY_AV(avformat_alloc_output_context2(&ts->muxer, NULL, "mpegts", NULL), error,
              CV_ERROR_ENCODE, "cannot open the MPEG-TS muxer");
    ts->muxer->max_delay = MUX_DELAY_US;
    ts->muxer->avoid_negative_ts = AVFMT_AVOID_NEG_TS_DISABLED;
    AVStream *stream = avformat_new_stream(ts->muxer, NULL);
    CV_TRY_MEMORY(stream && avcodec_parameters_from_context(stream->codecpar, params->codec) >= 0,
                  error, "a segment");
    stream->time_base = ts->clock;
    return 0;
}

static int ts_begin(void *writer, const char *path, struct cv_error *error)
{
    struct ts *ts = writer;
    int result = avio_open2(&ts->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path);
    }
    if (!ts->has_header) {
        if (ts->params.goes_on) {
            /* Packet counters start again here; this flag tells readers that nothing was lost. */
            (void)av_opt_set(ts->muxer->priv_data, "mpegts_flags", "+initial_discontinuity", 0);
        }
        result = avformat_write_header(ts->muxer, NULL);
        ts->has_header = true;
    }
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write MPEG-TS") : 0;
}

static int ts_write(void *writer, AVPacket *packet, struct cv_error *error)
{
    struct ts *ts = writer;
    bool is_key_picture = ts->params.codec->codec_type == AVMEDIA_TYPE_VIDEO &&
                          (packet->flags & AV_PKT_FLAG_KEY) != 0;
    int64_t pts = packet->pts;
    int64_t offset = avio_tell(ts->muxer->pb);
    if (is_key_picture || offset == 0) {
        /* The tables are repeated where decoding may start: at a segment, and at a key picture that
         * is fetched alone. */
        (void)av_opt_set(ts->muxer->priv_data, "mpegts_flags", "+resend_headers", 0);
    }
    packet->stream_index = 0;
    av_packet_rescale_ts(packet, ts->clock, ts->muxer->streams[0]->time_base);
    CV_TRY_AV(av_write_frame(ts->muxer, packet), error, CV_ERROR_ENCODE, "cannot write a segment");
    av_packet_unref(packet);
    if (!is_key_picture) {
        return 0;
    }
    return ts->params.key(ts->params.opaque, pts, offset, avio_tell(ts->muxer->pb) - offset, error);
}

static int ts_end(void *writer, int64_t end, int64_t *ret_bytes, struct cv_error *error)
{
    (void)end;
    struct ts *ts = writer;
    /* Writes sound that the muxer has collected. */
    CV_TRY_AV(av_write_frame(ts->muxer, NULL), error, CV_ERROR_ENCODE, "cannot write a segment");
    return cv_av_file_end(ts->muxer, ret_bytes, error);
}

const struct cv_segment_writer_type cv_segment_writer_ts = {
    .extension = "ts",
    .open = ts_open,
    .begin = ts_begin,
    .write = ts_write,
    .end = ts_end,
    .close = ts_close,
};
