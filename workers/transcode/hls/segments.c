#include "workers/transcode/hls/segments.h"

#include "common/media/media.h"

#include "workers/transcode/hls/coded.h"
#include "workers/transcode/hls/segment_writer.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

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
    struct cv_segment_list list; /* complete segments; also the keys of the current one */
    size_t announced;            /* segments that `files` has got */
    bool is_open;                /* a segment's file is being written */
    struct cv_segment current;   /* that segment, without its end */
    int64_t next_cut;            /* the next key packet at or after this starts a segment */
    int64_t newest;              /* latest time in the current segment */
};

/* ---- life ------------------------------------------------------------------------------------ */

static int record_key(void *opaque, int64_t pts, int64_t offset, int64_t size,
                      struct cv_error *error)
{
    struct cv_segments *segments = opaque;
    struct cv_key key = {pts, segments->list.count, offset, size};
    return cv_segment_list_add_key(&segments->list, &key, error);
}

static const struct cv_segment_writer_type *writer_of(enum cv_segment_format format)
{
    return format == CV_SEGMENT_MP4 ? &cv_segment_writer_mp4 : &cv_segment_writer_ts;
}

bool cv_segments_wants_global_header(enum cv_segment_format format)
{
    return writer_of(format)->global_header;
}

int cv_segments_new(const struct cv_segments_params *params, struct cv_segments **ret_segments,
                    struct cv_error *error)
{
    cv_auto(cv_segments_free) struct cv_segments *segments = calloc(1, sizeof(*segments));
    CV_TRY_MEMORY(segments, error, "segments");
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
        cv_coded_name(params->codec->extradata, (size_t)params->codec->extradata_size,
                      segments->codec);
    }
    CV_TRY(cv_format(&segments->name, error, "%s", params->name));
    struct cv_segment_writer_params writer_params = {
        .codec = params->codec,
        .name = segments->name,
        .files = params->files,
        .reorder = params->reorder,
        .goes_on = params->goes_on,
        .key = record_key,
        .opaque = segments,
    };
    CV_TRY(segments->type->open(&writer_params, &segments->writer, error));
    *ret_segments = cv_take(segments);
    return 0;
}

void cv_segments_free(struct cv_segments *segments)
{
    if (segments) {
        segments->type->close(segments->writer);
        cv_segment_list_deinit(&segments->list);
        free(segments->name);
        free(segments);
    }
}

/* ---- one segment ----------------------------------------------------------------------------- */

static void file_name(const struct cv_segments *segments, int64_t start,
                      char name[CV_SEGMENT_NAME_SIZE])
{
    struct cv_playlist_names names = cv_segments_names(segments);
    cv_segment_name(&names, start, name);
}

static int file_path(const struct cv_segments *segments, int64_t start, char **ret_path,
                     struct cv_error *error)
{
    char name[CV_SEGMENT_NAME_SIZE];
    file_name(segments, start, name);
    return cv_format(ret_path, error, "%s/%s", cv_files_directory(segments->files), name);
}

static int begin(struct cv_segments *segments, int64_t start, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    CV_TRY(file_path(segments, start, &path, error));
    CV_TRY(segments->type->begin(segments->writer, path, error));
    segments->is_open = true;
    segments->current = (struct cv_segment){.start = start};
    return 0;
}

static int append_file(const char *path, const char *tail_path, struct cv_error *error)
{
    cv_auto_file FILE *tail = fopen(tail_path, "rbe");
    cv_auto_file FILE *target = fopen(path, "abe");
    CV_TRY_ERRNO(tail && target, error, "cannot join segments");
    static const size_t chunk = COPY_CHUNK;
    cv_auto_free char *data = malloc(chunk);
    size_t got;
    while (data && (got = fread(data, 1, chunk, tail)) > 0) {
        CV_TRY_ERRNO(fwrite(data, 1, got, target) >= got, error, "cannot write %s", path);
    }
    CV_TRY_ERRNO(data && ferror(tail) == 0 && fflush(target) == 0 && unlink(tail_path) == 0, error,
                 "cannot join segments");
    return 0;
}

/* Completes the current segment. `end` in ticks of 90 kHz; `next_dts` in the encoder's ticks. */
static int complete(struct cv_segments *segments, int64_t end, int64_t next_dts,
                    struct cv_error *error)
{
    int64_t bytes = 0;
    segments->is_open = false;
    int result = segments->type->end(segments->writer, next_dts, &bytes, error);
    struct cv_segment segment = segments->current;
    segment.duration = end > segment.start ? end - segment.start : 1;
    segment.bytes = bytes;
    return result ? result : cv_segment_list_add(&segments->list, &segment, error);
}

/* Reports the complete segments. */
static int announce(struct cv_segments *segments, struct cv_error *error)
{
    for (; segments->announced < segments->list.count; segments->announced++) {
        char name[CV_SEGMENT_NAME_SIZE];
        file_name(segments, segments->list.segments[segments->announced].start, name);
        CV_TRY(cv_files_add(segments->files, CV_LADDER_STREAM, name, error));
    }
    return 0;
}

/* ---- packets --------------------------------------------------------------------------------- */

static int64_t to_ticks(const struct cv_segments *segments, int64_t time)
{
    return av_rescale_q(time, segments->clock, (AVRational){1, CV_PLAYLIST_CLOCK});
}

static int cut(struct cv_segments *segments, const AVPacket *packet, int64_t pts,
               struct cv_error *error)
{
    if (segments->is_open) {
        CV_TRY(complete(segments, pts, packet->dts, error));
    }
    /* The first segment starts with the presentation, even if its first packet is later. */
    bool goes_on = segments->list.count > 0 || segments->goes_on;
    CV_TRY(begin(segments, goes_on ? pts : 0, error));
    int64_t length = av_rescale(CV_HLS_SEGMENT_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    segments->next_cut = (pts / length + 1) * length;
    return 0;
}

int cv_segments_write(struct cv_segments *segments, AVPacket *packet, struct cv_error *error)
{
    int64_t pts = to_ticks(segments, packet->pts);
    bool is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0;
    if (!segments->is_open || (is_key && pts >= segments->next_cut)) {
        if (segments->is_video && segments->codec[0] == '\0') {
            cv_coded_name(packet->data, (size_t)packet->size, segments->codec);
        }
        CV_TRY(cut(segments, packet, pts, error));
    }
    segments->current.frames++;
    segments->newest = pts > segments->newest ? pts : segments->newest;
    CV_TRY(segments->type->write(segments->writer, packet, error));
    bool is_settled = segments->newest - segments->current.start >=
                      av_rescale(CV_HLS_TAIL_US, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    if (is_settled) {
        CV_TRY(announce(segments, error));
    }
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Merges the last segment into the one before: in both formats they may simply be concatenated. */
static int join_tail(struct cv_segments *segments, struct cv_error *error)
{
    struct cv_segment_list *list = &segments->list;
    struct cv_segment *target = &list->segments[list->count - 2];
    const struct cv_segment *tail = &list->segments[list->count - 1];
    cv_auto_free char *path = NULL;
    cv_auto_free char *tail_path = NULL;
    CV_TRY(file_path(segments, target->start, &path, error));
    CV_TRY(file_path(segments, tail->start, &tail_path, error));
    CV_TRY(append_file(path, tail_path, error));
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
        result = join_tail(segments, error);
    }
    return result ? result : announce(segments, error);
}

/* ---- the results ----------------------------------------------------------------------------- */

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

const char *cv_segments_codec(const struct cv_segments *segments)
{
    return segments->codec;
}
