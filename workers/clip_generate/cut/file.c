#include "workers/clip_generate/cut/cut_internal.h"

/* ---- pictures and the file ------------------------------------------------------------------- */

struct cv_cut_file {
    AVFormatContext *muxer;
    AVStream *video, *sound;
    AVRational clock;
    int depth;
    int64_t step;
    int64_t *times; /* times of all pictures, increasing */
    size_t count, written;
    size_t groups[2];            /* starts of the two newest groups */
    struct cv_packet_queue held; /* the newest group, until the time after it is known */
    char *reason;
};

void cv_cut_file_close(struct cv_cut_file *file)
{
    if (file) {
        cv_packet_queue_deinit(&file->held);
        cv_av_file_free(file->muxer);
        free(file->times);
        free(file);
    }
}

const int64_t *cv_cut_file_times(const struct cv_cut_file *file, size_t *ret_count)
{
    *ret_count = file->count;
    return file->times;
}

size_t cv_cut_file_tail(const struct cv_cut_file *file)
{
    return file->groups[0];
}

/* ---- opening --------------------------------------------------------------------------------- */

static int describe_pictures(AVStream *video, const struct cv_cut_file_params *params,
                             struct cv_error *error)
{
    const AVStream *source = params->source;
    CV_TRY_MEMORY(cv_av_copy_parameters(video, source), error, "an MP4 file");
    video->codecpar->codec_tag = 0;
    av_freep(&video->codecpar->extradata);
    video->codecpar->extradata_size = 0;
    video->time_base = params->clock;
    video->sample_aspect_ratio = source->sample_aspect_ratio.num > 0
                                     ? source->sample_aspect_ratio
                                     : source->codecpar->sample_aspect_ratio;
    video->codecpar->sample_aspect_ratio = video->sample_aspect_ratio;
    return cv_h264_sets_write(params->sets, &video->codecpar->extradata,
                              &video->codecpar->extradata_size, error);
}

static int add_streams(struct cv_cut_file *file, const struct cv_cut_file_params *params,
                       struct cv_error *error)
{
    file->video = avformat_new_stream(file->muxer, NULL);
    file->sound = params->sound ? avformat_new_stream(file->muxer, NULL) : NULL;
    bool bad = !file->video || (params->sound && !file->sound);
    if (!bad && file->sound) {
        bad = avcodec_parameters_from_context(file->sound->codecpar, params->sound) < 0;
        file->sound->time_base = params->sound->time_base;
    }
    CV_TRY_MEMORY(!bad, error, "an MP4 file");
    return describe_pictures(file->video, params, error);
}

