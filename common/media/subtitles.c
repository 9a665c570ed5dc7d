#include "common/media/subtitles.h"

#include "common/media/language.h"
#include "common/media/libav.h"
#include "common/media/picture_codec.h"
#include "common/media/subtitle_picture.h"

#include <libavutil/avstring.h>
#include <limits.h>
#include <string.h>

enum {
    UNKNOWN_MS = 5000, /* a line whose end is nowhere stays so long, as long as players show it */
    LONGEST_MS = 3600000, /* an event that stays longer than an hour is a mistake of its file */
    ASS_FIELDS = 8,       /* commas before the text of an event as libavcodec returns it */
};

/* ---- text ------------------------------------------------------------------------------------ */

/* The length of the override block that begins at `text`, "{\i1}"; 0: it is text. *ret_draws says
 * whether what follows is a drawing, "{\p1}". */
static size_t override_length(const char *text, bool *ret_draws)
{
    const char *end = text[0] == '{' ? strchr(text, '}') : NULL;
    if (!end) {
        return 0;
    }
    for (const char *c = text; c + 2 < end; c++) {
        if (c[0] == '\\' && c[1] == 'p' && c[2] >= '0' && c[2] <= '9') {
            *ret_draws = c[2] != '0';
        }
    }
    return (size_t)(end - text) + 1;
}

/* The text of an event without styling, in its rows; free() it. NULL: out of memory. */
static char *plain_text(const char *event)
{
    char *text = malloc(strlen(event) + 1);
    size_t length = 0;
    bool draws = false;
    for (const char *c = event; text && *c;) {
        size_t skipped = override_length(c, &draws);
        if (skipped > 0) {
            c += skipped;
            continue;
        }
        bool is_break = c[0] == '\\' && c[1] && strchr("Nnh", c[1]);
        if (!draws) {
            text[length++] = (char)(!is_break ? *c : c[1] == 'h' ? ' ' : '\n');
        }
        c += is_break ? 2 : 1;
    }
    if (text) {
        text[length] = '\0';
    }
    return text;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

struct cv_subtitle_tracks {
    struct cv_subtitle_list *list;         /* borrowed */
    struct cv_subtitle_pictures *pictures; /* borrowed; may be NULL */
    struct track {
        const AVStream *stream; /* borrowed; NULL: captions of pictures, in microseconds */
        AVCodecContext *codec;
        char language[CV_SUBTITLE_LANGUAGE_SIZE];
        struct cv_subtitle_shown *shown; /* borrowed; NULL: its events are text */
    } items[CV_SUBTITLE_TRACKS_MAX];
    int count;
    struct track captions; /* its decoder is opened for the first picture that has some */
};

static bool is_read(const AVStream *stream, bool with_pictures, bool *ret_is_pictures)
{
    *ret_is_pictures = false;
    switch (stream->codecpar->codec_id) {
    case AV_CODEC_ID_HDMV_PGS_SUBTITLE:
    case AV_CODEC_ID_DVB_SUBTITLE:
    case AV_CODEC_ID_DVD_SUBTITLE:
    case AV_CODEC_ID_XSUB:
        *ret_is_pictures = true;
        return with_pictures;
    case AV_CODEC_ID_SUBRIP:
    case AV_CODEC_ID_TEXT:
    case AV_CODEC_ID_ASS:
    case AV_CODEC_ID_SSA:
    case AV_CODEC_ID_WEBVTT:
    case AV_CODEC_ID_MOV_TEXT:
    case AV_CODEC_ID_EIA_608:
        return true;
    default:
        return false;
    }
}

int cv_subtitle_tracks_open(AVFormatContext *format, struct cv_subtitle_list *list,
                            struct cv_subtitle_pictures *pictures,
                            struct cv_subtitle_tracks **ret_tracks, struct cv_error *error)
{
    cv_auto(cv_subtitle_tracks_close) struct cv_subtitle_tracks *tracks =
        calloc(1, sizeof(*tracks));
    CV_TRY_MEMORY(tracks, error, "subtitles");
    tracks->list = list;
    tracks->pictures = pictures;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        bool is_pictures;
        if (!is_read(stream, pictures, &is_pictures) ||
            !avcodec_find_decoder(stream->codecpar->codec_id) ||
            tracks->count == CV_SUBTITLE_TRACKS_MAX) {
            continue;
        }
        struct track *track = &tracks->items[tracks->count];
        struct cv_error ignored;
        if (cv_codec_open(stream, 1, &track->codec, &ignored) == 0) {
            stream->discard = AVDISCARD_DEFAULT;
            track->stream = stream;
            const AVDictionaryEntry *language = av_dict_get(stream->metadata, "language", NULL, 0);
            (void)snprintf(track->language, sizeof(track->language), "%s",
                           cv_language_code(language ? language->value : ""));
            track->shown = is_pictures ? &pictures->shown[tracks->count] : NULL;
            tracks->count++;
        }
    }
    *ret_tracks = cv_take(tracks);
    return 0;
}

