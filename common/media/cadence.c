#include "common/media/cadence.h"

/* ---- the times of a source ------------------------------------------------------------------- */

int64_t cv_frame_clock_stamp(struct cv_frame_clock *clock, int64_t source_us)
{
    int64_t time_us = source_us;
    if (source_us == INT64_MIN) {
        time_us = clock->started ? clock->last_us + clock->interval_us : 0;
    }
    int64_t earliest_us = clock->started ? clock->last_us + 1 : 0;
    clock->last_us = time_us < earliest_us ? earliest_us : time_us;
    clock->started = true;
    return clock->last_us;
}

void cv_frame_clock_reset(struct cv_frame_clock *clock)
{
    clock->started = false;
    clock->last_us = 0;
}

/* ---- which frames are shown ------------------------------------------------------------------ */

/* How much too early a frame may be. Of a source with twice the rate less than half the least
 * distance, otherwise every second frame would be let through as jitter; of one that is not much
 * faster than the highest rate, two frames. */
enum {
    EARLY_NUMERATOR = 2,
    EARLY_DENOMINATOR = 5,
    UNSTEADY_FRAMES = 2,
};
static const double not_much_faster = 1.25;

void cv_cadence_init(struct cv_cadence *cadence, int64_t frame_us, int64_t key_us, int64_t pause_us)
{
    *cadence = (struct cv_cadence){
        .frame_us = frame_us,
        .key_us = key_us,
        .pause_us = pause_us,
        .early_us = frame_us * EARLY_NUMERATOR / EARLY_DENOMINATOR,
        .due_us = INT64_MIN,
        .last_us = INT64_MIN,
    };
}

void cv_cadence_expect(struct cv_cadence *cadence, double frame_rate)
{
    double frames = frame_rate * (double)cadence->frame_us / 1e6; /* of the source for one shown */
    if (frame_rate > 0 && frames < not_much_faster) {
        cadence->early_us = UNSTEADY_FRAMES * cadence->frame_us;
    }
}

bool cv_cadence_admit(struct cv_cadence *cadence, int64_t pts_us)
{
    if (cadence->frame_us == 0) {
        return true;
    }
    if (cadence->grid_us > 0 && pts_us >= cadence->next_grid_us) {
        cadence->next_grid_us = (pts_us / cadence->grid_us + 1) * cadence->grid_us;
        cadence->due_us = INT64_MIN;
    }
    if (cadence->due_us != INT64_MIN && pts_us < cadence->due_us - cadence->early_us) {
        return false;
    }
    int64_t from_us = pts_us > cadence->due_us ? pts_us : cadence->due_us;
    cadence->due_us = from_us + cadence->frame_us;
    return true;
}

bool cv_cadence_show(struct cv_cadence *cadence, int64_t pts_us)
{
    bool first = cadence->last_us == INT64_MIN;
    bool key = first || (cadence->key_us > 0 && pts_us >= cadence->next_key_us);
    if (key && cadence->key_us > 0) {
        cadence->next_key_us = (pts_us / cadence->key_us + 1) * cadence->key_us;
    }
    cadence->last_us = pts_us;
    cadence->group_us = key ? pts_us : cadence->group_us;
    cadence->in_group = key ? 1 : cadence->in_group + 1;
    return key;
}

int64_t cv_cadence_repeat(const struct cv_cadence *cadence, int64_t until_us)
{
    if (cadence->last_us == INT64_MIN || cadence->key_us == 0 ||
        until_us - cadence->last_us <= cadence->pause_us) {
        return INT64_MIN;
    }
    return cadence->next_key_us < until_us ? cadence->next_key_us : INT64_MIN;
}
