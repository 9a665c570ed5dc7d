#include "workers/transcode/hls/ladder_internal.h"

#include <inttypes.h>
#include <string.h>

/* The description of a chunk as text. Its lines, in this order: "chunk NUMBER"; "end END_US" (end
 * of the newest picture); "poster SCORE"; "sheets COUNT TILES"; for each rendition "rendition NAME
 * CODEC FRAMES" followed by its lines "segment START DURATION BYTES FRAMES" and "key PTS SEGMENT OFFSET
 * SIZE"; "cues", followed by the cues in WebVTT. */
enum {
    STAMP_LENGTH = 12,        /* "HH:MM:SS.mmm" */
    CHUNK_SEGMENTS = 1 << 20, /* more segments than the longest presentation has */
    SHEETS_MAX = 1000,
    TILES_MAX = 1 << 20,
};

/* The largest time that is accepted, far more than a chunk can have; sums over all chunks do not
 * overflow. */
#define END_MAX_US (INT64_C(3600) * 1000 * 1000 * CV_MEDIA_HOURS_MAX * 2)
#define TICKS_MAX (INT64_C(3600) * CV_PLAYLIST_CLOCK * CV_MEDIA_HOURS_MAX * 2)
#define BYTES_MAX (INT64_C(1) << 40)
#define FRAMES_MAX (INT64_C(1) << 32)

/* ---- the segments of each rendition ---------------------------------------------------------- */

struct cv_segments *cv_ladder_segments(const struct cv_ladder *ladder, size_t rendition)
{
    if (rendition < ladder->first_encoded) {
        return ladder->copy ? cv_copy_segments(ladder->copy) : NULL; /* none when joining */
    }
    struct cv_rendition *encoded = ladder->renditions[rendition];
    return encoded ? cv_rendition_segments(encoded) : NULL;
}

const struct cv_segment_list *cv_ladder_list(const struct cv_ladder *ladder, size_t rendition)
{
    return ladder->joins ? &ladder->joined[rendition].list
                         : cv_segments_list(cv_ladder_segments(ladder, rendition));
}

const char *cv_ladder_codec(const struct cv_ladder *ladder, size_t rendition)
{
    return ladder->joins ? ladder->joined[rendition].codec
                         : cv_segments_codec(cv_ladder_segments(ladder, rendition));
}

struct cv_playlist_names cv_ladder_names(const struct cv_ladder *ladder, size_t rendition,
                                         char name[CV_LADDER_NAME_SIZE])
{
    (void)snprintf(name, CV_LADDER_NAME_SIZE, "%dx%d", ladder->sizes[rendition].width,
                   ladder->sizes[rendition].height);
    return cv_segments_format_names(ladder->format, name);
}

int64_t cv_ladder_frames(const struct cv_ladder *ladder, size_t rendition)
{
    if (ladder->joins) {
        return ladder->joined[rendition].frames;
    }
    return rendition < ladder->first_encoded ? cv_copy_frames(ladder->copy)
                                             : cv_rendition_frames(ladder->renditions[rendition]);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_rendition(const struct cv_ladder *ladder, size_t rendition,
                            struct cv_buffer *text)
{
    char name[CV_LADDER_NAME_SIZE];
    const struct cv_segment_list *list = cv_ladder_list(ladder, rendition);
    cv_buffer_printf(text, "rendition %s %s %" PRId64 "\n",
                     cv_ladder_names(ladder, rendition, name).name,
                     cv_ladder_codec(ladder, rendition), cv_ladder_frames(ladder, rendition));
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_segment *segment = &list->segments[i];
        cv_buffer_printf(text, "segment %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                         segment->start, segment->duration, segment->bytes, segment->frames);
    }
    for (size_t i = 0; i < list->key_count; i++) {
        const struct cv_key *key = &list->keys[i];
        cv_buffer_printf(text, "key %" PRId64 " %zu %" PRId64 " %" PRId64 "\n", key->pts,
                         key->segment, key->offset, key->size);
    }
}

int cv_ladder_finish_chunk(struct cv_ladder *ladder, char **ret_text, struct cv_error *error)
{
    char poster[CV_LADDER_NAME_SIZE + 8];
    (void)snprintf(poster, sizeof(poster), "chunk_%05d.jpg", ladder->chunk.number);
    CV_TRY(cv_ladder_end_chunk(ladder, error));
    CV_TRY(cv_ladder_write_poster(ladder, poster, error));
    CV_TRY(cv_ladder_report(ladder, error));
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_printf(&text, "chunk %d\nend %" PRId64 "\nposter %.9f\nsheets %d %d\n",
                     ladder->chunk.number, ladder->video_end_us, ladder->poster.best_score,
                     cv_sprites_sheets(ladder->sprites), cv_sprites_tiles(ladder->sprites));
    for (size_t i = 0; i < ladder->count; i++) {
        write_rendition(ladder, i, &text);
    }
    cv_buffer_printf(&text, "cues\n%s", cv_sprites_cues(ladder->sprites));
    return cv_buffer_detach(&text, ret_text, error);
}

/* ---- joining --------------------------------------------------------------------------------- */

static int fail_text(const struct cv_ladder *ladder, const char *what, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "chunk %d does not fit: %s",
                   ladder->joined_chunks, what);
}

