#include "common/media/decode.h"

#include "common/media/cadence.h"
#include "common/media/demux.h"
#include "common/media/filters.h"
#include "common/media/libav.h"
#include "common/media/picture_codec.h"
#include "common/media/refuse.h"
#include "common/media/scale.h"

#include <libavutil/intreadwrite.h>
#include <libavutil/pixdesc.h>
#include <string.h>

enum {
    THREADS_MAX = 16,                /* more frames in flight cost memory and gain no speed */
    NOMINAL_INTERVAL_US = 40 * 1000, /* if the source does not say: 25 frames per second */
    SHORTEST_CLAIM_US = 2 * 1000,    /* a shorter duration is a container's tick */
    SEEK_PREROLL_US = 500 * 1000,    /* sound decoders need the packet before */
    SEEK_STEP_US = 4 * 1000 * 1000,  /* first step back if the index points too late */
    PLANE_ALIGNMENT = 32,            /* bytes; what AVX2 loads at once */
    SKIPPED_AT_END = 4,              /* where AV_PKT_DATA_SKIP_SAMPLES has them */
};

#define PRESENTATION_MAX_US (INT64_C(3600) * 1000 * 1000 * CV_MEDIA_HOURS_MAX)

/* Returns each frame one call later, when the next frame's time gives its duration. */
struct cv_decoder {
    struct cv_input *input;
    AVCodecContext *video;
    AVCodecContext *audio[CV_MEDIA_TRACKS_MAX]; /* by track; NULL: not wanted */
    bool audio_ended[CV_MEDIA_TRACKS_MAX];
    struct cv_deinterlacer *deinterlacer; /* NULL before the first interlaced frame */
    struct cv_upright *upright;
    struct cv_frame_clock clock;
    AVPacket *packet;
    AVFrame *raw;     /* the codec's output */
    AVFrame *held;    /* the newest frame, upright */
    AVFrame *current; /* the frame that the caller has */
    AVFrame *sound;
    int64_t held_us, held_source_duration_us, last_interval_us;
    int64_t key_us; /* of the first key frame sent since the last seek; INT64_MIN: none yet */
    bool holds, input_started, input_ended, video_ended;
    int64_t sound_end_us; /* of the sound packets so far; 0: none */
    int64_t frames, damaged;
    bool whole, torn, sound_alone;
    cv_decoder_watch watch; /* may be NULL */
    void *watch_opaque;
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Removes tracks from the list for which no decoder can be opened. */
static void open_tracks(struct cv_decoder *decoder, int wanted)
{
    struct cv_input *input = decoder->input;
    struct cv_media_info *info = &input->info;
    int found = info->track_count, kept = 0;
    for (int i = 0; i < found && kept < wanted; i++) {
        struct cv_error ignored;
        if (cv_codec_open(input->tracks[i], 1, &decoder->audio[kept], &ignored) != 0) {
            if (i == 0) {
                break; /* info describes the sound of the best track */
            }
            continue;
        }
        input->tracks[kept] = input->tracks[i];
        info->tracks[kept] = info->tracks[i];
        input->tracks[kept++]->discard = AVDISCARD_DEFAULT;
    }
    info->track_count = kept;
    if (kept == 0) {
        info->audio_codec[0] = '\0';
    }
}

static int open_codecs(struct cv_decoder *decoder, const struct cv_decoder_params *params,
                       struct cv_error *error)
{
    struct cv_input *input = decoder->input;
    int threads = params->threads < 1 ? 1 : params->threads;
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    CV_TRY(cv_codec_open(input->video, threads, &decoder->video, error));
    if (params->sound_alone) {
        input->video->discard = AVDISCARD_ALL;
        input->timeline.sound_alone = true;
    }
    if (params->sound) {
        open_tracks(decoder, params->all_sound ? CV_MEDIA_TRACKS_MAX : 1);
    } else if (params->sound_times) {
        for (int i = 0; i < input->info.track_count; i++) {
            input->tracks[i]->discard = AVDISCARD_DEFAULT;
        }
    }
    return params->subtitles
               ? cv_subtitle_tracks_open(input->format, params->subtitles,
                                         params->subtitle_pictures, &input->subtitles, error)
               : 0;
}

/* Changes `info` to the size with square pixels, unless that is too large. `*ret_aspect`: the ratio
 * by which frames must be stretched. */
static void square_pixels(struct cv_media_info *info, AVRational *ret_aspect)
{
    int width, height;
    cv_shown_size(info, &width, &height);
    if (width <= CV_MEDIA_SIDE_MAX && height <= CV_MEDIA_SIDE_MAX &&
        (int64_t)width * height <= CV_MEDIA_AREA_MAX) {
        *ret_aspect = info->sample_aspect;
        info->width = width;
        info->height = height;
        info->sample_aspect = (AVRational){1, 1};
    }
}

int cv_decoder_open(const struct cv_byte_source *source, const struct cv_decoder_params *params,
                    struct cv_decoder **ret_decoder, struct cv_error *error)
{
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = calloc(1, sizeof(*decoder));
    if (decoder) {
        decoder->packet = av_packet_alloc();
        decoder->raw = av_frame_alloc();
        decoder->held = av_frame_alloc();
        decoder->current = av_frame_alloc();
        decoder->sound = av_frame_alloc();
    }
    CV_TRY_MEMORY(decoder && decoder->packet && decoder->raw && decoder->held && decoder->current &&
                      decoder->sound,
                  error, "a decoder");
    decoder->whole = params->whole;
    decoder->torn = params->torn;
    decoder->sound_alone = decoder->video_ended = params->sound_alone;
    decoder->key_us = INT64_MIN;
    CV_TRY(cv_input_open(source, params->cancel, &decoder->input, error));
    CV_TRY(open_codecs(decoder, params, error));
    AVRational aspect = {1, 1};
    if (params->square) {
        square_pixels(&decoder->input->info, &aspect);
    }
    CV_TRY(cv_upright_new(&decoder->input->orientation, aspect, &decoder->upright, error));
    double rate = decoder->input->info.frame_rate;
    decoder->clock.interval_us = rate > 0 ? (int64_t)(AV_TIME_BASE / rate) : NOMINAL_INTERVAL_US;
    decoder->last_interval_us = decoder->clock.interval_us;
    if (params->whole && decoder->input->info.interlaced) {
        decoder->input->info.frame_rate *= 2; /* a picture for each field */
    }
    *ret_decoder = cv_take(decoder);
    return 0;
}

void cv_decoder_close(struct cv_decoder *decoder)
{
    if (decoder) {
        cv_deinterlacer_free(decoder->deinterlacer);
        cv_upright_free(decoder->upright);
        avcodec_free_context(&decoder->video);
        for (int i = 0; i < CV_MEDIA_TRACKS_MAX; i++) {
            avcodec_free_context(&decoder->audio[i]);
        }
        av_packet_free(&decoder->packet);
        av_frame_free(&decoder->raw);
        av_frame_free(&decoder->held);
        av_frame_free(&decoder->current);
        av_frame_free(&decoder->sound);
        cv_input_close(decoder->input);
        free(decoder);
    }
}

const struct cv_media_info *cv_decoder_info(const struct cv_decoder *decoder)
{
    return &decoder->input->info;
}

const AVCodecParameters *cv_decoder_codec(const struct cv_decoder *decoder)
{
    return decoder->input->video->codecpar;
}

void cv_decoder_set_watch(struct cv_decoder *decoder, cv_decoder_watch watch, void *opaque)
{
    decoder->watch = watch;
    decoder->watch_opaque = opaque;
}

int64_t cv_decoder_sound_end_us(const struct cv_decoder *decoder)
{
    const struct cv_input *input = decoder->input;
    int64_t end_us = decoder->sound_end_us;
    for (int i = 0; decoder->sound_end_us == 0 && i < input->info.track_count; i++) {
        int64_t own_us = cv_input_claimed_end_us(input, input->tracks[i]);
        end_us = own_us > end_us ? own_us : end_us;
    }
    return end_us;
}

double cv_decoder_consumed(const struct cv_decoder *decoder)
{
    return cv_input_consumed(decoder->input);
}

int64_t cv_decoder_damaged_frames(const struct cv_decoder *decoder)
{
    return decoder->damaged;
}

bool cv_decoder_is_cut_off(const struct cv_decoder *decoder)
{
    return decoder->input->cut_off;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static int check_size(const AVFrame *frame, struct cv_error *error)
{
    if (frame->width > CV_MEDIA_SIDE_MAX || frame->height > CV_MEDIA_SIDE_MAX ||
        (int64_t)frame->width * frame->height > CV_MEDIA_AREA_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a picture of %d×%d pixels is too large",
                       frame->width, frame->height);
    }
    return 0;
}

static void hand_out(struct cv_decoder *decoder, int64_t duration_us,
                     struct cv_video_frame *ret_frame)
{
    av_frame_unref(decoder->current);
    av_frame_move_ref(decoder->current, decoder->held);
    decoder->holds = false;
    *ret_frame = (struct cv_video_frame){
        .picture = decoder->current,
        .pts_us = decoder->held_us,
        .duration_us = duration_us > 0 ? duration_us : 1,
        .key_frame = cv_av_is_key_frame(decoder->current),
    };
}

/* The held picture's duration by the end of its track in an MP4's index; 0 if there is none, or if
 * it is further away than CV_TIMELINE_STEP_US. With reordered pictures the packet's own duration is
 * of no use: it is the distance to the packet that is decoded next. */
static int64_t duration_to_track_end_us(const struct cv_decoder *decoder)
{
    const struct cv_input *input = decoder->input;
    const AVStream *stream = input->video;
    if (strcmp(input->info.container, "mov") != 0 || input->cut_off ||
        stream->duration == AV_NOPTS_VALUE || stream->start_time == AV_NOPTS_VALUE) {
        return 0;
    }
    int64_t end = av_sat_add64(stream->start_time, stream->duration);
    int64_t end_us = cv_input_time_us(input, stream, end), whole_us = input->info.duration_us;
    int64_t duration_us = (end_us < whole_us ? end_us : whole_us) - decoder->held_us;
    return duration_us <= CV_TIMELINE_STEP_US ? duration_us : 0;
}

/* How long the held picture stands if the presentation ends, by its edit list, at or before a picture
 * that is left out; 0 if none is. FFmpeg 7.1 gives the last picture of a recording with an
 * unsteady rate no duration, and an edit list that ends where it begins. */
static int64_t duration_to_left_out_us(const struct cv_decoder *decoder)
{
    const struct cv_input *input = decoder->input;
    int64_t claimed_us = input->timeline.claimed_us, left_out_us = input->left_out_us;
    int64_t end_us = left_out_us < claimed_us ? left_out_us : claimed_us;
    bool is_believed = end_us <= cv_timeline_limit_us(&input->timeline);
    return left_out_us != INT64_MAX && is_believed ? end_us - decoder->held_us : 0;
}

/* The last frame's duration as in the container. If that is missing or only a tick, the distance of
 * the two frames before, unless that was a pause. */
static int64_t last_duration(const struct cv_decoder *decoder)
{
    int64_t duration = duration_to_left_out_us(decoder);
    if (duration >= SHORTEST_CLAIM_US) {
        return duration;
    }
    duration = duration_to_track_end_us(decoder);
    duration =
        decoder->held_source_duration_us > duration ? decoder->held_source_duration_us : duration;
    int64_t end = decoder->input->info.duration_us;
    int64_t limit = cv_timeline_limit_us(&decoder->input->timeline);
    bool beyond = end > 0 && decoder->held_us + duration > end + decoder->last_interval_us;
    if (duration >= SHORTEST_CLAIM_US && !beyond && decoder->held_us + duration <= limit) {
        return duration;
    }
    int64_t nominal = decoder->clock.interval_us;
    return decoder->last_interval_us < nominal ? decoder->last_interval_us : nominal;
}

enum { TAKEN_NOTHING_OUT = 2, NEEDS_PACKET = 3 };

/* Takes decoder->raw over as the picture that is shown from `pts_us` on. CV_DECODER_FRAME: the
 * frame before it is returned. */
static int hold_frame(struct cv_decoder *decoder, int64_t pts_us, int64_t duration_us,
                      struct cv_video_frame *ret_frame, struct cv_error *error)
{
    int outcome = TAKEN_NOTHING_OUT;
    if (decoder->holds) {
        decoder->last_interval_us = pts_us - decoder->held_us;
        hand_out(decoder, pts_us - decoder->held_us, ret_frame);
        outcome = CV_DECODER_FRAME;
    }
    CV_TRY(cv_upright_turn(decoder->upright, decoder->raw, decoder->held, error));
    decoder->holds = true;
    decoder->held_us = pts_us;
    decoder->held_source_duration_us = duration_us;
    decoder->frames++;
    return outcome;
}

/* Deinterlaces before rotation, because fields that lie side by side cannot be deinterlaced. */
static int weave(struct cv_decoder *decoder, int64_t pts_us, int64_t duration_us,
                 struct cv_error *error)
{
    if (!decoder->deinterlacer) {
        CV_TRY(cv_deinterlacer_new(&decoder->deinterlacer, error));
    }
    struct cv_video_frame frame = {decoder->raw, pts_us, duration_us, false};
    return cv_deinterlacer_send(decoder->deinterlacer, &frame, error);
}

/* Returns the next deinterlaced picture, if there is one, as take_frame does. */
static int return_deinterlaced(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                               struct cv_error *error)
{
    struct cv_video_frame whole;
    int result = cv_deinterlacer_receive(decoder->deinterlacer, &whole, error);
    if (result != CV_DEINTERLACER_FRAME) {
        return result < 0 ? result : NEEDS_PACKET;
    }
    av_frame_unref(decoder->raw);
    CV_TRY_MEMORY(av_frame_ref(decoder->raw, whole.picture) >= 0, error, "a picture");
    return hold_frame(decoder, whole.pts_us, whole.duration_us, ret_frame, error);
}

/* Aligns a picture whose left edge was cropped; not every filter accepts any address. */
static int align(AVFrame *raw, struct cv_error *error)
{
    bool is_aligned = true;
    for (int i = 0; i < AV_NUM_DATA_POINTERS && raw->data[i]; i++) {
        is_aligned = is_aligned && (uintptr_t)raw->data[i] % PLANE_ALIGNMENT == 0;
    }
    if (is_aligned) {
        return 0;
    }
    cv_auto(cv_av_frame_free) AVFrame *copy = NULL;
    CV_TRY(cv_picture_new(raw->width, raw->height, raw->format, &copy, error));
    CV_TRY_MEMORY(av_frame_copy(copy, raw) >= 0 && av_frame_copy_props(copy, raw) >= 0, error,
                  "a picture");
    av_frame_unref(raw);
    av_frame_move_ref(raw, copy);
    return 0;
}

/* Processes decoder->raw. CV_DECODER_FRAME: an earlier frame is returned. */
static int return_frame(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                        struct cv_error *error)
{
    AVFrame *raw = decoder->raw;
    CV_TRY(check_size(raw, error));
    CV_TRY(align(raw, error));
    const AVStream *stream = decoder->input->video;
    int64_t source_us = cv_input_time_us(decoder->input, stream, raw->best_effort_timestamp);
    int64_t pts_us = cv_frame_clock_stamp(&decoder->clock, source_us);
    int64_t duration_us = av_rescale_q(*cv_av_duration(raw), stream->time_base, AV_TIME_BASE_Q);
    if (pts_us > PRESENTATION_MAX_US) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video goes on for more than %d hours",
                       CV_MEDIA_HOURS_MAX);
    }
    CV_TRY(cv_subtitle_tracks_see(decoder->input->subtitles, raw, pts_us, error));
    if (decoder->deinterlacer || (decoder->whole && cv_av_is_interlaced(raw))) {
        CV_TRY(weave(decoder, pts_us, duration_us, error));
        return TAKEN_NOTHING_OUT;
    }
    return hold_frame(decoder, pts_us, duration_us, ret_frame, error);
}