void cv_subtitle_tracks_close(struct cv_subtitle_tracks *tracks)
{
    if (tracks) {
        for (int i = 0; i < tracks->count; i++) {
            avcodec_free_context(&tracks->items[i].codec);
        }
        avcodec_free_context(&tracks->captions.codec);
        free(tracks);
    }
}

static bool is_short(const struct cv_subtitle *line)
{
    return line->end_ms > line->start_ms && line->end_ms - line->start_ms <= LONGEST_MS &&
           line->end_ms <= INT32_MAX;
}

/* A container may say any time; this bound leaves room for sums of times. */
static int64_t within_bounds(int64_t ms)
{
    return FFMAX(INT64_MIN / 4, FFMIN(ms, INT64_MAX / 4));
}

/* When an event is shown, in ms of the presentation. Most events of pictures only end when the next one begins, which may be
 * empty: then the end is INT64_MAX. False: its times are of no use. */
static bool read_times(const struct track *track, const AVPacket *packet, const AVSubtitle *event,
                       int64_t zero_us, struct cv_subtitle *line)
{
    AVRational base = track->stream ? track->stream->time_base : AV_TIME_BASE_Q;
    /* A caption is told by the packet that ends it, and a picture may have several packets. */
    bool is_told_late = track->shown || track->codec->codec_id == AV_CODEC_ID_EIA_608;
    if ((is_told_late ? event->pts : packet->pts) == AV_NOPTS_VALUE) {
        return false;
    }
    AVRational ms = {1, 1000};
    int64_t at_ms =
        within_bounds(is_told_late ? event->pts / 1000 : av_rescale_q(packet->pts, base, ms));
    at_ms -= zero_us / 1000;
    int64_t length = within_bounds(av_rescale_q(packet->duration, base, ms));
    int64_t shown_ms = event->end_display_time == UINT32_MAX ? 0 : event->end_display_time;
    length = shown_ms > 0 ? shown_ms : length > 0 ? length : UNKNOWN_MS;
    bool is_open = track->shown && shown_ms == 0 && packet->duration <= 0;
    line->start_ms = at_ms + event->start_display_time;
    line->end_ms = is_open ? INT64_MAX : at_ms + length;
    line->start_ms = line->start_ms < 0 ? 0 : line->start_ms;
    return is_open || is_short(line);
}

/* libavcodec refuses events that are not UTF-8. */
static int add_event(struct cv_subtitle_tracks *tracks, const struct track *track,
                     const AVPacket *packet, const AVSubtitle *event, int64_t zero_us,
                     struct cv_error *error)
{
    struct cv_subtitle line = {0};
    if (!read_times(track, packet, event, zero_us, &line)) {
        return 0;
    }
    (void)memcpy(line.language, track->language, sizeof(line.language));
    for (unsigned i = 0; i < event->num_rects; i++) {
        const char *at = event->rects[i]->ass;
        for (int field = 0; at && field < ASS_FIELDS; field++) {
            at = strchr(at, ',');
            at = at ? at + 1 : NULL;
        }
        if (!at) {
            continue;
        }
        cv_auto_free char *text = line.text = plain_text(at);
        CV_TRY_MEMORY(text, error, "subtitles");
        CV_TRY(cv_subtitle_list_add(tracks->list, &line, error));
    }
    return 0;
}

/* Ends what a track of pictures shows, at the latest at this time. */
static int end_shown(struct cv_subtitle_pictures *pictures, struct cv_subtitle_shown *shown,
                     int64_t until_ms, struct cv_error *error)
{
    struct cv_subtitle line = shown->line;
    shown->line.text = NULL;
    line.end_ms = line.end_ms < until_ms ? line.end_ms : until_ms;
    if (!line.text || !is_short(&line)) {
        return 0;
    }
    pictures->lost += pictures->list.count == CV_SUBTITLE_LINES_MAX;
    return cv_subtitle_list_add(&pictures->list, &line, error);
}

int cv_subtitle_pictures_finish(struct cv_subtitle_pictures *pictures, int64_t until_ms,
                                struct cv_error *error)
{
    for (size_t i = 0; i < CV_SUBTITLE_TRACKS_MAX; i++) {
        struct cv_subtitle *line = &pictures->shown[i].line;
        if (line->end_ms == INT64_MAX) {
            line->end_ms = line->start_ms + (line->start_ms < until_ms ? UNKNOWN_MS : 0);
        }
        CV_TRY(end_shown(pictures, &pictures->shown[i], INT64_MAX, error));
    }
    return cv_subtitles_finish(&pictures->list, error);
}

