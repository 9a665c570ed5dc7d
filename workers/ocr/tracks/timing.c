#include "workers/ocr/tracks/timing.h"

enum {
    /* Pixels by which the edge of a pane, learned from moving ink, may be short of the true one. */
    EDGE_SLACK = 1,
    /* Part of a line's height by which its steps may lead past where it was last seen: as much as the
     * boxes of two rows that are joined differ (interruptions.c). */
    ASTRAY = 3,
};

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

/* The pane whose edges a sighting lies within. */
static const struct cv_pane *pane_of(const struct way *way, const struct ocr_sighting *sighting)
{
    return moving(way, cv_panes_near(way->course->panes, (size_t)sighting->frame), sighting->x,
                  sighting->y);
}

static bool begins_whole(const struct way *way)
{
    const struct ocr_sighting *first = &way->stretch->first;
    const struct cv_pane *pane = pane_of(way, first);

    return inside(way, pane, first->x, first->y) &&
           !(way->stretch->pieced && covers(way, pane, first->x, first->y));
}

static bool ends_whole(const struct way *way)
{
    const struct ocr_sighting *last = &way->stretch->last;

    return inside(way, pane_of(way, last), last->x, last->y);
}

/* A line that is followed from its first sighting to its last one. */
struct walk {
    const struct way *way;
    struct ocr_visits *visits;
    struct cv_point at;
    bool is_in;      /* all of it is visible there */
    bool is_sighted; /* the last visit has a kept frame */
};

static struct ocr_visit *last_of(const struct walk *walk)
{
    return &walk->visits->items[cv_max(walk->visits->count, 1) - 1];
}

/* Notes whether all of the line was visible from `t_ms` on. What is thought to lie over its way counts until
 * it was seen whole. A visit without a kept frame is replaced by the next one. */
static void note(struct walk *walk, const struct cv_pane *pane, int x, int y, int64_t t_ms)
{
    struct ocr_visits *visits = walk->visits;
    bool is_in =
        inside(walk->way, pane, x, y) && (visits->count > 0 || !covers(walk->way, pane, x, y));

    if (is_in == walk->is_in || (is_in && walk->is_sighted && visits->count == OCR_VISITS_MAX)) {
        return;
    }
    walk->is_in = is_in;
    if (!is_in) {
        last_of(walk)->span.end = t_ms;
        return;
    }
    visits->count += visits->count == 0 || walk->is_sighted;
    walk->is_sighted = false;
    last_of(walk)->span.start = t_ms;
}

/* Notes where the line is in a kept frame. */
static void sight(struct walk *walk, int frame)
{
    struct ocr_sighting here = {frame, walk->at.x, walk->at.y};
    struct ocr_visit *visit = last_of(walk);

    if (walk->is_in) {
        visit->first = walk->is_sighted ? visit->first : here;
        visit->last = here;
        walk->is_sighted = true;
    }
}

/* Goes the way of the content; false: nobody knows it. */
static bool go(struct walk *walk)
{
    const struct way *way = walk->way;
    const struct ocr_stretch *stretch = way->stretch;

    sight(walk, stretch->first.frame);
    for (int frame = stretch->first.frame + 1; frame <= stretch->last.frame; frame++) {
        const struct ocr_timing *timing = &way->course->timings[frame];
        const struct cv_pane *pane = moves_it(way, (size_t)frame, walk->at.x, walk->at.y);
        if (!timing->shift_known) {
            return false;
        }
        for (size_t i = 0; pane && i < timing->motion_count; i++) {
            const struct ocr_motion *moved = &timing->motion[i];
            note(walk, pane, walk->at.x + moved->dx, walk->at.y + moved->dy, moved->t_ms);
        }
        if (pane) {
            walk->at.x += timing->dx;
            walk->at.y += timing->dy;
            note(walk, pane, walk->at.x, walk->at.y, timing->t_start);
        }
        sight(walk, frame);
    }
    return true;
}

/* Whether the walk led to where the line was last seen. */
static bool is_there(const struct walk *walk)
{
    const struct ocr_stretch *stretch = walk->way->stretch;
    int slack = stretch->height / ASTRAY;

    return abs(walk->at.x - stretch->last.x) <= slack && abs(walk->at.y - stretch->last.y) <= slack;
}

/* Ends the last visit, and joins all visits where they are doubtful. */
static void settle(struct walk *walk, int64_t end)
{
    const struct ocr_stretch *stretch = walk->way->stretch;
    struct ocr_visits *visits = walk->visits;

    visits->count -= visits->count > 1 && !walk->is_sighted;
    if (walk->is_in || ends_whole(walk->way)) {
        last_of(walk)->span.end = end;
    }
    if (!is_there(walk)) {
        visits->items[0].span.end = last_of(walk)->span.end;
        visits->count = 1;
    }
    visits->items[0].first = stretch->first;
    last_of(walk)->last = stretch->last;
}

void ocr_timing_of(const struct ocr_course *course, const struct ocr_stretch *stretch,
                   struct ocr_visits *ret_visits)
{
    struct way way = {course, stretch};
    struct walk walk = {.way = &way,
                        .visits = ret_visits,
                        .at = {stretch->first.x, stretch->first.y},
                        .is_in = begins_whole(&way)};
    struct ocr_visit whole = {{start_of(&way), end_of(&way)}, stretch->first, stretch->last};

    *ret_visits = (struct ocr_visits){.items = {whole}, .count = walk.is_in};
    if (go(&walk) && ret_visits->count > 0) {
        settle(&walk, whole.span.end);
    } else {
        *ret_visits = (struct ocr_visits){.items = {whole}, .count = 1};
    }
    for (int i = 0; i < ret_visits->count; i++) {
        struct ocr_span *span = &ret_visits->items[i].span;
        span->end = span->end > span->start ? span->end : span->start + 1;
    }
}
