/* Letters that stand in equal cells: terminals, code. There a blank is a cell without ink, and nothing else: where
 * Tesseract finds blanks around dots and brackets, whose ink fills little of their cells, it has
 * none, and addresses stay whole. */
#include "workers/ocr/frame.h"
#include "workers/ocr/words.h"

#include <math.h>
#include <string.h>

enum {
    CELLS_MIN = 28, /* of a line whose letters may stand in cells: in fewer, others do by chance */
    INK = 96,       /* levels below white that are ink, not noise beside it */
    ICON_CHARACTERS = 2, /* a line's first word may be an icon, which stands in no cell */
    FINE = 20,           /* steps of a pixel in which the width of a cell is looked for */
    NARROW = 60,         /* percent of a capital's height: no font's cells are narrower … */
    WIDE = 120,          /* … or wider: Menlo has 83, Courier 105 */
};

/* Ink at the borders of the cells, of that in the line on the average: on the real recordings 0.10 to 0.29 in
 * terminals and editors, 0.47 and more where letters have widths of their own. */
static const double BORDER_INK = 0.33;

/* Words are as long as their letters' cells, but for so much of the whole; a bit less, for letters are
 * narrower than cells. Lines that have little ink at some borders by chance fail here. */
static const double LENGTH_OFF = 0.12, NARROWER = 0.2;

/* How far from the middle between two words their blank may lie, in cells: Tesseract's boxes are rough. */
static const double BLANK_REACH = 1.5;

struct grid {
    double width, first; /* of a cell, and where the first one begins */
    double border;       /* share of ink at the borders; 1: no grid */
};

/* Ink in each column. */
static void add_up(const struct ocr_line_picture *line, uint32_t *columns)
{
    for (int y = 0; y < line->height; y++) {
        const uint8_t *row = line->grey + (size_t)y * (size_t)line->width;
        for (int x = 0; x < line->width; x++) {
            columns[x] += row[x] < 255 - INK ? 255U - row[x] : 0;
        }
    }
}

static double border_ink(const uint32_t *columns, int from, int to, double width, double first)
{
    double sum = 0;
    int count = 0;

    for (double x = first; x + 1 < to; x += width) {
        int at = (int)x;
        sum += at >= from ? (double)(columns[at] + columns[at + 1]) / 2 : 0;
        count++;
    }
    return count ? sum / count : 0;
}

/* The cells at whose borders there is least ink. */
static struct grid find_grid(const uint32_t *columns, int width, int tall)
{
    struct grid best = {.border = 1};
    int from = 0, to = width;
    double all = 0;

    while (from < to && !columns[from]) {
        from++;
    }
    while (to > from && !columns[to - 1]) {
        to--;
    }
    for (int x = from; x < to; x++) {
        all += columns[x];
    }
    double mean = all / ocr_max(to - from, 1);
    for (int step = tall * NARROW * FINE / 100; step <= tall * WIDE * FINE / 100; step++) {
        double cell = (double)step / FINE;
        if ((to - from) < CELLS_MIN * cell) {
            break;
        }
        for (double first = from - cell + 1; first <= from; first++) {
            double border = border_ink(columns, from, to, cell, first) / mean;
            if (border < best.border) {
                best = (struct grid){cell, first, border};
            }
        }
    }
    return best;
}

/* Whether a cell without ink lies about `middle`. */
static bool has_blank(const uint32_t *columns, int width, const struct grid *grid, double middle)
{
    int near = (int)floor((middle - grid->first) / grid->width);

    for (int cell = near - 2; cell <= near + 2; cell++) {
        double left = grid->first + cell * grid->width, ink = 0;
        if (fabs(left + grid->width / 2 - middle) > BLANK_REACH * grid->width) {
            continue;
        }
        for (int x = ocr_max((int)left + 1, 0); x < (int)(left + grid->width) && x < width; x++) {
            ink += columns[x];
        }
        if (ink == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the words are as long as their letters' cells. */
static bool fits(const struct ocr_words *words, const struct grid *grid)
{
    double off = 0, all = 0;

    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        double letters = (double)strlen(word->text);
        off += fabs((word->right - word->left) / grid->width + NARROWER - letters);
        all += letters;
    }
    return off <= LENGTH_OFF * all;
}

/* Puts the word behind the one at `index` to it. */
static int join_next(struct ocr_words *words, size_t index, struct cv_error *error)
{
    struct ocr_word *word = &words->items[index], *next = word + 1;
    double before = (double)strlen(word->text), behind = (double)strlen(next->text);
    char *joined = NULL;

    int result = cv_format(&joined, error, "%s%s", word->text, next->text);
    if (result < 0) {
        return result;
    }
    free(word->text);
    free(next->text);
    word->text = joined;
    word->right = next->right;
    word->sure = (word->sure * before + next->sure * behind) / (before + behind);
    word->letters = (word->letters * before + next->letters * behind) / (before + behind);
    words->count--;
    memmove(next, next + 1, (words->count - index - 1) * sizeof(*next));
    return 0;
}

int ocr_words_join_cells(struct ocr_words *words, const struct ocr_line_picture *line,
                         struct cv_error *error)
{
    if (words->count < 2 || line->width < CELLS_MIN * line->tall * NARROW / 100) {
        return 0;
    }
    cv_auto_free uint32_t *columns = calloc((size_t)line->width + 1, sizeof(*columns));
    if (!columns) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a line of %d pixels",
                       line->width);
    }
    add_up(line, columns);
    struct grid grid = find_grid(columns, line->width, line->tall);
    bool is_grid = grid.border <= BORDER_INK && fits(words, &grid);
    size_t first = strlen(words->items[0].text) <= ICON_CHARACTERS ? 1 : 0;
    int result = 0;
    for (size_t i = first; is_grid && i + 1 < words->count && result == 0;) {
        double middle = (words->items[i].right + words->items[i + 1].left) / 2.0;
        if (has_blank(columns, line->width, &grid, middle)) {
            i++;
        } else {
            result = join_next(words, i, error);
        }
    }
    return result;
}
