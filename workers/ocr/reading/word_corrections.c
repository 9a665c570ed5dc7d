/* Letters that stand in equal cells: terminals, code. There a blank is a cell without a letter, and nothing else: where
 * Tesseract finds blanks around dots and brackets, whose ink fills little of their cells, it has
 * none, and addresses stay whole. A cell has one letter: of two that were read in it, one is a misreading. */
#include "workers/ocr/reading/word_corrections.h"

#include "common/screen/screen.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
    LETTERS_MIN = 14, /* of a line whose letters may stand in cells: fewer do by chance */
    SEARCHED = 8,     /* percent around the middle step from letter to letter … */
    FINE = 2000,      /* … in so many parts of a step */
    STEP_OFF = 5,     /* a step is the middle one when it differs by one in so many */
};

/* Of 624 lines of the real recordings: share of the steps that are the middle one, 0.87 to 1 in terminals and editors
 * and 0.8 at most in nearly all others; and how much the letters' middles agree on where in its cell a letter
 * stands, 0.87 to 1, elsewhere 0.84 at most. */
static const double STEPS_EQUAL = 0.86, AGREEMENT = 0.86;

struct grid {
    double width, first; /* of a cell, and the middle of one */
};

static double middle_of(const struct ocr_symbol *symbol)
{
    return (symbol->left + symbol->right) / 2.0;
}

static long cell_at(const struct grid *grid, double x)
{
    return lround((x - grid->first) / grid->width);
}

static long cell_of(const struct grid *grid, const struct ocr_symbol *symbol)
{
    return cell_at(grid, middle_of(symbol));
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The middle one of the steps from letter to letter within words; 0 where most are not like it. */
static double usual_step(const struct ocr_words *words, double *steps)
{
    size_t count = 0, equal = 0;

    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        const struct ocr_symbol *symbols = words->symbols + word->first_symbol;
        for (size_t k = 1; k < word->symbol_count; k++) {
            steps[count++] = middle_of(&symbols[k]) - middle_of(&symbols[k - 1]);
        }
    }
    if (!count) {
        return 0;
    }
    qsort(steps, count, sizeof(*steps), compare_doubles);
    double step = steps[count / 2];
    for (size_t i = 0; i < count; i++) {
        equal += fabs(steps[i] - step) * STEP_OFF <= step;
    }
    return (double)equal >= STEPS_EQUAL * (double)count ? step : 0;
}

/* The cells in whose middles the letters stand: the width at which the letters' places, as angles of a circle as
 * wide, point most in one direction. False where there are none. */
static bool find_grid(const struct ocr_words *words, double step, struct grid *ret_grid)
{
    const double turn = 2 * acos(-1);
    double best = 0;
    size_t count = words->symbol_count;

    for (int part = -FINE * SEARCHED / 100; part <= FINE * SEARCHED / 100; part++) {
        double width = step * (1 + (double)part / FINE), right = 0, up = 0;
        for (size_t i = 0; i < count; i++) {
            double angle = turn * middle_of(&words->symbols[i]) / width;
            right += cos(angle);
            up += sin(angle);
        }
        double length = hypot(right, up) / (double)count;
        if (length > best) {
            best = length;
            *ret_grid = (struct grid){width, atan2(up, right) / turn * width};
        }
    }
    return best >= AGREEMENT;
}

/* Puts the text of a word together from its letters. */
static int write_word(const struct ocr_words *words, struct ocr_word *word, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    char *joined = NULL;

    for (size_t i = 0; i < word->symbol_count; i++) {
        cv_buffer_text(&text, words->symbols[word->first_symbol + i].text);
    }
    CV_TRY(cv_buffer_detach(&text, &joined, error));
    free(word->text);
    word->text = joined;
    return 0;
}

/* Chooses one of two letters in one cell: not a letter that stands in the cell `before`, too
 * (NULL: there is none), because it was read twice; otherwise the surer one. Two quotes become a
 * quotation mark. */
static struct ocr_symbol one_of(const struct ocr_symbol *before, const struct ocr_symbol *a,
                                const struct ocr_symbol *b)
{
    bool is_twice = before && strcmp(before->text, a->text) == 0;
    struct ocr_symbol one = a->sure >= b->sure && !is_twice ? *a : *b;

    if (strcmp(a->text, b->text) == 0 && strchr("'`", a->text[0])) {
        (void)snprintf(one.text, sizeof(one.text), "\"");
    }
    one.left = cv_min(a->left, b->left);
    one.right = cv_max(a->right, b->right);
    return one;
}

