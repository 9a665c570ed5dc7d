/* Which detection may continue which track, and how the picture moved in between. */
#pragma once

#include "common/text/merge_tracks.h"

/* The detections [begin, end) that begin in one frame, and how the picture moved up to it; 0, 0 where nobody
 * knows. */
struct cv_motion {
    int dx, dy;
    size_t begin, end;
};

struct cv_pair {
    size_t detection, track;
    int64_t cost; /* least first */
    enum cv_likeness likeness;
};

/* What may continue what, within one group. */
struct cv_pairs {
    struct cv_pair *items;
    size_t count, capacity;
    size_t *taken; /* per detection of the group */
    size_t taken_capacity;
};
void cv_pairs_deinit(struct cv_pairs *pairs);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_pairs, cv_pairs_deinit)

/* Of the detections [begin, end), from texts that are over and begin elsewhere. */
struct cv_motion cv_find_motion(struct cv_tracks *tracks, size_t begin, size_t end);

/* Appends the tracks that the detection may continue, or be the remains or a misreading of. */
CV_MUST_CHECK int cv_find_pairs(struct cv_tracks *tracks, size_t detection,
                                const struct cv_motion *motion, struct cv_pairs *pairs,
                                struct cv_error *error);

/* For qsort: the likeliest first. */
int cv_compare_pairs(const void *left, const void *right);
