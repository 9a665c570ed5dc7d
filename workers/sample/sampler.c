#include "workers/sample/sampler.h"

#include "workers/sample/gate.h"
#include "workers/sample/picture.h"
#include "workers/sample/scroll.h"

#include <string.h>

/* What stands shorter than this nobody reads: a blend of two pictures, a frame of an animation. */
static const int64_t STAND_US = 50000;
/* Scrolling eases out pixel by pixel; it has settled when nothing moved for so long. */
static const int64_t SETTLE_US = 120000;
/* The longest that moving content goes without a kept frame. */
static const int64_t SCROLL_AGE_US = 1000000;
/* The same for a picture that moves behind text that stays. */
static const int64_t SHADE_AGE_US = 1000000;
/* Times measured in frames carry rounding of a container's ticks. */
static const int64_t TICK_US = 1500;
/* Share of the moving viewport after which lines could be lost between two kept frames. */
static const double SCROLL_SHARE = 0.30;

enum {
    BURST = 5,               /* states beyond target_fps that may be kept after a calm */
    SCROLL_BLOCKS = 12,      /* changed blocks; with fewer nothing has scrolled */
    SCROLL_SIDE = 64,        /* pixels; smaller pictures have no profile */
    SCROLL_RETRY_MAX = 8,    /* frames between attempts while a moving picture matches nothing */
    TURN_PIXELS = 24,        /* a line of small text: turning round after that may hide it again */
    UNEXPLAINED_BLOCKS = 24, /* less is a rim or a counter and waits for the next kept frame */
    UNEXPLAINED_SHARE = 50,  /* 1/50 of the changed blocks, likewise */
    MOVING_BLOCKS = 16,      /* of other changes: a moving picture, whose colours move too */
    SPOTS_SHARE = 8,         /* 1/8 of what was new */
    SPOTS_MAX = 64,
    MOTIONS_MAX = 4096, /* a bound; a second of 120 fps has 120 */
};

struct sampler {
    struct sampler_params params;
    sampler_keep *keep;
    void *opaque;
    int64_t interval_us;

    struct picture pictures[3];
    struct picture *reference, *candidate, *current;
    struct gate gate;
    int width, height;

    bool reference_stood; /* a later frame looked the same */
    int64_t change_began; /* the first frame that differs from the reference; -1: none does */
    int64_t shade_began;  /* the same for brightness alone */
    int64_t grid_us;      /* pace: the last time a frame was due */
    double tokens;        /* frames that may be kept now */
    int64_t tokens_at;

    int64_t candidate_start; /* the first frame of its state; the picture may be a later one */
    int candidate_changed;   /* blocks, against the reference */
    bool candidate_scrolled;
    bool candidate_related;
    int dx, dy;         /* of the candidate, against the reference */
    int step_x, step_y; /* the last movement from frame to frame */
    struct scroll_profile reference_profile[2], current_profile[2];
    bool profiled[2]; /* of the reference */
    int scroll_failures, scroll_wait;

    struct sampler_motion *motion;
    size_t motion_count, motion_capacity;
};

int sampler_new(const struct sampler_params *params, sampler_keep *keep, void *opaque,
                struct sampler **ret_sampler, struct cv_error *error)
{
    cv_auto(sampler_free) struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the sampler");
    }
    sampler->params = *params;
    sampler->keep = keep;
    sampler->opaque = opaque;
    sampler->interval_us = (int64_t)(1e6 / params->target_fps);
    sampler->change_began = sampler->shade_began = -1;
    sampler->tokens = 1;
    for (size_t i = 0; i < CV_COUNT(sampler->pictures); i++) {
        int result = picture_init(&sampler->pictures[i], error);
        if (result != 0) {
            return result;
        }
    }
    sampler->reference = &sampler->pictures[0];
    sampler->candidate = &sampler->pictures[1];
    sampler->current = &sampler->pictures[2];
    *ret_sampler = cv_take(sampler);
    return 0;
}