static bool is_dash(const char *text)
{
    return strcmp(text, "–") == 0 || strcmp(text, "—") == 0;
}

/* Whether two letters were read from one thing in one cell. Underscores that touch may share a
 * box of two cells, and beside a blank that is not there letters may have boxes of one pixel,
 * which say nothing. */
static bool is_one_cell(const struct grid *grid, const struct ocr_symbol *a,
                        const struct ocr_symbol *b)
{
    int width = cv_max(a->right, b->right) - cv_min(a->left, b->left);
    int narrow = cv_min(a->right - a->left, b->right - b->left);
    return b->left < a->right && narrow * 10 >= grid->width && width * 5 <= grid->width * 6 &&
           cell_of(grid, a) == cell_of(grid, b);
}

/* Leaves one letter in each cell of a word, and no dashes in it but hyphens. */
static int clear_cells(struct ocr_words *words, const struct grid *grid, struct ocr_word *word,
                       struct cv_error *error)
{
    struct ocr_symbol *symbols = words->symbols + word->first_symbol;
    size_t kept = 0;

    for (size_t i = 0; i < word->symbol_count; i++) {
        struct ocr_symbol symbol = symbols[i];
        if (kept && is_one_cell(grid, &symbols[kept - 1], &symbol)) {
            kept--;
            symbol = one_of(kept ? &symbols[kept - 1] : NULL, &symbols[kept], &symbol);
        }
        if (kept && i + 1 < word->symbol_count && is_dash(symbol.text)) {
            (void)snprintf(symbol.text, sizeof(symbol.text), "-");
        }
        symbols[kept++] = symbol;
    }
    word->symbol_count = kept;
    return write_word(words, word, error);
}

int ocr_words_join_next(struct ocr_words *words, size_t index, struct cv_error *error)
{
    struct ocr_word *word = &words->items[index], *next = word + 1;
    double before = (double)word->symbol_count, behind = (double)next->symbol_count;

    memmove(words->symbols + word->first_symbol + word->symbol_count,
            words->symbols + next->first_symbol, next->symbol_count * sizeof(*words->symbols));
    word->symbol_count += next->symbol_count;
    word->right = next->right;
    word->sure = (word->sure * before + next->sure * behind) / (before + behind);
    free(next->text);
    words->count--;
    memmove(next, next + 1, (words->count - index - 1) * sizeof(*next));
    return write_word(words, word, error);
}

/* Whether no cell lies between two words. */
static bool is_joined(const struct ocr_words *words, const struct grid *grid, size_t index)
{
    const struct ocr_word *word = &words->items[index], *next = word + 1;
    const struct ocr_symbol *last = &words->symbols[word->first_symbol + word->symbol_count - 1];
    const struct ocr_symbol *first = &words->symbols[next->first_symbol];
    double right = fmax(middle_of(last), last->right - grid->width / 2);
    double left = fmin(middle_of(first), first->left + grid->width / 2);

    return cell_at(grid, left) - cell_at(grid, right) <= 1;
}

/* Whether a line's first word may be an icon, which stands in no cell. */
static bool is_icon(const struct ocr_word *word)
{
    enum { CHARACTERS = 2 };
    return word->symbol_count <= CHARACTERS &&
           (isalnum((unsigned char)word->text[0]) || (unsigned char)word->text[0] >= 0x80);
}

/* Whether every word consists of its letters, and most letters are as wide as Latin ones. Other
 * scripts stand in cells that are twice as wide, where the rules of this file do not hold. */
static bool is_plain(const struct ocr_words *words)
{
    size_t bytes = 0;

    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        size_t length = 0;
        for (size_t k = 0; k < word->symbol_count; k++) {
            length += strlen(words->symbols[word->first_symbol + k].text);
        }
        if (!length || length != strlen(word->text)) {
            return false;
        }
        bytes += length;
    }
    return bytes * 5 <= words->symbol_count * 6;
}

int ocr_words_join_cells(struct ocr_words *words, struct cv_error *error)
{
    struct grid grid = {0};

    if (words->symbol_count < LETTERS_MIN || !is_plain(words)) {
        return 0;
    }
    cv_auto_free double *steps = calloc(words->symbol_count, sizeof(*steps));
    CV_TRY_MEMORY(steps, error, "letters");
    double step = usual_step(words, steps);
    if (step <= 0 || !find_grid(words, step, &grid)) {
        return 0;
    }
    for (size_t i = 0; i < words->count; i++) {
        CV_TRY(clear_cells(words, &grid, &words->items[i], error));
    }
    for (size_t i = is_icon(&words->items[0]); i + 1 < words->count;) {
        if (is_joined(words, &grid, i)) {
            CV_TRY(ocr_words_join_next(words, i, error));
        } else {
            i++;
        }
    }
    return 0;
}

