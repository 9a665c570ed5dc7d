/* Where encoded packets go: a file of one kind. */
#pragma once

#include "common/media/info.h"

#include <libavcodec/avcodec.h>

struct cv_sink_streams {
    const AVCodecContext *video;
    const AVCodecContext *audio; /* NULL: silent */
};

/* One kind of output, as data. `sink` is what open() made. */
struct cv_sink_type {
    int (*open)(const char *path, const struct cv_sink_streams *streams, void **ret_sink,
                struct cv_error *error);
    /* Packets of both streams by growing decoding time, in their encoder's time base; takes the
     * packet's data. */
    int (*write)(void *sink, AVPacket *packet, bool is_video, struct cv_error *error);
    /* Completes the files; `end_us` is where the presentation ends. */
    int (*finish)(void *sink, int64_t end_us, struct cv_error *error);
    void (*close)(void *sink);
    bool global_header;
};

/* `path` is the file. A GIF takes no sound. */
extern const struct cv_sink_type cv_sink_mp4, cv_sink_webm, cv_sink_gif;

/* The time base of an MP4's pictures: the source's own clock keeps its ticks exact, refined where MP4
 * wants a finer one. */
AVRational cv_sink_mp4_clock(AVRational source);
