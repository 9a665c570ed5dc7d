#include "workers/ocr/emoji_match.h"

#include <string.h>

enum {
    CANDIDATES = 24,   /* of the coarse comparison that are looked at closely */
    FINALISTS = 6,     /* of those, that are tried shifted and stretched */
    POINTS = 2,        /* samples a side of a cell: a cell is one to four pixels */
    ASPECT_SLACK = 40, /* per cent by which width over height may differ */
};

/* Share of a picture's difference from its paper that the best emoji explains at the first look;
 * letters stay below, emoji are far above. */
static const double COARSE_MIN = 0.65;

struct candidate {
    const struct ocr_emoji_bank *bank;
    size_t entry;
    double distance;
};

struct placing {
    double x, y, width, height;
};

/* One channel between pixels; what lies outside of the frame is its border. */
static double level_at(const struct ocr_frame *frame, int channel, double x, double y)
{
    x = x < 0 ? 0 : x > frame->width - 1.001 ? frame->width - 1.001 : x;
    y = y < 0 ? 0 : y > frame->height - 1.001 ? frame->height - 1.001 : y;
    int left = (int)x, top = (int)y;
    double right_share = x - left, bottom_share = y - top;
    const uint8_t *at = frame->plane[channel] + (size_t)top * (size_t)frame->width + left;
    double upper = at[0] + right_share * (at[1] - at[0]);
    double lower = at[frame->width] + right_share * (at[frame->width + 1] - at[frame->width]);

    return upper + bottom_share * (lower - upper);
}

/* The picture as side × side cells of three means. */
static void sample(const struct ocr_frame *frame, const struct placing *placing, int side,
                   float *cells)
{
    double step_x = placing->width / (side * POINTS), step_y = placing->height / (side * POINTS);

    for (int row = 0; row < side; row++) {
        for (int column = 0; column < side; column++) {
            double sums[3] = {0};
            for (int i = 0; i < POINTS * POINTS; i++) {
                double x = placing->x - 0.5 + (column * POINTS + i % POINTS + 0.5) * step_x;
                double y = placing->y - 0.5 + (row * POINTS + i / POINTS + 0.5) * step_y;
                for (int c = 0; c < 3; c++) {
                    sums[c] += level_at(frame, c, x, y);
                }
            }
            for (int c = 0; c < 3; c++) {
                *cells++ = (float)(sums[c] / (POINTS * POINTS));
            }
        }
    }
}

/* Sum of squared differences between cells and an emoji on paper. */
static double distance(const uint8_t *emoji, const float *cells, int count, const uint8_t paper[3])
{
    float sum = 0;

    for (int i = 0; i < count; i++) {
        float bare = (float)(255 - emoji[4 * i + 3]) / 255;
        for (int c = 0; c < 3; c++) {
            float away = (float)emoji[4 * i + c] + bare * (float)paper[c] - cells[3 * i + c];
            sum += away * away;
        }
    }
    return sum;
}

/* How much the cells differ from bare paper. */
static double energy(const float *cells, int count, const uint8_t paper[3])
{
    double sum = 0;

    for (int i = 0; i < count; i++) {
        for (int c = 0; c < 3; c++) {
            double away = cells[3 * i + c] - paper[c];
            sum += away * away;
        }
    }
    return sum;
}

/* Keeps the best, in order. */
static void enter(struct candidate *best, size_t limit, size_t *count, struct candidate fresh)
{
    if (*count == limit && fresh.distance >= best[limit - 1].distance) {
        return;
    }
    size_t at = *count < limit ? (*count)++ : limit - 1;
    while (at > 0 && best[at - 1].distance > fresh.distance) {
        best[at] = best[at - 1];
        at--;
    }
    best[at] = fresh;
}

static size_t look_coarsely(const struct ocr_emoji_banks *banks, const struct ocr_frame *frame,
                            const uint8_t paper[3], const struct placing *placing,
                            struct candidate *best)
{
    enum { CELLS = OCR_EMOJI_COARSE * OCR_EMOJI_COARSE };
    int aspect = (int)(placing->width * 256 / placing->height);
    float cells[CELLS * 3];
    size_t count = 0;

    sample(frame, placing, OCR_EMOJI_COARSE, cells);
    double all = energy(cells, CELLS, paper);
    for (size_t b = 0; b < banks->count; b++) {
        const struct ocr_emoji_bank *bank = &banks->items[b];
        for (size_t i = 0; i < bank->count; i++) {
            int own = ocr_emoji_aspect(bank, i);
            if (abs(own - aspect) * 100 > ocr_min(own, aspect) * ASPECT_SLACK) {
                continue;
            }
            const uint8_t *picture = bank->coarse + i * CELLS * 4;
            enter(best, CANDIDATES, &count,
                  (struct candidate){bank, i, distance(picture, cells, CELLS, paper)});
        }
    }
    return count && best[0].distance <= (1 - COARSE_MIN) * all ? count : 0;
}

enum { FINE_CELLS = OCR_EMOJI_FINE * OCR_EMOJI_FINE };

