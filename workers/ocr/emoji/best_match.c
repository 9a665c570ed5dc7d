#include "workers/ocr/emoji/best_match.h"

#include "workers/ocr/emoji/mean_colours.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum {
    CANDIDATES = 24, /* of the coarse comparison that are looked at closely */
    VARIANTS = 6,    /* of the best one, that are tried shifted and stretched: the skin tones */
    RIVALS = 4,      /* and of the others */
    FINALISTS = VARIANTS + RIVALS,
    ASPECT_SLACK = 40, /* per cent by which width over height may differ */
};

/* Share of a picture's difference from its paper that the best emoji explains at the first look;
 * letters stay below, emoji are far above. */
static const double COARSE_MIN = 0.65;

/* From what an emoji is believed. Of 12,400 boxes in 24 recordings of real screens only discs, squares and one
 * magnifying glass pass all three limits. docs/design/text.md has the figures of generated emoji. */
static const double LIKE_MIN = 0.91;
/* What the best emoji may leave unexplained, by what the best other one does (Lowe's ratio test, 2004)… */
static const double RIVAL_REST = 0.6;
/* …and by what one colour does, which is all there is of an avatar, a badge or a button. */
static const double PLAIN_REST = 0.5;

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

/* What follows the skin tones, the sign that asks for a picture, and the sex in a text. */
static const char *skip_variant(const char *text)
{
    static const char *const signs[] = {"\U0001F3FB", "\U0001F3FC",   "\U0001F3FD",   "\U0001F3FE",
                                        "\U0001F3FF", "\u200D\u2640", "\u200D\u2642", "\uFE0F"};

    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        size_t length = strlen(signs[i]);
        if (strncmp(text, signs[i], length) == 0) {
            return skip_variant(text + length);
        }
    }
    return text;
}

