#include "common/media/timeline.h"

#include <libavutil/avutil.h>
#include <stdlib.h>

enum {
    BACK_US = 1000 * 1000,     /* more than any reordering or interleaving error */
    USUAL_STEP_US = 40 * 1000, /* assumed until a stream has made a step: 25 pictures/s */
    RETURNS = 2,               /* this many packets prove that a stream continues where it was */
    REORDER_MAX = 16,          /* most pictures that a codec reorders */
};

static int64_t clock_us(const struct cv_moment *moment)
{
    return moment->dts_us != AV_NOPTS_VALUE ? moment->dts_us : moment->pts_us;
}

void cv_timeline_reset(struct cv_timeline *timeline, int64_t start_us)
{
    timeline->start_us = start_us;
    timeline->bytes = timeline->unvouched_us = 0;
    for (size_t i = 0; i < CV_TIMELINE_STREAMS; i++) {
        timeline->streams[i] = (struct cv_timeline_stream){AV_NOPTS_VALUE, 0, USUAL_STEP_US, 0};
    }
}

/* Where a stream's next packet is expected: at its newest packet, or where reading starts. */
static int64_t origin_us(const struct cv_timeline *timeline, int stream)
{
    int64_t last_us = timeline->streams[stream].last_us;
    return last_us != AV_NOPTS_VALUE ? last_us : timeline->start_us;
}

/* The time of the newest packet of all streams, or where reading starts. */
static int64_t newest_us(const struct cv_timeline *timeline)
{
    int64_t newest_us = timeline->start_us;
    for (size_t i = 0; i < CV_TIMELINE_STREAMS; i++) {
        int64_t last_us = timeline->streams[i].last_us;
        newest_us = last_us != AV_NOPTS_VALUE && last_us > newest_us ? last_us : newest_us;
    }
    return newest_us;
}

int64_t cv_timeline_limit_us(const struct cv_timeline *timeline)
{
    int64_t bytes = timeline->bytes < timeline->file_bytes ? timeline->bytes : timeline->file_bytes;
    int64_t left_us = CV_TIMELINE_STILL_US + bytes * CV_TIMELINE_BYTE_US - timeline->unvouched_us;
    left_us = left_us < CV_TIMELINE_STILL_US ? left_us : CV_TIMELINE_STILL_US;
    return newest_us(timeline) + CV_TIMELINE_AWAKE_US + (left_us > 0 ? left_us : 0);
}

static bool is_ahead(const struct cv_timeline *timeline, int stream, int64_t at_us)
{
    return at_us - origin_us(timeline, stream) > CV_TIMELINE_STEP_US ||
           at_us > cv_timeline_limit_us(timeline);
}

/* Whether a stream has stepped back. After a seek a stream may begin at a key frame long before the
 * requested time. */
static bool is_back(const struct cv_timeline *timeline, int stream, int64_t at_us)
{
    int64_t last_us = timeline->streams[stream].last_us;
    if (last_us == AV_NOPTS_VALUE) {
        return timeline->start_us == 0 && at_us < -CV_TIMELINE_STEP_US;
    }
    return at_us < last_us - BACK_US;
}

static bool goes_on(const struct cv_timeline *timeline, int stream, int64_t at_us)
{
    return !is_ahead(timeline, stream, at_us) && !is_back(timeline, stream, at_us);
}

bool cv_timeline_doubts(const struct cv_timeline *timeline, const struct cv_moment *moment)
{
    int64_t at_us = clock_us(moment);
    if (at_us == AV_NOPTS_VALUE) {
        return false;
    }
    bool far =
        moment->pts_us != AV_NOPTS_VALUE && llabs(moment->pts_us - at_us) > CV_TIMELINE_STEP_US;
    at_us += timeline->streams[moment->stream].shift_us;
    return far || !goes_on(timeline, moment->stream, at_us);
}

/* Whether enough of the following packets show that the stream has not left its previous time. */
static bool is_outlier(const struct cv_timeline *timeline, const struct cv_moment *window,
                       size_t count)
{
    const struct cv_moment *first = &window[0];
    int64_t shift_us = timeline->streams[first->stream].shift_us;
    int seen = 0, returned = 0;
    for (size_t i = 1; i < count; i++) {
        int64_t at_us = clock_us(&window[i]);
        if (window[i].stream == first->stream && at_us != AV_NOPTS_VALUE) {
            seen++;
            returned += goes_on(timeline, first->stream, at_us + shift_us);
        }
    }
    return returned >= RETURNS || (returned > 0 && returned == seen);
}

