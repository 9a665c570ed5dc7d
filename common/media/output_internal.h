/* The inside of an output: frames and sound on their way through encoders and queues to a sink.
 * Private to common/media. */
#pragma once

#include "common/media/cadence.h"
#include "common/media/fit.h"
#include "common/media/packet_queue.h"
#include "common/media/palette.h"
#include "common/media/sink.h"
#include "common/media/sound_encoder.h"

enum {
    EARLY_MAX = 4096, /* stretches of sound kept until the first frame is known */
    IN_FLIGHT = 512,  /* frames inside the encoder at most */
};

struct shown {
    int64_t ticks, duration;
};

struct early_sound {
    AVFrame *samples;
    int64_t pts_us;
};

struct cv_output {
    const struct cv_sink_type *type;
    void *sink;
    const struct cv_media_info *source;
    char *path;
    int threads;
    struct cv_fit *fit;
    struct cv_palette *palette; /* NULL but for GIF */
    enum cv_output_kind kind;
    struct cv_cadence cadence;
    int width, height;
    AVRational clock;      /* the pictures' time base */
    AVCodecContext *video; /* NULL before the first frame */
    struct cv_sound_encoder *sound;
    struct cv_packet_queue video_packets, sound_packets;
    bool video_done, sound_done;
    AVFrame *last; /* the newest picture, as encoded */
    AVPacket *packet;
    int64_t origin_us; /* the output's time 0 on the source's axis */
    int64_t last_ticks;
    int64_t video_end_us; /* where the newest frame ends */
    int64_t frames;
    struct shown shown[IN_FLIGHT]; /* a ring by number of frame */
    struct early_sound early[EARLY_MAX];
    size_t early_count;
};

/* Moves what the encoders have ready into the sink, in order; packets wait until there is one, which
 * is with the first frame. */
CV_MUST_CHECK int cv_output_pump(struct cv_output *output, struct cv_error *error);
