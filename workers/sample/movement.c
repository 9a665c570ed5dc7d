#include "workers/sample/movement.h"

enum {
    SCROLL_BLOCKS = 12, /* changed blocks; with fewer nothing has scrolled */
    SCROLL_SIDE = 64,   /* pixels; smaller pictures have no profile */
    CERTAIN_BLOCKS = 256,
    BACK_PIXELS = 12,        /* from so near, content comes back by itself: a bounce */
    RETRY_MAX = 8,           /* frames between attempts while a moving picture matches nothing */
    TURN_PIXELS = 24,        /* a line of small text: turning round after that may hide it again */
    UNEXPLAINED_BLOCKS = 24, /* less is a rim or a counter and waits for the next kept frame */
    UNEXPLAINED_SHARE = 50,  /* 1/50 of the changed blocks, likewise */
    WAY_MAX = 4096,          /* a bound; a second of 120 fps has 120 */
};

void movement_deinit(struct movement *movement)
{
    for (int i = 0; i < 2; i++) {
        scroll_profile_deinit(&movement->reference[i]);
        scroll_profile_deinit(&movement->current[i]);
    }
    free(movement->way);
    *movement = (struct movement){0};
}

int movement_init(struct movement *movement, int width, int height, struct cv_error *error)
{
    movement_deinit(movement);
    movement->width = width;
    movement->height = height;
    int lengths[] = {[SCROLL_VERTICAL] = height, [SCROLL_HORIZONTAL] = width};
    for (int i = 0; i < 2; i++) {
        CV_TRY(scroll_profile_init(&movement->reference[i], lengths[i], error));
        CV_TRY(scroll_profile_init(&movement->current[i], lengths[i], error));
    }
    return 0;
}

void movement_begin(struct movement *movement)
{
    movement->dx = movement->dy = 0;
    movement->way_count = 0;
    movement->profiled[0] = movement->profiled[1] = false;
}

int movement_returned(struct movement *movement, int64_t time_us, struct cv_error *error)
{
    if (movement->dx != 0 || movement->dy != 0) {
        CV_TRY(movement_record(movement, time_us, 0, 0, error));
    }
    movement->step_x = movement->step_y = 0;
    movement->failures = movement->wait = 0;
    return 0;
}

/* Whether the pixels confirm the movement. */
static bool is_verified(const struct scroll_check *check)
{
    if (check->matched < SCROLL_BLOCKS / 2) {
        return false;
    }
    /* unlike text agrees in a quarter of its blocks; what an encoder blurs in a hurry, in half */
    bool many = check->matched >= CERTAIN_BLOCKS && check->matched >= check->unexplained;
    return many || check->matched * 2 >= check->unexplained * 3;
}

/* One question to the pixels: has the content moved by `shift`? */
struct question {
    const struct gate *gate;
    const struct gate_result *difference;
    const struct plane *reference, *current;
    enum scroll_axis axis;
};

static bool holds(const struct question *question, int shift, struct scroll_check *ret_check)
{
    if (shift == 0) {
        return false;
    }
    int dx = question->axis == SCROLL_HORIZONTAL ? shift : 0;
    int dy = question->axis == SCROLL_VERTICAL ? shift : 0;
    scroll_verify(question->gate, question->difference, question->reference, question->current, dx,
                  dy, ret_check);
    return is_verified(ret_check);
}

/* Searches where the movement would have gone on to, and anywhere else. */
static bool axis_moved(struct movement *movement, const struct question *question, int *ret_shift,
                       struct scroll_check *ret_check)
{
    enum scroll_axis axis = question->axis;
    if (!movement->profiled[axis]) {
        scroll_profile_of(question->reference, axis, &movement->reference[axis]);
        movement->profiled[axis] = true;
    }
    scroll_profile_of(question->current, axis, &movement->current[axis]);
    int last = axis == SCROLL_VERTICAL ? movement->dy : movement->dx;
    int step = axis == SCROLL_VERTICAL ? movement->step_y : movement->step_x;
    const struct scroll_profile *from = &movement->reference[axis], *to = &movement->current[axis];
    return scroll_match(from, to, last + step, ret_shift) && holds(question, *ret_shift, ret_check);
}

bool movement_find(struct movement *movement, const struct gate *gate,
                   const struct gate_result *difference, const struct plane *reference,
                   const struct plane *current, int *ret_dx, int *ret_dy,
                   struct scroll_check *ret_check)
{
    if (difference->changed < SCROLL_BLOCKS || movement->width < SCROLL_SIDE ||
        movement->height < SCROLL_SIDE) {
        return false;
    }
    if (movement->wait > 0) {
        movement->wait--;
        return false;
    }
    bool sideways = movement->dx != 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        enum scroll_axis axis = sideways == (attempt == 0) ? SCROLL_HORIZONTAL : SCROLL_VERTICAL;
        struct question question = {gate, difference, reference, current, axis};
        int shift = 0;
        if (axis_moved(movement, &question, &shift, ret_check)) {
            *ret_dx = axis == SCROLL_HORIZONTAL ? shift : 0;
            *ret_dy = axis == SCROLL_VERTICAL ? shift : 0;
            movement->failures = 0;
            return true;
        }
    }
    if (movement->failures < RETRY_MAX) {
        movement->failures++;
    }
    movement->wait = movement->failures - 1;
    return false;
}

bool movement_repeats(const struct movement *movement, int threshold, const struct plane *reference,
                      const struct plane *current, int *ret_dx, int *ret_dy)
{
    bool sideways = movement->dx != 0;
    int last = sideways ? movement->dx : movement->dy;
    int step = sideways ? movement->step_x : movement->step_y;
    if (abs(last) <= 2 * abs(step) + BACK_PIXELS) {
        return false;
    }
    /* where it would be by now, where it was, and next to these */
    int places[] = {last + step, last,     last + step - 1, last + step + 1,
                    last - 1,    last + 1, last + step - 2, last + step + 2};
    for (size_t i = 0; i < CV_COUNT(places); i++) {
        int dx = sideways ? places[i] : 0;
        int dy = sideways ? 0 : places[i];
        if (scroll_repeats(reference, current, threshold, dx, dy)) {
            *ret_dx = dx;
            *ret_dy = dy;
            return true;
        }
    }
    return false;
}

int movement_record(struct movement *movement, int64_t time_us, int dx, int dy,
                    struct cv_error *error)
{
    if (movement->way_count < WAY_MAX) {
        CV_TRY_MEMORY(CV_MAKE_ROOM(movement->way, movement->way_count), error, "positions");
        movement->way[movement->way_count++] = (struct sampler_motion){time_us, dx, dy};
    }
    movement->step_x = dx - movement->dx;
    movement->step_y = dy - movement->dy;
    movement->dx = dx;
    movement->dy = dy;
    return 0;
}

bool movement_turned(const struct movement *movement, int dx, int dy)
{
    int step_x = dx - movement->dx, step_y = dy - movement->dy;
    return (step_y * movement->dy < 0 && abs(movement->dy) >= TURN_PIXELS) ||
           (step_x * movement->dx < 0 && abs(movement->dx) >= TURN_PIXELS);
}

bool movement_leaves_more(const struct scroll_check *check)
{
    int changed = check->matched + check->revealed + check->unexplained;
    return check->unexplained > UNEXPLAINED_BLOCKS &&
           check->unexplained > changed / UNEXPLAINED_SHARE;
}
