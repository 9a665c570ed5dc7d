#include "common/media/cleanup.h"
#include "common/media/ladder_internal.h"

enum { SILENCE_STEP_US = 1000 * 1000 };

static int open_track(struct cv_ladder *ladder, int number, struct cv_error *error)
{
    struct cv_ladder_track *track = &ladder->sounds[number];
    ladder->sound_count = number + 1;
    if (number == 0) {
        (void)snprintf(track->name, sizeof(track->name), "sound");
    } else {
        (void)snprintf(track->name, sizeof(track->name), "sound_%d", number + 1);
    }
    bool beside = cv_segments_wants_global_header(ladder->format);
    int result = cv_sound_encoder_new(0, beside, &track->encoder, error);
    struct cv_segments_params params = {
        .name = track->name,
        .format = ladder->format,
        .codec = result ? NULL : cv_sound_encoder_codec(track->encoder),
        .files = ladder->files,
    };
    return result ? result : cv_segments_new(&params, &track->segments, error);
}

int cv_ladder_open_sounds(struct cv_ladder *ladder, struct cv_error *error)
{
    int result = 0;
    for (int i = 0; result == 0 && i < ladder->source->track_count; i++) {
        result = open_track(ladder, i, error);
    }
    return result;
}

void cv_ladder_close_sounds(struct cv_ladder *ladder)
{
    for (int i = 0; i < ladder->sound_count; i++) {
        cv_segments_free(ladder->sounds[i].segments);
        cv_sound_encoder_free(ladder->sounds[i].encoder);
    }
}

int64_t cv_ladder_sounds_end_us(const struct cv_ladder *ladder)
{
    int64_t end_us = 0;
    for (int i = 0; i < ladder->sound_count; i++) {
        int64_t own_us = cv_sound_encoder_end_us(ladder->sounds[i].encoder);
        end_us = own_us > end_us ? own_us : end_us;
    }
    return end_us;
}

static int collect(struct cv_ladder *ladder, struct cv_ladder_track *track, struct cv_error *error)
{
    for (;;) {
        int result = cv_sound_encoder_packet(track->encoder, ladder->packet, error);
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        if (ladder->packet->pts < 0) {
            /* The encoder's run-up lies before time 0. No player of segments knows to leave it out,
             * and with it pictures would come late by its length. */
            av_packet_unref(ladder->packet);
            continue;
        }
        ladder->packet->flags |= AV_PKT_FLAG_KEY;
        result = cv_segments_write(track->segments, ladder->packet, error);
        if (result != 0) {
            return result;
        }
    }
}

/* Silence up to `until_us`, a second at a time, so that hours of it do not pile up in memory. */
static int pad(struct cv_ladder *ladder, struct cv_ladder_track *track, int64_t until_us,
               struct cv_error *error)
{
    int64_t end_us;
    while ((end_us = cv_sound_encoder_end_us(track->encoder)) < until_us - SILENCE_STEP_US) {
        int result = cv_sound_encoder_pad(track->encoder, end_us + SILENCE_STEP_US, error);
        result = result ? result : collect(ladder, track, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

int cv_ladder_sound(struct cv_ladder *ladder, const struct cv_sound *sound, struct cv_error *error)
{
    if (ladder->is_chunk && sound->pts_us != AV_NOPTS_VALUE) {
        int64_t end_us = sound->pts_us + av_rescale(sound->samples->nb_samples, AV_TIME_BASE,
                                                    sound->samples->sample_rate);
        ladder->heard_us = end_us > ladder->heard_us ? end_us : ladder->heard_us;
    }
    if (sound->track >= ladder->sound_count) {
        return 0;
    }
    struct cv_ladder_track *track = &ladder->sounds[sound->track];
    int64_t gap_end_us = sound->pts_us == AV_NOPTS_VALUE ? INT64_MIN / 2 : sound->pts_us;
    int result = pad(ladder, track, gap_end_us, error);
    result = result ? result : cv_sound_encoder_write(track->encoder, sound, error);
    result = result ? result : collect(ladder, track, error);
    return result ? result : cv_ladder_tell(ladder, error);
}

int cv_ladder_end_sounds(struct cv_ladder *ladder, int64_t end_us, struct cv_error *error)
{
    int64_t end = av_rescale(end_us, CV_PLAYLIST_CLOCK, AV_TIME_BASE);
    int result = 0;
    for (int i = 0; result == 0 && i < ladder->sound_count; i++) {
        struct cv_ladder_track *track = &ladder->sounds[i];
        result = pad(ladder, track, end_us, error);
        result = result ? result : cv_sound_encoder_finish(track->encoder, end_us, error);
        result = result ? result : collect(ladder, track, error);
        result = result ? result : cv_segments_finish(track->segments, end, error);
    }
    return result;
}
