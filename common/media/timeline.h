/* Decides which time stamps of a container are plausible: one flipped bit in a time stamp must not
 * become hours of still pictures or silence. Private to common/media; pure functions on times. All
 * times are microseconds on the presentation's axis, AV_NOPTS_VALUE if there is none.
 *
 * Each stream has a clock: the decoding times of its packets. A time is doubted if the clock steps
 * forward by more than CV_TIMELINE_STEP_US or steps back, or if a presentation time is far from its
 * decoding time. The packets that follow then decide:
 *
 * - An outlier, after which the stream continues from where it was, loses its times; decoders
 *   interpolate the times of such packets.
 * - A clock that starts again (joined recordings) is shifted so that it continues.
 * - A long step forward is accepted if no other stream continues before it, and one of these
 *   confirms it: another stream has reached that time, the packet before it has a duration that
 *   long, or the header announces a presentation that long. Otherwise the gap is closed.
 * - Each packet accounts for CV_TIMELINE_AWAKE_US. Of time that no packet of any stream accounts
 *   for, at most CV_TIMELINE_STILL_US is accepted at once, and in total that plus
 *   CV_TIMELINE_BYTE_US for each byte of packets, whatever header and packets announce. Sound is at
 *   most one step ahead of the pictures. So the length of a presentation is limited by the number
 *   and the bytes of its packets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CV_TIMELINE_STREAMS = 9,                /* pictures, and eight tracks of sound */
    CV_TIMELINE_STEP_US = 10 * 1000 * 1000, /* ffplay uses the same limit for MPEG-TS */
    CV_TIMELINE_PAUSE_US =
        10 * 60 * 1000 * 1000,          /* if the file neither confirms nor contradicts it */
    CV_TIMELINE_AWAKE_US = 1000 * 1000, /* the time that one packet accounts for */
    CV_TIMELINE_STILL_US =
        20 * 60 * 1000 * 1000,      /* a recorded screen did not change for half of it */
    CV_TIMELINE_BYTE_US = 4 * 1000, /* a second of recorded screens has 8,900 bytes */
};

/* The times of one packet as in the container. */
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
    int64_t claimed_us;   /* duration of the presentation by the header; 0: unknown */
    int64_t start_us;     /* where reading starts */
    bool restarts;        /* the format's clocks may start again at any time (AVFMT_TS_DISCONT) */
    bool sound_alone;     /* no pictures are read */
    int64_t bytes;        /* of all packets since the reset */
    int64_t unvouched_us; /* accepted time since the reset that no packet accounts for */
    int64_t file_bytes;   /* of the file; tables may refer to the same bytes repeatedly */
    struct cv_timeline_stream streams[CV_TIMELINE_STREAMS];
};

/* What to do with a packet's times: the shift is added to those that are kept. */
struct cv_timeline_verdict {
    int64_t shift_us;
    bool keeps_dts, keeps_pts;
};

/* Resets all clocks; reading continues near `start_us`. */
void cv_timeline_reset(struct cv_timeline *timeline, int64_t start_us);

/* Whether the following packets are needed to judge this packet's times. */
bool cv_timeline_doubts(const struct cv_timeline *timeline, const struct cv_moment *moment);

/* Judges window[0] by the packets that follow it in the file, and advances the clock of its stream. */
struct cv_timeline_verdict cv_timeline_judge(struct cv_timeline *timeline,
                                             const struct cv_moment *window, size_t count);

/* The latest time that is accepted at this point. */
int64_t cv_timeline_limit_us(const struct cv_timeline *timeline);
