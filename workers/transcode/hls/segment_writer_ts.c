/* Segments of MPEG-TS. */
#include "common/media/media.h"

#include "workers/transcode/hls/segment_writer.h"

#include <libavutil/opt.h>

/* The muxer writes every timestamp plus twice its delay: 1.4 s, as players know it from FFmpeg. It
 * leaves room for pictures that are decoded before time 0, and is the same in every rendition. */
enum { MUX_DELAY_US = 700 * 1000 };

/* One muxer over all segments, so that its counters go on; its output is exchanged at each cut. */
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
        if (ts->muxer) {
            (void)avio_closep(&ts->muxer->pb);
        }
        avformat_free_context(ts->muxer);
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
    int result = avformat_alloc_output_context2(&ts->muxer, NULL, "mpegts", NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot open the MPEG-TS muxer");
    }
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
            /* Counters of packets start again: readers are told not to miss any. */
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
        /* What decoding starts with has the tables before it: a segment, and a key picture that is
         * fetched alone. */
        (void)av_opt_set(ts->muxer->priv_data, "mpegts_flags", "+resend_headers", 0);
    }
    packet->stream_index = 0;
    av_packet_rescale_ts(packet, ts->clock, ts->muxer->streams[0]->time_base);
    int result = av_write_frame(ts->muxer, packet);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a segment");
    }
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
    int result = av_write_frame(ts->muxer, NULL); /* sound that the muxer still collects */
    avio_flush(ts->muxer->pb);
    result = result < 0 ? result : ts->muxer->pb->error;
    int64_t bytes = avio_tell(ts->muxer->pb);
    int closed = avio_closep(&ts->muxer->pb);
    result = result < 0 ? result : closed;
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot complete a segment");
    }
    *ret_bytes = bytes;
    return 0;
}

const struct cv_segment_writer_type cv_segment_writer_ts = {
    .extension = "ts",
    .content_type = "video/mp2t",
    .open = ts_open,
    .begin = ts_begin,
    .write = ts_write,
    .end = ts_end,
    .close = ts_close,
};
