#include "workers/segment_index/merge/place.h"

enum {
    /* Pixels by which the boxes of a line that stands still differ. */
    STILL_PIXELS = 4,
};

static int least(int a, int b)
{
    return a < b ? a : b;
}

int cv_apart_x(struct cv_box a, struct cv_box b)
{
    int left = abs(a.x - b.x);
    int right = abs(a.x + a.width - b.x - b.width);
    int centre = abs(2 * a.x + a.width - 2 * b.x - b.width) / 2;
    return least(left, least(right, centre));
}

bool cv_is_same_size(struct cv_box a, struct cv_box b)
{
    return abs(a.width - b.width) <= STILL_PIXELS && abs(a.height - b.height) <= STILL_PIXELS;
}

bool cv_is_same_place(struct cv_box a, struct cv_box b)
{
    int height = least(a.height, b.height);
    return abs(a.y - b.y) + abs(a.y + a.height - b.y - b.height) <= height &&
           cv_apart_x(a, b) <= height;
}

struct cv_box cv_moved(struct cv_box box, int dx, int dy)
{
    box.x += dx;
    box.y += dy;
    return box;
}

bool cv_is_within(struct cv_box whole, struct cv_box part)
{
    int slack = whole.height;
    return part.x >= whole.x - slack && part.x + part.width <= whole.x + whole.width + slack &&
           part.y + part.height / 2 >= whole.y - slack / 4 &&
           part.y + part.height / 2 <= whole.y + whole.height + slack / 4;
}

bool cv_times_touch(const struct cv_track *track, const struct cv_detection *next)
{
    return track->t_end_ms - next->t_start_ms <= CV_OVERLAP_MS &&
           next->t_start_ms - track->t_end_ms <= CV_MERGE_GAP_MS;
}

bool cv_has_paused(const struct cv_track *track, const struct cv_detection *next)
{
    return next->t_start_ms > track->t_end_ms + CV_OVERLAP_MS;
}

struct cv_box cv_end_of(const struct cv_detection *detection)
{
    bool stays = detection->end_box.width == 0 && detection->end_box.height == 0;
    return stays ? detection->box : detection->end_box;
}

bool cv_is_still(struct cv_box a, struct cv_box b)
{
    return abs(a.x - b.x) <= STILL_PIXELS && abs(a.y - b.y) <= STILL_PIXELS &&
           abs(a.height - b.height) <= STILL_PIXELS;
}

bool cv_is_double(const struct cv_tracks *tracks, const struct cv_track *track,
                  const struct cv_detection *next)
{
    struct cv_box first = tracks->detections[track->first].box;
    return track->t_end_ms > next->t_start_ms + CV_OVERLAP_MS &&
           cv_is_still(first, track->end_box) && cv_is_still(track->end_box, next->box) &&
           cv_is_still(next->box, cv_end_of(next));
}
