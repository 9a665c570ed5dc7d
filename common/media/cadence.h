/* The times of frames: makes a source's time stamps increase, and chooses which frames an output
 * shows. Pure arithmetic on presentation times (microseconds). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ---- the times of a source ------------------------------------------------------------------- */

struct cv_frame_clock {
    int64_t interval_us; /* nominal time between frames, for frames without a timestamp */
    int64_t last_us;
    bool started;
};

/* Returns the time of the next frame. `source_us` is the source's own time stamp (INT64_MIN if it
 * has none). It is returned unchanged if it is at least 0 and later than the frame before;
 * otherwise the nearest time is returned for which both hold. */
int64_t cv_frame_clock_stamp(struct cv_frame_clock *clock, int64_t source_us);

/* Forgets the last frame, after a seek. */
void cv_frame_clock_reset(struct cv_frame_clock *clock);

/* ---- which frames are shown, which of them as key frames, and where a standing picture is repeated  */

struct cv_cadence {
    int64_t frame_us; /* least mean distance between frames; 0: every frame is shown */
    int64_t key_us;   /* distance between key frames; 0: the encoder chooses */
    int64_t pause_us; /* a picture that is shown for longer is repeated at each due key frame */
    int64_t grid_us;  /* the rate limit starts anew at each multiple of this; 0: never */
    int64_t early_us; /* how much earlier than at the highest rate a frame may come */
    int64_t due_us;   /* when the next frame would come at the highest rate */
    int64_t next_grid_us;
    int64_t next_key_us;
    int64_t last_us;  /* the newest frame shown; INT64_MIN before the first */
    int64_t group_us; /* the newest key frame … */
    int64_t in_group; /* … and how many frames were shown since, itself included */
};

void cv_cadence_init(struct cv_cadence *cadence, int64_t frame_us, int64_t key_us,
                     int64_t pause_us);

/* Sets the mean rate of the source, frames per second; 0: unknown. If it is about the highest rate
 * or less, two frames more than that are shown in a second, so that an unsteady source of 60 frames
 * per second loses none, however late some of them come. Of a faster source, frames are left out at
 * regular distances. */
void cv_cadence_expect(struct cv_cadence *cadence, double frame_rate);

/* Whether a frame is shown. In the long run frames are shown at the highest rate at most (the
 * "virtual scheduling" form of the generic cell rate algorithm, ITU-T I.371). */
bool cv_cadence_admit(struct cv_cadence *cadence, int64_t pts_us);

/* Records that a frame is shown; true if it must be encoded as a key frame. */
bool cv_cadence_show(struct cv_cadence *cadence, int64_t pts_us);

/* The time before `until_us` at which the newest frame must be shown again; INT64_MIN if there is
 * none. Call cv_cadence_show with that time, then ask again. */
int64_t cv_cadence_repeat(const struct cv_cadence *cadence, int64_t until_us);
