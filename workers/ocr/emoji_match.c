#include "workers/ocr/emoji_match.h"

#include "workers/ocr/emoji_cells.h"

#include <float.h>
#include <math.h>

enum {
    CANDIDATES = 24,   /* of the coarse comparison that are looked at closely */
    FINALISTS = 6,     /* of those, that are tried shifted and stretched */
    ASPECT_SLACK = 40, /* per cent by which width over height may differ */
};

/* Share of a picture's difference from its paper that the best emoji explains at the first look;
 * letters stay below, emoji are far above. */
static const double COARSE_MIN = 0.65;

/* More than the rounding of a score, so that none that is the best is given up early. */
static const double ROUNDING = 1.000001;

struct candidate {
    const struct ocr_emoji_bank *bank;
    size_t entry;
    double distance;
};

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

/* What is looked for, at the coarse size. */
struct wanted {
    const uint8_t *paper;
    int aspect;
    float cells[OCR_COARSE_FLOATS];
    struct ocr_emoji_quarters quarters;
};

/* The distance of an emoji; some value above `enough` where it is above that. */
static double coarse_distance(const struct wanted *wanted, const struct ocr_emoji_bank *bank,
                              size_t entry, double enough)
{
    int own = ocr_emoji_aspect(bank, entry);

    if (abs(own - wanted->aspect) * 100 > ocr_min(own, wanted->aspect) * ASPECT_SLACK) {
        return INFINITY;
    }
    double least =
        ocr_cells_distance_least(&bank->quarters[entry], &wanted->quarters, wanted->paper);
    return least > enough
               ? least
               : ocr_cells_distance(bank->coarse + entry * OCR_COARSE_CELLS * 4, wanted->cells,
                                    OCR_EMOJI_COARSE, wanted->paper, enough);
}

/* Most of what is asked for is no emoji, and then a look at the quarters is nearly all it costs. */
static bool is_any_near(const struct ocr_emoji_banks *banks, const struct wanted *wanted,
                        double enough)
{
    for (size_t b = 0; b < banks->count; b++) {
        for (size_t i = 0; i < banks->items[b].count; i++) {
            if (coarse_distance(wanted, &banks->items[b], i, enough) <= enough) {
                return true;
            }
        }
    }
    return false;
}

static size_t look_coarsely(const struct ocr_emoji_banks *banks, const struct ocr_frame *frame,
                            const uint8_t paper[3], const struct ocr_placing *placing,
                            struct candidate *best)
{
    struct wanted wanted = {.paper = paper,
                            .aspect = (int)(placing->width * 256 / placing->height)};
    size_t count = 0;

    ocr_cells_take(frame, placing, OCR_EMOJI_COARSE, wanted.cells);
    ocr_cells_quarters(wanted.cells, &wanted.quarters);
    double all = ocr_cells_energy(wanted.cells, OCR_COARSE_CELLS, paper);
    if (!is_any_near(banks, &wanted, (1 - COARSE_MIN) * all)) {
        return 0;
    }
    for (size_t b = 0; b < banks->count; b++) {
        const struct ocr_emoji_bank *bank = &banks->items[b];
        for (size_t i = 0; i < bank->count; i++) {
            double enough = count == CANDIDATES ? best[count - 1].distance : DBL_MAX;
            double distance = coarse_distance(&wanted, bank, i, enough);
            if (distance < enough) {
                enter(best, CANDIDATES, &count, (struct candidate){bank, i, distance});
            }
        }
    }
    return count;
}

/* Scores the candidates at one placing; `best` keeps the best score of each. */
static void score_all(const struct candidate *candidates, size_t count,
                      const struct ocr_frame *frame, const uint8_t paper[3],
                      const struct ocr_placing *placing, double *best)
{
    float cells[OCR_FINE_FLOATS];

    if (count == 0) {
        return;
    }
    ocr_cells_take(frame, placing, OCR_EMOJI_FINE, cells);
    double all = ocr_cells_energy(cells, OCR_FINE_CELLS, paper);
    for (size_t i = 0; i < count && all > 0; i++) {
        const uint8_t *picture =
            candidates[i].bank->fine + candidates[i].entry * OCR_FINE_CELLS * 4;
        double enough = (1 - best[i]) * all * ROUNDING;
        double score = 1 - ocr_cells_distance(picture, cells, OCR_EMOJI_FINE, paper, enough) / all;
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
                          struct ocr_placing placing, double *best)
{
    enum { ROUNDS = 2, EDGES = 4 };

    score_all(finalists, count, frame, paper, &placing, best);
    for (int i = 0; i < ROUNDS * EDGES; i++) {
        for (int step = -1; step <= 1; step += 2) {
            struct ocr_placing moved = placing;
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
    int line = cell / OCR_EMOJI_FINE;
    double y = (line + 0.5) / OCR_EMOJI_FINE * 2 - 1;

    return x * x + y * y <= 1;
}

/* How much of the cells one colour explains, in the whole box or in its disc. */
static double explained_by_one_colour(const float *cells, const uint8_t paper[3], bool disc)
{
    double sums[3] = {0}, rest = 0, all = ocr_cells_energy(cells, OCR_FINE_CELLS, paper);
    int inside = 0;

    for (int i = 0; i < OCR_FINE_CELLS; i++) {
        bool here = !disc || in_disc(i);
        inside += here;
        for (int c = 0; c < 3; c++) {
            sums[c] += here ? cells[3 * i + c] : 0;
        }
    }
    for (int i = 0; i < OCR_FINE_CELLS; i++) {
        for (int c = 0; c < 3; c++) {
            double model = !disc || in_disc(i) ? sums[c] / inside : paper[c];
            rest += (cells[3 * i + c] - model) * (cells[3 * i + c] - model);
        }
    }
    return all > 0 ? 1 - rest / all : 0;
}

static double plainness(const struct ocr_frame *frame, const uint8_t paper[3],
                        const struct ocr_placing *placing)
{
    float cells[OCR_FINE_FLOATS];

    ocr_cells_take(frame, placing, OCR_EMOJI_FINE, cells);
    double square = explained_by_one_colour(cells, paper, false);
    double disc = explained_by_one_colour(cells, paper, true);
    return square > disc ? square : disc;
}

struct ocr_emoji_match ocr_emoji_match(const struct ocr_emoji_banks *banks,
                                       const struct ocr_frame *frame, const uint8_t paper[3],
                                       const struct ocr_box *box)
{
    struct ocr_placing placing = {box->x, box->y, box->width, box->height};
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
