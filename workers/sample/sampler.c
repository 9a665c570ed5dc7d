#include "workers/sample/sampler.h"

#include "workers/sample/gate.h"
#include "workers/sample/movement.h"
#include "workers/sample/picture.h"

/* A state that stands for less time cannot be read: a blend of two pictures, a frame of an
 * animation. */
static const int64_t STAND_US = 50000;
/* Scrolling eases out pixel by pixel; it has settled when nothing moved for so long. */
static const int64_t SETTLE_US = 120000;
/* The longest that moving content goes without a kept frame. */
static const int64_t SCROLL_AGE_US = 1000000;
/* The same for a picture that moves behind text that stays. */
static const int64_t SHADE_AGE_US = 1000000;
/* A picture without strokes stands when its first frame looks like the one after so long. What moves
 * slowly differs too little from frame to frame to tell. */
static const int64_t SHADE_STAND_US = 300000;
/* Shares of the moving viewport after which a frame is kept: so that every line is seen in several,
 * and, in a fling that is faster than target_fps, so that none is lost. */
static const double SCROLL_SHARE = 0.30, FLING_SHARE = 0.60;

enum {
    REFINED_SHARE = 64, /* 1/64 of what was new */
    SPOTS_SHARE = 8,    /* 1/8 of what was new */
    SPOTS_MAX = 64,
    FILM_SHARE = 16, /* 1/16 of the blocks moves; a tenth does where a hand holds the camera */
    /* 1/512 of the blocks: text that ends a film. The line of `talk` is 1/77, the clock of `sport` 1/758 at most, spots of
     * `phone` 1/1751 at most: one generated video each (kinds_of_videos.py), fitted. Lines of subs1, looked at: 1/13 to 1/82. */
    FILM_TEXT_SHARE = 512,
};

/* What has moved for so long is a film, until it has stood for so long: a camera that swings turns round. */
static const int64_t FILM_US = 2000000;

/* ---- pace ------------------------------------------------------------------------------------ */

/* Times measured in frames carry rounding of a container's ticks. */
enum { PACE_TICK_US = 1500 };

/* How many frames may be kept: target_fps in the long run, a few more at once after a calm. */
struct pace {
    int64_t interval_us; /* of target_fps */
    int64_t grid_us;     /* the last time a frame was due */
    double tokens;       /* frames that may be kept now */
    int64_t tokens_at;
};

enum { BURST = 5 }; /* states beyond target_fps that may be kept after a calm */

static void pace_init(struct pace *pace, double target_fps)
{
    *pace = (struct pace){.interval_us = (int64_t)(1e6 / target_fps), .tokens = 1};
}

/* Adds the frames that may be kept for the time that has passed. */
static void pace_refill(struct pace *pace, int64_t now_us)
{
    pace->tokens += (double)(now_us - pace->tokens_at) / (double)pace->interval_us;
    pace->tokens = pace->tokens > BURST ? BURST : pace->tokens;
    pace->tokens_at = now_us;
}

static bool pace_allows(const struct pace *pace)
{
    return pace->tokens >= 0.99; /* whole, but for rounding */
}

/* When the next frame of a change that goes on is due: an interval after the last one that was due, or
 * after the change began when nothing had changed before. */
static int64_t pace_due(const struct pace *pace, int64_t change_began_us, bool calm_before)
{
    return (calm_before ? change_began_us : pace->grid_us) + pace->interval_us;
}

/* Counts a frame that was kept, of a state that began at `start_us`. */
static void pace_spend(struct pace *pace, int64_t start_us)
{
    pace->tokens = pace->tokens > 1 ? pace->tokens - 1 : 0;
    if (start_us - pace->grid_us >= 2 * pace->interval_us) {
        pace->grid_us = start_us;
    }
}

/* ---- the sampler ------------------------------------------------------------------------------- */

/* What became of the current picture: it is done with, or to be looked at anew. */
enum step { STEP_DONE = 0, STEP_AGAIN = 1 };

