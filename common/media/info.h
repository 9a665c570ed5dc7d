/* Describes a source: limits, streams, the upright picture. */
#pragma once

#include "common/base/base.h"

#include <libavutil/rational.h>

enum {
    CV_MEDIA_SIDE_MAX = 16384,       /* pixels; wider or taller is CV_ERROR_LIMIT_EXCEEDED */
    CV_MEDIA_AREA_MAX = 8192 * 8192, /* pixels of one frame */
    CV_MEDIA_HOURS_MAX = 48,         /* hours of presentation; twice a recording of a whole day */
    CV_MEDIA_TRACKS_MAX = 8,         /* sound tracks; a film in eight languages */
    /* With hls.js 1.7, Chromium begins to play 0.2 s of separate sound, but not 0.14 s. */
    CV_MEDIA_SOUND_LEAST_US = 250 * 1000,
};

/* One track of sound. */
struct cv_media_track {
    char language[12]; /* as the container names it ("eng"); "" if it does not */
    char title[64];    /* UTF-8 without quotes and control characters; "" without one */
};

struct cv_media_info {
    int width, height; /* pixels of the upright picture */
    int rotation;      /* degrees clockwise that were applied: 0, 90, 180, 270 */
    bool mirrored;
    AVRational sample_aspect; /* of the upright picture; 1/1 when square or unknown */
    AVRational time_base;     /* of the source's own video timestamps, seconds */
    double frame_rate;        /* of pictures as decoded, average, per second; 0 when unknown (still
                               * picture, one frame) */
    bool variable_frame_rate;
    int64_t duration_us; /* of the presentation according to the header; 0 when unknown */
    char container[32];
    char video_codec[32];
    char pixel_format[32];
    char audio_codec[32]; /* "" without sound */
    int audio_channels;
    int audio_sample_rate;
    int audio_streams;
    struct cv_media_track tracks[CV_MEDIA_TRACKS_MAX]; /* decodable ones; the best one first */
    int track_count;
    int64_t recorded_us;  /* when it was recorded by its tags, µs since 1970; 0: they do not say */
    bool recorded_is_end; /* recorded_us is the end of the recording, not its start */
    bool interlaced;
    bool high_dynamic_range;
};

/* The size at which players show the source, with square pixels: the height is kept, the width
 * follows the aspect ratio, as players calculate it. */
void cv_shown_size(const struct cv_media_info *info, int *ret_width, int *ret_height);

/* The duration of the presentation, by the ends of its pictures and of its sound (0: none was
 * found): that of the longer one. A presentation with sound lasts at least CV_MEDIA_SOUND_LEAST_US. */
int64_t cv_presentation_us(const struct cv_media_info *info, int64_t pictures_end_us,
                           int64_t sound_end_us);

/* Whether the container has an index, so that a seek to a time always gives the same frame,
 * whatever was read before. */
bool cv_can_seek(const struct cv_media_info *info);
