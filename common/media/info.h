/* What a source is: limits, streams, the upright picture. */
#pragma once

#include "common/base/base.h"

#include <libavutil/rational.h>

enum {
    CV_MEDIA_SIDE_MAX = 16384,       /* pixels; wider or taller is CV_ERROR_LIMIT_EXCEEDED */
    CV_MEDIA_AREA_MAX = 8192 * 8192, /* pixels of one frame */
    CV_MEDIA_HOURS_MAX = 48,         /* of presentation; a day's recording, and as much again */
    CV_MEDIA_TRACKS_MAX = 8,         /* of sound; a film in eight languages */
};

/* One track of sound. */
struct cv_media_track {
    char language[12]; /* as the container has it ("eng"); "" when it does not say */
    char title[64];    /* UTF-8 without quotes and control characters; "" without one */
};

struct cv_media_info {
    int width, height; /* pixels of the upright picture */
    int coded_width, coded_height;
    int rotation; /* degrees clockwise that were applied: 0, 90, 180, 270 */
    bool mirrored;
    AVRational sample_aspect; /* of the upright picture; 1/1 when square or unknown */
    AVRational time_base;     /* of the source's own video timestamps, seconds */
    double frame_rate;        /* average, per second; 0 when unknown (still picture, one frame) */
    bool variable_frame_rate;
    int64_t duration_us; /* of the presentation, as the header claims; 0 when unknown */
    char container[32];
    char video_codec[32];
    char pixel_format[32];
    char audio_codec[32]; /* "" without sound */
    int audio_channels;
    int audio_sample_rate;
    int audio_streams;
    struct cv_media_track tracks[CV_MEDIA_TRACKS_MAX]; /* that can be decoded; the best one first */
    int track_count;
    bool interlaced;
    bool high_dynamic_range;
};

/* The size that players show the source at: pixels made square, as containers and players reckon it
 * (the coded rows are kept, the columns follow the aspect). */
void cv_shown_size(const struct cv_media_info *info, int *ret_width, int *ret_height);

/* Containers with an index: what is found at a time does not depend on what was read before. */
bool cv_can_seek(const struct cv_media_info *info);