static int report_one(struct cv_ladder *ladder, enum cv_ladder_part part, const char *name,
                      struct cv_error *error)
{
    struct cv_ladder_file file = {part, name, NULL};
    return ladder->finished(ladder->opaque, &file, error);
}

/* Adds a segment, which must follow the one before without a gap. */
static int join_segment(struct cv_ladder *ladder, size_t rendition, const char *line,
                        struct cv_error *error)
{
    struct cv_segment_list *list = &ladder->joined[rendition].list;
    struct cv_segment segment = {0};
    char name[CV_LADDER_NAME_SIZE], file[CV_SEGMENT_NAME_SIZE];
    if (sscanf(line, "segment %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &segment.start,
               &segment.duration, &segment.bytes, &segment.frames) != 4 ||
        segment.duration < 1 || segment.duration > TICKS_MAX || segment.bytes < 1 ||
        segment.bytes > BYTES_MAX || segment.frames < 1 || segment.frames > FRAMES_MAX ||
        list->count >= CHUNK_SEGMENTS) {
        return fail_text(ladder, line, error);
    }
    if (segment.start != cv_segment_list_end(list)) {
        return fail_text(ladder, "there is a seam before it", error);
    }
    struct cv_playlist_names names = cv_ladder_names(ladder, rendition, name);
    cv_segment_name(&names, segment.start, file);
    CV_TRY(report_one(ladder, CV_LADDER_STREAM, file, error));
    return cv_segment_list_add(list, &segment, error);
}

static int join_key(struct cv_ladder *ladder, size_t rendition, size_t before, const char *line,
                    struct cv_error *error)
{
    struct cv_segment_list *list = &ladder->joined[rendition].list;
    struct cv_key key;
    if (sscanf(line, "key %" SCNd64 " %zu %" SCNd64 " %" SCNd64, &key.pts, &key.segment,
               &key.offset, &key.size) != 4 ||
        key.segment >= list->count - before || key.offset < 0 || key.offset > BYTES_MAX ||
        key.size < 1 || key.size > BYTES_MAX || llabs(key.pts) > TICKS_MAX) {
        return fail_text(ladder, line, error);
    }
    key.segment += before;
    return cv_segment_list_add_key(list, &key, error);
}

static int join_head(struct cv_ladder *ladder, size_t rendition, const char *line,
                     struct cv_error *error)
{
    struct cv_ladder_joined *joined = &ladder->joined[rendition];
    char name[CV_LADDER_NAME_SIZE], own[CV_LADDER_NAME_SIZE], codec[64];
    int64_t frames;
    if (sscanf(line, "rendition %15s %63s %" SCNd64, name, codec, &frames) != 3 ||
        strcmp(name, cv_ladder_names(ladder, rendition, own).name) != 0 || frames < 1 ||
        frames > FRAMES_MAX) {
        return fail_text(ladder, line, error);
    }
    if (ladder->joined_chunks > 0 && strcmp(codec, joined->codec) != 0) {
        return fail_text(ladder, "its codec is another", error);
    }
    (void)snprintf(joined->codec, sizeof(joined->codec), "%s", codec);
    joined->frames += frames;
    if (!cv_segments_wants_global_header(ladder->format) || ladder->joined_chunks > 0) {
        return 0;
    }
    cv_auto_free char *file = NULL;
    CV_TRY(cv_format(&file, error, "init_%s.mp4", name));
    return report_one(ladder, CV_LADDER_STREAM, file, error);
}

