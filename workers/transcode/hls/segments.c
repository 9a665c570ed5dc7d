#include "workers/transcode/hls/segments.h"

#include "common/media/media.h"

#include "workers/transcode/hls/coded.h"

#include <inttypes.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/opt.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct cv_segment_writer_params {
    const AVCodecContext *codec;
    const char *name;       /* of the rendition */
    struct cv_files *files; /* told of files besides the segments */
    bool goes_on;           /* the first segment follows one of another writer */
    bool reordered;
    /* Called for each key picture as soon as it is known where it lies in the current segment. */
    int (*key)(void *opaque, int64_t pts, int64_t offset, int64_t size, struct cv_error *error);
    void *opaque;
};

struct cv_segment_writer_type {
    const char *extension, *content_type;
    bool global_header; /* parameter sets beside the stream */
    bool has_map;       /* open() writes init_NAME.mp4 */
    /* `ret_writer` is written as soon as there is something to close. */
    int (*open)(const struct cv_segment_writer_params *params, void **ret_writer,
                struct cv_error *error);
    /* Starts a segment's file. */
    int (*begin)(void *writer, const char *path, struct cv_error *error);
    int (*write)(void *writer, AVPacket *packet, struct cv_error *error);
    /* Completes the file that begin() started; its size. `end`: the next packet's decoding time,
     * ticks of the encoder. */
    int (*end)(void *writer, int64_t end, int64_t *ret_bytes, struct cv_error *error);
    void (*close)(void *writer);
};

/* ---- MPEG-TS --------------------------------------------------------------------------------- */

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
    if (!ts) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for segments");
    }
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
    if (!stream || avcodec_parameters_from_context(stream->codecpar, params->codec) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a segment");
    }
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

static const struct cv_segment_writer_type writer_ts = {
    .extension = "ts",
    .content_type = "video/mp2t",
    .open = ts_open,
    .begin = ts_begin,
    .write = ts_write,
    .end = ts_end,
    .close = ts_close,
};

/* ---- fragmented MP4 -------------------------------------------------------------------------- */

/* Fragmented MP4 as CMAF (ISO/IEC 23000-19) has it. The head is a file of its own; one muxer goes
 * over all segments, and its output is exchanged at each cut. A key picture is a fragment (a CMAF
 * chunk) alone, so that a byte range holds it and nothing else; what follows up to the next one is
 * another. A packet waits for the next one, which says how long it stands. */
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
        if (mp4->muxer) {
            (void)avio_closep(&mp4->muxer->pb);
        }
        avformat_free_context(mp4->muxer);
        av_packet_free(&mp4->held);
        free(mp4);
    }
}

static int open_muxer(struct mp4 *mp4, struct cv_error *error)
{
    int result = avformat_alloc_output_context2(&mp4->muxer, NULL, "mp4", NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot open the MP4 muxer");
    }
    mp4->muxer->avoid_negative_ts = AVFMT_AVOID_NEG_TS_DISABLED;
    AVStream *stream = avformat_new_stream(mp4->muxer, NULL);
    if (!stream || avcodec_parameters_from_context(stream->codecpar, mp4->params.codec) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a segment");
    }
    stream->time_base = mp4->clock;
    stream->codecpar->initial_padding = 0; /* the run-up has been left out */
    return 0;
}

static int close_file(struct mp4 *mp4, int64_t *ret_bytes, struct cv_error *error)
{
    avio_flush(mp4->muxer->pb);
    int result = mp4->muxer->pb->error;
    int64_t bytes = avio_tell(mp4->muxer->pb);
    int closed = avio_closep(&mp4->muxer->pb);
    result = result < 0 ? result : closed;
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot complete a segment");
    }
    *ret_bytes = bytes;
    return 0;
}

static int open_file(struct mp4 *mp4, const char *path, struct cv_error *error)
{
    int result = avio_open2(&mp4->muxer->pb, path, AVIO_FLAG_WRITE, NULL, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_IO, "cannot create %s", path) : 0;
}

