#include "workers/ocr/timing.h"

/* Pixels by which the edge of the viewport, learned from moving ink, may be short of the true one. */
enum { EDGE_SLACK = 1 };

struct limits {
    int top, bottom, left, right;
};

/* What has to be inside: the ink, or the ink with the space that its face leaves above and below. */
struct extent {
    int width, height;
    int above, below;
};

static bool inside(const struct limits *limits, const struct extent *extent, int x, int y)
{
    return y - extent->above >= limits->top - EDGE_SLACK &&
           y + extent->height + extent->below <= limits->bottom + EDGE_SLACK &&
           x >= limits->left - EDGE_SLACK && x + extent->width <= limits->right + EDGE_SLACK;
}

/* Back from the first sighting over the source frames since the kept frame before it. */
static int64_t start_of(const struct ocr_timing *timings, const struct ocr_stretch *stretch,
                        const struct extent *extent, const struct limits *limits)
{
    const struct ocr_timing *timing = &timings[stretch->first.frame];
    int64_t start = timing->t_start;
    int x = stretch->first.x, y = stretch->first.y;

    if (!timing->shift_known || !inside(limits, extent, x, y) ||
        inside(limits, extent, x - timing->dx, y - timing->dy)) {
        return start;
    }
    for (size_t i = timing->motion_count; i-- > 0;) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!inside(limits, extent, x - timing->dx + at->dx, y - timing->dy + at->dy)) {
            break;
        }
        start = at->t_ms < start ? at->t_ms : start;
    }
    return start;
}

/* On from the last sighting over the source frames up to the next kept frame. */
static int64_t end_of(const struct ocr_timing *timings, size_t count,
                      const struct ocr_stretch *stretch, const struct extent *extent,
                      const struct limits *limits)
{
    int64_t end = timings[stretch->last.frame].t_end;
    size_t next = (size_t)stretch->last.frame + 1;
    int x = stretch->last.x, y = stretch->last.y;

    if (next >= count || !timings[next].shift_known) {
        return end;
    }
    const struct ocr_timing *timing = &timings[next];
    if (inside(limits, extent, x + timing->dx, y + timing->dy)) {
        return end;
    }
    for (size_t i = 0; i < timing->motion_count; i++) {
        const struct ocr_motion *at = &timing->motion[i];
        if (!inside(limits, extent, x + at->dx, y + at->dy)) {
            return at->t_ms;
        }
    }
    return end;
}

/* On from the first sighting to the source frame that first showed all of the extent; false when
 * none up to the last sighting did, or nobody knows how the content moved. */
static bool find_entry(const struct ocr_timing *timings, const struct ocr_stretch *stretch,
                       const struct extent *extent, const struct limits *limits, int64_t *ret_start)
{
    int x = stretch->first.x, y = stretch->first.y;

    for (int frame = stretch->first.frame + 1; frame <= stretch->last.frame; frame++) {
        const struct ocr_timing *timing = &timings[frame];
        if (!timing->shift_known) {
            return false;
        }
        for (size_t i = 0; i < timing->motion_count; i++) {
            const struct ocr_motion *at = &timing->motion[i];
            if (inside(limits, extent, x + at->dx, y + at->dy)) {
                *ret_start = at->t_ms;
                return true;
            }
        }
        x += timing->dx;
        y += timing->dy;
        if (inside(limits, extent, x, y)) {
            *ret_start = timing->t_start;
            return true;
        }
    }
    return false;
}

/* Back from the last sighting to the source frame in which the extent ceased to be shown whole. */
static bool find_exit(const struct ocr_timing *timings, const struct ocr_stretch *stretch,
                      const struct extent *extent, const struct limits *limits, int64_t *ret_end)
{
    int x = stretch->last.x, y = stretch->last.y;

    for (int frame = stretch->last.frame; frame > stretch->first.frame; frame--) {
        const struct ocr_timing *timing = &timings[frame];
        int64_t end = timing->t_start;
        if (!timing->shift_known) {
            return false;
        }
        x -= timing->dx;
        y -= timing->dy;
        for (size_t i = timing->motion_count; i-- > 0;) {
            const struct ocr_motion *at = &timing->motion[i];
            if (inside(limits, extent, x + at->dx, y + at->dy)) {
                *ret_end = end;
                return true;
            }
            end = at->t_ms;
        }
        if (inside(limits, extent, x, y)) {
            *ret_end = end;
            return true;
        }
    }
    return false;
}

/* The time in which all of the extent was inside; false when it never was. */
static bool time_extent(const struct ocr_timing *timings, size_t count,
                        const struct ocr_stretch *stretch, const struct extent *extent,
                        const struct limits *limits, int64_t *ret_start, int64_t *ret_end)
{
    if (inside(limits, extent, stretch->first.x, stretch->first.y)) {
        *ret_start = start_of(timings, stretch, extent, limits);
    } else if (!find_entry(timings, stretch, extent, limits, ret_start)) {
        return false;
    }
    if (inside(limits, extent, stretch->last.x, stretch->last.y)) {
        *ret_end = end_of(timings, count, stretch, extent, limits);
        return true;
    }
    return find_exit(timings, stretch, extent, limits, ret_end);
}

/* Where no edge cuts, the moving rows end with the ink itself, and no space is missing there. */
static struct extent face_of(const struct ocr_stretch *stretch, const struct ocr_viewport *viewport)
{
    bool known = ocr_viewport_known(viewport);
    bool top = !known || viewport->top_cuts > 0;
    bool bottom = !known || viewport->bottom_cuts > 0;

    return (struct extent){stretch->width, stretch->height, top ? stretch->above : 0,
                           bottom ? stretch->below : 0};
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
        struct extent ink = {stretch->width, stretch->height, 0, 0};
        struct extent face = face_of(stretch, viewport);
        if (!time_extent(timings, count, stretch, &face, &limits, &start, &end)) {
            start = start_of(timings, stretch, &ink, &limits);
            end = end_of(timings, count, stretch, &ink, &limits);
        }
    }
    *ret_start = start;
    *ret_end = end > start ? end : start + 1;
}