/* A state that may be kept: its first frame, and the latest picture of it. */
struct candidate {
    struct picture *picture;
    int64_t start_us;
    int changed, shifted; /* blocks, against the reference */
    bool scrolled, related;
    int dx, dy; /* against the reference */
};

struct sampler {
    double dedupe_threshold;
    sampler_keep *keep;
    void *opaque;

    struct picture pictures[3];
    struct picture *reference, *current;
    struct candidate candidate;
    struct gate gate;           /* the current picture against the reference */
    struct gate candidate_gate; /* against the candidate */
    struct movement movement;
    struct pace pace;

    bool reference_stood; /* a later frame looked the same */
    int64_t change_began; /* the first frame that differs from the reference; -1: none does */
    int64_t shade_began;  /* the same for brightness alone */
    int64_t film_began;   /* since when a film moves; -1: none does */
    int64_t film_moved;   /* the last frame of those that were kept because it moved */
};

int sampler_new(const struct sampler_params *params, sampler_keep *keep, void *opaque,
                struct sampler **ret_sampler, struct cv_error *error)
{
    cv_auto(sampler_free) struct sampler *sampler = calloc(1, sizeof(*sampler));
    CV_TRY_MEMORY(sampler, error, "the sampler");
    sampler->dedupe_threshold = params->dedupe_threshold;
    sampler->keep = keep;
    sampler->opaque = opaque;
    pace_init(&sampler->pace, params->target_fps);
    sampler->change_began = sampler->shade_began = sampler->film_began = -1;
    for (size_t i = 0; i < CV_COUNT(sampler->pictures); i++) {
        CV_TRY(picture_init(&sampler->pictures[i], error));
    }
    sampler->reference = &sampler->pictures[0];
    sampler->candidate.picture = &sampler->pictures[1];
    sampler->current = &sampler->pictures[2];
    *ret_sampler = cv_take(sampler);
    return 0;
}

void sampler_free(struct sampler *sampler)
{
    if (!sampler) {
        return;
    }
    for (size_t i = 0; i < CV_COUNT(sampler->pictures); i++) {
        picture_deinit(&sampler->pictures[i]);
    }
    gate_deinit(&sampler->gate);
    gate_deinit(&sampler->candidate_gate);
    movement_deinit(&sampler->movement);
    free(sampler);
}

static void swap_pictures(struct picture **a, struct picture **b)
{
    struct picture *swapped = *a;
    *a = *b;
    *b = swapped;
}

static bool has_candidate(const struct sampler *sampler)
{
    return sampler->candidate.picture->held;
}