/* Shows an event in place of the one before. NULL: the packet has none, because it is damaged or goes on. */
static int show_event(struct cv_subtitle_tracks *tracks, const struct track *track,
                      const AVPacket *packet, const AVSubtitle *event, int64_t zero_us,
                      bool is_damaged, struct cv_error *error)
{
    struct cv_subtitle_pictures *pictures = tracks->pictures;
    struct cv_subtitle line = {.text = track->shown->name};
    cv_auto(cv_av_frame_free) AVFrame *picture = NULL;
    pictures->lost += is_damaged;
    if (!event || !read_times(track, packet, event, zero_us, &line)) {
        return 0;
    }
    CV_TRY(end_shown(pictures, track->shown, line.start_ms, error));
    int result = cv_subtitle_compose(event, &pictures->pixels, &picture, error);
    if (result < 0 && error->type != CV_ERROR_OUT_OF_MEMORY) {
        pictures->lost++;
        return 0;
    }
    if (result != 0) {
        return result < 0 ? result : 0;
    }
    (void)memcpy(line.language, track->language, sizeof(line.language));
    CV_TRY(pictures->keep(pictures->opaque, picture, line.start_ms, track->shown->name, error));
    track->shown->line = line;
    return 0;
}

static int read_packet(struct cv_subtitle_tracks *tracks, const struct track *track,
                       AVPacket *packet, int64_t zero_us, struct cv_error *error)
{
    AVSubtitle event = {0};
    int is_event = 0;
    int used = avcodec_decode_subtitle2(track->codec, &event, &is_event, packet);
    if (used == AVERROR(ENOMEM)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a subtitle");
    }
    int result = 0;
    if (track->shown) {
        result = show_event(tracks, track, packet, used >= 0 && is_event ? &event : NULL, zero_us,
                            used < 0, error);
    } else if (used >= 0 && is_event) {
        result = add_event(tracks, track, packet, &event, zero_us, error);
    }
    if (is_event) {
        avsubtitle_free(&event);
    }
    return result;
}

int cv_subtitle_tracks_read(struct cv_subtitle_tracks *tracks, AVPacket *packet, int64_t zero_us,
                            bool *ret_is_one, struct cv_error *error)
{
    int i = 0;
    while (tracks && i < tracks->count && tracks->items[i].stream->index != packet->stream_index) {
        i++;
    }
    *ret_is_one = tracks && i < tracks->count;
    return *ret_is_one ? read_packet(tracks, &tracks->items[i], packet, zero_us, error) : 0;
}

static int open_captions(struct track *captions, struct cv_error *error)
{
    const AVCodec *decoder = avcodec_find_decoder(AV_CODEC_ID_EIA_608);
    captions->codec = avcodec_alloc_context3(decoder);
    CV_TRY_MEMORY(captions->codec, error, "captions");
    captions->codec->pkt_timebase = AV_TIME_BASE_Q;
    CV_TRY_AV(avcodec_open2(captions->codec, decoder, NULL), error, CV_ERROR_DECODE,
              "cannot open the decoder of captions");
    return 0;
}

int cv_subtitle_tracks_see(struct cv_subtitle_tracks *tracks, const AVFrame *picture,
                           int64_t pts_us, struct cv_error *error)
{
    const AVFrameSideData *data =
        tracks ? av_frame_get_side_data(picture, AV_FRAME_DATA_A53_CC) : NULL;
    if (!data || data->size == 0 || data->size > INT_MAX / 2) {
        return 0;
    }
    if (!tracks->captions.codec) {
        CV_TRY(open_captions(&tracks->captions, error));
    }
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    CV_TRY_MEMORY(packet && av_new_packet(packet, (int)data->size) >= 0, error, "captions");
    (void)memcpy(packet->data, data->data, data->size);
    packet->pts = pts_us;
    return read_packet(tracks, &tracks->captions, packet, 0, error);
}

