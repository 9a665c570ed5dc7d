/* What is ink and what is paper in a line: polarity, the colour mapping with the best contrast, and
 * grey crops, dark on light, that Tesseract reads and that the tracker compares. */
#pragma once

#include "common/screen/find_lines.h"

enum cv_ink_kind {
    CV_INK_FLAT,  /* plain paper: ink is whatever differs from it, in any colour */
    CV_INK_LIGHT, /* light ink on a picture: the darkest channel tells it from any colour */
    CV_INK_DARK,  /* dark ink on a picture: the lightest channel */
};

enum { CV_INK_PARTS = 96 }; /* of a line, from left to right, with levels of their own */

/* The luma of paper and of the strongest ink in one part of a line. */
struct cv_ink_levels {
    uint8_t paper, ink;
};

/* A mapping from colours to grey; plain data. */
struct cv_ink {
    enum cv_ink_kind kind;
    /* CV_INK_FLAT by luma: each part has its own contrast, so that a word in a dark colour and one on a
     * mark are as black as the others. */
    struct cv_ink_levels parts[CV_INK_PARTS];
    int part_count, part_width; /* the last part may be wider */
    int left;                   /* pixels from where the mapped box begins to where the parts do */
    uint8_t paper[3];           /* red, green, blue; CV_INK_FLAT */
    bool by_luma;               /* luma tells ink from paper, and is sharper than the colours */
    int low, high;  /* levels that become black … white (or the distance that becomes black) */
    bool light;     /* the ink is lighter than the paper */
    bool is_faint;  /* by cv_ink_measure_faint */
    double clarity; /* 0…1: how far the pixels fall into two groups; clean text is above 0.7 */
};

/* Measures the pixels of `box` and a narrow ring around it. The parts begin at the box. `is_light`: what
 * was found there is lighter than its paper. */
void cv_ink_measure(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                    struct cv_ink *ret_ink);

/* The same of a faint line. Only on plain paper can there be one: else the ink has no contrast. */
void cv_ink_measure_faint(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                          struct cv_ink *ret_ink);

/* Whether ink and paper are far enough apart, and clean enough, for text. */
bool cv_ink_is_clear(const struct cv_ink *ink);

/* Maps the pixels of `box` to grey (0 ink … 255 paper), box.width bytes a row. What lies outside of
 * the frame is paper. `margin`: pixels of the box on the left of the one that `ink->left` counts from. */
void cv_ink_apply(const struct cv_ink *ink, const struct cv_frame *frame, const struct cv_box *box,
                  int margin, uint8_t *grey);

/* Levels by which pixel `at` of a frame differs from the paper: in the channel where it differs most. CV_INK_FLAT. */
static inline int cv_ink_distance(const struct cv_ink *ink, const struct cv_frame *frame, size_t at)
{
    int red = abs(frame->plane[CV_RED][at] - ink->paper[0]);
    int green = abs(frame->plane[CV_GREEN][at] - ink->paper[1]);
    int blue = abs(frame->plane[CV_BLUE][at] - ink->paper[2]);

    return cv_max(red, cv_max(green, blue));
}
