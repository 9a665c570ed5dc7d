/* Blanks and points of numbers, told by the ink between the digits: Tesseract takes both for a digit's own room where
 * letters are small, and reads "+ 7.5" as "+75". */
#include "workers/ocr/reading/word_corrections.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Hundredths of a capital's height. */
enum {
    /* From so much paper on a blank stands between a digit and a sign: more beside a one, which leaves much of its room
     * free, and beside a hyphen, which does so where all letters are equally wide. A logistic model, fitted to 891 drawn
     * pairs in five fonts in which Tesseract read no blank: it was wrong in 154 of them, the model is in 4, and in 8
     * where each font is judged by the others. */
    ROOM = 33,
    ROOM_BESIDE_ONE = 10,
    ROOM_BESIDE_HYPHEN = 11,
    /* Before a unit: letters of one word are up to 25 apart, "2 ms" of a display 73. */
    ROOM_BEFORE_UNIT = 60,
    /* A point that was read as a part of the digit beside it: found 34 times in 295 misread readings of drawn numbers, and
     * never in 1,856 right ones. */
    POINT_WIDTH = 35, /* at most … */
    POINT_LEAST = 8,  /* … and at least, as high, too: less is a speck */
    POINT_RISES = 40, /* at most, above the digits' feet */
    POINT_OFF = 8,    /* and ends so near to them */
    COMMA_FALLS = 40, /* at most, below them */
    DIGIT_HEIGHT = 80,
};

/* A word whose letters are known, while its text is written anew. */
struct number {
    const struct ocr_line_picture *line;
    const struct ocr_symbol *symbols;
    size_t count;
    struct cv_buffer text;
    bool is_changed;
};

static bool is_digit(int32_t point)
{
    return point >= '0' && point <= '9';
}

static bool is_hyphen(int32_t point)
{
    return point == '-' || (point >= 0x2010 && point <= 0x2014) || point == 0x2212;
}

/* What stands before or behind a number, and is no mark in it. A slash is none: of "1/8" some fonts make what looks like
 * "1 / 8", and people type it without blanks. */
static bool is_sign(int32_t point)
{
    static const int32_t signs[] = {'+',  '~',  '<',  '>',  '=',  '%',    '$',
                                    0xA3, 0xA5, 0xB0, 0xB1, 0xD7, 0x20AC, 0x2248};
    bool is_one = is_hyphen(point);

    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        is_one = is_one || signs[i] == point;
    }
    return is_one;
}

/* Where a letter ends: the box of the last one before a blank may reach to the end of the line. */
static int end_of(const struct number *number, size_t index)
{
    const struct ocr_symbol *symbol = &number->symbols[index];
    int end = index + 1 < number->count ? cv_min(symbol->right, symbol[1].left) : symbol->right;

    return cv_max(end, symbol->left + 1);
}

static int middle_of(const struct number *number, size_t index)
{
    return (number->symbols[index].left + end_of(number, index)) / 2;
}

/* Finds the next ink of the columns [*from, to), and sets `*from` behind it; false where there is none. */
static bool next_ink(const struct ocr_line_picture *line, int *from, int to, struct cv_box *ret_ink)
{
    struct cv_box ink = {0};
    int x = cv_max(*from, 0);

    for (bool has_ink = true; x < cv_min(to, line->width) && (has_ink || !ink.width); x++) {
        has_ink = false;
        for (int y = 0; y < line->height; y++) {
            if (ocr_line_has_ink(line, x, y)) {
                struct cv_box pixel = {x, y, 1, 1};
                ink = ink.width ? cv_box_union(&ink, &pixel) : pixel;
                has_ink = true;
            }
        }
    }
    *from = x;
    *ret_ink = ink;
    return ink.width > 0;
}

int ocr_widest_paper(const struct ocr_line_picture *line, int from, int to)
{
    int widest = 0, end = from;
    struct cv_box ink;

    while (next_ink(line, &from, to, &ink)) {
        widest = cv_max(widest, ink.x - end);
        end = cv_box_right(&ink);
    }
    return cv_max(widest, to - end);
}

