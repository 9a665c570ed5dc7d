#include "workers/ocr/marks.h"

#include <string.h>
#include <utf8proc.h>

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

/* What is done to the words of a text. */
struct edit {
    struct word words[WORDS_MAX];
    size_t count;
    bool dot_after[WORDS_MAX];   /* a dot that was not read stands behind this word */
    bool score_after[WORDS_MAX]; /* an underscore that was read as the blank behind it */
};

static void append_word(struct cv_buffer *line, const struct edit *edit, size_t i, bool dot_before)
{
    const struct word *word = &edit->words[i];

    if (word->is_dot) {
        cv_buffer_text(line, "·");
    } else if (dot_before && i + 1 == edit->count && is_age(word)) {
        append_age(line, word);
    } else {
        cv_buffer_append(line, word->start, word->bytes);
    }
}

static int join(const struct edit *edit, char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer line = CV_BUFFER_INIT;
    bool dot_before = false;

    for (size_t i = 0; i < edit->count; i++) {
        if (i) {
            cv_buffer_text(&line, edit->score_after[i - 1] ? "_" : " ");
        }
        append_word(&line, edit, i, dot_before);
        dot_before = edit->words[i].is_dot || edit->dot_after[i];
        if (edit->dot_after[i]) {
            cv_buffer_text(&line, " ·");
        }
    }
    return cv_buffer_take(&line, ret_text, error);
}

/* Whether the text has an underscore about there. */
static bool has_underscore(const char *text, double place)
{
    double total = (double)letters_in(text, strlen(text));

    for (const char *at = strchr(text, '_'); at; at = strchr(at + 1, '_')) {
        double here = ((double)letters_in(text, (size_t)(at - text)) + 0.5) / total;
        if (apart(here, place) <= PLACE_REACH) {
            return true;
        }
    }
    return false;
}

static void restore_mark(struct edit *edit, const char *text, enum ocr_mark_kind kind, double place)
{
    if (kind == OCR_MARK_UNDERSCORE && has_underscore(text, place)) {
        return;
    }
    size_t mark =
        kind == OCR_MARK_DOT ? nearest_mark(edit->words, edit->count, place) : edit->count;
    if (mark < edit->count) {
        edit->words[mark].is_dot = true;
        return;
    }
    size_t blank = nearest_blank(edit->words, edit->count, place);
    if (blank < edit->count) {
        (kind == OCR_MARK_DOT ? edit->dot_after : edit->score_after)[blank] = true;
    }
}

/* Other scripts have strokes of their own that look like these marks, and some run the other way. */
static bool is_european(const char *text)
{
    enum { HEBREW = 0x590 };

    while (*text) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
        utf8proc_category_t category = size > 0 ? utf8proc_category(point) : UTF8PROC_CATEGORY_CN;
        if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO &&
            point >= HEBREW && !(point >= 0x1E00 && point < 0x2000)) {
            return false;
        }
        text += size > 0 ? size : 1;
    }
    return true;
}

int ocr_marks_restore(const struct ocr_mark *marks, size_t count, int width, char **text,
                      struct cv_error *error)
{
    struct edit edit = {.count = 0};

    if (!count || !is_european(*text)) {
        return 0;
    }
    edit.count = split(*text, edit.words);
    if (edit.count < 2 || edit.count == WORDS_MAX || width <= 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        restore_mark(&edit, *text, marks[i].kind, (double)marks[i].middle / width);
    }
    char *joined = NULL;
    int result = join(&edit, &joined, error);
    if (result < 0) {
        return result;
    }
    free(*text);
    *text = joined;
    return 0;
}