static void free_maps(struct sampler *sampler)
{
    gate_deinit(&sampler->gate);
    for (int i = 0; i < 2; i++) {
        scroll_profile_deinit(&sampler->reference_profile[i]);
        scroll_profile_deinit(&sampler->current_profile[i]);
    }
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler) {
        return;
    }
    for (size_t i = 0; i < CV_COUNT(sampler->pictures); i++) {
        picture_deinit(&sampler->pictures[i]);
    }
    free_maps(sampler);
    free(sampler->motion);
    free(sampler);
}

static void swap_pictures(struct picture **a, struct picture **b)
{
    struct picture *swapped = *a;
    *a = *b;
    *b = swapped;
}

/* ---- keeping --------------------------------------------------------------------------------- */

static void refill_tokens(struct sampler *sampler, int64_t now)
{
    sampler->tokens += (double)(now - sampler->tokens_at) / (double)sampler->interval_us;
    sampler->tokens = sampler->tokens > BURST ? BURST : sampler->tokens;
    sampler->tokens_at = now;
}

/* Makes the candidate the new reference and hands it out. */
static int keep_candidate(struct sampler *sampler, struct cv_error *error)
{
    struct picture *kept = sampler->candidate;
    bool first = !sampler->reference->held;
    struct sampler_frame frame = {
        .picture = kept->frame,
        .time_us = kept->time_us,
        .start_us = sampler->candidate_start,
        .before_us = sampler->change_began >= 0 ? sampler->change_began : sampler->candidate_start,
        .hash = picture_hash(kept),
        .related = !first && sampler->candidate_related,
        .dx = sampler->candidate_related ? sampler->dx : 0,
        .dy = sampler->candidate_related ? sampler->dy : 0,
        .motion = sampler->motion,
        .motion_count = sampler->motion_count,
    };
    int result = sampler->keep(sampler->opaque, &frame, error);
    if (result != 0) {
        return result;
    }
    sampler->reference_stood = frame.start_us < frame.time_us;
    swap_pictures(&sampler->reference, &sampler->candidate);
    picture_release(sampler->candidate);
    sampler->tokens = sampler->tokens > 1 ? sampler->tokens - 1 : 0;
    if (frame.start_us - sampler->grid_us >= 2 * sampler->interval_us) {
        sampler->grid_us = frame.start_us;
    }
    sampler->change_began = sampler->shade_began = -1;
    sampler->candidate_related = sampler->candidate_scrolled = false;
    sampler->dx = sampler->dy = 0;
    sampler->motion_count = 0;
    sampler->profiled[0] = sampler->profiled[1] = false;
    return 0;
}

/* The state of the candidate goes on: its latest picture is the one the encoder refined most. */
static void renew_candidate(struct sampler *sampler)
{
    swap_pictures(&sampler->candidate, &sampler->current);
}

/* The current picture begins a new state. */
static void make_candidate(struct sampler *sampler, bool related, bool scrolled, int dx, int dy)
{
    sampler->candidate_start = sampler->current->time_us;
    swap_pictures(&sampler->candidate, &sampler->current);
    picture_release(sampler->current);
    sampler->candidate_related = related;
    sampler->candidate_scrolled = scrolled;
    sampler->dx = dx;
    sampler->dy = dy;
}

/* Keeps the candidate because the pace of target_fps allows it. */
static int keep_paced(struct sampler *sampler, int64_t due, struct cv_error *error)
{
    sampler->grid_us = due;
    return keep_candidate(sampler, error);
}

/* When the next frame of an ongoing change is due. */
static int64_t due_time(const struct sampler *sampler)
{
    int64_t calm = sampler->change_began - sampler->reference->time_us;
    bool calm_before = sampler->reference_stood && calm >= sampler->interval_us;
    int64_t base = calm_before ? sampler->change_began : sampler->grid_us;
    return base + sampler->interval_us;
}

static bool may_keep(const struct sampler *sampler)
{
    return sampler->tokens >= 0.99; /* whole, but for rounding */
}