/* The file that goes before every segment. */
static int write_head(struct mp4 *mp4, struct cv_error *error)
{
    cv_auto_free char *name = NULL;
    cv_auto_free char *path = NULL;
    int result = cv_format(&name, error, "init_%s.mp4", mp4->params.name);
    result = result ? result
                    : cv_format(&path, error, "%s/%s", cv_files_directory(mp4->params.files), name);
    result = result ? result : open_file(mp4, path, error);
    if (result != 0) {
        return result;
    }
    cv_auto(cv_av_dict_free) AVDictionary *options = NULL;
    static const char *const flags = "frag_custom+empty_moov+default_base_moof+cmaf+frag_discont";
    result = av_dict_set(&options, "movflags", flags, 0);
    if (result >= 0 && mp4->params.reordered) {
        result = av_dict_set(&options, "movflags", "+negative_cts_offsets", AV_DICT_APPEND);
    }
    result = result < 0 ? result : av_dict_set(&options, "use_editlist", "0", 0);
    result = result < 0 ? result : avformat_write_header(mp4->muxer, &options);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write fragmented MP4");
    }
    int64_t bytes;
    result = close_file(mp4, &bytes, error);
    return result ? result
                  : cv_files_add(mp4->params.files, CV_LADDER_STREAM, name,
                                 mp4->is_video ? "video/mp4" : "audio/mp4", error);
}

static int mp4_open(const struct cv_segment_writer_params *params, void **ret_writer,
                    struct cv_error *error)
{
    struct mp4 *mp4 = calloc(1, sizeof(*mp4));
    if (!mp4) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for segments");
    }
    *ret_writer = mp4;
    mp4->params = *params;
    mp4->clock = params->codec->time_base;
    mp4->is_video = params->codec->codec_type == AVMEDIA_TYPE_VIDEO;
    mp4->held = av_packet_alloc();
    if (!mp4->held) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for segments");
    }
    int result = open_muxer(mp4, error);
    return result ? result : write_head(mp4, error);
}

static int mp4_begin(void *writer, const char *path, struct cv_error *error)
{
    return open_file(writer, path, error);
}

/* Writes what the muxer has collected as one fragment. */
static int flush(struct mp4 *mp4, struct cv_error *error)
{
    int result = av_write_frame(mp4->muxer, NULL);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a fragment") : 0;
}

/* Writes the packet that waits; `next` is when the one behind it is decoded. */
static int write_held(struct mp4 *mp4, int64_t next, struct cv_error *error)
{
    AVPacket *packet = mp4->held;
    bool is_key_picture = mp4->is_video && (packet->flags & AV_PKT_FLAG_KEY) != 0;
    int64_t pts = packet->pts, offset = 0;
    packet->duration = next > packet->dts ? next - packet->dts : 1;
    packet->stream_index = 0;
    av_packet_rescale_ts(packet, mp4->clock, mp4->muxer->streams[0]->time_base);
    int result = is_key_picture ? flush(mp4, error) : 0;
    if (result != 0) {
        return result;
    }
    offset = avio_tell(mp4->muxer->pb);
    if (mp4->params.reordered) {
        /* libavformat takes no picture that is shown before it is decoded; the muxer adds what lies
         * between the first picture's two times to all decoding times. */
        packet->dts -=
            av_rescale_q(CV_HLS_REORDER_US, AV_TIME_BASE_Q, mp4->muxer->streams[0]->time_base);
    }
    result = av_write_frame(mp4->muxer, packet);
    av_packet_unref(packet);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write a segment");
    }
    if (!is_key_picture) {
        return 0;
    }
    result = flush(mp4, error);
    return result ? result
                  : mp4->params.key(mp4->params.opaque, pts, offset,
                                    avio_tell(mp4->muxer->pb) - offset, error);
}

static int mp4_write(void *writer, AVPacket *packet, struct cv_error *error)
{
    struct mp4 *mp4 = writer;
    int result = mp4->held->size > 0 ? write_held(mp4, packet->dts, error) : 0;
    if (result == 0 && av_packet_make_refcounted(packet) < 0) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a packet");
    }
    if (result == 0) {
        av_packet_move_ref(mp4->held, packet);
    }
    return result;
}

static int mp4_end(void *writer, int64_t end, int64_t *ret_bytes, struct cv_error *error)
{
    struct mp4 *mp4 = writer;
    int result = mp4->held->size > 0 ? write_held(mp4, end, error) : 0;
    result = result ? result : flush(mp4, error);
    return result ? result : close_file(mp4, ret_bytes, error);
}