static int receive_video(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                         struct cv_error *error)
{
    for (;;) {
        int whole =
            decoder->deinterlacer ? return_deinterlaced(decoder, ret_frame, error) : NEEDS_PACKET;
        if (whole != NEEDS_PACKET && whole != TAKEN_NOTHING_OUT) {
            return whole;
        }
        if (whole == TAKEN_NOTHING_OUT) {
            continue;
        }
        if (decoder->video_ended) {
            break;
        }
        av_frame_unref(decoder->raw);
        int result = cv_codec_receive(decoder->video, decoder->raw, error);
        if (result < 0) {
            return result;
        }
        if (result == CV_PICTURE_NEEDS_PACKET) {
            return NEEDS_PACKET;
        }
        if (result == CV_PICTURE_END) {
            decoder->video_ended = true;
            result = decoder->deinterlacer
                         ? cv_deinterlacer_send(decoder->deinterlacer, NULL, error)
                         : 0;
            if (result != 0) {
                return result;
            }
            continue;
        }
        decoder->damaged += result == CV_PICTURE_DAMAGED || result == CV_PICTURE_TORN;
        if (result == CV_PICTURE_DAMAGED || (result == CV_PICTURE_TORN && !decoder->torn)) {
            continue;
        }
        result = return_frame(decoder, ret_frame, error);
        if (result != TAKEN_NOTHING_OUT) {
            return result;
        }
    }
    if (decoder->holds) {
        hand_out(decoder, last_duration(decoder), ret_frame);
        return CV_DECODER_FRAME;
    }
    return CV_DECODER_END;
}

