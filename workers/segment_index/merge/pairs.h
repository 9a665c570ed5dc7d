/* Which detection may continue which track, and how the picture moved in between. */
#pragma once

#include "workers/segment_index/merge/tracks.h"

/* The detections [begin, end) that begin in one frame, and how far the picture moved since the
 * frame before; 0, 0: not known. */
struct cv_motion {
    int dx, dy;
    size_t begin, end;
};

/* The cost from which on a pair's texts are readings of one text and not the same. */
enum { CV_PAIR_READING = 1000000 };

struct cv_pair {
    size_t detection, track;
    int64_t cost; /* least first */
};

/* The pairs of one group of detections: each with a track that it may continue. */
struct cv_pairs {
    struct cv_pair *items;
    size_t count, capacity;
    bool *is_taken; /* per detection of the group */
    size_t taken_capacity;
};
void cv_pairs_deinit(struct cv_pairs *pairs);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_pairs, cv_pairs_deinit)

/* How far the picture moved when the detections [begin, end) began, from texts that ended at one
 * place and began at another. */
struct cv_motion cv_find_motion(struct cv_tracks *tracks, size_t begin, size_t end);

/* Appends the tracks that the detection may continue. */
CV_MUST_CHECK int cv_find_pairs(struct cv_tracks *tracks, size_t detection,
                                const struct cv_motion *motion, struct cv_pairs *pairs,
                                struct cv_error *error);

/* For qsort: the likeliest first. */
int cv_compare_pairs(const void *left, const void *right);