static bool has_stood(const struct sampler *sampler, int64_t now)
{
    int64_t enough = sampler->candidate_scrolled ? SETTLE_US : STAND_US;
    bool allowed = sampler->candidate_scrolled || may_keep(sampler);
    return sampler->candidate->held && allowed &&
           now - sampler->candidate_start >= enough - TICK_US;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool differ_in_colour(const struct sampler *sampler, const struct picture *a,
                             const struct picture *b, enum gate_view view)
{
    for (int i = 1; i <= 2; i++) {
        struct plane left;
        struct plane right;
        if (picture_chroma(a, i, &left) && picture_chroma(b, i, &right) &&
            left.width == right.width && left.height == right.height &&
            gate_chroma_changed(&sampler->gate, &left, &right, view)) {
            return true;
        }
    }
    return false;
}

static bool differ(struct sampler *sampler, const struct picture *a, const struct picture *b,
                   enum gate_view view, struct gate_result *ret_result)
{
    gate_compare(&sampler->gate, &a->luma, &b->luma, view, ret_result);
    if (ret_result->changed > 0) {
        return true;
    }
    return ret_result->shifted < MOVING_BLOCKS && differ_in_colour(sampler, a, b, view);
}

/* ---- scrolling ------------------------------------------------------------------------------- */

static bool axis_moved(struct sampler *sampler, enum scroll_axis axis,
                       const struct gate_result *difference, int *ret_shift,
                       struct scroll_check *ret_check)
{
    const struct plane *reference = &sampler->reference->luma;
    const struct plane *current = &sampler->current->luma;
    if (!sampler->profiled[axis]) {
        scroll_profile_of(reference, axis, &sampler->reference_profile[axis]);
        sampler->profiled[axis] = true;
    }
    scroll_profile_of(current, axis, &sampler->current_profile[axis]);
    int predicted =
        axis == SCROLL_VERTICAL ? sampler->dy + sampler->step_y : sampler->dx + sampler->step_x;
    int shift;
    if (!scroll_match(&sampler->reference_profile[axis], &sampler->current_profile[axis], predicted,
                      &shift)) {
        return false;
    }
    int dx = axis == SCROLL_HORIZONTAL ? shift : 0;
    int dy = axis == SCROLL_VERTICAL ? shift : 0;
    scroll_verify(&sampler->gate, difference, reference, current, dx, dy, ret_check);
    if (ret_check->matched < SCROLL_BLOCKS / 2 ||
        ret_check->matched * 2 < ret_check->unexplained * 3) {
        return false;
    }
    *ret_shift = shift;
    return true;
}

/* Has the content of the reference moved as a whole? */
static bool find_shift(struct sampler *sampler, const struct gate_result *difference, int *ret_dx,
                       int *ret_dy, struct scroll_check *ret_check)
{
    if (difference->changed < SCROLL_BLOCKS || sampler->width < SCROLL_SIDE ||
        sampler->height < SCROLL_SIDE) {
        return false;
    }
    if (sampler->scroll_wait > 0) {
        sampler->scroll_wait--;
        return false;
    }
    bool sideways = sampler->dx != 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        enum scroll_axis axis = sideways == (attempt == 0) ? SCROLL_HORIZONTAL : SCROLL_VERTICAL;
        int shift;
        if (axis_moved(sampler, axis, difference, &shift, ret_check)) {
            *ret_dx = axis == SCROLL_HORIZONTAL ? shift : 0;
            *ret_dy = axis == SCROLL_VERTICAL ? shift : 0;
            sampler->scroll_failures = 0;
            return true;
        }
    }
    if (sampler->scroll_failures < SCROLL_RETRY_MAX) {
        sampler->scroll_failures++;
    }
    sampler->scroll_wait = sampler->scroll_failures - 1;
    return false;
}

static int note_motion(struct sampler *sampler, int dx, int dy, struct cv_error *error)
{
    if (sampler->motion_count == sampler->motion_capacity) {
        if (sampler->motion_capacity >= MOTIONS_MAX) {
            return 0;
        }
        size_t capacity = sampler->motion_capacity ? 2 * sampler->motion_capacity : 64;
        struct sampler_motion *grown = realloc(sampler->motion, capacity * sizeof(*grown));
        if (!grown) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu positions", capacity);
        }
        sampler->motion = grown;
        sampler->motion_capacity = capacity;
    }
    sampler->motion[sampler->motion_count++] =
        (struct sampler_motion){sampler->current->time_us, dx, dy};
    return 0;
}