static int receive_track(struct cv_decoder *decoder, int track, struct cv_sound *ret_sound,
                         struct cv_error *error)
{
    while (!decoder->audio_ended[track]) {
        av_frame_unref(decoder->sound);
        int result = avcodec_receive_frame(decoder->audio[track], decoder->sound);
        if (result == AVERROR(EAGAIN)) {
            return NEEDS_PACKET;
        }
        CV_TRY_MEMORY(result != AVERROR(ENOMEM), error, "sound");
        if (result == AVERROR_EOF) {
            decoder->audio_ended[track] = true;
            break;
        }
        if (result == 0 && decoder->sound->nb_samples > 0 &&
            decoder->sound->sample_rate >= CV_SOURCE_RATE_MIN) {
            *ret_sound = (struct cv_sound){
                .samples = decoder->sound,
                .pts_us = cv_input_time_us(decoder->input, decoder->input->tracks[track],
                                           decoder->sound->best_effort_timestamp),
                .track = track,
            };
            return CV_DECODER_SOUND;
        }
    }
    return CV_DECODER_END;
}

static int receive_audio(struct cv_decoder *decoder, struct cv_sound *ret_sound,
                         struct cv_error *error)
{
    int outcome = CV_DECODER_END;
    for (int i = 0; i < CV_MEDIA_TRACKS_MAX && decoder->audio[i]; i++) {
        int result = receive_track(decoder, i, ret_sound, error);
        if (result < 0 || result == CV_DECODER_SOUND) {
            return result;
        }
        outcome = result == NEEDS_PACKET ? NEEDS_PACKET : outcome;
    }
    return outcome;
}