/* The widest paper between two letters that follow one another. */
static int room_before(const struct number *number, size_t index)
{
    return ocr_widest_paper(number->line, middle_of(number, index - 1), middle_of(number, index));
}

static bool is_blank(const struct number *number, size_t index, int32_t before, int32_t point)
{
    int least = ROOM;

    if (is_digit(before) && point < 0x80 && isalpha(point)) {
        least = ROOM_BEFORE_UNIT;
    } else if (is_digit(before) ? !is_sign(point) : !(is_sign(before) && is_digit(point))) {
        return false;
    } else {
        least += before == '1' || point == '1' ? ROOM_BESIDE_ONE : 0;
        least += is_hyphen(before) || is_hyphen(point) ? ROOM_BESIDE_HYPHEN : 0;
    }
    return room_before(number, index) * 100 >= least * number->line->tall;
}

/* The point or comma in the box of a digit, before its ink; NULL: there is none. */
static const char *point_before(const struct number *number, size_t index)
{
    int from = number->symbols[index].left, to = end_of(number, index), tall = number->line->tall;
    struct cv_box mark, digit;

    if (!next_ink(number->line, &from, to, &mark) || !next_ink(number->line, &from, to, &digit) ||
        digit.height * 100 < DIGIT_HEIGHT * tall || mark.width * 100 > POINT_WIDTH * tall ||
        cv_min(mark.width, mark.height) * 100 < POINT_LEAST * tall) {
        return NULL;
    }
    int foot = cv_box_bottom(&digit), below = (cv_box_bottom(&mark) - foot) * 100;
    if ((foot - mark.y) * 100 > POINT_RISES * tall || below < -POINT_OFF * tall ||
        below > COMMA_FALLS * tall) {
        return NULL;
    }
    return below >= POINT_OFF * tall ? "," : ".";
}

/* Writes the text of a word that has as many characters as letters. */
static void write_number(const char *text, struct number *number)
{
    int32_t before = 0, point;
    bool is_number = true;

    for (size_t i = 0; i < number->count; i++) {
        size_t size = ocr_next_point(text, &point);
        const char *mark = is_digit(before) && is_digit(point) ? point_before(number, i) : NULL;
        /* letters are a unit behind nothing but a number: "2 ms", not "x2 y" */
        is_number = is_number && (is_digit(before) || !before || before == '.' || before == ',');
        if (mark) {
            cv_buffer_text(&number->text, mark);
        } else if (i && (is_number || is_sign(before) || is_sign(point)) &&
                   is_blank(number, i, before, point)) {
            mark = " ";
            cv_buffer_text(&number->text, mark);
        }
        cv_buffer_printf(&number->text, "%.*s", (int)size, text);
        number->is_changed = number->is_changed || mark;
        before = point;
        text += size;
    }
}

/* What Tesseract doubted in a word that was mended is what the ink has told. */
static double least_sure(const struct number *number)
{
    double least = 1;

    for (size_t i = 0; i < number->count; i++) {
        least = fmin(least, number->symbols[i].sure);
    }
    return least;
}

int ocr_words_mend_numbers(struct ocr_words *words, const struct ocr_line_picture *line,
                           struct cv_error *error)
{
    for (size_t i = 0; i < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        size_t characters = 0;
        int32_t point;
        for (const char *at = word->text; *at; at += ocr_next_point(at, &point)) {
            characters++;
        }
        if (characters != word->symbol_count || !strpbrk(word->text, "0123456789")) {
            continue;
        }
        struct number number = {.line = line,
                                .symbols = words->symbols + word->first_symbol,
                                .count = characters,
                                .text = CV_BUFFER_INIT};
        cv_auto_free char *text = NULL;
        write_number(word->text, &number);
        int result = cv_buffer_detach(&number.text, &text, error);
        cv_buffer_deinit(&number.text);
        CV_TRY(result);
        if (number.is_changed) {
            free(word->text);
            word->text = cv_take(text);
            word->sure = fmax(word->sure, least_sure(&number));
        }
    }
    return 0;
}