/* Turned round after more than a line's height: what was in view at the turn may not come back. */
static bool has_turned(const struct sampler *sampler, int step_x, int step_y)
{
    return sampler->candidate->held && sampler->candidate_scrolled &&
           ((step_y * sampler->dy < 0 && abs(sampler->dy) >= TURN_PIXELS) ||
            (step_x * sampler->dx < 0 && abs(sampler->dx) >= TURN_PIXELS));
}

/* ---- one frame ------------------------------------------------------------------------------- */

enum step { STEP_DONE = 0, STEP_AGAIN = 1 };

/* The text is that of the reference and something else differs: keeps what stands still (writing
 * so large that it has no strokes, a photo) and, while it moves, a frame a second. */
static int on_shade(struct sampler *sampler, struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    if (sampler->shade_began < 0) {
        sampler->shade_began = now;
    }
    struct gate_result same = {0};
    bool stands = sampler->candidate->held &&
                  !differ(sampler, sampler->candidate, sampler->current, GATE_COARSE, &same) &&
                  same.shifted == 0;
    if (stands) {
        renew_candidate(sampler);
        return has_stood(sampler, now) ? keep_candidate(sampler, error) : STEP_DONE;
    }
    make_candidate(sampler, true, false, 0, 0);
    bool due = now - sampler->shade_began >= SHADE_AGE_US - TICK_US;
    return due ? keep_candidate(sampler, error) : STEP_DONE;
}

/* The text is that of the reference. */
static int on_same(struct sampler *sampler, const struct gate_result *difference,
                   struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    bool changing = sampler->change_began >= 0;
    sampler->reference_stood = true;
    if (changing && has_stood(sampler, now)) {
        int result = keep_candidate(sampler, error);
        return result != 0 ? result : STEP_AGAIN;
    }
    if (sampler->dx != 0 || sampler->dy != 0) {
        int result = note_motion(sampler, 0, 0, error);
        if (result != 0) {
            return result;
        }
    }
    sampler->dx = sampler->dy = sampler->step_x = sampler->step_y = 0;
    sampler->change_began = -1;
    sampler->scroll_failures = sampler->scroll_wait = 0;
    if (changing || difference->shifted == 0) {
        picture_release(sampler->candidate);
    }
    if (difference->shifted > 0) {
        return on_shade(sampler, error);
    }
    sampler->shade_began = -1;
    return STEP_DONE;
}

/* The content of the reference, moved by dx, dy. */
static int on_moved(struct sampler *sampler, int dx, int dy, const struct scroll_check *check,
                    struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    int step_x = dx - sampler->dx;
    int step_y = dy - sampler->dy;
    bool rests = step_x == 0 && step_y == 0 && sampler->candidate->held;
    struct gate_result same;
    if (rests && !differ(sampler, sampler->candidate, sampler->current, GATE_COARSE, &same)) {
        renew_candidate(sampler);
        return has_stood(sampler, now) ? keep_candidate(sampler, error) : STEP_DONE;
    }
    if (has_stood(sampler, now) || has_turned(sampler, step_x, step_y)) {
        int result = keep_candidate(sampler, error);
        return result != 0 ? result : STEP_AGAIN;
    }
    int64_t due = due_time(sampler);
    int64_t since = sampler->change_began > sampler->reference->time_us
                        ? sampler->change_began
                        : sampler->reference->time_us;
    int result = note_motion(sampler, dx, dy, error);
    if (result != 0) {
        return result;
    }
    sampler->step_x = step_x;
    sampler->step_y = step_y;
    make_candidate(sampler, true, true, dx, dy);
    int moved = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
    if (moved >= SCROLL_SHARE * check->viewport || now - since >= SCROLL_AGE_US - TICK_US) {
        return keep_candidate(sampler, error);
    }
    int changed = check->matched + check->revealed + check->unexplained;
    bool unexplained =
        check->unexplained > UNEXPLAINED_BLOCKS && check->unexplained > changed / UNEXPLAINED_SHARE;
    if (unexplained && now >= due - TICK_US && may_keep(sampler)) {
        return keep_paced(sampler, due, error);
    }
    return STEP_DONE;
}

