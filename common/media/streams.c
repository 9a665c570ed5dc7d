#include "common/media/streams.h"

#include "common/media/libav.h"
#include "common/media/refuse.h"
#include "common/recognise/recognise.h"

#include <libavcodec/avcodec.h>
#include <libavutil/avstring.h>
#include <libavutil/display.h>
#include <libavutil/dovi_meta.h>
#include <libavutil/parseutils.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <string.h>

enum {
    FRAME_RATE_MAX = 480,   /* a larger number is a time base, not a rate */
    ASPECT_MAX = 16,        /* a larger aspect ratio is a broken header */
    DOLBY_VISION_ALONE = 5, /* the profile of streaming services */
    DOLBY_VISION_HEVC = 9,  /* higher profiles say of every stream what its base layer is */
    DURATION_MAX_S = 30 * 24 * 60 * 60 /* a longer duration in a header is ignored */
};

#define TAG_ENCRYPTED_VIDEO MKTAG('e', 'n', 'c', 'v')

static bool is_picture(const AVStream *stream)
{
    return stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
           (stream->disposition &
            (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS)) == 0;
}

static bool is_encrypted(const AVStream *stream)
{
    size_t size = 0;
    return stream->codecpar->codec_tag == TAG_ENCRYPTED_VIDEO ||
           cv_av_stream_data(stream, AV_PKT_DATA_ENCRYPTION_INIT_INFO, &size) ||
           av_dict_get(stream->metadata, "enc_key_id", NULL, 0); /* Matroska, WebM */
}

/* Whether the pictures can only be shown with Dolby Vision's own metadata, because they have no base
 * layer that is HDR10, HLG or of ordinary range: profile 5, and others marked so (Dolby Vision
 * Streams Within the ISO Base Media File Format, 2.2). Their colours are neither Y'CbCr nor named. */
static bool is_dolby_vision_alone(const AVStream *stream)
{
    size_t size = 0;
    const void *data = cv_av_stream_data(stream, AV_PKT_DATA_DOVI_CONF, &size);
    const AVDOVIDecoderConfigurationRecord *record = data;
    return record && size >= sizeof(*record) &&
           (record->dv_profile == DOLBY_VISION_ALONE ||
            (record->dv_profile > DOLBY_VISION_HEVC && record->dv_bl_signal_compatibility_id == 0));
}

/* Ranks a stream; higher is better: decodable, with frames, the default stream, large. */
static int64_t rank(const AVStream *stream)
{
    const AVCodecParameters *codec = stream->codecpar;
    int64_t value = 0;
    if (avcodec_find_decoder(codec->codec_id)) {
        value += (int64_t)8 << 56;
    }
    if (stream->nb_frames > 0 || avformat_index_get_entries_count(stream) > 0) {
        value += (int64_t)4 << 56;
    }
    if (codec->format >= 0 && (codec->width > 0 || codec->sample_rate > 0)) {
        value += (int64_t)2 << 56;
    }
    if (stream->disposition & AV_DISPOSITION_DEFAULT) {
        value += (int64_t)1 << 56;
    }
    if (codec->codec_type == AVMEDIA_TYPE_VIDEO) {
        return value + (int64_t)codec->width * codec->height;
    }
    return value + codec->ch_layout.nb_channels;
}

static bool is_sound(const AVStream *stream)
{
    return stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO &&
           avcodec_find_decoder(stream->codecpar->codec_id) &&
           stream->codecpar->sample_rate >= CV_SOURCE_RATE_MIN;
}

static void pick(struct cv_input *input)
{
    AVFormatContext *format = input->format;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        stream->discard = AVDISCARD_ALL;
        if (is_picture(stream) && (!input->video || rank(stream) > rank(input->video))) {
            input->video = stream;
        }
        if (stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO) {
            input->info.audio_streams++;
            if (is_sound(stream) && (!input->audio || rank(stream) > rank(input->audio))) {
                input->audio = stream;
            }
        }
    }
}

/* Copies a container's text in a form that fits between quotes; bytes that are not UTF-8 are
 * dropped. */