static const struct cv_segment_writer_type writer_mp4 = {
    .extension = "m4s",
    .content_type = "video/iso.segment",
    .global_header = true,
    .has_map = true,
    .open = mp4_open,
    .begin = mp4_begin,
    .write = mp4_write,
    .end = mp4_end,
    .close = mp4_close,
};

/* ---- segments -------------------------------------------------------------------------------- */

enum { COPY_CHUNK = 64 * 1024 };

struct cv_segments {
    const struct cv_segment_writer_type *type;
    void *writer;
    char *name;
    struct cv_files *files;
    AVRational clock;
    bool is_video;
    bool goes_on;
    char codec[CV_CODEC_NAME_SIZE];
    pthread_mutex_t lock;        /* of `list` and `announced` */
    struct cv_segment_list list; /* complete ones; keys of the current one, too */
    size_t announced;            /* segments that `files` knows: those of whole objects */
    bool is_open;                /* a segment's file is being written */
    struct cv_segment current;   /* that segment, without its end */
    int64_t next_cut;            /* the next key packet at or after this starts a segment */
    int64_t newest;              /* latest time in the current segment */
};

/* ---- life ------------------------------------------------------------------------------------ */

static int note_key(void *opaque, int64_t pts, int64_t offset, int64_t size, struct cv_error *error)
{
    struct cv_segments *segments = opaque;
    struct cv_key key = {pts, segments->list.count, offset, size};
    (void)pthread_mutex_lock(&segments->lock);
    int result = cv_segment_list_add_key(&segments->list, &key, error);
    (void)pthread_mutex_unlock(&segments->lock);
    return result;
}

static const struct cv_segment_writer_type *writer_of(enum cv_segment_format format)
{
    return format == CV_SEGMENT_MP4 ? &writer_mp4 : &writer_ts;
}

bool cv_segments_wants_global_header(enum cv_segment_format format)
{
    return writer_of(format)->global_header;
}

int cv_segments_new(const struct cv_segments_params *params, struct cv_segments **ret_segments,
                    struct cv_error *error)
{
    cv_auto(cv_segments_free) struct cv_segments *segments = calloc(1, sizeof(*segments));
    if (!segments) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for segments");
    }
    (void)pthread_mutex_init(&segments->lock, NULL);
    segments->type = writer_of(params->format);
    segments->files = params->files;
    segments->clock = params->codec->time_base;
    segments->is_video = params->codec->codec_type == AVMEDIA_TYPE_VIDEO;
    segments->newest = -1;
    segments->goes_on = params->goes_on;
    if (!segments->is_video) {
        (void)snprintf(segments->codec, sizeof(segments->codec), "mp4a.40.2"); /* AAC-LC */
    }
    if (segments->is_video && segments->type->global_header) {
        cv_coded_name(params->codec->codec_id, params->codec->extradata,
                      (size_t)params->codec->extradata_size, segments->codec);
    }
    int result = cv_format(&segments->name, error, "%s", params->name);
    struct cv_segment_writer_params writer_params = {
        .codec = params->codec,
        .name = segments->name,
        .files = params->files,
        .goes_on = params->goes_on,
        .reordered = params->reordered,
        .key = note_key,
        .opaque = segments,
    };
    result = result ? result : segments->type->open(&writer_params, &segments->writer, error);
    if (result != 0) {
        return result;
    }
    *ret_segments = cv_take(segments);
    return 0;
}

void cv_segments_free(struct cv_segments *segments)
{
    if (segments) {
        segments->type->close(segments->writer);
        cv_segment_list_deinit(&segments->list);
        (void)pthread_mutex_destroy(&segments->lock);
        free(segments->name);
        free(segments);
    }
}

/* ---- one segment ----------------------------------------------------------------------------- */

static int file_name(const struct cv_segments *segments, int64_t number, bool whole_path,
                     char **ret_name, struct cv_error *error)
{
    return cv_format(ret_name, error, "%s%ssegment_%s_%05" PRId64 ".%s",
                     whole_path ? cv_files_directory(segments->files) : "", whole_path ? "/" : "",
                     segments->name, number, segments->type->extension);
}