/* Before a picture that moves, new text stands although spots of the picture look like text. */
static bool is_spots(const struct sampler *sampler, const struct gate_result *difference)
{
    int allowed = sampler->candidate_changed / SPOTS_SHARE;
    return difference->changed < (allowed < SPOTS_MAX ? allowed : SPOTS_MAX);
}

/* Something else than the reference, and no movement explains it. */
static int on_other(struct sampler *sampler, const struct gate_result *difference,
                    struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    int64_t due = due_time(sampler);
    int blocks = sampler->gate.columns * sampler->gate.rows;
    bool related = difference->changed <= blocks / 2;
    struct gate_result same;
    bool stands = sampler->candidate->held &&
                  (!differ(sampler, sampler->candidate, sampler->current, GATE_COARSE, &same) ||
                   is_spots(sampler, &same));
    if (stands) {
        renew_candidate(sampler);
    }
    if (has_stood(sampler, now)) {
        int result = keep_candidate(sampler, error);
        return result != 0 || stands ? result : STEP_AGAIN;
    }
    if (!stands) {
        make_candidate(sampler, related, false, 0, 0);
        sampler->candidate_changed = difference->changed;
    }
    if (now >= due - TICK_US && may_keep(sampler)) {
        return keep_paced(sampler, due, error);
    }
    return STEP_DONE;
}

static int step(struct sampler *sampler, struct cv_error *error)
{
    struct gate_result difference;
    if (!differ(sampler, sampler->reference, sampler->current, GATE_FINE, &difference)) {
        return on_same(sampler, &difference, error);
    }
    if (sampler->change_began < 0) {
        sampler->change_began = sampler->current->time_us;
        picture_release(sampler->candidate); /* of what moved behind the text */
    }
    int dx;
    int dy;
    struct scroll_check check;
    if (find_shift(sampler, &difference, &dx, &dy, &check)) {
        return on_moved(sampler, dx, dy, &check, error);
    }
    return on_other(sampler, &difference, error);
}

/* The first picture, and the first after the source changed its size. */
static int start(struct sampler *sampler, struct cv_error *error)
{
    int result = sampler_finish(sampler, error);
    if (result != 0) {
        return result;
    }
    free_maps(sampler);
    picture_release(sampler->reference);
    sampler->width = sampler->current->luma.width;
    sampler->height = sampler->current->luma.height;
    result = gate_init(&sampler->gate, sampler->width, sampler->height,
                       sampler->params.dedupe_threshold, error);
    int lengths[2] = {sampler->height, sampler->width};
    for (int i = 0; i < 2 && result == 0; i++) {
        result = scroll_profile_init(&sampler->reference_profile[i], lengths[i], error);
        if (result == 0) {
            result = scroll_profile_init(&sampler->current_profile[i], lengths[i], error);
        }
    }
    if (result != 0) {
        return result;
    }
    sampler->grid_us = sampler->current->time_us;
    make_candidate(sampler, false, false, 0, 0);
    return keep_candidate(sampler, error);
}

int sampler_push(struct sampler *sampler, const AVFrame *picture, int64_t time_us,
                 struct cv_error *error)
{
    int result = picture_hold(sampler->current, picture, time_us, error);
    if (result != 0) {
        return result;
    }
    refill_tokens(sampler, time_us);
    if (!sampler->reference->held || picture->width != sampler->width ||
        picture->height != sampler->height) {
        return start(sampler, error);
    }
    do {
        result = step(sampler, error);
    } while (result == STEP_AGAIN); /* at most once: then there is no candidate any more */
    return result;
}

int sampler_finish(struct sampler *sampler, struct cv_error *error)
{
    return sampler->candidate->held ? keep_candidate(sampler, error) : 0;
}