/* Records where a packet of sound ends: with all the samples that its decoder will give, also where
 * the container says that the last packet is shorter, without those that are to be left out. */
static void record_sound_end(struct cv_decoder *decoder, const AVStream *stream)
{
    const AVPacket *packet = decoder->packet;
    size_t size = 0;
    const uint8_t *skipped = av_packet_get_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
    int64_t end_us = cv_input_time_us(decoder->input, stream, packet->pts);
    int rate = stream->codecpar->sample_rate;
    if (end_us == AV_NOPTS_VALUE) {
        return;
    }
    int samples = av_get_audio_frame_duration2(stream->codecpar, packet->size);
    int64_t own_us = rate > 0 ? av_rescale(samples, AV_TIME_BASE, rate) : 0;
    int64_t told_us = av_rescale_q(packet->duration, stream->time_base, AV_TIME_BASE_Q);
    end_us += own_us > told_us ? own_us : told_us;
    if (skipped && size >= SKIPPED_AT_END + sizeof(uint32_t) && rate > 0) {
        end_us -= av_rescale(AV_RL32(skipped + SKIPPED_AT_END), AV_TIME_BASE, rate);
    }
    decoder->sound_end_us = end_us > decoder->sound_end_us ? end_us : decoder->sound_end_us;
}

static int send_packet(struct cv_decoder *decoder, struct cv_error *error)
{
    decoder->input_started = true;
    int result = cv_input_read(decoder->input, decoder->packet, error);
    if (result < 0) {
        return result;
    }
    if (result == CV_INPUT_END) {
        decoder->input_ended = true;
        for (int i = 0; i < CV_MEDIA_TRACKS_MAX && decoder->audio[i]; i++) {
            (void)avcodec_send_packet(decoder->audio[i], NULL);
        }
        return cv_codec_send(decoder->video, NULL, error);
    }
    bool is_video = decoder->packet->stream_index == decoder->input->video->index;
    if (is_video && decoder->sound_alone) {
        return 0;
    }
    bool is_key = is_video && (decoder->packet->flags & AV_PKT_FLAG_KEY);
    if (is_key && decoder->key_us == INT64_MIN && decoder->packet->pts != AV_NOPTS_VALUE) {
        decoder->key_us =
            cv_input_time_us(decoder->input, decoder->input->video, decoder->packet->pts);
    }
    if (is_video && decoder->watch) {
        int64_t pts_us =
            cv_input_time_us(decoder->input, decoder->input->video, decoder->packet->pts);
        CV_TRY(decoder->watch(decoder->watch_opaque, decoder->packet, pts_us, error));
    }
    if (is_video) {
        result = cv_codec_send(decoder->video, decoder->packet, error);
        decoder->damaged += result == CV_PICTURE_DAMAGED;
        return result < 0 ? result : 0;
    }
    const AVStream *stream = decoder->input->format->streams[decoder->packet->stream_index];
    int track = cv_input_track(decoder->input, stream);
    record_sound_end(decoder, stream);
    AVCodecContext *codec = track < 0 ? NULL : decoder->audio[track];
    result = codec ? avcodec_send_packet(codec, decoder->packet) : 0;
    return result == AVERROR(ENOMEM)
               ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a decoder")
               : 0;
}