/* Reads the lines of all renditions; *line is then the first line after them. */
static int join_renditions(struct cv_ladder *ladder, char **line, char **rest,
                           struct cv_error *error)
{
    for (size_t rendition = 0; rendition < ladder->count; rendition++) {
        CV_TRY(join_head(ladder, rendition, *line ? *line : "", error));
        size_t before = ladder->joined[rendition].list.count;
        *line = strtok_r(NULL, "\n", rest);
        while (*line && strncmp(*line, "segment ", 8) == 0) {
            CV_TRY(join_segment(ladder, rendition, *line, error));
            *line = strtok_r(NULL, "\n", rest);
        }
        while (*line && strncmp(*line, "key ", 4) == 0) {
            CV_TRY(join_key(ladder, rendition, before, *line, error));
            *line = strtok_r(NULL, "\n", rest);
        }
    }
    if (!*line || strcmp(*line, "cues") != 0) {
        CV_TRY(fail_text(ladder, *line ? *line : "it ends early", error));
    }
    return 0;
}

static int join_sheets(struct cv_ladder *ladder, int count, struct cv_error *error)
{
    for (int i = 0; i < count; i++) {
        char name[CV_SPRITES_NAME_SIZE];
        cv_sprites_sheet_name(ladder->joined_chunks, i, name);
        CV_TRY(report_one(ladder, CV_LADDER_THUMBS, name, error));
    }
    return 0;
}

int cv_ladder_join(struct cv_ladder *ladder, const char *text, struct cv_error *error)
{
    int number, sheets, tiles, length = 0;
    double score;
    int64_t end_us;
    if (sscanf(text, "chunk %d\nend %" SCNd64 "\nposter %lf\nsheets %d %d\n%n", &number, &end_us,
               &score, &sheets, &tiles, &length) != 5 ||
        number != ladder->joined_chunks || !(score >= -1) || end_us < 0 || end_us > END_MAX_US ||
        length == 0 || sheets < 1 || sheets > SHEETS_MAX || tiles < 1 || tiles > TILES_MAX) {
        return fail_text(ladder, "its head", error);
    }
    cv_auto_free char *copy = NULL;
    CV_TRY(cv_format(&copy, error, "%s", text + length));
    char *rest = NULL;
    char *line = strtok_r(copy, "\n", &rest);
    CV_TRY(join_renditions(ladder, &line, &rest, error));
    CV_TRY(join_sheets(ladder, sheets, error));
    cv_buffer_text(&ladder->cues, ladder->joined_chunks == 0 ? "WEBVTT\n" : "");
    const char *cues = text + length + (line - copy) + strlen("cues");
    cv_buffer_text(&ladder->cues, *cues == '\n' ? cues + 1 : cues);
    if (score > ladder->poster_score) {
        ladder->poster_score = score;
        ladder->poster_chunk = number;
    }
    ladder->video_end_us = end_us;
    ladder->joined_tiles += tiles;
    ladder->joined_chunks++;
    return 0;
}

int cv_ladder_poster_chunk(const struct cv_ladder *ladder)
{
    return ladder->poster_chunk;
}

/* ---- the end --------------------------------------------------------------------------------- */

void cv_ladder_end_joined(struct cv_ladder *ladder, int64_t end_us)
{
    int64_t end = av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    for (size_t i = 0; i < ladder->count; i++) {
        struct cv_segment_list *list = &ladder->joined[i].list;
        struct cv_segment *last = list->count > 0 ? &list->segments[list->count - 1] : NULL;
        if (last && end > last->start) {
            last->duration = end - last->start;
        }
    }
}

/* Writes the cues; the newest one ends with the presentation. */
int cv_ladder_write_cues(struct cv_ladder *ladder, struct cv_error *error)
{
    static const char arrow[] = " --> ";
    char *at = NULL;
    for (char *next = ladder->cues.data; next && (next = strstr(next, arrow)); next++) {
        at = next + strlen(arrow);
    }
    if (ladder->cues.failed || !at || strlen(at) < STAMP_LENGTH) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no chunk has cues");
    }
    int64_t ms = cv_segment_list_end(&ladder->joined[0].list) / (CV_PLAYLIST_CLOCK / 1000);
    char stamp[64];
    (void)snprintf(stamp, sizeof(stamp), "%02" PRId64 ":%02d:%02d.%03d", ms / 3600000,
                   (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), (int)(ms % 1000));
    (void)memcpy(at, stamp, STAMP_LENGTH);
    return cv_files_write(ladder->files, CV_LADDER_THUMBS, "thumbnails.vtt", ladder->cues.data,
                          ladder->cues.length, error);
}

void cv_ladder_free_joined(struct cv_ladder *ladder)
{
    for (size_t i = 0; i < ladder->count; i++) {
        cv_segment_list_deinit(&ladder->joined[i].list);
    }
    cv_buffer_deinit(&ladder->cues);
}