static void clean_text(const AVStream *stream, const char *key, char *text, size_t size)
{
    const AVDictionaryEntry *entry = av_dict_get(stream->metadata, key, NULL, 0);
    const uint8_t *rest = entry ? (const uint8_t *)entry->value : (const uint8_t *)"";
    const uint8_t *end = rest + strlen((const char *)rest);
    size_t length = 0;
    while (rest < end) {
        const uint8_t *from = rest;
        int32_t letter;
        bool good = av_utf8_decode(&letter, &rest, end, 0) >= 0 && letter >= ' ' &&
                    letter != 0x7f && letter != '"' && letter != '\\' && rest <= end;
        size_t bytes = (size_t)(rest - from);
        if (good && length + bytes < size) {
            (void)memcpy(text + length, from, bytes);
            length += bytes;
        }
    }
    text[length] = '\0';
}

/* Lists the sound tracks: the best one first, the others in file order. */
static void pick_tracks(struct cv_input *input)
{
    struct cv_media_info *info = &input->info;
    if (input->audio) {
        input->tracks[info->track_count++] = input->audio;
    }
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        AVStream *stream = input->format->streams[i];
        if (is_sound(stream) && stream != input->audio && info->track_count < CV_MEDIA_TRACKS_MAX) {
            input->tracks[info->track_count++] = stream;
        }
    }
    for (int i = 0; i < info->track_count; i++) {
        struct cv_media_track *track = &info->tracks[i];
        clean_text(input->tracks[i], "language", track->language, sizeof(track->language));
        clean_text(input->tracks[i], "title", track->title, sizeof(track->title));
        if (strcmp(track->language, "und") == 0) {
            track->language[0] = '\0';
        }
    }
}

/* An unknown codec is named by its four-character code in the file. */
static int fail_codec(const AVCodecParameters *codec, struct cv_error *error)
{
    if (codec->codec_id != AV_CODEC_ID_NONE) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the video is encoded as %s, which cannot be decoded here; convert it to "
                       "H.264, for example",
                       avcodec_get_name(codec->codec_id));
    }
    if (codec->codec_tag == 0) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the file does not say how its pictures are encoded: it is damaged, or of a "
                       "kind that is not known here; check that it plays elsewhere");
    }
    char tag[AV_FOURCC_MAX_STRING_SIZE];
    return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                   "the video is encoded in a way (\"%s\") that is not known here; convert it to "
                   "H.264, for example",
                   av_fourcc_make_string(tag, codec->codec_tag));
}

static int refuse_without_video(const struct cv_input *input, struct cv_error *error)
{
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        const AVCodecParameters *codec = input->format->streams[i]->codecpar;
        if (codec->codec_type == AVMEDIA_TYPE_AUDIO) {
            return cv_recognise_sound(avcodec_get_name(codec->codec_id), error);
        }
    }
    CV_TRY(cv_refuse_recognised(&input->source, error));
    return cv_fail(error, CV_ERROR_NOT_A_VIDEO,
                   "the file has no pictures; only videos can be read");
}

static int check(const struct cv_input *input, struct cv_error *error)
{
    if (!input->video) {
        return refuse_without_video(input, error);
    }
    const AVCodecParameters *codec = input->video->codecpar;
    if (is_encrypted(input->video)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA, CV_MEDIA_ENCRYPTED);
    }
    if (is_dolby_vision_alone(input->video)) {
        return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                       "the video's colours are those of Dolby Vision profile 5, which cannot be "
                       "converted here: export the video as HDR10, HLG or SDR");
    }
    if (!avcodec_find_decoder(codec->codec_id)) {
        return fail_codec(codec, error);
    }
    if (codec->width > CV_MEDIA_SIDE_MAX || codec->height > CV_MEDIA_SIDE_MAX ||
        (int64_t)codec->width * codec->height > CV_MEDIA_AREA_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "a picture of %d×%d pixels is larger than the limit of %d a side and %d in "
                       "all",
                       codec->width, codec->height, CV_MEDIA_SIDE_MAX, CV_MEDIA_AREA_MAX);
    }
    return 0;
}