int cv_subtitle_tracks_end(struct cv_subtitle_tracks *tracks, int64_t zero_us,
                           struct cv_error *error)
{
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    CV_TRY_MEMORY(packet, error, "captions");
    for (int i = 0; tracks && i <= tracks->count; i++) {
        const struct track *track = i < tracks->count ? &tracks->items[i] : &tracks->captions;
        if (track->codec && track->codec->codec->capabilities & AV_CODEC_CAP_DELAY) {
            CV_TRY(read_packet(tracks, track, packet, track->stream ? zero_us : 0, error));
        }
    }
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The bytes of a file are the buffer that libavformat reads. */
struct file {
    unsigned char *data; /* of av_malloc; it belongs to `io` when there is one */
    int64_t size;
    AVIOContext *io;
    AVFormatContext *format;
};

static void file_deinit(struct file *file)
{
    avformat_close_input(&file->format);
    av_free(file->io ? file->io->buffer : file->data);
    avio_context_free(&file->io);
}
CV_DEFINE_CLEANUP_ADDRESS(struct file, file_deinit)

static bool is_utf8(const unsigned char *bytes, int64_t size)
{
    const unsigned char *end = bytes + size;
    int32_t character;
    while (bytes < end &&
           av_utf8_decode(&character, &bytes, end, AV_UTF8_FLAG_ACCEPT_NON_CHARACTERS) >= 0) {
    }
    return bytes == end;
}

static int check_text(const struct file *file, struct cv_error *error)
{
    const unsigned char *data = file->data;
    bool has_mark = file->size >= 2 &&
                    ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff));
    if (has_mark) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the subtitles are in UTF-16; save the file as UTF-8");
    }
    if (memchr(data, 0, (size_t)file->size)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the file is no text; subtitles are SubRip, WebVTT or SSA/ASS");
    }
    return is_utf8(data, file->size)
               ? 0
               : cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                         "the subtitles are not in UTF-8; save the file as UTF-8");
}

static int read_whole(const struct cv_byte_source *source, struct file *file,
                      struct cv_error *error)
{
    if (source->size > CV_SUBTITLE_FILE_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "the file has more than %d MiB, which no subtitles have",
                       CV_SUBTITLE_FILE_MAX >> 20);
    }
    file->data = av_mallocz((size_t)source->size + 1);
    CV_TRY_MEMORY(file->data, error, "subtitles");
    for (size_t count = 1; count > 0 && file->size < source->size; file->size += (int64_t)count) {
        CV_TRY(source->read(source->opaque, file->size, file->data + file->size,
                            (size_t)(source->size - file->size), &count, error));
    }
    return check_text(file, error);
}

/* By the ending of its name: what a text is cannot be told from any first line. */
static int open_file(struct file *file, const char *ending, struct cv_error *error)
{
    const AVInputFormat *demuxer = av_find_input_format(strcmp(ending, "vtt") == 0   ? "webvtt"
                                                        : strcmp(ending, "srt") == 0 ? "srt"
                                                                                     : "ass");
    file->io = avio_alloc_context(file->data, (int)file->size, 0, NULL, NULL, NULL, NULL);
    file->format = avformat_alloc_context();
    CV_TRY_MEMORY(file->io && file->format && demuxer, error, "subtitles");
    file->format->pb = file->io;
    file->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    CV_TRY_AV(avformat_open_input(&file->format, NULL, demuxer, NULL), error,
              CV_ERROR_UNSUPPORTED_MEDIA, "the file is not what its ending says, .%s", ending);
    return 0;
}

/* The first part of a name between dots, behind its beginning, that is a language: "talk.en.srt". */
static const char *language_of(const char *name)
{
    const char *code = "";
    for (const char *dot = strchr(name, '.'); dot && !code[0]; dot = strchr(dot + 1, '.')) {
        char part[4];
        size_t length = strcspn(dot + 1, "._-");
        (void)snprintf(part, sizeof(part), "%.*s", length < sizeof(part) ? (int)length : 0,
                       dot + 1);
        code = dot[1 + strcspn(dot + 1, ".")] ? cv_language_code(part) : "";
    }
    return code;
}

int cv_subtitle_file_read(const struct cv_byte_source *source, const char *name,
                          struct cv_subtitle_list *list, struct cv_error *error)
{
    cv_auto(file_deinit) struct file file = {0};
    cv_auto(cv_subtitle_tracks_close) struct cv_subtitle_tracks *tracks = NULL;
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    const char *ending = strrchr(name, '.');
    cv_media_capture_log();
    CV_TRY_MEMORY(packet, error, "subtitles");
    CV_TRY(read_whole(source, &file, error));
    CV_TRY(open_file(&file, ending ? ending + 1 : "", error));
    CV_TRY(cv_subtitle_tracks_open(file.format, list, NULL, &tracks, error));
    (void)snprintf(tracks->items[0].language, CV_SUBTITLE_LANGUAGE_SIZE, "%s", language_of(name));
    while (av_read_frame(file.format, packet) >= 0) {
        bool is_one = false;
        int result = cv_subtitle_tracks_read(tracks, packet, 0, &is_one, error);
        av_packet_unref(packet);
        CV_TRY(result);
    }
    return list->count > 0
               ? 0
               : cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                         "the file has no line with a time; see whether its ending .%s is right",
                         ending ? ending + 1 : "");
}
