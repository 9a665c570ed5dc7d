/* How far the content of one picture has moved in another, to the pixel.
 *
 * A profile holds, for every row (or column) and eight bands across, how much goes on in it. Two
 * profiles are matched at the entries that differ at rest, so that furniture (status bar, tab bar)
 * has no vote; a quarter-size search proposes, the full size decides, and the caller verifies by
 * pixels. */
#pragma once

#include "common/base/base.h"

#include "workers/sample/gate.h"
#include "workers/sample/plane.h"

enum { SCROLL_BANDS = 8 };

enum scroll_axis { SCROLL_VERTICAL, SCROLL_HORIZONTAL };

struct scroll_profile {
    int length;       /* rows or columns */
    int32_t *value;   /* SCROLL_BANDS × length */
    int32_t *quarter; /* SCROLL_BANDS × (length / 4) */
};

CV_MUST_CHECK int scroll_profile_init(struct scroll_profile *profile, int length,
                                      struct cv_error *error);
void scroll_profile_deinit(struct scroll_profile *profile);
CV_DEFINE_CLEANUP_ADDRESS(struct scroll_profile, scroll_profile_deinit)

void scroll_profile_of(const struct plane *plane, enum scroll_axis axis,
                       struct scroll_profile *profile);

/* The displacement of `current` against `reference` (positive: down, right): near `predicted`
 * first, then anywhere. False when no displacement explains what differs. */
bool scroll_match(const struct scroll_profile *reference, const struct scroll_profile *current,
                  int predicted, int *ret_shift);

struct scroll_check {
    int matched;     /* changed blocks that the shift explains */
    int revealed;    /* changed blocks that came into view */
    int unexplained; /* the rest */
    int viewport;    /* pixels along the axis of what moves */
};

/* Verifies a shift by pixels, at the changed blocks of the last gate_compare of the same planes. */
void scroll_verify(const struct gate *gate, const struct gate_result *difference,
                   const struct plane *reference, const struct plane *current, int dx, int dy,
                   struct scroll_check *ret_check);

/* Two pictures that look the same: could the content have moved by dx, dy all the same, because it
 * repeats? `threshold` as gate_compare has learned it. */
bool scroll_repeats(const struct plane *reference, const struct plane *current, int threshold,
                    int dx, int dy);