/* Whether another stream continues before the time that the first packet steps to. */
static bool is_contradicted(const struct cv_timeline *timeline, const struct cv_moment *window,
                            size_t count, int64_t at_us)
{
    for (size_t i = 1; i < count; i++) {
        const struct cv_moment *other = &window[i];
        int64_t other_us = clock_us(other);
        if (other->stream == window[0].stream || other_us == AV_NOPTS_VALUE) {
            continue;
        }
        other_us += timeline->streams[other->stream].shift_us;
        if (other_us < at_us - CV_TIMELINE_STEP_US && goes_on(timeline, other->stream, other_us)) {
            return true;
        }
    }
    return false;
}

static bool is_within_limits(const struct cv_timeline *timeline, int stream, int64_t at_us)
{
    if (stream > 0 && !timeline->sound_alone &&
        at_us > origin_us(timeline, 0) + CV_TIMELINE_STEP_US) {
        return false;
    }
    return at_us <= cv_timeline_limit_us(timeline);
}

static bool is_reached_by_another(const struct cv_timeline *timeline, int stream, int64_t at_us)
{
    for (int i = 0; i < CV_TIMELINE_STREAMS; i++) {
        int64_t last_us = timeline->streams[i].last_us;
        if (i != stream && last_us != AV_NOPTS_VALUE && last_us >= at_us - CV_TIMELINE_STEP_US) {
            return true;
        }
    }
    return false;
}

/* Whether a long step forward to `at_us` is genuine. */
static bool is_believed(const struct cv_timeline *timeline, const struct cv_moment *window,
                        size_t count, int64_t at_us)
{
    const struct cv_timeline_stream *stream = &timeline->streams[window[0].stream];
    bool is_first = stream->last_us == AV_NOPTS_VALUE;
    if (!is_within_limits(timeline, window[0].stream, at_us) ||
        is_contradicted(timeline, window, count, at_us)) {
        return false;
    }
    if (is_reached_by_another(timeline, window[0].stream, at_us)) {
        return true;
    }
    if (!is_first && timeline->restarts) {
        return false;
    }
    if (!is_first && at_us <= stream->last_us + stream->last_duration_us + CV_TIMELINE_STEP_US) {
        return true;
    }
    if (timeline->claimed_us > 0) {
        return at_us <= timeline->claimed_us + CV_TIMELINE_STEP_US;
    }
    return at_us <= origin_us(timeline, window[0].stream) + CV_TIMELINE_PAUSE_US;
}

/* Whether a clock that steps back has started again. It has not if the presentation that the header
 * announces is not over yet, or if the step back is short and does not lead to a beginning: then
 * packets are only out of order. */
static bool is_restart(const struct cv_timeline *timeline, const struct cv_moment *moment)
{
    int64_t last_us = timeline->streams[moment->stream].last_us;
    int64_t at_us = clock_us(moment) + timeline->streams[moment->stream].shift_us;
    if (last_us == AV_NOPTS_VALUE) {
        return true;
    }
    if (timeline->claimed_us > 0 && last_us < timeline->claimed_us - BACK_US) {
        return false;
    }
    return at_us < last_us - CV_TIMELINE_STEP_US || clock_us(moment) < BACK_US;
}

/* The shift that makes a stream's clock continue: none, or that of another stream, so that streams
 * which step together stay together; otherwise the shift that puts the packet after the newest one. */
static int64_t find_shift(const struct cv_timeline *timeline, const struct cv_moment *moment)
{
    int64_t at_us = clock_us(moment);
    if (goes_on(timeline, moment->stream, at_us)) {
        return 0;
    }
    for (int i = 0; i < CV_TIMELINE_STREAMS; i++) {
        int64_t shift_us = timeline->streams[i].shift_us;
        if (i != moment->stream && goes_on(timeline, moment->stream, at_us + shift_us)) {
            return shift_us;
        }
    }
    const struct cv_timeline_stream *stream = &timeline->streams[moment->stream];
    int64_t step_us = stream->last_us != AV_NOPTS_VALUE ? stream->step_us : 0;
    if (is_ahead(timeline, moment->stream, origin_us(timeline, moment->stream) + step_us)) {
        step_us = USUAL_STEP_US;
    }
    return origin_us(timeline, moment->stream) + step_us - at_us;
}

