/* Histograms of levels, and their split into ink and paper. */
#pragma once

#include "common/screen/frame.h"

/* Levels between paper and the weakest ink. */
enum { CV_INK_REACH_MIN = 40 };

struct cv_histogram {
    uint32_t count[256];
    uint32_t total;
};

/* A split of a histogram, and how good it is. */
struct cv_split {
    int threshold; /* upper group: level > threshold */
    double low_mean, high_mean;
    double high_share; /* of the pixels */
    double quality;    /* between-group variance over variance, 0…1 */
};

/* The split of the greatest variance between its groups (N. Otsu, "A threshold selection method from
 * gray-level histograms", 1979). */
struct cv_split cv_otsu(const struct cv_histogram *histogram);

/* The level that `share` (0…1) of the pixels do not exceed. */
int cv_quantile(const struct cv_histogram *histogram, double share);

/* The level of pixel `at` that tells light ink from a picture of any colour: its darkest channel, or luma. */
static inline int cv_light_level(const struct cv_frame *frame, size_t at, bool by_luma)
{
    int darkest = cv_min(frame->plane[CV_RED][at],
                         cv_min(frame->plane[CV_GREEN][at], frame->plane[CV_BLUE][at]));

    return by_luma ? frame->plane[CV_LUMA][at] : darkest;
}

/* The same for dark ink: its lightest channel, or luma. */
static inline int cv_dark_level(const struct cv_frame *frame, size_t at, bool by_luma)
{
    int lightest = cv_max(frame->plane[CV_RED][at],
                          cv_max(frame->plane[CV_GREEN][at], frame->plane[CV_BLUE][at]));

    return by_luma ? frame->plane[CV_LUMA][at] : lightest;
}
