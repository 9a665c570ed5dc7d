#include "workers/ocr/tracks/timing.h"

enum {
    /* Pixels by which the edge of a pane, learned from moving ink, may be short of the true one. */
    EDGE_SLACK = 1,
    /* Part of a line's height by which its steps may lead past where it was last seen: as much as the
     * boxes of two rows that are joined differ (interruptions.c). */
    ASTRAY = 3,
};

/* A line on its way: all that the questions below are asked of. */
struct stretch_path {
    const struct ocr_course *course;
    const struct ocr_stretch *stretch;
};

static struct cv_box box_at(const struct stretch_path *path, int x, int y)
{
    return (struct cv_box){x, y, path->stretch->width, path->stretch->height};
}

/* The pane, if the line at x, y moves with it. */
static const struct cv_pane *moving(const struct stretch_path *path, int pane, int x, int y)
{
    struct cv_box box = box_at(path, x, y);

    return cv_panes_move(path->course->panes, pane, &path->stretch->places, &box)
               ? cv_panes_get(path->course->panes, pane)
               : NULL;
}

/* The pane that moves the line in the step to `frame`, before which it was at x, y; NULL: none. */
static const struct cv_pane *moves_it(const struct stretch_path *path, size_t frame, int x, int y)
{
    return frame < path->course->count && path->course->timings[frame].shift_known
               ? moving(path, cv_panes_at(path->course->panes, frame), x, y)
               : NULL;
}

static bool inside(const struct stretch_path *path, const struct cv_pane *pane, int x, int y)
{
    const struct ocr_stretch *stretch = path->stretch;
    const struct cv_box *screen = &path->course->screen;
    int top = pane ? pane->top : screen->y, bottom = pane ? pane->bottom : cv_box_bottom(screen);

    return y >= top - EDGE_SLACK && y + stretch->height <= bottom + EDGE_SLACK &&
           x >= screen->x - EDGE_SLACK && x + stretch->width <= cv_box_right(screen) + EDGE_SLACK;
}

static bool covers(const struct stretch_path *path, const struct cv_pane *pane, int x, int y)
{
    struct cv_box box = box_at(path, x, y);

    return cv_pane_covers(pane, &box);
}

/* The same on the way between two sightings, where nobody saw whether something lay over it. Where the
 * line itself was `seen`, nothing did, whatever is thought of that place. */
static bool shown(const struct stretch_path *path, const struct cv_pane *pane, int x, int y,
                  const struct ocr_sighting *seen)
{
    return inside(path, pane, x, y) &&
           (!covers(path, pane, x, y) || covers(path, pane, seen->x, seen->y));
}

/* Back from the first sighting over the source frames since the kept frame before it. */
static int64_t start_of(const struct stretch_path *path)
{
    const struct ocr_sighting *first = &path->stretch->first;
    const struct ocr_timing *timing = &path->course->timings[first->frame];
    int x = first->x - timing->dx, y = first->y - timing->dy;
    int64_t start = timing->t_start;
    const struct cv_pane *pane = moves_it(path, (size_t)first->frame, first->x, first->y);

    if (!pane || !inside(path, pane, first->x, first->y)) {
        return start;
    }
    if (shown(path, pane, x, y, first)) {
        /* The kept frame before did not show it: it came while the content moved, as in a chat. */
        return timing->motion_count ? timing->motion[0].t_ms : start;
    }
    for (size_t i = timing->motion_count; i-- > 0;) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!shown(path, pane, x + at->dx, y + at->dy, first)) {
            break;
        }
        start = at->t_ms < start ? at->t_ms : start;
    }
    return start;
}

/* On from the last sighting over the source frames up to the next kept frame. */
static int64_t end_of(const struct stretch_path *path)
{
    const struct ocr_sighting *last = &path->stretch->last;
    size_t next = (size_t)last->frame + 1;
    int64_t end = path->course->timings[last->frame].t_end;
    const struct cv_pane *pane = moves_it(path, next, last->x, last->y);

    if (!pane) {
        return end;
    }
    const struct ocr_timing *timing = &path->course->timings[next];
    if (shown(path, pane, last->x + timing->dx, last->y + timing->dy, last)) {
        return end;
    }
    for (size_t i = 0; i < timing->motion_count; i++) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!shown(path, pane, last->x + at->dx, last->y + at->dy, last)) {
            return at->t_ms;
        }
    }
    return end;
}