/* The display matrix maps a point of the coded picture to (a·x + c·y, b·x + d·y). A rotation that
 * is not a multiple of 90 degrees is rounded to the nearest one. */
static void read_orientation(struct cv_input *input)
{
    struct cv_orientation *orientation = &input->orientation;
    size_t size = 0;
    const uint8_t *data = cv_av_stream_data(input->video, AV_PKT_DATA_DISPLAYMATRIX, &size);
    if (!data || size < 9 * sizeof(int32_t)) {
        return;
    }
    int32_t matrix[9];
    (void)memcpy(matrix, data, sizeof(matrix));
    int64_t a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    orientation->transpose = llabs(b) + llabs(c) > llabs(a) + llabs(d);
    orientation->flip_x = orientation->transpose ? c < 0 : a < 0;
    orientation->flip_y = orientation->transpose ? b < 0 : d < 0;

    struct cv_media_info *info = &input->info;
    info->mirrored = (orientation->flip_x != orientation->flip_y) != orientation->transpose;
    if (orientation->transpose) {
        info->rotation = orientation->flip_x ? 90 : 270;
    } else {
        info->rotation = orientation->flip_y ? 180 : 0;
    }
}

static void read_start(struct cv_input *input)
{
    int64_t earliest = INT64_MAX;
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        const AVStream *stream = input->format->streams[i];
        bool counts = is_picture(stream) || stream->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
        if (counts && stream->start_time != AV_NOPTS_VALUE) {
            int64_t start = av_rescale_q(stream->start_time, stream->time_base, AV_TIME_BASE_Q);
            earliest = start < earliest ? start : earliest;
        }
    }
    input->zero_us = earliest == INT64_MAX ? 0 : earliest;
}

static int64_t stream_end_us(const struct cv_input *input, const AVStream *stream)
{
    if (!stream || stream->duration == AV_NOPTS_VALUE || stream->duration <= 0) {
        return 0;
    }
    int64_t start = stream->start_time == AV_NOPTS_VALUE ? 0 : stream->start_time;
    return cv_input_time_us(input, stream, av_sat_add64(start, stream->duration));
}

static void read_duration(struct cv_input *input)
{
    int64_t video = stream_end_us(input, input->video);
    int64_t audio = stream_end_us(input, input->audio);
    int64_t duration = video > audio ? video : audio;
    if (duration <= 0 && input->format->duration != AV_NOPTS_VALUE) {
        duration = input->format->duration;
    }
    bool believable = duration > 0 && duration / AV_TIME_BASE < DURATION_MAX_S;
    input->info.duration_us = believable ? duration : 0;
}

int64_t cv_input_claimed_end_us(const struct cv_input *input, const AVStream *stream)
{
    int64_t end_us = stream_end_us(input, stream);
    return end_us / AV_TIME_BASE < DURATION_MAX_S ? end_us : 0;
}

int64_t cv_presentation_us(const struct cv_media_info *info, int64_t pictures_end_us,
                           int64_t sound_end_us)
{
    int64_t end_us = sound_end_us > pictures_end_us ? sound_end_us : pictures_end_us;
    bool is_short = info->track_count > 0 && end_us < CV_MEDIA_SOUND_LEAST_US;
    return is_short ? CV_MEDIA_SOUND_LEAST_US : end_us;
}

static double rate(AVRational value)
{
    double number = value.den > 0 ? av_q2d(value) : 0;
    return number > 0 && number <= FRAME_RATE_MAX ? number : 0;
}

static void read_frame_rate(struct cv_input *input)
{
    const AVStream *stream = input->video;
    struct cv_media_info *info = &input->info;
    double average = rate(stream->avg_frame_rate);
    double base = rate(stream->r_frame_rate);
    if (stream->nb_frames == 1) {
        average = base = 0;
    }
    info->frame_rate = average > 0 ? average : base;
    info->variable_frame_rate = average > 0 && base > 0 && fabs(base - average) > 0.02 * average;
}