static double look_closely(const struct candidate *candidate, const float *cells,
                           const uint8_t paper[3])
{
    return distance(candidate->bank->fine + candidate->entry * FINE_CELLS * 4, cells, FINE_CELLS,
                    paper);
}

/* Scores the candidates at one placing; `best` keeps the best score of each. */
static void score_all(const struct candidate *candidates, size_t count,
                      const struct ocr_frame *frame, const uint8_t paper[3],
                      const struct placing *placing, double *best)
{
    float cells[FINE_CELLS * 3];

    sample(frame, placing, OCR_EMOJI_FINE, cells);
    double all = energy(cells, FINE_CELLS, paper);
    for (size_t i = 0; i < count; i++) {
        double score = all > 0 ? 1 - look_closely(&candidates[i], cells, paper) / all : 0;
        best[i] = score > best[i] ? score : best[i];
    }
}

static double highest(const double *scores, size_t count)
{
    double high = 0;

    for (size_t i = 0; i < count; i++) {
        high = scores[i] > high ? scores[i] : high;
    }
    return high;
}

/* Moves one edge of the box after the other by a pixel, as long as that explains more. */
static void score_shifted(const struct candidate *finalists, size_t count,
                          const struct ocr_frame *frame, const uint8_t paper[3],
                          struct placing placing, double *best)
{
    enum { ROUNDS = 2, EDGES = 4 };

    score_all(finalists, count, frame, paper, &placing, best);
    for (int i = 0; i < ROUNDS * EDGES; i++) {
        for (int step = -1; step <= 1; step += 2) {
            struct placing moved = placing;
            double before = highest(best, count);
            moved.x += i % EDGES == 0 ? step : 0;
            moved.y += i % EDGES == 1 ? step : 0;
            moved.width += i % EDGES == 0 ? -step : i % EDGES == 2 ? step : 0;
            moved.height += i % EDGES == 1 ? -step : i % EDGES == 3 ? step : 0;
            score_all(finalists, count, frame, paper, &moved, best);
            placing = highest(best, count) > before ? moved : placing;
        }
    }
}

/* Whether a cell lies in the disc that fills the box. */
static bool in_disc(int cell)
{
    double x = (cell % OCR_EMOJI_FINE + 0.5) / OCR_EMOJI_FINE * 2 - 1;
    double y = (cell / OCR_EMOJI_FINE + 0.5) / OCR_EMOJI_FINE * 2 - 1;

    return x * x + y * y <= 1;
}

/* How much of the cells one colour explains, in the whole box or in its disc. */
static double explained_by_one_colour(const float *cells, const uint8_t paper[3], bool disc)
{
    double sums[3] = {0}, rest = 0, all = energy(cells, FINE_CELLS, paper);
    int inside = 0;

    for (int i = 0; i < FINE_CELLS; i++) {
        bool here = !disc || in_disc(i);
        inside += here;
        for (int c = 0; c < 3; c++) {
            sums[c] += here ? cells[3 * i + c] : 0;
        }
    }
    for (int i = 0; i < FINE_CELLS; i++) {
        for (int c = 0; c < 3; c++) {
            double model = !disc || in_disc(i) ? sums[c] / inside : paper[c];
            rest += (cells[3 * i + c] - model) * (cells[3 * i + c] - model);
        }
    }
    return all > 0 ? 1 - rest / all : 0;
}

static double plainness(const struct ocr_frame *frame, const uint8_t paper[3],
                        const struct placing *placing)
{
    float cells[FINE_CELLS * 3];

    sample(frame, placing, OCR_EMOJI_FINE, cells);
    double square = explained_by_one_colour(cells, paper, false);
    double disc = explained_by_one_colour(cells, paper, true);
    return square > disc ? square : disc;
}

struct ocr_emoji_match ocr_emoji_match(const struct ocr_emoji_banks *banks,
                                       const struct ocr_frame *frame, const uint8_t paper[3],
                                       const struct ocr_box *box)
{
    struct placing placing = {box->x, box->y, box->width, box->height};
    struct candidate candidates[CANDIDATES] = {{0}}, finalists[FINALISTS] = {{0}};
    double scores[CANDIDATES] = {0}, best[FINALISTS] = {0};
    struct ocr_emoji_match match = {NULL, 0, 0};
    size_t finalist_count = 0;

    if (box->width < OCR_EMOJI_COARSE || box->height < OCR_EMOJI_COARSE || frame->width < 2 ||
        frame->height < 2) {
        return match;
    }
    size_t count = look_coarsely(banks, frame, paper, &placing, candidates);
    score_all(candidates, count, frame, paper, &placing, scores);
    for (size_t i = 0; i < count; i++) {
        candidates[i].distance = 1 - scores[i];
        enter(finalists, FINALISTS, &finalist_count, candidates[i]);
    }
    score_shifted(finalists, finalist_count, frame, paper, placing, best);
    for (size_t i = 0; i < finalist_count; i++) {
        if (best[i] > match.score) {
            match.text = ocr_emoji_text(finalists[i].bank, finalists[i].entry);
            match.score = best[i];
        }
    }
    match.plain = plainness(frame, paper, &placing);
    return match;
}
