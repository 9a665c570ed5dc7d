/* What the parts of ink.c share: the levels of a region's pixels, and how they fall into two groups. */
#pragma once

#include "workers/ocr/ink.h"

enum { OCR_REACH_MIN = 40 /* levels of the weakest ink */ };

struct histogram {
    uint32_t count[256];
    uint32_t total;
};

/* Otsu's split of a histogram, and how good it is. */
struct split {
    int threshold; /* upper group: level > threshold */
    double low_mean, high_mean;
    double high_share; /* of the pixels */
    double quality;    /* between-group variance over variance, 0…1 */
};

/* The level that `share` of the pixels stay at or below. */
int ocr_quantile(const struct histogram *histogram, double share);

struct split ocr_otsu(const struct histogram *histogram);

static inline int darkest(const struct ocr_frame *frame, size_t at)
{
    return ocr_min(frame->plane[OCR_RED][at],
                   ocr_min(frame->plane[OCR_GREEN][at], frame->plane[OCR_BLUE][at]));
}

static inline int lightest(const struct ocr_frame *frame, size_t at)
{
    return ocr_max(frame->plane[OCR_RED][at],
                   ocr_max(frame->plane[OCR_GREEN][at], frame->plane[OCR_BLUE][at]));
}

/* Which of light and dark is the ink of a line on a picture, and its levels. */
void ocr_ink_on_picture(const struct ocr_frame *frame, const struct ocr_box *box,
                        struct ocr_ink *ink);
