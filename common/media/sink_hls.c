#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/playlist.h"
#include "common/media/sink.h"

#include <fcntl.h>
#include <libavutil/opt.h>
#include <sys/stat.h>

/* The muxer writes every timestamp plus twice its delay: 1.4 s, as players know it from FFmpeg. It
 * leaves room for pictures that are decoded before time 0. */
enum { MUX_DELAY_US = 700 * 1000, COPY_CHUNK = 64 * 1024 };

/* One muxer over all segments, so that its counters go on; its output is exchanged at each cut. */
struct hls {
    char *directory;
    AVFormatContext *muxer;
    struct cv_playlist playlist;
    int segment;           /* the one being written; -1 before the first */
    int64_t segment_start; /* its first picture, 90 kHz; the first segment starts at 0 */
    int64_t next_cut;      /* the next key picture at or after this starts a segment */
};

static int segment_path(const struct hls *hls, int segment, char **ret_path, struct cv_error *error)
{
    return cv_format(ret_path, error, "%s/segment_%05d.ts", hls->directory, segment);
}

static int close_output(struct hls *hls, struct cv_error *error)
{
    if (!hls->muxer->pb) {
        return 0;
    }
    avio_flush(hls->muxer->pb);
    int result = hls->muxer->pb->error;
    int closed = avio_closep(&hls->muxer->pb);
    result = result < 0 ? result : closed;
    return result < 0
               ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write segment %d", hls->segment)
               : 0;
}

static int open_output(struct hls *hls, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int result = segment_path(hls, hls->segment + 1, &path, error);
    if (result != 0) {
        return result;
    }
    result = avio_open2(&hls->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path);
    }
    hls->segment++;
    return 0;
}

static int add_stream(struct hls *hls, const AVCodecContext *codec, struct cv_error *error)
{
    AVStream *stream = avformat_new_stream(hls->muxer, NULL);
    if (!stream || avcodec_parameters_from_context(stream->codecpar, codec) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a segment");
    }
    stream->time_base = codec->time_base;
    return 0;
}

static void hls_close(void *sink)
{
    struct hls *hls = sink;
    if (hls) {
        if (hls->muxer) {
            (void)avio_closep(&hls->muxer->pb);
        }
        avformat_free_context(hls->muxer);
        cv_playlist_deinit(&hls->playlist);
        free(hls->directory);
        free(hls);
    }
}

static int hls_open(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                    struct cv_error *error)
{
    struct hls *hls = calloc(1, sizeof(*hls));
    if (!hls) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for segments");
    }
    *ret_sink = hls;
    hls->segment = -1;
    hls->next_cut = INT64_MIN;
    int result = cv_format(&hls->directory, error, "%s", path);
    if (result != 0) {
        return result;
    }
    result = avformat_alloc_output_context2(&hls->muxer, NULL, "mpegts", NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot open the MPEG-TS muxer");
    }
    hls->muxer->max_delay = MUX_DELAY_US;
    hls->muxer->avoid_negative_ts = AVFMT_AVOID_NEG_TS_DISABLED;
    result = add_stream(hls, streams->video, error);
    if (result == 0 && streams->audio) {
        result = add_stream(hls, streams->audio, error);
    }
    result = result ? result : open_output(hls, error);
    if (result != 0) {
        return result;
    }
    result = avformat_write_header(hls->muxer, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write MPEG-TS") : 0;
}

static int cut(struct hls *hls, int64_t pts, struct cv_error *error)
{
    if (hls->next_cut != INT64_MIN) {
        int result = close_output(hls, error);
        result = result ? result : cv_playlist_add(&hls->playlist, pts - hls->segment_start, error);
        result = result ? result : open_output(hls, error);
        if (result != 0) {
            return result;
        }
        /* Every segment starts with its own tables. */
        (void)av_opt_set(hls->muxer->priv_data, "mpegts_flags", "+resend_headers", 0);
        hls->segment_start = pts;
    }
    int64_t length = av_rescale(CV_HLS_SEGMENT_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    hls->next_cut = (pts / length + 1) * length;
    return 0;
}

static int hls_write(void *sink, AVPacket *packet, bool is_video, struct cv_error *error)
{
    struct hls *hls = sink;
    const AVStream *stream = hls->muxer->streams[is_video ? 0 : 1];
    AVRational from = is_video ? (AVRational){1, CV_PLAYLIST_CLOCK} : (AVRational){1, 48000};
    if (is_video && (packet->flags & AV_PKT_FLAG_KEY) && packet->pts >= hls->next_cut) {
        int result = cut(hls, packet->pts, error);
        if (result != 0) {
            return result;
        }
    }
    packet->stream_index = stream->index;
    av_packet_rescale_ts(packet, from, stream->time_base);
    int result = av_write_frame(hls->muxer, packet);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a segment") : 0;
}

/* Joins the last segment to the one before: MPEG-TS may simply be put behind MPEG-TS. */
static int join_tail(struct hls *hls, struct cv_error *error)
{
    cv_auto_free char *tail_path = NULL;
    cv_auto_free char *path = NULL;
    int result = segment_path(hls, hls->segment, &tail_path, error);
    result = result ? result : segment_path(hls, hls->segment - 1, &path, error);
    if (result != 0) {
        return result;
    }
    cv_auto_file FILE *tail = fopen(tail_path, "rb");
    cv_auto_file FILE *target = fopen(path, "ab");
    if (!tail || !target) {
        return cv_fail_errno(error, errno, "cannot join the last segment");
    }
    static const size_t chunk = COPY_CHUNK;
    cv_auto_free char *data = malloc(chunk);
    size_t got;
    while (data && (got = fread(data, 1, chunk, tail)) > 0) {
        if (fwrite(data, 1, got, target) < got) {
            return cv_fail_errno(error, errno, "cannot write %s", path);
        }
    }
    if (!data || ferror(tail) || fflush(target) != 0 || unlink(tail_path) != 0) {
        return cv_fail_errno(error, errno, "cannot join the last segment");
    }
    hls->segment--;
    return 0;
}

static int write_playlist(const struct hls *hls, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    cv_auto_free char *path = NULL;
    int result = cv_playlist_text(&hls->playlist, &text, error);
    result = result ? result : cv_format(&path, error, "%s/index.m3u8", hls->directory);
    if (result != 0) {
        return result;
    }
    cv_auto_file FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fflush(file) != 0) {
        return cv_fail_errno(error, errno, "cannot write %s", path);
    }
    return 0;
}

static int hls_finish(void *sink, int64_t end_us, struct cv_error *error)
{
    struct hls *hls = sink;
    int result = av_write_trailer(hls->muxer);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot end the last segment");
    }
    result = close_output(hls, error);
    int64_t end = av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    int64_t ticks = end > hls->segment_start ? end - hls->segment_start : 1;
    if (result == 0 && hls->playlist.count > 0 &&
        av_rescale(ticks, AV_TIME_BASE, CV_PLAYLIST_CLOCK) < CV_HLS_TAIL_US) {
        hls->playlist.durations[hls->playlist.count - 1] += ticks;
        result = join_tail(hls, error);
    } else if (result == 0) {
        result = cv_playlist_add(&hls->playlist, ticks, error);
    }
    return result ? result : write_playlist(hls, error);
}

int cv_sink_hls_segments(const void *sink)
{
    const struct hls *hls = sink;
    return hls->segment + 1;
}

const struct cv_sink_type cv_sink_hls = {
    .open = hls_open,
    .write = hls_write,
    .finish = hls_finish,
    .close = hls_close,
    .global_header = false,
    .drops_priming = true,
};
