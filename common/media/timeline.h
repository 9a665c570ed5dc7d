/* Which time stamps of a container are believed. One flipped bit in a time stamp must not become
 * hours of still pictures or silence. Private to common/media; pure: times go in, a verdict comes
 * out. All times are microseconds on the presentation's axis, AV_NOPTS_VALUE where there is none.
 *
 * Each stream has a clock: the decoding times of its packets. A step of the clock that is longer
 * than CV_TIMELINE_STEP_US, a step back, and a presentation time far from the decoding time are
 * doubted, and judged by the packets that follow:
 *
 * - An outlier, after which the stream goes on from where it was, loses its times; decoders number
 *   such packets on from their neighbours.
 * - A clock that starts again (recordings that were joined) is moved so that it goes on.
 * - A long step ahead is believed where the rest of the file agrees with it: another stream has come
 *   as far, the packet before it claims to last that long, or the header claims a presentation that
 *   long; and no other stream goes on before it. Else the gap is closed.
 * - A packet vouches for CV_TIMELINE_AWAKE_US. Of time for which no packet of any stream does, no more than
 *   CV_TIMELINE_STILL_US is believed at a stretch, and in all that and CV_TIMELINE_BYTE_US for each byte of
 *   packets, whatever header and packets claim. Sound is never further ahead of the pictures than one
 *   step. So the length of a presentation is bounded by its packets and their bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CV_TIMELINE_STREAMS = 9,                      /* pictures, and eight tracks of sound */
    CV_TIMELINE_STEP_US = 10 * 1000 * 1000,       /* ffplay doubts the same of MPEG-TS */
    CV_TIMELINE_PAUSE_US = 10 * 60 * 1000 * 1000, /* where the file neither claims nor denies it */
    CV_TIMELINE_AWAKE_US = 1000 * 1000,           /* what one packet vouches for */
    CV_TIMELINE_STILL_US = 20 * 60 * 1000 * 1000, /* a recorded screen stood for half of it */
    CV_TIMELINE_BYTE_US = 4 * 1000,               /* of recorded screens a second has 8,900 */
};

/* The times of one packet as the container has them. */
struct cv_moment {
    int stream; /* 0: pictures; 1 …: tracks of sound */
    int64_t dts_us, pts_us, duration_us;
    int bytes;
};

struct cv_timeline_stream {
    int64_t last_us; /* the newest decoding time, shifted; AV_NOPTS_VALUE: none yet */
    int64_t last_duration_us, step_us, shift_us;
};

struct cv_timeline {
    int64_t claimed_us;   /* how long the header says the presentation is; 0: it does not say */
    int64_t start_us;     /* where reading starts */
    bool restarts;        /* a format whose clocks start again at any time (AVFMT_TS_DISCONT) */
    bool sound_alone;     /* no pictures are read */
    int64_t bytes;        /* of all packets since the reset */
    int64_t unvouched_us; /* since the reset: what is believed though no packet vouches for it */
    int64_t file_bytes;   /* of all the file; tables may name the same ones again and again */
    struct cv_timeline_stream streams[CV_TIMELINE_STREAMS];
};

/* What becomes of a packet's times: the shift is added to those that are kept. */
struct cv_timeline_verdict {
    int64_t shift_us;
    bool keeps_dts, keeps_pts;
};

/* Forgets all clocks; reading goes on near `start_us`. */
void cv_timeline_reset(struct cv_timeline *timeline, int64_t start_us);

/* Whether a packet's times want to be judged by what follows it. */
bool cv_timeline_doubts(const struct cv_timeline *timeline, const struct cv_moment *moment);

/* Judges window[0] by the packets that follow it in the file, and moves its stream's clock. */
struct cv_timeline_verdict cv_timeline_judge(struct cv_timeline *timeline,
                                             const struct cv_moment *window, size_t count);

/* The latest time that is believed at this point. */
int64_t cv_timeline_limit_us(const struct cv_timeline *timeline);