/* Whether a presentation time far ahead of the decoding time is plausible: the stream soon reaches
 * it, or the header says that the presentation ends there. */
static bool is_reached(const struct cv_timeline *timeline, const struct cv_moment *window,
                       size_t count, int64_t pts_us)
{
    int64_t shift_us = timeline->streams[window[0].stream].shift_us;
    int behind = 0;
    bool reached = false;
    for (size_t i = 1; i < count; i++) {
        if (window[i].stream == window[0].stream && window[i].dts_us != AV_NOPTS_VALUE) {
            behind++;
            reached = reached || llabs(window[i].dts_us + shift_us - pts_us) <= CV_TIMELINE_STEP_US;
        }
    }
    bool ends = behind < REORDER_MAX && timeline->claimed_us > 0 &&
                pts_us <= timeline->claimed_us + CV_TIMELINE_STEP_US;
    return (reached || ends) && is_within_limits(timeline, window[0].stream, pts_us);
}

static bool keeps_pts(const struct cv_timeline *timeline, const struct cv_moment *window,
                      size_t count, int64_t near_us)
{
    if (window[0].pts_us == AV_NOPTS_VALUE) {
        return false;
    }
    int64_t pts_us = window[0].pts_us + timeline->streams[window[0].stream].shift_us;
    int64_t far_us = pts_us - near_us;
    return llabs(far_us) <= CV_TIMELINE_STEP_US ||
           (far_us > 0 && is_reached(timeline, window, count, pts_us));
}

static void move_clock(struct cv_timeline *timeline, const struct cv_moment *moment, int64_t at_us)
{
    struct cv_timeline_stream *stream = &timeline->streams[moment->stream];
    int64_t unvouched_us = at_us - newest_us(timeline) - CV_TIMELINE_AWAKE_US;
    timeline->unvouched_us += unvouched_us > 0 ? unvouched_us : 0;
    int64_t step_us = stream->last_us == AV_NOPTS_VALUE ? 0 : at_us - stream->last_us;
    if (step_us > 0 && step_us <= CV_TIMELINE_STEP_US) {
        stream->step_us = step_us;
    }
    if (stream->last_us == AV_NOPTS_VALUE || step_us > 0 || step_us >= -BACK_US) {
        stream->last_us = at_us;
    }
    stream->last_duration_us = moment->duration_us > 0 ? moment->duration_us : 0;
}

struct cv_timeline_verdict cv_timeline_judge(struct cv_timeline *timeline,
                                             const struct cv_moment *window, size_t count)
{
    const struct cv_moment *moment = &window[0];
    struct cv_timeline_stream *stream = &timeline->streams[moment->stream];
    timeline->bytes += moment->bytes;
    if (clock_us(moment) == AV_NOPTS_VALUE) {
        return (struct cv_timeline_verdict){0};
    }
    int64_t at_us = clock_us(moment) + stream->shift_us;
    bool ahead = is_ahead(timeline, moment->stream, at_us);
    bool back = is_back(timeline, moment->stream, at_us);
    if ((ahead || back) && is_outlier(timeline, window, count)) {
        bool keeps = moment->dts_us != AV_NOPTS_VALUE &&
                     keeps_pts(timeline, window, count, origin_us(timeline, moment->stream));
        return (struct cv_timeline_verdict){stream->shift_us, false, keeps};
    }
    bool follows =
        ahead ? !is_believed(timeline, window, count, at_us) : back && is_restart(timeline, moment);
    if (follows) {
        stream->shift_us = find_shift(timeline, moment);
        at_us = clock_us(moment) + stream->shift_us;
    }
    struct cv_timeline_verdict verdict = {
        .shift_us = stream->shift_us,
        .keeps_dts = moment->dts_us != AV_NOPTS_VALUE,
        .keeps_pts = keeps_pts(timeline, window, count, at_us),
    };
    move_clock(timeline, moment, at_us);
    return verdict;
}
