#include "workers/ocr/tracks/timing.h"

/* Pixels by which the edge of a pane, learned from moving ink, may be short of the true one. */
enum { EDGE_SLACK = 1 };

/* A line on its way: all that the questions below are asked of. */
struct way {
    const struct ocr_course *course;
    const struct ocr_stretch *stretch;
};

static struct cv_box box_at(const struct way *way, int x, int y)
{
    return (struct cv_box){x, y, way->stretch->width, way->stretch->height};
}

/* The pane, if the line at x, y moves with it. */
static const struct cv_pane *moving(const struct way *way, int pane, int x, int y)
{
    struct cv_box box = box_at(way, x, y);

    return cv_panes_move(way->course->panes, pane, &way->stretch->places, &box)
               ? cv_panes_get(way->course->panes, pane)
               : NULL;
}

/* The pane that moves the line in the step to `frame`, before which it was at x, y; NULL: none. */
static const struct cv_pane *moves_it(const struct way *way, size_t frame, int x, int y)
{
    return frame < way->course->count && way->course->timings[frame].shift_known
               ? moving(way, cv_panes_at(way->course->panes, frame), x, y)
               : NULL;
}

static bool inside(const struct way *way, const struct cv_pane *pane, int x, int y)
{
    const struct ocr_stretch *stretch = way->stretch;
    const struct cv_box *screen = &way->course->screen;
    int top = pane ? pane->top : screen->y, bottom = pane ? pane->bottom : cv_box_bottom(screen);

    return y >= top - EDGE_SLACK && y + stretch->height <= bottom + EDGE_SLACK &&
           x >= screen->x - EDGE_SLACK && x + stretch->width <= cv_box_right(screen) + EDGE_SLACK;
}

static bool covers(const struct way *way, const struct cv_pane *pane, int x, int y)
{
    struct cv_box box = box_at(way, x, y);

    return cv_pane_covers(pane, &box);
}

/* The same on the way between two sightings, where nobody saw whether something lay over it. Where the
 * line itself was `seen`, nothing did, whatever is thought of that place. */
static bool shown(const struct way *way, const struct cv_pane *pane, int x, int y,
                  const struct ocr_sighting *seen)
{
    return inside(way, pane, x, y) &&
           (!covers(way, pane, x, y) || covers(way, pane, seen->x, seen->y));
}

/* Back from the first sighting over the source frames since the kept frame before it. */
static int64_t start_of(const struct way *way)
{
    const struct ocr_sighting *first = &way->stretch->first;
    const struct ocr_timing *timing = &way->course->timings[first->frame];
    int x = first->x - timing->dx, y = first->y - timing->dy;
    int64_t start = timing->t_start;
    const struct cv_pane *pane = moves_it(way, (size_t)first->frame, first->x, first->y);

    if (!pane || !inside(way, pane, first->x, first->y)) {
        return start;
    }
    if (shown(way, pane, x, y, first)) {
        /* The kept frame before did not show it: it came while the content moved, as in a chat. */
        return timing->motion_count ? timing->motion[0].t_ms : start;
    }
    for (size_t i = timing->motion_count; i-- > 0;) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!shown(way, pane, x + at->dx, y + at->dy, first)) {
            break;
        }
        start = at->t_ms < start ? at->t_ms : start;
    }
    return start;
}

/* On from the last sighting over the source frames up to the next kept frame. */
static int64_t end_of(const struct way *way)
{
    const struct ocr_sighting *last = &way->stretch->last;
    size_t next = (size_t)last->frame + 1;
    int64_t end = way->course->timings[last->frame].t_end;
    const struct cv_pane *pane = moves_it(way, next, last->x, last->y);

    if (!pane) {
        return end;
    }
    const struct ocr_timing *timing = &way->course->timings[next];
    if (shown(way, pane, last->x + timing->dx, last->y + timing->dy, last)) {
        return end;
    }
    for (size_t i = 0; i < timing->motion_count; i++) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!shown(way, pane, last->x + at->dx, last->y + at->dy, last)) {
            return at->t_ms;
        }
    }
    return end;
}

