/* Writes encoded packets to a file of one format. */
#pragma once

#include "common/media/info.h"

#include <libavcodec/avcodec.h>

struct cv_sink_streams {
    const AVCodecContext *video;
    const AVCodecContext *audio; /* NULL: silent */
};

/* One output format. `sink` is the object that open() returned. */
struct cv_sink_type {
    int (*open)(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                struct cv_error *error);
    /* Writes one packet. Packets of both streams must come in order of their decoding times, in
     * their encoder's time base. Takes the packet's data over. */
    int (*write)(void *sink, AVPacket *packet, bool is_video, struct cv_error *error);
    /* Completes the files; `end_us` is where the presentation ends. */
    int (*finish)(void *sink, int64_t end_us, struct cv_error *error);
    void (*close)(void *sink);
    bool global_header;
};

/* `path` is the file. A GIF takes no sound. */
extern const struct cv_sink_type cv_sink_mp4, cv_sink_webm, cv_sink_gif;

/* The time base of the pictures in an MP4: the source's own, so that its time stamps stay exact,
 * multiplied if MP4 needs a finer one. */
AVRational cv_sink_mp4_clock(AVRational source);
