/* Decoded sound of any kind as samples of one kind without gaps, which begin at a time of the presentation. */
#pragma once

#include "common/media/decode.h"

#include <libavutil/samplefmt.h>

enum { CV_SOUND_LINE_CHANNELS_MAX = 2 };

struct cv_sound_line;

struct cv_sound_line_params {
    int64_t origin_us; /* time of sample 0 on the presentation's axis */
    int rate;          /* samples per second */
    int channels;      /* 1 or 2 */
    enum AVSampleFormat format;
    struct cv_cancel *cancel; /* borrowed, may be NULL; an abort ends the filling of gaps */
    /* Gets the next `count` samples, 1 or more, as planes or interleaved. What it returns is not 0: the
     * function that writes ends with it. */
    int (*write)(void *opaque, uint8_t *const *planes, int count, struct cv_error *error);
    /* Called for each second of silence that fills a gap; NULL: not called. */
    int (*drain)(void *opaque, struct cv_error *error);
    void *opaque;
};

CV_MUST_CHECK int cv_sound_line_new(const struct cv_sound_line_params *params,
                                    struct cv_sound_line **ret_line, struct cv_error *error);
void cv_sound_line_free(struct cv_sound_line *line);
CV_DEFINE_CLEANUP(struct cv_sound_line *, cv_sound_line_free)

/* What was written so far, in samples, and where it ends on the presentation's axis. */
int64_t cv_sound_line_samples(const struct cv_sound_line *line);
int64_t cv_sound_line_end_us(const struct cv_sound_line *line);

/* Adds decoded sound. Sound before sample 0, or before the end of what was written already, is dropped; gaps
 * are filled with silence; a few milliseconds of jitter in time stamps are ignored. If the channel layout
 * is unknown, the first two channels are used; sound that cannot be resampled is replaced by silence. More
 * than CV_MEDIA_HOURS_MAX of sound is CV_ERROR_LIMIT_EXCEEDED. */
CV_MUST_CHECK int cv_sound_line_write(struct cv_sound_line *line, const struct cv_sound *sound,
                                      struct cv_error *error);

/* Fills up with silence to `time_us` if the sound ends earlier. */
CV_MUST_CHECK int cv_sound_line_pad(struct cv_sound_line *line, int64_t time_us,
                                    struct cv_error *error);

/* Writes what was held back, and pads to `time_us`; nothing may be written afterwards. */
CV_MUST_CHECK int cv_sound_line_finish(struct cv_sound_line *line, int64_t time_us,
                                       struct cv_error *error);