/* ---- codes ---------------------------------------------------------------------------- */

/* Words that belong to no language: hexadecimal numbers, such as the hashes of commits, and
 * numbers with slashed or dotted zeros. Tesseract reads some of their digits as letters or as other digits. */
enum {
    CODE_MIN = 12,    /* characters of a hexadecimal number that no word has by chance */
    CODE_DIGITS = 4,  /* digits in it … */
    CODE_LETTERS = 2, /* … and letters */
    CODE_DOUBTS = 4,  /* one in so many of its characters may be what a digit was taken for */
};

/* Percent, of digits in 45 recordings, read at capital heights of 22 and 28 pixels. Both sides of a zero are closed, with
 * a slash or a dot in it: 60 and more. 6 and 9 have an open side, all but 3 of 871 less than 65. The waist of an 8 is
 * narrower, at most 85. The upper right and lower left of a slashed zero have 24 to 36 more ink than the other two
 * quarters, an 8 at most 24. */
enum { CLOSED_MIN = 50, CLOSED_6_MIN = 70, CLOSED_8_MIN = 86, SLASH_MIN = 24 };

/* The hexadecimal digit that Tesseract reads as `letter`; 0: there is none. */
static char digit_for(char letter)
{
    return letter == 'O' || letter == 'o' || letter == '@' ? '0'
           : letter == 'l' || letter == 'I'                ? '1'
           : letter == 'S'                                 ? '5'
           : letter == 'T'                                 ? 'f'
                                                           : '\0';
}

static bool is_of_code(char letter)
{
    return isxdigit((unsigned char)letter) || digit_for(letter);
}

static bool is_letter(char letter)
{
    return isalnum((unsigned char)letter) || (unsigned char)letter >= 0x80;
}

enum { UUID_LENGTH = 36 };

/* Whether a text begins with an identifier of five hexadecimal numbers. */
static bool is_uuid(const char *text)
{
    for (size_t i = 0; i < UUID_LENGTH; i++) {
        bool is_hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_hyphen ? text[i] != '-' : !is_of_code(text[i])) {
            return false;
        }
    }
    return true;
}

/* Whether `length` characters are a hexadecimal number in small letters. */
static bool is_code(const char *text, size_t length)
{
    size_t digits = 0, letters = 0, capitals = 0, doubts = 0;

    for (size_t i = 0; i < length; i++) {
        digits += isdigit((unsigned char)text[i]) != 0;
        letters += text[i] >= 'a' && text[i] <= 'f';
        capitals += text[i] >= 'A' && text[i] <= 'F';
        doubts += digit_for(text[i]) != '\0';
    }
    return length >= CODE_MIN && digits >= CODE_DIGITS && letters >= CODE_LETTERS &&
           (doubts + capitals) * CODE_DOUBTS <= length;
}

/* The mean ink of a box, 0 to 255. */
static int ink_of(const struct ocr_line_picture *line, int x, int y, int width, int height)
{
    int sum = 0;

    for (int row = y; row < y + height; row++) {
        for (int column = x; column < x + width; column++) {
            sum += 255 - line->grey[(size_t)row * (size_t)line->width + (size_t)column];
        }
    }
    return sum / cv_max(width * height, 1);
}

struct cv_box ocr_symbol_ink(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    struct cv_box all = {symbol->left, symbol->top, symbol->right - symbol->left,
                         symbol->bottom - symbol->top};
    struct cv_box inside = cv_box_clip(&all, line->width, line->height), box = {0};

    for (int y = inside.y; y < cv_box_bottom(&inside); y++) {
        for (int x = inside.x; x < cv_box_right(&inside); x++) {
            struct cv_box pixel = {x, y, 1, 1};
            if (ocr_line_has_ink(line, x, y)) {
                box = box.width ? cv_box_union(&box, &pixel) : pixel;
            }
        }
    }
    return box;
}

/* How much ink the weakest row of a letter's sides has, in percent of the strongest one; the sides are a quarter
 * wide each, without the rows at the top and at the bottom. */
static int closed_of(const struct ocr_line_picture *line, const struct cv_box *box)
{
    int side = cv_max((box->width + 2) / 4, 1), closed = 100;

    for (int i = 0; i < 2; i++) {
        int x = i ? cv_box_right(box) - side : box->x, least = 255, most = 1;
        for (int y = box->y + box->height / 4; y < box->y + (box->height * 3 + 3) / 4; y++) {
            least = cv_min(least, ink_of(line, x, y, side, 1));
            most = cv_max(most, ink_of(line, x, y, side, 1));
        }
        closed = cv_min(closed, least * 100 / most);
    }
    return closed;
}

