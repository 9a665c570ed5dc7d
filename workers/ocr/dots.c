#include "workers/ocr/dots.h"

#include <string.h>
#include <utf8proc.h>

enum {
    INK = 190,     /* darker is ink: a dot in faint grey counts, codec noise does not */
    RUNS_MAX = 512 /* glyphs of a line, side by side */
};

/* Columns that hold ink without a blank one between them. */
struct run {
    int left, right; /* right exclusive */
    int top, bottom; /* bottom exclusive */
};

static bool column_extent(const struct ocr_crop *crop, int x, struct run *run)
{
    bool found = false;

    for (int y = 0; y < crop->height; y++) {
        if (crop->grey[(size_t)y * (size_t)crop->width + (size_t)x] < INK) {
            run->top = ocr_min(run->top, y);
            run->bottom = ocr_max(run->bottom, y + 1);
            found = true;
        }
    }
    return found;
}

static size_t find_runs(const struct ocr_crop *crop, struct run *runs)
{
    size_t count = 0;
    bool inside = false;

    for (int x = 0; x < crop->width; x++) {
        struct run here = {x, x + 1, crop->height, 0};
        if (inside) {
            here = runs[count - 1];
        }
        if (!column_extent(crop, x, &here)) {
            inside = false;
            continue;
        }
        if (!inside && count == RUNS_MAX) {
            break;
        }
        count += !inside;
        inside = true;
        here.right = x + 1;
        runs[count - 1] = here;
    }
    return count;
}

/* Where most tall letters stand; -1 when there are none. */
static int find_baseline(const struct run *runs, size_t count, int tall, int height)
{
    int best = -1, most = 0;

    for (int y = 1; y <= height; y++) {
        int here = 0;
        for (size_t i = 0; i < count; i++) {
            bool letter = (runs[i].bottom - runs[i].top) * 10 >= tall * 6;
            here += letter && abs(runs[i].bottom - y) <= 1;
        }
        if (here > most) {
            most = here;
            best = y;
        }
    }
    return best;
}

static bool is_dot(const struct run *run, int baseline, int tall)
{
    int width = run->right - run->left, height = run->bottom - run->top;
    int middle = baseline * 2 - run->top - run->bottom; /* twice the height of its middle */

    return width * 10 <= tall * 3 && height * 10 <= tall * 3 && width * 2 <= height * 3 &&
           height * 2 <= width * 3 && middle * 10 >= tall * 4 && middle * 10 <= tall * 11;
}

size_t ocr_dots_find(const struct ocr_crop *crop, int middles[OCR_DOTS_MAX])
{
    struct run runs[RUNS_MAX];
    size_t count = find_runs(crop, runs), found = 0;
    int baseline = find_baseline(runs, count, crop->tall, crop->height);

    for (size_t i = 1; baseline > 0 && i + 1 < count && found < OCR_DOTS_MAX; i++) {
        int before = runs[i].left - runs[i - 1].right, after = runs[i + 1].left - runs[i].right;
        if (before * 8 >= crop->tall && after * 8 >= crop->tall &&
            is_dot(&runs[i], baseline, crop->tall)) {
            middles[found++] = (runs[i].left + runs[i].right) / 2;
        }
    }
    return found;
}

/* A word of the text, and where its middle lies on the line, 0…1. */
struct word {
    const char *start;
    size_t bytes, letters;
    double place;
    bool is_dot;
};

enum { WORDS_MAX = 256 };

static size_t letters_in(const char *text, size_t bytes)
{
    size_t letters = 0;

    for (size_t i = 0; i < bytes; i++) {
        letters += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return letters;
}

static size_t split(const char *text, struct word *words)
{
    double total = (double)letters_in(text, strlen(text));
    size_t count = 0, passed = 0;

    while (*text && count < WORDS_MAX) {
        size_t bytes = strcspn(text, " ");
        size_t letters = letters_in(text, bytes);
        words[count++] = (struct word){text, bytes, letters,
                                       ((double)passed + (double)letters / 2) / total, false};
        passed += letters + 1;
        text += bytes + (text[bytes] == ' ');
    }
    return count;
}

static bool is_mark(const struct word *word)
{
    utf8proc_int32_t point;

    if (word->letters != 1 || utf8proc_iterate((const utf8proc_uint8_t *)word->start,
                                               (utf8proc_ssize_t)word->bytes, &point) <= 0) {
        return false;
    }
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return false;
    }
}

/* Letters are not equally wide: a mark counts as the dot's reading within this share of the line. */
static const double PLACE_REACH = 0.15;

static double apart(double a, double b)
{
    return a > b ? a - b : b - a;
}

