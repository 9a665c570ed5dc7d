#include "workers/ocr/tracks/line_path.h"

#include "common/text/text.h"

/* A line that is followed over the kept frames in which it was seen. */
struct walk {
    const struct ocr_course *course;
    const struct ocr_stretch *stretch;
    struct ocr_span span;
    int lost;         /* the first frame with an unknown shift; -1: none */
    int off_x, off_y; /* by how much the steps fail to lead to where it was last seen */
    struct cv_path path;
};

static bool moves(const struct walk *walk, size_t frame, int x, int y)
{
    struct cv_box box = {x, y, walk->stretch->width, walk->stretch->height};

    return frame < walk->course->count && walk->course->timings[frame].shift_known &&
           cv_panes_move(walk->course->panes, cv_panes_at(walk->course->panes, frame),
                         &walk->stretch->places, &box);
}

/* The shortest time between two source frames that moved. */
static void find_shortest_step(struct walk *walk, int frame)
{
    const struct ocr_timing *timing = &walk->course->timings[frame];

    for (size_t i = 1; i < timing->motion_count; i++) {
        int64_t step = timing->motion[i].t_ms - timing->motion[i - 1].t_ms;
        if (step > 0 && (!walk->path.step_ms || step < walk->path.step_ms)) {
            walk->path.step_ms = step;
        }
    }
}

/* Where the steps lead to and where they are not known. */
static void measure(struct walk *walk)
{
    const struct ocr_sighting *first = &walk->stretch->first, *last = &walk->stretch->last;
    int x = first->x, y = first->y;

    walk->lost = -1;
    find_shortest_step(walk, first->frame);
    for (int frame = first->frame + 1; frame <= last->frame; frame++) {
        const struct ocr_timing *timing = &walk->course->timings[frame];
        find_shortest_step(walk, frame);
        if (!timing->shift_known && walk->lost < 0) {
            walk->lost = frame;
        }
        bool moved = moves(walk, (size_t)frame, x, y);
        x += moved ? timing->dx : 0;
        y += moved ? timing->dy : 0;
    }
    walk->off_x = last->x - x;
    walk->off_y = last->y - y;
}

/* Adds the place of the line at a kept frame, by the shifts. Their error at the last
 * sighting is corrected where a shift was not known, otherwise evenly. */
static int stand(struct walk *walk, int frame, int64_t t_ms, struct cv_point at,
                 struct cv_error *error)
{
    int first = walk->stretch->first.frame, last = walk->stretch->last.frame;
    bool is_past = frame >= last || (walk->lost >= 0 && frame >= walk->lost);
    int share = is_past ? 1 : walk->lost >= 0 || frame <= first ? 0 : frame - first;
    int whole = is_past ? 1 : cv_max(last - first, 1);

    if (t_ms >= walk->span.end) {
        return 0;
    }
    return cv_path_add(&walk->path, t_ms < walk->span.start ? walk->span.start : t_ms,
                       at.x + walk->off_x * share / whole, at.y + walk->off_y * share / whole,
                       error);
}

/* Adds the places of the line at the source frames between the kept frame before `frame`, in
 * which it was at x, y, and `frame`. */
static int pass(struct walk *walk, int frame, int x, int y, struct cv_error *error)
{
    const struct ocr_timing *timing = &walk->course->timings[frame];

    for (size_t i = 0; i < timing->motion_count; i++) {
        const struct ocr_motion *at = &timing->motion[i];
        if (at->t_ms >= walk->span.start && at->t_ms < walk->span.end) {
            CV_TRY(
                stand(walk, frame - 1, at->t_ms, (struct cv_point){x + at->dx, y + at->dy}, error));
        }
    }
    return 0;
}

static int follow(struct walk *walk, struct cv_error *error)
{
    const struct ocr_sighting *first = &walk->stretch->first, *last = &walk->stretch->last;
    int x = first->x, y = first->y, frame = first->frame;

    if (moves(walk, (size_t)frame, x, y)) {
        const struct ocr_timing *timing = &walk->course->timings[frame];
        CV_TRY(pass(walk, frame, x - timing->dx, y - timing->dy, error));
    }
    CV_TRY(
        stand(walk, frame, walk->course->timings[frame].t_start, (struct cv_point){x, y}, error));
    while (++frame <= last->frame) {
        const struct ocr_timing *timing = &walk->course->timings[frame];
        if (moves(walk, (size_t)frame, x, y)) {
            CV_TRY(pass(walk, frame, x, y, error));
            x += timing->dx;
            y += timing->dy;
        }
        CV_TRY(stand(walk, frame, timing->t_start, (struct cv_point){x, y}, error));
    }
    if (moves(walk, (size_t)last->frame + 1, x, y)) {
        CV_TRY(pass(walk, last->frame + 1, x, y, error));
    }
    return 0;
}

int ocr_path_of(const struct ocr_course *course, const struct ocr_stretch *stretch,
                struct ocr_span span, json_t **ret_path, struct cv_error *error)
{
    struct walk walk = {.course = course, .stretch = stretch, .span = span};

    *ret_path = NULL;
    measure(&walk);
    int result = follow(&walk, error);
    if (result == 0) {
        cv_path_simplify(&walk.path);
        result = cv_path_json(&walk.path, course->reduction, ret_path, error);
    }
    cv_path_deinit(&walk.path);
    return result;
}