/* Whether two emoji differ in nothing but the skin tone and the sex, or not at all. */
static bool is_variant(const char *left, const char *right)
{
    for (left = skip_variant(left), right = skip_variant(right); *left && *left == *right;) {
        left = skip_variant(left + 1);
        right = skip_variant(right + 1);
    }
    return *left == *right;
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

    if (abs(own - wanted->aspect) * 100 > cv_min(own, wanted->aspect) * ASPECT_SLACK) {
        return INFINITY;
    }
    double least =
        ocr_mean_colours_distance_least(&bank->quarters[entry], &wanted->quarters, wanted->paper);
    return least > enough
               ? least
               : ocr_mean_colours_distance(bank->coarse + entry * OCR_COARSE_CELLS * 4,
                                           wanted->cells, OCR_EMOJI_COARSE, wanted->paper, enough);
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

static size_t compare_coarsely(const struct ocr_emoji_banks *banks, const struct cv_frame *frame,
                               const uint8_t paper[3], const struct ocr_placing *placing,
                               struct candidate *best)
{
    struct wanted wanted = {.paper = paper,
                            .aspect = (int)(placing->width * 256 / placing->height)};
    size_t count = 0;

    ocr_mean_colours_measure(frame, placing, OCR_EMOJI_COARSE, wanted.cells);
    ocr_mean_colours_quarters(wanted.cells, &wanted.quarters);
    double all = ocr_mean_colours_energy(wanted.cells, OCR_COARSE_CELLS, paper);
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
                      const struct cv_frame *frame, const uint8_t paper[3],
                      const struct ocr_placing *placing, double *best)
{
    float cells[OCR_FINE_FLOATS];

    if (count == 0) {
        return;
    }
    ocr_mean_colours_measure(frame, placing, OCR_EMOJI_FINE, cells);
    double all = ocr_mean_colours_energy(cells, OCR_FINE_CELLS, paper);
    for (size_t i = 0; i < count && all > 0; i++) {
        const uint8_t *picture =
            candidates[i].bank->fine + candidates[i].entry * OCR_FINE_CELLS * 4;
        double enough = (1 - best[i]) * all * ROUNDING;
        double score =
            1 - ocr_mean_colours_distance(picture, cells, OCR_EMOJI_FINE, paper, enough) / all;
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
                          const struct cv_frame *frame, const uint8_t paper[3],
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
    double sums[3] = {0}, rest = 0, all = ocr_mean_colours_energy(cells, OCR_FINE_CELLS, paper);
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

/* The emoji are tried shifted and stretched, and so are the disc and the square: a pixel larger and smaller. */
static double plainness(const struct cv_frame *frame, const uint8_t paper[3],
                        const struct ocr_placing *placing)
{
    double most = 0;

    for (int grown = -1; grown <= 1; grown++) {
        struct ocr_placing here = {placing->x - grown, placing->y - grown,
                                   placing->width + 2 * grown, placing->height + 2 * grown};
        float cells[OCR_FINE_FLOATS];
        ocr_mean_colours_measure(frame, &here, OCR_EMOJI_FINE, cells);
        most = fmax(most, explained_by_one_colour(cells, paper, false));
        most = fmax(most, explained_by_one_colour(cells, paper, true));
    }
    return most;
}

static const char *text_of(const struct candidate *candidate)
{
    return ocr_emoji_text(candidate->bank, candidate->entry);
}

/* The best candidate with its variants, then its best rivals. */
static size_t choose_finalists(const struct candidate *candidates, size_t count,
                               struct candidate *finalists)
{
    struct candidate rivals[RIVALS];
    size_t variants = 0, rival_count = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_variant(text_of(&candidates[i]), text_of(&candidates[0]))) {
            enter(rivals, RIVALS, &rival_count, candidates[i]);
        } else if (variants < VARIANTS) {
            finalists[variants++] = candidates[i];
        }
    }
    memcpy(finalists + variants, rivals, rival_count * sizeof(*rivals));
    return variants + rival_count;
}

/* The best of the finalists, and the best of those that are another emoji. */
static void name_best(const struct candidate *finalists, const double *scores, size_t count,
                      struct ocr_emoji_match *match)
{
    for (size_t i = 0; i < count; i++) {
        if (scores[i] > match->score) {
            match->text = text_of(&finalists[i]);
            match->score = scores[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (scores[i] > match->rival && !is_variant(text_of(&finalists[i]), match->text)) {
            match->rival = scores[i];
        }
    }
}

/* Discs (also the new moon), squares and diamonds: half the icons and bullets of the world are one of them. */
static bool is_geometric(const char *text)
{
    static const struct {
        utf8proc_int32_t first, last;
    } shapes[] = {{0x25AA, 0x25FE},   {0x26AA, 0x26AB},   {0x2B1B, 0x2B1C},   {0x1F518, 0x1F518},
                  {0x1F532, 0x1F53D}, {0x1F7E0, 0x1F7EB}, {0x1F3F5, 0x1F3F5}, {0x1F311, 0x1F311}};
    utf8proc_int32_t point = 0;

    (void)utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
    for (size_t i = 0; i < CV_COUNT(shapes); i++) {
        if (point >= shapes[i].first && point <= shapes[i].last) {
            return true;
        }
    }
    return false;
}

bool ocr_emoji_is_sure(const struct ocr_emoji_match *match)
{
    double rest = 1 - match->score;

    return match->text && match->score >= LIKE_MIN && rest <= RIVAL_REST * (1 - match->rival) &&
           rest <= PLAIN_REST * (1 - match->plain) && !is_geometric(match->text);
}

struct ocr_emoji_match ocr_emoji_match(const struct ocr_emoji_banks *banks,
                                       const struct cv_frame *frame, const uint8_t paper[3],
                                       const struct cv_box *box)
{
    struct ocr_placing placing = {box->x, box->y, box->width, box->height};
    struct candidate coarse[CANDIDATES] = {{0}}, fine[CANDIDATES] = {{0}};
    struct candidate finalists[FINALISTS] = {{0}};
    double scores[CANDIDATES] = {0}, best[FINALISTS] = {0};
    struct ocr_emoji_match match = {.text = NULL};
    size_t fine_count = 0;

    if (box->width < OCR_EMOJI_COARSE || box->height < OCR_EMOJI_COARSE || frame->width < 2 ||
        frame->height < 2) {
        return match;
    }
    size_t count = compare_coarsely(banks, frame, paper, &placing, coarse);
    score_all(coarse, count, frame, paper, &placing, scores);
    for (size_t i = 0; i < count; i++) {
        coarse[i].distance = 1 - scores[i];
        enter(fine, CANDIDATES, &fine_count, coarse[i]);
    }
    size_t finalist_count = choose_finalists(fine, fine_count, finalists);
    score_shifted(finalists, finalist_count, frame, paper, placing, best);
    name_best(finalists, best, finalist_count, &match);
    match.plain = plainness(frame, paper, &placing);
    return match;
}