/* The mark nearest to a dot; `count` when none is near. */
static size_t nearest_mark(const struct word *words, size_t count, double place)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++) {
        if (!words[i].is_dot && is_mark(&words[i]) && apart(words[i].place, place) <= PLACE_REACH &&
            (best == count || apart(words[i].place, place) < apart(words[best].place, place))) {
            best = i;
        }
    }
    return best;
}

/* The word before the blank nearest to a dot; `count` when no blank is near. */
static size_t nearest_blank(const struct word *words, size_t count, double place)
{
    size_t best = count;
    double least = PLACE_REACH;

    for (size_t i = 0; i + 1 < count; i++) {
        double away = apart((words[i].place + words[i + 1].place) / 2, place);
        if (!words[i].is_dot && !words[i + 1].is_dot && away < least) {
            least = away;
            best = i;
        }
    }
    return best;
}

/* Bytes of the digit, or of the letter that a digit is misread as, at `at`; 0 when it is neither. */
static size_t digit_like(const char *at)
{
    static const char *const lookalikes[] = {"i", "l", "I", "|", "ı", "o", "O"};

    if (*at >= '0' && *at <= '9') {
        return 1;
    }
    for (size_t i = 0; i < CV_COUNT(lookalikes); i++) {
        size_t bytes = strlen(lookalikes[i]);
        if (strncmp(at, lookalikes[i], bytes) == 0) {
            return bytes;
        }
    }
    return 0;
}

/* Digits and the letter of a unit, misread digits included. Without any digit only ones, and not
 * where they make a word ("id", "im", "is", "ils"). */
static bool is_age(const struct word *word)
{
    const char *at = word->start, *end = word->start + word->bytes;
    bool has_digit = false;

    if (word->letters < 2 || word->letters > 3 || !strchr("smhdwy", end[-1])) {
        return false;
    }
    while (at < end - 1) {
        size_t step = digit_like(at);
        if (!step) {
            return false;
        }
        has_digit = has_digit || (*at >= '0' && *at <= '9');
        at += step;
    }
    bool is_word = *word->start == 'i' && (word->letters == 2 || end[-1] == 's') &&
                   end[-1] != 'h' && end[-1] != 'w';
    bool has_nought =
        memchr(word->start, 'o', word->bytes) || memchr(word->start, 'O', word->bytes);
    return has_digit || (!is_word && !has_nought);
}

static void append_age(struct cv_buffer *line, const struct word *word)
{
    for (size_t i = 0; i < word->bytes; i++) {
        unsigned char byte = (unsigned char)word->start[i];
        bool is_unit = i + 1 == word->bytes;
        if (is_unit || (byte >= '0' && byte <= '9')) {
            cv_buffer_printf(line, "%c", byte);
        } else if (byte < 0x80 || (byte & 0xC0) == 0xC0) {
            cv_buffer_printf(line, "%c", byte == 'o' || byte == 'O' ? '0' : '1');
        }
    }
}

static int join(const struct word *words, size_t count, const size_t *after, size_t after_count,
                char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer line = CV_BUFFER_INIT;
    bool dot_before = false;

    for (size_t i = 0; i < count; i++) {
        if (i) {
            cv_buffer_printf(&line, " ");
        }
        if (words[i].is_dot) {
            cv_buffer_printf(&line, "·");
        } else if (dot_before && i + 1 == count && is_age(&words[i])) {
            append_age(&line, &words[i]);
        } else {
            cv_buffer_printf(&line, "%.*s", (int)words[i].bytes, words[i].start);
        }
        dot_before = words[i].is_dot;
        for (size_t k = 0; k < after_count; k++) {
            if (after[k] == i) {
                cv_buffer_printf(&line, " ·");
                dot_before = true;
            }
        }
    }
    return cv_buffer_take(&line, ret_text, error);
}

int ocr_dots_restore(const int *middles, size_t count, int width, char **text,
                     struct cv_error *error)
{
    struct word words[WORDS_MAX];
    size_t after[OCR_DOTS_MAX], after_count = 0;
    size_t word_count = split(*text, words);

    if (!count || word_count < 2 || word_count == WORDS_MAX || width <= 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        double place = (double)middles[i] / width;
        size_t mark = nearest_mark(words, word_count, place);
        if (mark < word_count) {
            words[mark].is_dot = true;
            continue;
        }
        size_t blank = nearest_blank(words, word_count, place);
        if (blank < word_count) {
            after[after_count++] = blank;
        }
    }
    char *joined = NULL;
    int result = join(words, word_count, after, after_count, &joined, error);
    if (result < 0) {
        return result;
    }
    free(*text);
    *text = joined;
    return 0;
}