static AVRational read_aspect(struct cv_input *input)
{
    AVRational aspect = av_guess_sample_aspect_ratio(input->format, input->video, NULL);
    if (aspect.num <= 0 || aspect.den <= 0 || av_q2d(aspect) > ASPECT_MAX ||
        av_q2d(aspect) < 1.0 / ASPECT_MAX) {
        return (AVRational){1, 1};
    }
    return input->orientation.transpose ? av_inv_q(aspect) : aspect;
}

void cv_shown_size(const struct cv_media_info *info, int *ret_width, int *ret_height)
{
    double aspect = av_q2d(info->sample_aspect);
    bool turned = info->rotation % 180 != 0;
    double width = info->width * (turned ? 1 : aspect);
    double height = info->height / (turned ? aspect : 1);
    *ret_width = (int)fmax(lrint(width), 1);
    *ret_height = (int)fmax(lrint(height), 1);
}

static void keep(char *target, size_t size, const char *text)
{
    (void)snprintf(target, size, "%.*s", (int)strcspn(text, ","), text);
}

/* Apple's tag has a zone and is the start. FFmpeg names creation_time what MP4, QuickTime and Matroska
 * have, in UTC. Android's MediaMuxer and MediaRecorder write it with the index, when they stop. */
static void read_recording_time(const AVDictionary *tags, struct cv_media_info *info)
{
    static const char *const names[] = {"com.apple.quicktime.creationdate", "creation_time"};
    static const int64_t latest_us = INT64_C(10000000000) * 1000000; /* the year 2286 */
    for (size_t i = 0; info->recorded_us == 0 && i < CV_COUNT(names); i++) {
        const AVDictionaryEntry *tag = av_dict_get(tags, names[i], NULL, 0);
        const char *clock = tag ? strchr(tag->value, 'T') : NULL;
        if (clock && strpbrk(clock, "Z+-") &&
            av_parse_time(&info->recorded_us, tag->value, 0) < 0) {
            info->recorded_us = 0;
        }
        if (info->recorded_us < 0 || info->recorded_us > latest_us) {
            info->recorded_us = 0;
        }
        info->recorded_is_end = i == 1 && av_dict_get(tags, "com.android.version", NULL, 0);
    }
}

static void read_info(struct cv_input *input)
{
    const AVCodecParameters *codec = input->video->codecpar;
    struct cv_media_info *info = &input->info;
    info->width = input->orientation.transpose ? codec->height : codec->width;
    info->height = input->orientation.transpose ? codec->width : codec->height;
    info->sample_aspect = read_aspect(input);
    info->time_base = input->video->time_base;
    info->interlaced = codec->field_order > AV_FIELD_PROGRESSIVE;
    info->high_dynamic_range =
        codec->color_trc == AVCOL_TRC_SMPTE2084 || codec->color_trc == AVCOL_TRC_ARIB_STD_B67;
    keep(info->container, sizeof(info->container), input->format->iformat->name);
    keep(info->video_codec, sizeof(info->video_codec), avcodec_get_name(codec->codec_id));
    const char *pixel_format = av_get_pix_fmt_name(codec->format);
    keep(info->pixel_format, sizeof(info->pixel_format), pixel_format ? pixel_format : "");
    read_recording_time(input->format->metadata, info);
    if (input->audio) {
        const AVCodecParameters *sound = input->audio->codecpar;
        keep(info->audio_codec, sizeof(info->audio_codec), avcodec_get_name(sound->codec_id));
        info->audio_channels = sound->ch_layout.nb_channels;
        info->audio_sample_rate = sound->sample_rate;
    }
}

int cv_input_choose_streams(struct cv_input *input, struct cv_error *error)
{
    pick(input);
    pick_tracks(input);
    CV_TRY(check(input, error));
    input->video->discard = AVDISCARD_DEFAULT;
    read_orientation(input);
    read_start(input);
    read_duration(input);
    read_frame_rate(input);
    read_info(input);
    return 0;
}
