/* Sound of any kind as stereo AAC (or Opus) at 48 kHz on an unbroken axis of samples. */
#pragma once

#include "common/media/decode.h"
#include "common/media/info.h"

#include <libavcodec/avcodec.h>

enum { CV_SOUND_RATE = 48000 };

struct cv_sound_encoder;

struct cv_sound_encoder_params {
    int64_t origin_us; /* where sample 0 lies on the presentation's axis */
    bool opus;         /* Opus, which is what WebM holds, in place of AAC */
    bool global_header;
    struct cv_cancel *cancel; /* borrowed; an abort ends the filling of gaps with silence */
    /* Takes what cv_sound_encoder_packet has ready. Called for each second of silence that fills a
     * gap, so that hours of it do not pile up in memory. */
    int (*drain)(void *opaque, struct cv_error *error);
    void *opaque;
};

CV_MUST_CHECK int cv_sound_encoder_new(const struct cv_sound_encoder_params *params,
                                       struct cv_sound_encoder **ret_encoder,
                                       struct cv_error *error);
void cv_sound_encoder_free(struct cv_sound_encoder *encoder);
CV_DEFINE_CLEANUP(struct cv_sound_encoder *, cv_sound_encoder_free)

const AVCodecContext *cv_sound_encoder_codec(const struct cv_sound_encoder *encoder);

/* The end of what has come in, on the presentation's axis. */
int64_t cv_sound_encoder_end_us(const struct cv_sound_encoder *encoder);

/* Takes decoded sound. What lies before sample 0 or before what has come in already is left out,
 * gaps become silence; a few milliseconds of jitter in timestamps are not followed. Of channels
 * whose places nobody knows the first two are taken; what cannot be resampled at all becomes silence.
 * More than CV_MEDIA_HOURS_MAX of sound is CV_ERROR_LIMIT_EXCEEDED. */
CV_MUST_CHECK int cv_sound_encoder_write(struct cv_sound_encoder *encoder,
                                         const struct cv_sound *sound, struct cv_error *error);

/* Fills with silence up to `time_us`, if less has come in. */
CV_MUST_CHECK int cv_sound_encoder_pad(struct cv_sound_encoder *encoder, int64_t time_us,
                                       struct cv_error *error);

/* Ends the sound at exactly `time_us`: pads with silence or cuts to the sample; then
 * cv_sound_encoder_packet drains the encoder. */
CV_MUST_CHECK int cv_sound_encoder_finish(struct cv_sound_encoder *encoder, int64_t time_us,
                                          struct cv_error *error);

enum cv_sound_encoder_outcome { CV_SOUND_PACKET = 0, CV_SOUND_NEEDS_MORE = 1, CV_SOUND_END = 2 };

/* The next packet, time base 1/48000, sample 0 at 0 (the encoder's priming lies before it). */
CV_MUST_CHECK int cv_sound_encoder_packet(struct cv_sound_encoder *encoder, AVPacket *packet,
                                          struct cv_error *error);
