#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/cut_internal.h"

enum { SILENCE_STEP_US = 1000 * 1000 }; /* so that hours of silence do not pile up in memory */

struct cv_cut_sound {
    const struct cv_input *input;
    AVCodecContext *decoder;
    struct cv_sound_encoder *encoder; /* NULL before the start */
    struct cv_cut_file *file;
    struct cv_packet_queue waiting;
    AVFrame *frame;
    AVPacket *packet;
};

int cv_cut_sound_new(const struct cv_input *input, struct cv_cut_sound **ret_sound,
                     struct cv_error *error)
{
    const AVCodec *codec = avcodec_find_decoder(input->audio->codecpar->codec_id);
    cv_auto(cv_cut_sound_free) struct cv_cut_sound *sound = calloc(1, sizeof(*sound));
    if (sound) {
        sound->input = input;
        sound->frame = av_frame_alloc();
        sound->packet = av_packet_alloc();
        sound->decoder = avcodec_alloc_context3(codec);
    }
    if (!sound || !sound->frame || !sound->packet || !sound->decoder ||
        avcodec_parameters_to_context(sound->decoder, input->audio->codecpar) < 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sound");
    }
    sound->decoder->pkt_timebase = input->audio->time_base;
    int result = avcodec_open2(sound->decoder, codec, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_UNSUPPORTED_MEDIA, "cannot open the decoder %s",
                          codec->name);
    }
    *ret_sound = cv_take(sound);
    return 0;
}

void cv_cut_sound_free(struct cv_cut_sound *sound)
{
    if (sound) {
        avcodec_free_context(&sound->decoder);
        cv_sound_encoder_free(sound->encoder);
        cv_packet_queue_deinit(&sound->waiting);
        av_frame_free(&sound->frame);
        av_packet_free(&sound->packet);
        free(sound);
    }
}

const AVCodecContext *cv_cut_sound_codec(const struct cv_cut_sound *sound)
{
    return cv_sound_encoder_codec(sound->encoder);
}

int64_t cv_cut_sound_end_us(const struct cv_cut_sound *sound)
{
    return cv_sound_encoder_end_us(sound->encoder);
}

int cv_cut_sound_start(struct cv_cut_sound *sound, int64_t origin_us, struct cv_error *error)
{
    return cv_sound_encoder_new(origin_us, true, &sound->encoder, error);
}

/* ---- through the encoder into the file ------------------------------------------------------- */

static int pump(struct cv_cut_sound *sound, struct cv_error *error)
{
    for (;;) {
        int result = cv_sound_encoder_packet(sound->encoder, sound->packet, error);
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        result = cv_cut_file_sound(sound->file, sound->packet, error);
        if (result != 0) {
            return result;
        }
    }
}

static int pad(struct cv_cut_sound *sound, int64_t until_us, struct cv_error *error)
{
    int64_t end_us;
    while ((end_us = cv_sound_encoder_end_us(sound->encoder)) < until_us - SILENCE_STEP_US) {
        int result = cv_sound_encoder_pad(sound->encoder, end_us + SILENCE_STEP_US, error);
        result = result ? result : pump(sound, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

static int encode(struct cv_cut_sound *sound, struct cv_error *error)
{
    struct cv_sound stretch = {
        .samples = sound->frame,
        .pts_us = cv_input_time_us(sound->input, sound->input->audio,
                                   sound->frame->best_effort_timestamp),
    };
    int result = stretch.pts_us == AV_NOPTS_VALUE ? 0 : pad(sound, stretch.pts_us, error);
    result = result ? result : cv_sound_encoder_write(sound->encoder, &stretch, error);
    return result ? result : pump(sound, error);
}

/* Sound that cannot be decoded is left out, as everywhere. NULL: the end. */
static int decode(struct cv_cut_sound *sound, const AVPacket *packet, struct cv_error *error)
{
    int result = avcodec_send_packet(sound->decoder, packet);
    if (result == AVERROR(ENOMEM)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sound");
    }
    for (;;) {
        av_frame_unref(sound->frame);
        result = avcodec_receive_frame(sound->decoder, sound->frame);
        if (result == AVERROR(ENOMEM)) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sound");
        }
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        bool sounds = result == 0 && sound->frame->nb_samples > 0 && sound->frame->sample_rate > 0;
        result = sounds ? encode(sound, error) : 0;
        if (result != 0) {
            return result;
        }
    }
}

int cv_cut_sound_packet(struct cv_cut_sound *sound, AVPacket *packet, struct cv_error *error)
{
    if (!sound->file) {
        return cv_packet_queue_push(&sound->waiting, packet, error);
    }
    int result = decode(sound, packet, error);
    av_packet_unref(packet);
    return result;
}

int cv_cut_sound_connect(struct cv_cut_sound *sound, struct cv_cut_file *file,
                         struct cv_error *error)
{
    sound->file = file;
    int result = 0;
    while (result == 0 && sound->waiting.count > 0) {
        cv_auto(cv_av_packet_free) AVPacket *packet = cv_packet_queue_pop(&sound->waiting);
        result = decode(sound, packet, error);
    }
    return result;
}

int cv_cut_sound_drain(struct cv_cut_sound *sound, struct cv_error *error)
{
    return decode(sound, NULL, error);
}

int cv_cut_sound_finish(struct cv_cut_sound *sound, int64_t end_us, struct cv_error *error)
{
    int result = pad(sound, end_us, error);
    result = result ? result : cv_sound_encoder_finish(sound->encoder, end_us, error);
    return result ? result : pump(sound, error);
}