/* Where the bytes of a segment that begins at `start` go: behind the segment before, or into an object of its own. */
static void place(const struct cv_segments *segments, int64_t start, struct cv_segment *segment)
{
    const struct cv_segment_list *list = &segments->list;
    const struct cv_segment *last = list->count > 0 ? &list->segments[list->count - 1] : NULL;
    int64_t stretch =
        av_rescale(cv_files_object_us(segments->files), CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    bool joins = last && stretch > 0 && last->start / stretch == start / stretch;
    *segment = (struct cv_segment){
        .start = start,
        .object = joins ? last->object : cv_segment_number(start),
        .offset = joins ? last->offset + last->bytes : 0,
    };
}

static int begin(struct cv_segments *segments, int64_t start, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int result = file_name(segments, cv_segment_number(start), true, &path, error);
    result = result ? result : segments->type->begin(segments->writer, path, error);
    if (result == 0) {
        segments->is_open = true;
        place(segments, start, &segments->current);
    }
    return result;
}

static int append_file(const char *path, const char *tail_path, struct cv_error *error)
{
    cv_auto_file FILE *tail = fopen(tail_path, "rbe");
    cv_auto_file FILE *target = fopen(path, "abe");
    if (!tail || !target) {
        return cv_fail_errno(error, errno, "cannot join segments");
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
        return cv_fail_errno(error, errno, "cannot join segments");
    }
    return 0;
}

/* Puts a segment's own file behind what its object has: segments of both formats may simply be put one behind the
 * other. */
static int join(const struct cv_segments *segments, const struct cv_segment *segment,
                struct cv_error *error)
{
    int64_t number = cv_segment_number(segment->start);
    if (segment->object == number) {
        return 0;
    }
    cv_auto_free char *path = NULL;
    cv_auto_free char *own_path = NULL;
    int result = file_name(segments, segment->object, true, &path, error);
    result = result ? result : file_name(segments, number, true, &own_path, error);
    return result ? result : append_file(path, own_path, error);
}

/* `end` in 90 kHz; `next_dts` in the encoder's ticks. */
static int complete(struct cv_segments *segments, int64_t end, int64_t next_dts,
                    struct cv_error *error)
{
    int64_t bytes = 0;
    segments->is_open = false;
    int result = segments->type->end(segments->writer, next_dts, &bytes, error);
    struct cv_segment segment = segments->current;
    segment.duration = end > segment.start ? end - segment.start : 1;
    segment.bytes = bytes;
    result = result ? result : join(segments, &segment, error);
    if (result != 0) {
        return result;
    }
    (void)pthread_mutex_lock(&segments->lock);
    result = cv_segment_list_add(&segments->list, &segment, error);
    (void)pthread_mutex_unlock(&segments->lock);
    return result;
}

/* Tells of the objects that will not change any more: all but the one that the current segment goes to. */
static int announce(struct cv_segments *segments, struct cv_error *error)
{
    const struct cv_segment_list *list = &segments->list;
    int result = 0;
    while (result == 0 && segments->announced < list->count) {
        size_t end = segments->announced;
        int64_t object = list->segments[end].object;
        if (segments->is_open && object == segments->current.object) {
            break;
        }
        while (end < list->count && list->segments[end].object == object) {
            end++;
        }
        cv_auto_free char *name = NULL;
        result = file_name(segments, object, false, &name, error);
        result = result ? result
                        : cv_files_add(segments->files, CV_LADDER_STREAM, name,
                                       segments->type->content_type, error);
        (void)pthread_mutex_lock(&segments->lock);
        segments->announced = result == 0 ? end : segments->announced;
        (void)pthread_mutex_unlock(&segments->lock);
    }
    return result;
}

/* ---- packets --------------------------------------------------------------------------------- */

static int64_t to_ticks(const struct cv_segments *segments, int64_t time)
{
    return av_rescale_q(time, segments->clock, (AVRational){1, CV_PLAYLIST_CLOCK});
}

static int cut(struct cv_segments *segments, const AVPacket *packet, int64_t pts,
               struct cv_error *error)
{
    int result = 0;
    if (segments->is_open) {
        result = complete(segments, pts, packet->dts, error);
    }
    /* The first segment starts with the presentation, whenever its first packet does. */
    bool goes_on = segments->list.count > 0 || segments->goes_on;
    result = result ? result : begin(segments, goes_on ? pts : 0, error);
    int64_t length = av_rescale(CV_HLS_SEGMENT_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    segments->next_cut = (pts / length + 1) * length;
    return result;
}

int cv_segments_write(struct cv_segments *segments, AVPacket *packet, struct cv_error *error)
{
    int64_t pts = to_ticks(segments, packet->pts);
    bool is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0;
    int result = 0;
    if (!segments->is_open || (is_key && pts >= segments->next_cut)) {
        if (segments->is_video && segments->codec[0] == '\0') {
            cv_coded_name(AV_CODEC_ID_H264, packet->data, (size_t)packet->size, segments->codec);
        }
        result = cut(segments, packet, pts, error);
    }
    segments->current.frames++;
    segments->newest = pts > segments->newest ? pts : segments->newest;
    result = result ? result : segments->type->write(segments->writer, packet, error);
    bool is_settled = segments->newest - segments->current.start >=
                      av_rescale(CV_HLS_TAIL_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    if (result == 0 && is_settled) {
        result = announce(segments, error);
    }
    return result;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Makes the last segment a part of the one before. */
static int join_tail(struct cv_segments *segments, struct cv_error *error)
{
    struct cv_segment_list *list = &segments->list;
    struct cv_segment *target = &list->segments[list->count - 2];
    struct cv_segment *tail = &list->segments[list->count - 1];
    if (tail->object != target->object) {
        tail->object = target->object;
        int result = join(segments, tail, error);
        if (result != 0) {
            return result;
        }
    }
    for (size_t i = list->key_count; i > 0 && list->keys[i - 1].segment == list->count - 1; i--) {
        list->keys[i - 1].segment--;
        list->keys[i - 1].offset += target->bytes;
    }
    target->bytes += tail->bytes;
    target->duration += tail->duration;
    target->frames += tail->frames;
    list->count--;
    return 0;
}

int cv_segments_finish(struct cv_segments *segments, int64_t end, struct cv_error *error)
{
    if (!segments->is_open) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no packet was written to %s", segments->name);
    }
    int64_t end_dts = av_rescale_q(end, (AVRational){1, CV_PLAYLIST_CLOCK}, segments->clock);
    int result = complete(segments, end, end_dts, error);
    int64_t tail = av_rescale(CV_HLS_TAIL_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    size_t count = segments->list.count;
    if (result == 0 && count > 1 && segments->announced < count - 1 &&
        segments->list.segments[count - 1].duration < tail) {
        (void)pthread_mutex_lock(&segments->lock);
        result = join_tail(segments, error);
        (void)pthread_mutex_unlock(&segments->lock);
    }
    return result ? result : announce(segments, error);
}

/* ---- what came out --------------------------------------------------------------------------- */

const struct cv_segment_list *cv_segments_list(const struct cv_segments *segments)
{
    return &segments->list;
}

struct cv_playlist_names cv_segments_format_names(enum cv_segment_format format, const char *name)
{
    const struct cv_segment_writer_type *type = writer_of(format);
    return (struct cv_playlist_names){name, type->extension, type->has_map};
}

struct cv_playlist_names cv_segments_names(const struct cv_segments *segments)
{
    return (struct cv_playlist_names){segments->name, segments->type->extension,
                                      segments->type->has_map};
}

size_t cv_segments_told(struct cv_segments *segments)
{
    (void)pthread_mutex_lock(&segments->lock);
    size_t count = segments->announced;
    (void)pthread_mutex_unlock(&segments->lock);
    return count;
}

int cv_segments_snapshot(struct cv_segments *segments, size_t count,
                         struct cv_segment_list *ret_list, struct cv_error *error)
{
    struct cv_segment_list list = {0};
    int result = 0;
    (void)pthread_mutex_lock(&segments->lock);
    for (size_t i = 0; result == 0 && i < count && i < segments->announced; i++) {
        result = cv_segment_list_add(&list, &segments->list.segments[i], error);
    }
    (void)pthread_mutex_unlock(&segments->lock);
    if (result != 0) {
        cv_segment_list_deinit(&list);
        return result;
    }
    *ret_list = list;
    return 0;
}

const char *cv_segments_codec(const struct cv_segments *segments)
{
    return segments->codec;
}