/* The pane whose edges a sighting lies within. */
static const struct cv_pane *pane_of(const struct stretch_path *path,
                                     const struct ocr_sighting *sighting)
{
    return moving(path, cv_panes_near(path->course->panes, (size_t)sighting->frame), sighting->x,
                  sighting->y);
}

static bool begins_whole(const struct stretch_path *path)
{
    const struct ocr_sighting *first = &path->stretch->first;
    const struct cv_pane *pane = pane_of(path, first);

    return inside(path, pane, first->x, first->y) &&
           !(path->stretch->pieced && covers(path, pane, first->x, first->y));
}

static bool ends_whole(const struct stretch_path *path)
{
    const struct ocr_sighting *last = &path->stretch->last;

    return inside(path, pane_of(path, last), last->x, last->y);
}

/* A line that is followed from its first sighting to its last one. */
struct walk {
    const struct stretch_path *path;
    struct ocr_visits *visits;
    struct cv_point at;
    bool is_in;      /* all of it is visible there */
    bool is_sighted; /* the last visit has a kept frame */
};

static struct ocr_visit *last_of(const struct walk *walk)
{
    return &walk->visits->items[cv_max(walk->visits->count, 1) - 1];
}

/* Records whether all of the line was visible from `t_ms` on. What is thought to lie over its way counts until
 * it was seen whole. A visit without a kept frame is replaced by the next one. */
static void record_visibility(struct walk *walk, const struct cv_pane *pane, int x, int y,
                              int64_t t_ms)
{
    struct ocr_visits *visits = walk->visits;
    bool is_in =
        inside(walk->path, pane, x, y) && (visits->count > 0 || !covers(walk->path, pane, x, y));

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

/* Records where the line is in a kept frame. */
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
    const struct stretch_path *path = walk->path;
    const struct ocr_stretch *stretch = path->stretch;

    sight(walk, stretch->first.frame);
    for (int frame = stretch->first.frame + 1; frame <= stretch->last.frame; frame++) {
        const struct ocr_timing *timing = &path->course->timings[frame];
        const struct cv_pane *pane = moves_it(path, (size_t)frame, walk->at.x, walk->at.y);
        if (!timing->shift_known) {
            return false;
        }
        for (size_t i = 0; pane && i < timing->motion_count; i++) {
            const struct ocr_motion *moved = &timing->motion[i];
            record_visibility(walk, pane, walk->at.x + moved->dx, walk->at.y + moved->dy,
                              moved->t_ms);
        }
        if (pane) {
            walk->at.x += timing->dx;
            walk->at.y += timing->dy;
            record_visibility(walk, pane, walk->at.x, walk->at.y, timing->t_start);
        }
        sight(walk, frame);
    }
    return true;
}

/* Whether the walk led to where the line was last seen. */
static bool is_there(const struct walk *walk)
{
    const struct ocr_stretch *stretch = walk->path->stretch;
    int slack = stretch->height / ASTRAY;

    return abs(walk->at.x - stretch->last.x) <= slack && abs(walk->at.y - stretch->last.y) <= slack;
}

/* Ends the last visit, and joins all visits where they are doubtful. */
static void settle(struct walk *walk, int64_t end)
{
    const struct ocr_stretch *stretch = walk->path->stretch;
    struct ocr_visits *visits = walk->visits;

    visits->count -= visits->count > 1 && !walk->is_sighted;
    if (walk->is_in || ends_whole(walk->path)) {
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
    struct stretch_path path = {course, stretch};
    struct walk walk = {.path = &path,
                        .visits = ret_visits,
                        .at = {stretch->first.x, stretch->first.y},
                        .is_in = begins_whole(&path)};
    struct ocr_visit whole = {{start_of(&path), end_of(&path)}, stretch->first, stretch->last};

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
