/* Letters that Tesseract misreads in names, addresses and numbers, which are in no word list: an l or a 7 for a one, a € for
 * an e, a ® for an @, an I for an l. */
#include "workers/ocr/reading/word_corrections.h"

#include <ctype.h>
#include <string.h>

/* A one has a flag: in the rows from 12 to 30 % of its height it begins further left than in its middle. Percent of the
 * height, of 101 fonts drawn with capitals of 25 pixels: ones have 12 and more in all but three fonts; l and I have 4
 * at most, but in bold fonts of equal letters. */
enum { FLAG_FROM = 12, FLAG_TO = 30, MIDDLE_FROM = 45, MIDDLE_TO = 70, FLAG_MIN = 10 };

/* The right edge of a one is upright from its top to its foot, that of a seven slants. Percent of the height, of the same
 * fonts, also drawn with capitals of 7, 8 and 11 pixels and enlarged: 7 at most for a one, 12 and more for a seven. */
enum { TOP_TO = 25, STEM_FROM = 60, STEM_TO = 80, SLANT_MAX = 8 };

/* Percent of a capital's height that a one is wide at most. A bold one has 71; in a wider box is more than one letter. */
enum { ONE_WIDTH = 75 };

static bool is_like_one(char letter)
{
    return letter == '1' || letter == 'l' || letter == 'I' || letter == '|';
}

static bool is_digit(char letter)
{
    return isdigit((unsigned char)letter) != 0;
}

/* The first column from `x` on that has ink in the rows [top, bottom), or has none; `right` where there is no such one. */
static int next_column(const struct ocr_line_picture *line, int x, int right, int top, int bottom,
                       bool with_ink)
{
    for (; x < right; x++) {
        bool has_ink = false;
        for (int y = top; y < bottom && !has_ink; y++) {
            has_ink = ocr_line_has_ink(line, x, y);
        }
        if (has_ink == with_ink) {
            return x;
        }
    }
    return right;
}

static struct cv_box box_of(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    struct cv_box box = {symbol->left, symbol->top, symbol->right - symbol->left,
                         symbol->bottom - symbol->top};
    return cv_box_clip(&box, line->width, line->height);
}

/* Where the ink of a letter begins, in the rows between two percentages of its height. */
static int begins_at(const struct ocr_line_picture *line, const struct cv_box *box, int from,
                     int to)
{
    return next_column(line, box->x, cv_box_right(box), box->y + box->height * from / 100,
                       box->y + box->height * to / 100, true);
}

static bool has_flag(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    struct cv_box box = box_of(line, symbol);
    int flag = begins_at(line, &box, FLAG_FROM, FLAG_TO);
    int middle = begins_at(line, &box, MIDDLE_FROM, MIDDLE_TO);

    return middle < cv_box_right(&box) && (middle - flag) * 100 >= FLAG_MIN * box.height;
}

/* Where the ink of a letter ends, in the rows between two percentages of its height. */
static int ends_at(const struct ocr_line_picture *line, const struct cv_box *box, int from, int to)
{
    struct cv_box rows = {box->x, box->y + box->height * from / 100, box->width,
                          box->height * (to - from) / 100};
    int end = box->x;

    for (int x = box->x; x < cv_box_right(box); x++) {
        bool has_ink = next_column(line, x, x + 1, rows.y, cv_box_bottom(&rows), true) == x;
        end = has_ink ? x + 1 : end;
    }
    return end;
}

static bool is_upright(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    struct cv_box box = box_of(line, symbol);
    int top = ends_at(line, &box, 0, TOP_TO), stem = ends_at(line, &box, STEM_FROM, STEM_TO);

    return box.width * 100 <= ONE_WIDTH * box.height &&
           (top - stem) * 100 <= SLANT_MAX * box.height;
}

/* Whether no ink of another letter is in a letter's box. */
static bool is_apart(const struct ocr_symbol *symbols, size_t count, size_t index)
{
    enum { BLUR = 2 }; /* pixels by which boxes of letters apart overlap */
    const struct ocr_symbol *symbol = &symbols[index];

    return (!index || symbol[-1].right <= symbol->left + BLUR) &&
           (index + 1 == count || symbol->right <= symbol[1].left + BLUR);
}

/* Whether a letter is as high as a capital, which no s is. */
static bool is_high(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    enum { SMALL_MAX = 85 }; /* percent of a capital's height; small letters have 80 at most */
    return (symbol->bottom - symbol->top) * 100 >= SMALL_MAX * line->tall;
}

/* Whether two letters were read from the ink of one. */
static bool is_one_letter(const struct ocr_line_picture *line, const struct ocr_symbol *a,
                          const struct ocr_symbol *b)
{
    struct cv_box first = box_of(line, a), second = box_of(line, b);
    int right = cv_box_right(&second), bottom = cv_box_bottom(&second);
    int left = next_column(line, cv_min(first.x, second.x), right, second.y, bottom, true);
    int end = next_column(line, left, right, second.y, bottom, false);

    return b->left < a->right && (right - left) * 100 <= ONE_WIDTH * line->tall &&
           next_column(line, end, right, second.y, bottom, true) == right;
}