/* On from the first sighting to the source frame that first showed the line whole; false when none up
 * to the last sighting did, or nobody knows how the content moved. */
static bool find_entry(const struct way *way, int64_t *ret_start)
{
    const struct ocr_stretch *stretch = way->stretch;
    int x = stretch->first.x, y = stretch->first.y;

    for (int frame = stretch->first.frame + 1; frame <= stretch->last.frame; frame++) {
        const struct ocr_timing *timing = &way->course->timings[frame];
        if (!timing->shift_known) {
            return false;
        }
        const struct cv_pane *pane = moves_it(way, (size_t)frame, x, y);
        if (!pane) {
            continue;
        }
        for (size_t i = 0; i < timing->motion_count; i++) {
            const struct ocr_motion *at = &timing->motion[i];
            if (inside(way, pane, x + at->dx, y + at->dy) &&
                !covers(way, pane, x + at->dx, y + at->dy)) {
                *ret_start = at->t_ms;
                return true;
            }
        }
        x += timing->dx;
        y += timing->dy;
        if (inside(way, pane, x, y) && !covers(way, pane, x, y)) {
            *ret_start = timing->t_start;
            return true;
        }
    }
    return false;
}

/* Back from the last sighting to the source frame in which the line ceased to be shown whole. */
static bool find_exit(const struct way *way, int64_t *ret_end)
{
    const struct ocr_stretch *stretch = way->stretch;
    int x = stretch->last.x, y = stretch->last.y;

    for (int frame = stretch->last.frame; frame > stretch->first.frame; frame--) {
        const struct ocr_timing *timing = &way->course->timings[frame];
        int64_t end = timing->t_start;
        if (!timing->shift_known) {
            return false;
        }
        const struct cv_pane *pane = moves_it(way, (size_t)frame, x, y);
        if (!pane) {
            continue;
        }
        x -= timing->dx;
        y -= timing->dy;
        for (size_t i = timing->motion_count; i-- > 0;) {
            const struct ocr_motion *at = &timing->motion[i];
            if (inside(way, pane, x + at->dx, y + at->dy)) {
                *ret_end = end;
                return true;
            }
            end = at->t_ms;
        }
        if (inside(way, pane, x, y)) {
            *ret_end = end;
            return true;
        }
    }
    return false;
}

/* The pane whose edges a sighting lies within. */
static const struct cv_pane *pane_of(const struct way *way, const struct ocr_sighting *sighting)
{
    return moving(way, cv_panes_near(way->course->panes, (size_t)sighting->frame), sighting->x,
                  sighting->y);
}

/* The time in which all of it was inside; false when it never was. */
static bool time_whole(const struct way *way, int64_t *ret_start, int64_t *ret_end)
{
    const struct ocr_sighting *first = &way->stretch->first, *last = &way->stretch->last;

    const struct cv_pane *pane = pane_of(way, first);
    bool begins = inside(way, pane, first->x, first->y) &&
                  !(way->stretch->pieced && covers(way, pane, first->x, first->y));

    if (begins) {
        *ret_start = start_of(way);
    } else if (!find_entry(way, ret_start)) {
        return false;
    }
    if (inside(way, pane_of(way, last), last->x, last->y)) {
        *ret_end = end_of(way);
        return true;
    }
    return find_exit(way, ret_end);
}

struct ocr_span ocr_timing_of(const struct ocr_course *course, const struct ocr_stretch *stretch)
{
    struct way way = {course, stretch};
    struct ocr_span span = {0, 0};

    if (!time_whole(&way, &span.start, &span.end)) {
        span = (struct ocr_span){start_of(&way), end_of(&way)};
    }
    span.end = span.end > span.start ? span.end : span.start + 1;
    return span;
}