static void drop_candidate(struct sampler *sampler)
{
    picture_release(sampler->candidate.picture);
    sampler->candidate = (struct candidate){.picture = sampler->candidate.picture};
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* Makes the candidate the new reference and hands it out. */
static int keep_candidate(struct sampler *sampler, struct cv_error *error)
{
    const struct candidate *candidate = &sampler->candidate;
    bool related = sampler->reference->held && candidate->related;
    struct sampler_frame frame = {
        .picture = candidate->picture->frame,
        .time_us = candidate->picture->time_us,
        .start_us = candidate->start_us,
        .before_us = sampler->change_began >= 0 ? sampler->change_began : candidate->start_us,
        .related = related,
        .dx = related ? candidate->dx : 0,
        .dy = related ? candidate->dy : 0,
        .motion = sampler->movement.way,
        .motion_count = sampler->movement.way_count,
    };
    CV_TRY(sampler->keep(sampler->opaque, &frame, error));
    int blocks = sampler->gate.columns * sampler->gate.rows;
    int64_t began = sampler->change_began < 0 ? sampler->shade_began : sampler->change_began;
    bool has_come = candidate->start_us == sampler->shade_began; /* a photo, and stands since */
    if (!has_come && candidate->changed < blocks / FILM_TEXT_SHARE &&
        candidate->shifted >= blocks / FILM_SHARE) {
        sampler->film_moved = candidate->start_us;
        sampler->film_began = sampler->film_began < 0 ? began : sampler->film_began;
    }
    sampler->reference_stood = frame.start_us < frame.time_us;
    swap_pictures(&sampler->reference, &sampler->candidate.picture);
    picture_slim(sampler->reference);
    drop_candidate(sampler);
    pace_spend(&sampler->pace, frame.start_us);
    sampler->change_began = sampler->shade_began = -1;
    movement_begin(&sampler->movement);
    return 0;
}

/* The state of the candidate goes on: its latest picture is the one the encoder refined most. */
static void renew_candidate(struct sampler *sampler)
{
    swap_pictures(&sampler->candidate.picture, &sampler->current);
}

/* The current picture begins a new state, of which `state` tells what is known. */
static void make_candidate(struct sampler *sampler, struct candidate state)
{
    struct picture *free_picture = sampler->candidate.picture;
    picture_release(free_picture);
    state.picture = sampler->current;
    state.start_us = sampler->current->time_us;
    sampler->candidate = state;
    sampler->current = free_picture;
}

/* Keeps the candidate when the next frame of an ongoing change is due and target_fps allows one. */
static int keep_if_due(struct sampler *sampler, int64_t now, struct cv_error *error)
{
    int64_t calm = sampler->change_began - sampler->reference->time_us;
    bool calm_before = sampler->reference_stood && calm >= sampler->pace.interval_us;
    int64_t due = pace_due(&sampler->pace, sampler->change_began, calm_before);
    if (now < due - PACE_TICK_US || !pace_allows(&sampler->pace)) {
        return STEP_DONE;
    }
    sampler->pace.grid_us = due;
    return keep_candidate(sampler, error);
}

static bool has_stood(const struct sampler *sampler, int64_t now)
{
    bool scrolled = sampler->candidate.scrolled;
    int64_t enough = scrolled ? SETTLE_US : STAND_US;
    return has_candidate(sampler) && (scrolled || pace_allows(&sampler->pace)) &&
           now - sampler->candidate.start_us >= enough - PACE_TICK_US;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Does the current picture show what the candidate shows? A young state may differ in a few blocks:
 * the first picture of much that is new is coarse, and the encoder refines it in the next. */
static bool shows_candidate(struct sampler *sampler, struct gate_result *ret_result)
{
    const struct candidate *candidate = &sampler->candidate;
    if (!picture_differs(&sampler->candidate_gate, candidate->picture, sampler->current,
                         GATE_COARSE, ret_result)) {
        return true;
    }
    int64_t age = sampler->current->time_us - candidate->start_us;
    return age < STAND_US && ret_result->changed > 0 &&
           ret_result->changed < candidate->changed / REFINED_SHARE;
}

/* ---- one frame ------------------------------------------------------------------------------- */

/* The text is that of the reference and something else differs: keeps what stands still (writing
 * so large that it has no strokes, a photo) and, while it moves, a frame a second. */
static int on_shade(struct sampler *sampler, const struct gate_result *difference,
                    struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    if (sampler->shade_began < 0) {
        sampler->shade_began = now;
    }
    struct gate_result same = {0};
    if (has_candidate(sampler) && shows_candidate(sampler, &same) && same.shifted == 0) {
        bool enough = now - sampler->candidate.start_us >= SHADE_STAND_US - PACE_TICK_US;
        if (!enough || !pace_allows(&sampler->pace)) {
            return STEP_DONE;
        }
        renew_candidate(sampler);
        return keep_candidate(sampler, error);
    }
    make_candidate(sampler, (struct candidate){.shifted = difference->shifted, .related = true});
    bool is_due = now - sampler->shade_began >= SHADE_AGE_US - PACE_TICK_US;
    return is_due ? keep_candidate(sampler, error) : STEP_DONE;
}

/* The text is that of the reference. */
static int on_same(struct sampler *sampler, const struct gate_result *difference,
                   struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    bool changing = sampler->change_began >= 0;
    sampler->reference_stood = true;
    if (changing && has_stood(sampler, now)) {
        CV_TRY(keep_candidate(sampler, error));
        return STEP_AGAIN;
    }
    CV_TRY(movement_returned(&sampler->movement, now, error));
    sampler->change_began = -1;
    if (changing || difference->shifted == 0) {
        drop_candidate(sampler);
    }
    sampler->shade_began = difference->shifted > 0 ? sampler->shade_began : -1;
    return difference->shifted > 0 ? on_shade(sampler, difference, error) : STEP_DONE;
}

/* Lines could be lost, or too long a time has passed, if this place were not kept. */
static bool must_keep_place(const struct sampler *sampler, const struct scroll_check *check)
{
    int dx = abs(sampler->candidate.dx), dy = abs(sampler->candidate.dy);
    int moved = dx > dy ? dx : dy;
    int64_t reference_us = sampler->reference->time_us;
    int64_t since = sampler->change_began > reference_us ? sampler->change_began : reference_us;
    int64_t age = sampler->candidate.start_us - since;
    double share = pace_allows(&sampler->pace) ? SCROLL_SHARE : FLING_SHARE;
    return moved >= share * check->viewport || age >= SCROLL_AGE_US - PACE_TICK_US;
}

/* The content of the reference, moved by dx, dy. */
static int on_moved(struct sampler *sampler, int dx, int dy, const struct gate_result *difference,
                    const struct scroll_check *check, struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    const struct candidate *candidate = &sampler->candidate;
    bool rests = has_candidate(sampler) && candidate->dx == dx && candidate->dy == dy;
    struct gate_result same;
    if (rests && shows_candidate(sampler, &same)) {
        renew_candidate(sampler);
        return has_stood(sampler, now) ? keep_candidate(sampler, error) : STEP_DONE;
    }
    bool turned = has_candidate(sampler) && candidate->scrolled &&
                  movement_turned(&sampler->movement, dx, dy);
    if (has_stood(sampler, now) || turned) {
        CV_TRY(keep_candidate(sampler, error));
        return STEP_AGAIN;
    }
    CV_TRY(movement_record(&sampler->movement, now, dx, dy, error));
    struct candidate moved = {
        .related = true, .changed = difference->changed, .scrolled = true, .dx = dx, .dy = dy};
    make_candidate(sampler, moved);
    if (must_keep_place(sampler, check)) {
        return keep_candidate(sampler, error);
    }
    return movement_leaves_more(check) ? keep_if_due(sampler, now, error) : STEP_DONE;
}

/* Before a picture that moves, new text stands although spots of the picture look like text. */
static bool is_spots(const struct sampler *sampler, const struct gate_result *difference)
{
    int allowed = sampler->candidate.changed / SPOTS_SHARE;
    return difference->changed < (allowed < SPOTS_MAX ? allowed : SPOTS_MAX);
}

/* Does the state of the candidate go on, one that nothing explained? Asked before any movement is
 * looked for: between two unlike pictures, chance may find one. */
static bool candidate_stands(struct sampler *sampler)
{
    struct gate_result same;
    return has_candidate(sampler) && !sampler->candidate.scrolled &&
           (shows_candidate(sampler, &same) || is_spots(sampler, &same));
}

/* Something else than the reference, and no movement explains it. */
static int on_other(struct sampler *sampler, const struct gate_result *difference, bool stands,
                    struct cv_error *error)
{
    int64_t now = sampler->current->time_us;
    int blocks = sampler->gate.columns * sampler->gate.rows;
    if (stands) {
        renew_candidate(sampler);
    }
    if (has_stood(sampler, now)) {
        CV_TRY(keep_candidate(sampler, error));
        return stands ? 0 : STEP_AGAIN;
    }
    if (!stands) {
        make_candidate(sampler, (struct candidate){.related = difference->changed <= blocks / 2,
                                                   .changed = difference->changed,
                                                   .shifted = difference->shifted});
    }
    return keep_if_due(sampler, now, error);
}

/* Does the picture show content that repeats itself, further on than in the reference, and look like
 * the reference for that? */
static bool has_gone_on(struct sampler *sampler, const struct gate_result *difference, int *ret_dx,
                        int *ret_dy, struct scroll_check *ret_check)
{
    const struct plane *current = &sampler->current->luma;
    if (sampler->change_began < 0 ||
        !movement_repeats(&sampler->movement, difference->threshold, &sampler->reference->luma,
                          current, ret_dx, ret_dy)) {
        return false;
    }
    *ret_check = (struct scroll_check){.viewport = *ret_dy != 0 ? current->height : current->width};
    return true;
}

static int step(struct sampler *sampler, struct cv_error *error)
{
    struct gate_result difference;
    int dx, dy;
    struct scroll_check check;
    if (!picture_differs(&sampler->gate, sampler->reference, sampler->current, GATE_FINE,
                         &difference)) {
        return has_gone_on(sampler, &difference, &dx, &dy, &check)
                   ? on_moved(sampler, dx, dy, &difference, &check, error)
                   : on_same(sampler, &difference, error);
    }
    if (difference.changed >= sampler->gate.columns * sampler->gate.rows / FILM_TEXT_SHARE) {
        sampler->film_began = -1;
    }
    if (sampler->change_began < 0) {
        sampler->change_began = sampler->current->time_us;
        drop_candidate(sampler); /* of what moved behind the text */
    }
    if (candidate_stands(sampler)) {
        return on_other(sampler, &difference, true, error);
    }
    if (movement_find(&sampler->movement, &sampler->gate, &difference, &sampler->reference->luma,
                      &sampler->current->luma, &dx, &dy, &check) ||
        has_gone_on(sampler, &difference, &dx, &dy, &check)) {
        return on_moved(sampler, dx, dy, &difference, &check, error);
    }
    return on_other(sampler, &difference, false, error);
}

/* The first picture, and the first after the source changed its size. */
static int start(struct sampler *sampler, struct cv_error *error)
{
    CV_TRY(sampler_finish(sampler, error));
    int width = sampler->current->luma.width, height = sampler->current->luma.height;
    picture_release(sampler->reference);
    gate_deinit(&sampler->gate);
    gate_deinit(&sampler->candidate_gate);
    CV_TRY(gate_init(&sampler->gate, width, height, sampler->dedupe_threshold, error));
    CV_TRY(gate_init(&sampler->candidate_gate, width, height, sampler->dedupe_threshold, error));
    CV_TRY(movement_init(&sampler->movement, width, height, error));
    sampler->pace.grid_us = sampler->current->time_us;
    make_candidate(sampler, (struct candidate){0});
    return keep_candidate(sampler, error);
}

int sampler_push(struct sampler *sampler, const AVFrame *picture, int64_t time_us,
                 struct cv_error *error)
{
    int result;
    CV_TRY(picture_hold(sampler->current, picture, time_us, error));
    sampler->gate.phase++;
    sampler->candidate_gate.phase++;
    pace_refill(&sampler->pace, time_us);
    if (time_us - sampler->film_moved > FILM_US) {
        sampler->film_began = -1;
    }
    if (!sampler->reference->held || picture->width != sampler->reference->luma.width ||
        picture->height != sampler->reference->luma.height) {
        return start(sampler, error);
    }
    do {
        result = step(sampler, error);
    } while (result == STEP_AGAIN);    /* at most once: then there is no candidate any more */
    picture_release(sampler->current); /* what is not needed is the decoder's again */
    return result;
}

bool sampler_sees_film(const struct sampler *sampler)
{
    return sampler->film_began >= 0 &&
           sampler->film_moved - sampler->film_began >= FILM_US - PACE_TICK_US;
}

int sampler_finish(struct sampler *sampler, struct cv_error *error)
{
    return has_candidate(sampler) ? keep_candidate(sampler, error) : 0;
}