static int advance(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                   struct cv_sound *ret_sound, struct cv_error *error)
{
    for (;;) {
        int sound = receive_audio(decoder, ret_sound, error);
        if (sound < 0 || sound == CV_DECODER_SOUND) {
            return sound;
        }
        int picture = receive_video(decoder, ret_frame, error);
        if (picture < 0 || picture == CV_DECODER_FRAME) {
            return picture;
        }
        if (decoder->input_ended && sound == CV_DECODER_END && picture == CV_DECODER_END) {
            return CV_DECODER_END;
        }
        CV_TRY(decoder->input_ended ? 0 : send_packet(decoder, error));
    }
}

/* Fails for a video of which not one picture could be decoded. */
static int refuse_without_pictures(const struct cv_decoder *decoder, struct cv_error *error)
{
    CV_TRY(cv_refuse_recognised(&decoder->input->source, error));
    if (decoder->input->cut_off) {
        return cv_fail(error, CV_ERROR_DECODE, CV_MEDIA_ENDS_EARLY);
    }
    return cv_fail(error, CV_ERROR_DECODE,
                   "the file is damaged: no picture of its %s video can be decoded; copy or "
                   "download it again",
                   decoder->input->info.video_codec);
}

int cv_decoder_next_any(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                        struct cv_sound *ret_sound, struct cv_error *error)
{
    int result = advance(decoder, ret_frame, ret_sound, error);
    if (result == CV_DECODER_END && decoder->frames == 0 && !decoder->sound_alone) {
        return refuse_without_pictures(decoder, error);
    }
    CV_TRY(result == CV_DECODER_END
               ? cv_subtitle_tracks_end(decoder->input->subtitles, decoder->input->zero_us, error)
               : 0);
    return result;
}