int cv_cut_file_open(const struct cv_cut_file_params *params, struct cv_cut_file **ret_file,
                     struct cv_error *error)
{
    cv_auto(cv_cut_file_close) struct cv_cut_file *file = calloc(1, sizeof(*file));
    CV_TRY_MEMORY(file, error, "an MP4 file");
    file->clock = params->clock;
    file->depth = params->depth;
    file->step = params->step;
    file->reason = params->reason;
    CV_TRY_AV(avformat_alloc_output_context2(&file->muxer, NULL, "mp4", params->path), error,
              CV_ERROR_ENCODE, "cannot open the MP4 muxer");
    CV_TRY(add_streams(file, params, error));
    CV_TRY(cv_av_file_begin(file->muxer, "movflags", "+faststart", error));
    *ret_file = cv_take(file);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_packet(struct cv_cut_file *file, AVPacket *packet, const AVStream *stream,
                        AVRational time_base, struct cv_error *error)
{
    packet->stream_index = stream->index;
    packet->pos = -1;
    av_packet_rescale_ts(packet, time_base, stream->time_base);
    int result = av_interleaved_write_frame(file->muxer, packet);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot write MP4") : 0;
}

/* Writes a packet of sound, time base 1/CV_SOUND_RATE; takes its data. */
static int write_sound(struct cv_cut_file *file, AVPacket *packet, struct cv_error *error)
{
    return write_packet(file, packet, file->sound, (AVRational){1, CV_SOUND_RATE}, error);
}

static int compare_times(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static int64_t duration_of(const struct cv_cut_file *file, int64_t time, int64_t end)
{
    const int64_t *found =
        bsearch(&time, file->times, file->count, sizeof(*file->times), compare_times);
    bool last = !found || found == file->times + file->count - 1;
    int64_t next = last ? end : found[1];
    return next > time ? next - time : 1;
}

/* Writes the held pictures. Their decoding times are the sorted presentation times, shifted by
 * `depth` pictures. So they increase, and no picture is shown before it is decoded, in any order
 * and at any rate. */
static int write_held(struct cv_cut_file *file, int64_t end, struct cv_error *error)
{
    while (file->held.count > 0) {
        cv_auto(cv_av_packet_free) AVPacket *packet = cv_packet_queue_pop(&file->held);
        size_t depth = (size_t)file->depth;
        packet->dts = file->written >= depth
                          ? file->times[file->written - depth]
                          : file->times[0] - (int64_t)(depth - file->written) * file->step;
        if (end != INT64_MAX && file->written == file->count - 1) {
            /* As far from its presentation as the first one, so that the track is as long as the
             * clip also if the last pictures are shown for long. */
            int64_t late = packet->pts - (int64_t)depth * file->step;
            packet->dts = late > packet->dts ? late : packet->dts;
        }
        if (packet->dts > packet->pts) {
            int refused = cv_cut_refuse(file->reason, "pictures are reordered over more than %d",
                                        file->depth);
            return refused == CV_CUT_REFUSED ? CV_CUT_TOO_DEEP : refused;
        }
        packet->duration = duration_of(file, packet->pts, end);
        file->written++;
        CV_TRY(write_packet(file, packet, file->video, file->clock, error));
    }
    return 0;
}

static int record_times(struct cv_cut_file *file, const struct cv_packet_queue *pictures,
                        struct cv_error *error)
{
    size_t start = file->count;
    file->groups[0] = file->groups[1];
    file->groups[1] = start;
    for (size_t i = 0; i < pictures->count; i++) {
        CV_TRY_MEMORY(CV_MAKE_ROOM(file->times, file->count), error, "a clip's times");
        file->times[file->count++] = pictures->packets[pictures->first + i]->pts;
    }
    qsort(file->times + start, pictures->count, sizeof(*file->times), compare_times);
    for (size_t i = start > 0 ? start : 1; i < file->count; i++) {
        if (file->times[i] <= file->times[i - 1]) {
            return cv_cut_refuse(file->reason, "two pictures have the same time");
        }
    }
    return 0;
}

int cv_cut_file_pictures(struct cv_cut_file *file, struct cv_packet_queue *pictures,
                         struct cv_error *error)
{
    if (pictures->count == 0) {
        return 0;
    }
    CV_TRY(record_times(file, pictures, error));
    CV_TRY(write_held(file, INT64_MAX, error));
    while (pictures->count > 0) {
        cv_auto(cv_av_packet_free) AVPacket *packet = cv_packet_queue_pop(pictures);
        CV_TRY(cv_packet_queue_push(&file->held, packet, error));
    }
    return 0;
}

int cv_cut_file_finish(struct cv_cut_file *file, int64_t end, struct cv_error *error)
{
    CV_TRY(write_held(file, end, error));
    CV_TRY_AV(av_write_trailer(file->muxer), error, CV_ERROR_ENCODE, "cannot finish the MP4 file");
    return cv_av_file_end(file->muxer, NULL, error);
}

/* ---- sound ----------------------------------------------------------------------------------- */

struct cv_cut_sound {
    const struct cv_input *input;
    AVCodecContext *decoder;
    struct cv_sound_encoder *encoder; /* NULL: muted */
    struct cv_cut_file *file;
    int64_t end_us; /* of the sound decoded so far */
    struct cv_packet_queue waiting;
    AVFrame *frame;
    AVPacket *packet;
};

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
    return sound->encoder ? cv_sound_encoder_codec(sound->encoder) : NULL;
}

int64_t cv_cut_sound_end_us(const struct cv_cut_sound *sound)
{
    return sound->end_us;
}

/* Writes the packets that the encoder has ready. */
static int pump(void *opaque, struct cv_error *error)
{
    struct cv_cut_sound *sound = opaque;
    for (;;) {
        int result = cv_sound_encoder_packet(sound->encoder, sound->packet, error);
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        CV_TRY(write_sound(sound->file, sound->packet, error));
    }
}

static int open_encoder(struct cv_cut_sound *sound, int64_t origin_us, struct cv_error *error)
{
    struct cv_sound_encoder_params params = {
        .origin_us = origin_us,
        .global_header = true,
        .cancel = sound->input->cancel,
        .drain = pump,
        .opaque = sound,
    };
    return cv_sound_encoder_new(&params, &sound->encoder, error);
}

int cv_cut_sound_new(const struct cv_input *input, int64_t origin_us, bool mute,
                     struct cv_cut_sound **ret_sound, struct cv_error *error)
{
    cv_auto(cv_cut_sound_free) struct cv_cut_sound *sound = calloc(1, sizeof(*sound));
    if (sound) {
        sound->input = input;
        sound->frame = av_frame_alloc();
        sound->packet = av_packet_alloc();
    }
    CV_TRY_MEMORY(sound && sound->frame && sound->packet, error, "sound");
    CV_TRY(cv_codec_open(input->audio, 1, &sound->decoder, error));
    CV_TRY(mute ? 0 : open_encoder(sound, origin_us, error));
    *ret_sound = cv_take(sound);
    return 0;
}

/* ---- through the encoder into the file ------------------------------------------------------- */

static int encode(struct cv_cut_sound *sound, struct cv_error *error)
{
    const AVFrame *samples = sound->frame;
    struct cv_sound stretch = {
        .samples = samples,
        .pts_us =
            cv_input_time_us(sound->input, sound->input->audio, samples->best_effort_timestamp),
    };
    sound->end_us = (stretch.pts_us == AV_NOPTS_VALUE ? sound->end_us : stretch.pts_us) +
                    av_rescale(samples->nb_samples, AV_TIME_BASE, samples->sample_rate);
    if (!sound->encoder) {
        return 0;
    }
    CV_TRY(cv_sound_encoder_write(sound->encoder, &stretch, error));
    return pump(sound, error);
}

/* Decodes a packet; NULL: the end. Sound that cannot be decoded is dropped. */
static int decode(struct cv_cut_sound *sound, const AVPacket *packet, struct cv_error *error)
{
    int result = avcodec_send_packet(sound->decoder, packet);
    CV_TRY_MEMORY(result != AVERROR(ENOMEM), error, "sound");
    for (;;) {
        av_frame_unref(sound->frame);
        result = avcodec_receive_frame(sound->decoder, sound->frame);
        CV_TRY_MEMORY(result != AVERROR(ENOMEM), error, "sound");
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        bool sounds = result == 0 && sound->frame->nb_samples > 0 && sound->frame->sample_rate > 0;
        CV_TRY(sounds ? encode(sound, error) : 0);
    }
}

int cv_cut_sound_packet(struct cv_cut_sound *sound, AVPacket *packet, struct cv_error *error)
{
    if (sound->encoder && !sound->file) {
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
    while (sound->waiting.count > 0) {
        cv_auto(cv_av_packet_free) AVPacket *packet = cv_packet_queue_pop(&sound->waiting);
        CV_TRY(decode(sound, packet, error));
    }
    return 0;
}

int cv_cut_sound_drain(struct cv_cut_sound *sound, struct cv_error *error)
{
    return decode(sound, NULL, error);
}

int cv_cut_sound_finish(struct cv_cut_sound *sound, int64_t end_us, struct cv_error *error)
{
    if (!sound->encoder) {
        return 0;
    }
    CV_TRY(cv_sound_encoder_finish(sound->encoder, end_us, error));
    return pump(sound, error);
}
