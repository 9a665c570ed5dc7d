#include "common/media/poster.h"

#include <math.h>

enum {
    CANDIDATES = 24, /* looked at over the whole video */
    INTERVAL_MIN_US = 200 * 1000,
    INTERVAL_UNKNOWN_US = 2 * 1000 * 1000,
    GRID = 192, /* samples a side: text lines are still seen, and it costs nothing */
    TONES = 256,
};

void cv_poster_init(struct cv_poster *poster, int64_t duration_us)
{
    int64_t interval = duration_us > 0 ? duration_us / CANDIDATES : INTERVAL_UNKNOWN_US;
    *poster = (struct cv_poster){
        .best_score = -1,
        .interval_us = interval < INTERVAL_MIN_US ? INTERVAL_MIN_US : interval,
    };
}

void cv_poster_deinit(struct cv_poster *poster)
{
    av_frame_free(&poster->best);
}

double cv_poster_score(const AVFrame *picture)
{
    int columns = picture->width < GRID ? picture->width : GRID;
    int rows = picture->height < GRID ? picture->height : GRID;
    int histogram[TONES] = {0};
    int64_t detail = 0;
    for (int row = 0; row < rows; row++) {
        int y = (int)((int64_t)row * picture->height / rows);
        const uint8_t *line = picture->data[0] + (ptrdiff_t)y * picture->linesize[0];
        for (int column = 0; column < columns; column++) {
            int x = (int)((int64_t)column * picture->width / columns);
            histogram[line[x]]++;
            detail += x > 0 ? abs(line[x] - line[x - 1]) : 0;
        }
    }
    double count = (double)columns * rows, entropy = 0;
    for (int tone = 0; tone < TONES; tone++) {
        if (histogram[tone] > 0) {
            double share = histogram[tone] / count;
            entropy -= share * log2(share);
        }
    }
    return entropy + log2(1.0 + (double)detail / count);
}

int cv_poster_offer(struct cv_poster *poster, const AVFrame *picture, int64_t pts_us,
                    struct cv_error *error)
{
    if (poster->best && pts_us < poster->next_us) {
        return 0;
    }
    poster->next_us = pts_us + poster->interval_us;
    double score = cv_poster_score(picture);
    if (score <= poster->best_score) {
        return 0;
    }
    AVFrame *best = av_frame_clone(picture);
    if (!best) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a poster");
    }
    av_frame_free(&poster->best);
    poster->best = best;
    poster->best_score = score;
    return 0;
}