int cv_decoder_next(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                    struct cv_error *error)
{
    struct cv_sound ignored;
    int result;
    do {
        result = cv_decoder_next_any(decoder, ret_frame, &ignored, error);
    } while (result == CV_DECODER_SOUND);
    return result;
}

void cv_decoder_leave_out(struct cv_decoder *decoder, bool unreferenced)
{
    decoder->video->skip_frame =
        unreferenced && !decoder->deinterlacer && !decoder->input->info.interlaced
            ? AVDISCARD_NONREF
            : AVDISCARD_DEFAULT;
}

/* ---- seeking --------------------------------------------------------------------------------- */

static void forget(struct cv_decoder *decoder)
{
    avcodec_flush_buffers(decoder->video);
    cv_deinterlacer_free(decoder->deinterlacer);
    decoder->deinterlacer = NULL;
    for (int i = 0; i < CV_MEDIA_TRACKS_MAX && decoder->audio[i]; i++) {
        avcodec_flush_buffers(decoder->audio[i]);
        decoder->audio_ended[i] = false;
    }
    av_frame_unref(decoder->held);
    decoder->holds = decoder->input_ended = false;
    decoder->video_ended = decoder->sound_alone;
    decoder->key_us = INT64_MIN;
    cv_frame_clock_reset(&decoder->clock);
}