static void drop_letter(struct ocr_word *word, struct ocr_symbol *symbols, size_t index)
{
    word->symbol_count--;
    memmove(symbols + index, symbols + index + 1, (word->symbol_count - index) * sizeof(*symbols));
    memmove(word->text + index, word->text + index + 1, strlen(word->text + index));
}

/* Ones that were read as 7, as l or I beside a digit, or twice ("l1"); fives that were read as s. */
static void mend_digits(const struct ocr_line_picture *line, struct ocr_word *word,
                        struct ocr_symbol *symbols)
{
    char *text = word->text;

    if (word->symbol_count != strlen(text)) {
        return;
    }
    for (size_t i = 0; text[i]; i++) {
        bool is_pair = is_like_one(text[i]) && is_like_one(text[i + 1]) && text[i] != text[i + 1];
        if (is_pair && (text[i] == '1' || text[i + 1] == '1') &&
            is_one_letter(line, &symbols[i], &symbols[i + 1])) {
            drop_letter(word, symbols, text[i] == '1' ? i + 1 : i);
        }
        bool is_beside_digit = (i && is_digit(text[i - 1])) || is_digit(text[i + 1]);
        bool is_doubtful = (is_like_one(text[i]) && is_beside_digit) ||
                           (text[i] == '7' && is_apart(symbols, word->symbol_count, i) &&
                            is_upright(line, &symbols[i]));
        if (is_doubtful && has_flag(line, &symbols[i])) {
            text[i] = '1';
        } else if (text[i] == 's' && is_digit(text[i + 1]) && is_high(line, &symbols[i])) {
            text[i] = '5';
        }
    }
}

/* Writes `letter` in place of the `size` bytes at `at`. */
static void replace(char *at, size_t size, char letter)
{
    *at = letter;
    memmove(at + 1, at + size, strlen(at + size) + 1);
}

/* The e of a hexadecimal number is read as €: letters and digits follow that no amount has. */
static void mend_euro_signs(char *text)
{
    enum { DIGITS_MIN = 11 };

    for (char *at = text; (at = strstr(at, "€")) != NULL; at++) {
        const char *number = at + strlen("€");
        size_t length = strspn(number, "0123456789abcdef");
        if (length >= DIGITS_MIN && strcspn(number, "abcdef") < length) {
            replace(at, strlen("€"), 'e');
        }
    }
}

/* The @ of a mail address is read as ® or ©: between a name and the name of a host. */
static void mend_mail_signs(char *text)
{
    static const char *const signs[] = {"®", "©"};

    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        char *at = strstr(text, signs[i]);
        const char *host = at ? at + strlen(signs[i]) : "";
        const char *dot = strchr(host, '.');
        if (at && at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)host[0]) &&
            dot && isalpha((unsigned char)dot[1]) && isalpha((unsigned char)dot[2])) {
            replace(at, strlen(signs[i]), '@');
        }
    }
}

/* The @ of a mention is read as ®, which stands behind a word and never before one. */
static void mend_mention(char *text)
{
    static const char sign[] = "®";
    size_t size = strlen(sign);

    if (strncmp(text, sign, size) == 0 && isalpha((unsigned char)text[size])) {
        replace(text, size, '@');
    }
}

/* An I among the small letters of a URL's host is an l: browsers show hosts in small letters. */
static void mend_host(char *text)
{
    char *scheme = strstr(text, "://");
    char *host = scheme ? scheme + strlen("://") : strncmp(text, "www.", 4) == 0 ? text : NULL;
    size_t length = host ? strcspn(host, "/?#") : 0;
    size_t small = 0, capitals = 0;

    for (size_t i = 0; i < length; i++) {
        small += islower((unsigned char)host[i]) != 0;
        capitals += isupper((unsigned char)host[i]) && host[i] != 'I';
    }
    for (size_t i = 0; i < length && small && !capitals; i++) {
        host[i] = host[i] == 'I' ? 'l' : host[i];
    }
}

/* Joins the digits at the end of a name to it where no blank is between them. */
static int join_digits(struct ocr_words *words, int tall, struct cv_error *error)
{
    /* Hundredths of a capital's height: letters of one word are up to 25 apart, a blank is 30 and more. */
    enum { APART = 30 };

    for (size_t i = 0; i + 1 < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        const struct ocr_word *next = word + 1;
        size_t length = strlen(word->text);
        bool is_known = word->symbol_count == length && next->symbol_count == strlen(next->text);
        bool is_name =
            length > 1 && strchr("@#", word->text[0]) && is_digit(word->text[length - 1]);
        bool is_number = next->text[strspn(next->text, "0123456789")] == '\0';
        if (is_known && is_name && is_number && (next->left - word->right) * 100 < APART * tall) {
            CV_TRY(ocr_words_join_next(words, i, error));
        }
    }
    return 0;
}

int ocr_words_mend_names(struct ocr_words *words, const struct ocr_line_picture *line,
                         struct cv_error *error)
{
    CV_TRY(join_digits(words, line->tall, error));
    for (size_t i = 0; i < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        mend_euro_signs(word->text);
        mend_mail_signs(word->text);
        mend_mention(word->text);
        mend_host(word->text);
        mend_digits(line, word, words->symbols + word->first_symbol);
    }
    return 0;
}
