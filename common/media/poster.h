/* Chooses the picture that stands for a video. Private to common/media. */
#pragma once

#include "common/media/media.h"

struct cv_poster {
    AVFrame *best;
    double best_score;
    int64_t interval_us, next_us;
};

/* `duration_us` as far as it is known, else 0: candidates are spread over it. */
void cv_poster_init(struct cv_poster *poster, int64_t duration_us);
void cv_poster_deinit(struct cv_poster *poster);

/* Offers a picture (4:2:0, 8 bits); most are passed over at once. Keeps a reference to the best. */
CV_MUST_CHECK int cv_poster_offer(struct cv_poster *poster, const AVFrame *picture, int64_t pts_us,
                                  struct cv_error *error);

/* How much there is to see in a picture: 0 for one colour; grows with the variety of its tones
 * (entropy of the luma histogram, bits) and with its detail. */
double cv_poster_score(const AVFrame *picture);