/* The time of the first frame after a seek, which is known only by reading; or the key frame's time
 * if that is later, because frames before it may need frames that were not read. */
static int first_frame_after_seek(struct cv_decoder *decoder, int64_t time_us, int64_t *ret_us,
                                  struct cv_error *error)
{
    int result = cv_input_seek(decoder->input, time_us, error);
    if (result != 0) {
        return result;
    }
    forget(decoder);
    int64_t damaged = decoder->damaged;
    struct cv_video_frame frame;
    struct cv_sound ignored;
    do {
        result = advance(decoder, &frame, &ignored, error);
    } while (result == CV_DECODER_SOUND);
    if (result < 0) {
        return result;
    }
    int64_t landed_us = result == CV_DECODER_FRAME ? frame.pts_us : INT64_MAX;
    *ret_us = landed_us > decoder->key_us ? landed_us : decoder->key_us;
    result = cv_input_seek(decoder->input, time_us, error);
    forget(decoder);
    decoder->damaged = damaged;
    return result;
}

int cv_decoder_seek(struct cv_decoder *decoder, int64_t time_us, struct cv_error *error)
{
    if (time_us <= SEEK_PREROLL_US && !decoder->input_started) {
        return 0; /* a new decoder is at the beginning already */
    }
    if (decoder->sound_alone) { /* there is no picture by which to judge where it landed */
        int64_t target = time_us > SEEK_PREROLL_US ? time_us - SEEK_PREROLL_US : 0;
        CV_TRY(cv_input_seek(decoder->input, target, error));
        forget(decoder);
        return 0;
    }
    int64_t step_us = SEEK_STEP_US;
    for (int64_t target = time_us - SEEK_PREROLL_US;; target = time_us - step_us, step_us *= 4) {
        int64_t landed_us = 0;
        int result = first_frame_after_seek(decoder, target < 0 ? 0 : target, &landed_us, error);
        if (result != 0 || landed_us <= time_us || target <= 0) {
            return result;
        }
    }
}

bool cv_can_seek(const struct cv_media_info *info)
{
    return strcmp(info->container, "mov") == 0 || strcmp(info->container, "matroska") == 0;
}

int cv_decoder_find_end(struct cv_decoder *decoder, int64_t *ret_end_us, struct cv_error *error)
{
    struct cv_input *input = decoder->input;
    cv_auto(cv_av_packet_free) AVPacket *packet = av_packet_alloc();
    int64_t end_us = 0;
    CV_TRY_MEMORY(packet, error, "a packet");
    int result = cv_input_seek(input, input->info.duration_us, error);
    while (result == 0 && (result = cv_input_read(input, packet, error)) == CV_INPUT_PACKET) {
        const AVStream *stream = input->format->streams[packet->stream_index];
        int64_t time_us = cv_input_time_us(input, stream, packet->pts);
        if (stream == input->video && time_us != AV_NOPTS_VALUE) {
            int64_t lasts_us = av_rescale_q(packet->duration, stream->time_base, AV_TIME_BASE_Q);
            int64_t this_us = av_sat_add64(time_us, lasts_us > 0 ? lasts_us : 0);
            end_us = this_us > end_us ? this_us : end_us;
        }
        av_packet_unref(packet);
    }
    result = result < 0 ? result : cv_input_seek(input, 0, error);
    forget(decoder);
    if (result == 0) {
        *ret_end_us = end_us;
    }
    return result;
}
