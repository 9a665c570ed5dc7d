/* Times of frames: growing ones of a source, and those that are shown. Pure arithmetic on presentation
 * times (microseconds). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ---- the times of a source ------------------------------------------------------------------- */

struct cv_frame_clock {
    int64_t interval_us; /* nominal time between frames, for frames without a timestamp */
    int64_t last_us;
    bool started;
};

/* The time of the next frame: the source's own (or INT64_MIN when it has none) wherever that is
 * possible, repaired by as little as possible where it is not: never before 0, always later than
 * the frame before. */
int64_t cv_frame_clock_stamp(struct cv_frame_clock *clock, int64_t source_us);

/* Forgets the last frame, after a seek. */
void cv_frame_clock_reset(struct cv_frame_clock *clock);

/* ---- which frames are shown, which of them as key frames, and where a standing picture is repeated  */

struct cv_cadence {
    int64_t frame_us; /* least mean distance of frames; 0: every frame is shown */
    int64_t key_us;   /* distance of key frames; 0: the encoder's own choice */
    int64_t pause_us; /* a picture that stands longer is shown again at each due key frame */
    int64_t grid_us;  /* the rate is reckoned anew at each multiple of this; 0: never */
    int64_t due_us;   /* when the next frame would come at the highest rate */
    int64_t next_grid_us;
    int64_t next_key_us;
    int64_t last_us; /* the newest frame shown; INT64_MIN before the first */
};

void cv_cadence_init(struct cv_cadence *cadence, int64_t frame_us, int64_t key_us,
                     int64_t pause_us);

/* Whether a frame is shown. Frames come at most at the highest rate in the long run; a little
 * jitter is let through, so that an unsteady 60 frames per second stay whole (the "virtual
 * scheduling" form of the generic cell rate algorithm, ITU-T I.371). */
bool cv_cadence_admit(struct cv_cadence *cadence, int64_t pts_us);

/* Notes a frame that is shown; true when it is to be a key frame. */
bool cv_cadence_show(struct cv_cadence *cadence, int64_t pts_us);

/* Where the newest frame has to be shown again before `until_us`; INT64_MIN: nowhere. Call
 * cv_cadence_show for it, and ask again. */
int64_t cv_cadence_repeat(const struct cv_cadence *cadence, int64_t until_us);
