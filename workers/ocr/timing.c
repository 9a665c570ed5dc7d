#include "workers/ocr/timing.h"

/* Pixels by which the edge of the viewport, learned from moving ink, may be short of the true one. */
enum { EDGE_SLACK = 1 };

struct limits {
    int top, bottom, left, right;
};

static bool inside(const struct limits *limits, const struct ocr_stretch *stretch, int x, int y)
{
    return y >= limits->top - EDGE_SLACK && y + stretch->height <= limits->bottom + EDGE_SLACK &&
           x >= limits->left - EDGE_SLACK && x + stretch->width <= limits->right + EDGE_SLACK;
}

/* Back from the first sighting over the source frames since the kept frame before it. */
static int64_t start_of(const struct ocr_timing *timings, const struct ocr_stretch *stretch,
                        const struct limits *limits)
{
    const struct ocr_timing *timing = &timings[stretch->first.frame];
    int64_t start = timing->t_start;
    int x = stretch->first.x, y = stretch->first.y;

    if (!timing->shift_known || !inside(limits, stretch, x, y) ||
        inside(limits, stretch, x - timing->dx, y - timing->dy)) {
        return start;
    }
    for (size_t i = timing->motion_count; i-- > 0;) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!inside(limits, stretch, x - timing->dx + at->dx, y - timing->dy + at->dy)) {
            break;
        }
        start = at->t_ms < start ? at->t_ms : start;
    }
    return start;
}

/* On from the last sighting over the source frames up to the next kept frame. */
static int64_t end_of(const struct ocr_timing *timings, size_t count,
                      const struct ocr_stretch *stretch, const struct limits *limits)
{
    int64_t end = timings[stretch->last.frame].t_end;
    size_t next = (size_t)stretch->last.frame + 1;
    int x = stretch->last.x, y = stretch->last.y;

    if (next >= count || !timings[next].shift_known) {
        return end;
    }
    const struct ocr_timing *timing = &timings[next];
    if (inside(limits, stretch, x + timing->dx, y + timing->dy)) {
        return end;
    }
    for (size_t i = 0; i < timing->motion_count; i++) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!inside(limits, stretch, x + at->dx, y + at->dy)) {
            return at->t_ms;
        }
    }
    return end;
}

void ocr_timing_of(const struct ocr_timing *timings, size_t count,
                   const struct ocr_stretch *stretch, const struct ocr_viewport *viewport,
                   const struct ocr_box *screen, int64_t *ret_start, int64_t *ret_end)
{
    struct limits limits = {screen->y, ocr_bottom(screen), screen->x, ocr_right(screen)};
    int64_t start = timings[stretch->first.frame].t_start;
    int64_t end = timings[stretch->last.frame].t_end;

    if (stretch->moves) {
        if (ocr_viewport_known(viewport)) {
            limits.top = viewport->top;
            limits.bottom = viewport->bottom;
        }
        start = start_of(timings, stretch, &limits);
        end = end_of(timings, count, stretch, &limits);
    }
    *ret_start = start;
    *ret_end = end > start ? end : start + 1;
}