/* By how much the quarters of a letter's inside that a slash passes have more ink than the others, in percent. */
static int slash_of(const struct ocr_line_picture *line, const struct cv_box *box)
{
    int x = box->x + box->width / 5, y = box->y + box->height / 5;
    int width = (box->width - 2 * (box->width / 5)) / 2;
    int height = (box->height - 2 * (box->height / 5)) / 2;
    int right = cv_box_right(box) - box->width / 5 - width;
    int below = cv_box_bottom(box) - box->height / 5 - height;

    return (ink_of(line, right, y, width, height) + ink_of(line, x, below, width, height) -
            ink_of(line, x, y, width, height) - ink_of(line, right, below, width, height)) *
           100 / (2 * 255);
}

/* Whether the ink that was read as `letter` is a zero with a slash or a dot in it. */
static bool is_zero(const struct ocr_line_picture *line, const struct ocr_symbol *symbol,
                    char letter)
{
    struct cv_box box = ocr_symbol_ink(line, symbol);
    /* what is wider than high has other ink in it */
    int closed = box.width && box.width <= box.height ? closed_of(line, &box) : 0;
    bool is_slashed = closed >= CLOSED_MIN && slash_of(line, &box) >= SLASH_MIN;

    return letter == '6' || letter == '9' ? closed >= CLOSED_6_MIN
           : letter == '8'                ? closed >= CLOSED_8_MIN || is_slashed
                                          : is_slashed;
}

/* `symbols` are those of the characters; NULL where they are not known. */
static void mend_code(const struct ocr_line_picture *line, char *text, size_t length,
                      const struct ocr_symbol *symbols)
{
    for (size_t i = 0; i < length; i++) {
        char digit = digit_for(text[i]);
        bool is_slashed = text[i] == 'a' && symbols && is_zero(line, &symbols[i], text[i]);
        text[i] = digit ? digit : is_slashed ? '0' : (char)tolower((unsigned char)text[i]);
    }
}

/* An address has hyphens, and no dashes. */
static void mend_dashes(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        bool is_dash = strncmp(from, "–", 3) == 0 || strncmp(from, "—", 3) == 0;
        *to = is_dash ? '-' : *from;
        from += is_dash ? 3 : 1;
    }
    *to = '\0';
}

/* What was read in place of a zero that is slashed or dotted; letters only beside digits. */
static void mend_zeros(const struct ocr_line_picture *line, char *text,
                       const struct ocr_symbol *symbols)
{
    for (size_t i = 0; symbols && text[i]; i++) {
        bool is_doubtful =
            strchr("689", text[i]) ||
            (strchr("OQ@aeG", text[i]) &&
             ((i && isdigit((unsigned char)text[i - 1])) || isdigit((unsigned char)text[i + 1])));
        text[i] = is_doubtful && is_zero(line, &symbols[i], text[i]) ? '0' : text[i];
    }
}

/* A zero is read as @: in a word with digits, where no name can begin. */
static void mend_at_signs(char *text)
{
    if (!strpbrk(text, "0123456789")) {
        return;
    }
    for (char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
        bool begins_name = is_letter(at[1]) || at[1] == '_' || at[1] == '@';
        bool in_number =
            at > text && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]);
        bool in_word =
            at > text && at[1] != '.' && (isalpha((unsigned char)at[-1]) || at[-1] == '.');
        *at = in_number || (!begins_name && !in_word) ? '0' : '@';
    }
}

void ocr_words_mend_codes(struct ocr_words *words, const struct ocr_line_picture *line)
{
    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        char *text = word->text;
        if (strstr(text, "://") || strncmp(text, "www.", 4) == 0) {
            mend_dashes(text);
        }
        bool is_known = word->symbol_count == strlen(text);
        const struct ocr_symbol *symbols = is_known ? words->symbols + word->first_symbol : NULL;
        mend_zeros(line, text, symbols);
        mend_at_signs(text);
        for (size_t from = 0; text[from];) {
            size_t to = from + (is_uuid(text + from) ? UUID_LENGTH : 0);
            while (is_of_code(text[to])) {
                to++;
            }
            bool is_whole = (!from || !is_letter(text[from - 1])) && !is_letter(text[to]);
            if (is_whole && is_code(text + from, to - from)) {
                mend_code(line, text + from, to - from, symbols ? symbols + from : NULL);
            }
            from = to + (text[to] != '\0');
        }
    }
}
