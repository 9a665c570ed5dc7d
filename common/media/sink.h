/* Where encoded packets go: HLS segments with their playlist, or an MP4 file. Private to
 * common/media. */
#pragma once

#include "common/media/media.h"

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
    bool drops_priming; /* sound that lies before time 0 cannot be signalled, and is left out */
};

/* `path` is an existing directory: segment_00000.ts …, index.m3u8. */
extern const struct cv_sink_type cv_sink_hls;
/* `path` is the file. */
extern const struct cv_sink_type cv_sink_mp4;

/* The time base of an MP4's pictures: the source's own clock keeps its ticks exact, refined where MP4
 * wants a finer one. */
AVRational cv_sink_mp4_clock(AVRational source);

/* Segments written so far. */
int cv_sink_hls_segments(const void *sink);

enum {
    CV_HLS_KEY_US = 2 * 1000 * 1000,     /* Apple's authoring rules: a key frame every 2 s */
    CV_HLS_SEGMENT_US = 4 * 1000 * 1000, /* two groups: quick seeks, few objects */
    CV_HLS_TAIL_US = 500 * 1000,         /* a shorter last segment joins the one before */
};
