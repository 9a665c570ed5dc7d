#include "workers/ocr/reading/special_characters.h"
#include "workers/ocr/reading/words.h"

#include <string.h>
#include <utf8proc.h>

/* Icons before a text (a magnifier, a bell, a file's symbol) are of letter height, so that they are read:
 * "Q Hits", "& Inbox", "GB 2024". On the real recordings of docs/design/text.md words of one or two
 * characters at a line's start were icons in 9 of 10 cases where one of these held, and in 1 of 20 elsewhere. */
enum {
    ICON_CHARACTERS = 2,
    LETTERS_END = 0x250, /* Latin ones end here; other scripts have words of one character */
    MARKS_FROM = 0x2000, /* punctuation, arrows, signs … */
    MARKS_END = 0x2E00,
    APART_TALL = 55,  /* hundredths of a capital's height: a blank in text is 30 to 50 */
    APART_TIMES = 16, /* tenths of the line's other gaps */
};
static const double ICON_SURE = 0.60;
/* By so much the rest of the line is surer than an icon. */
static const double REST_SURER = 0.20;

struct looks {
    int characters, digits, letters, signs;
    bool is_foreign; /* has a character of a script with short words */
};

/* What writes no line's first word, however sure the reading. */
static bool is_sign(utf8proc_int32_t point)
{
    static const utf8proc_int32_t signs[] = {'&',  0xA2, 0xA5, 0xA7,   0xA9,   0xAB,  0xAE,
                                             0xB0, 0xB6, 0xBB, 0x2122, 0x201C, 0x201D};

    for (size_t i = 0; i < CV_COUNT(signs); i++) {
        if (signs[i] == point) {
            return true;
        }
    }
    return false;
}

static struct looks looks_of(const char *text)
{
    struct looks looks = {0};

    while (*text) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
        if (size <= 0) {
            size = 1;
            point = 0xFFFD;
        }
        utf8proc_category_t category = utf8proc_category(point);
        looks.characters++;
        looks.digits += category == UTF8PROC_CATEGORY_ND;
        looks.letters += category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
        looks.signs += is_sign(point);
        looks.is_foreign |= point >= LETTERS_END && (point < MARKS_FROM || point >= MARKS_END);
        text += size;
    }
    return looks;
}

/* The middle one of the gaps between the words [from, to]; 0 where there is none. */
static int usual_gap(const struct ocr_words *words, size_t from, size_t to)
{
    int least = 0;

    for (size_t i = from; i < to; i++) {
        int gap = words->items[i + 1].left - words->items[i].right;
        size_t below = 0, count = to - from;
        for (size_t k = from; k < to; k++) {
            below += words->items[k + 1].left - words->items[k].right < gap;
        }
        least = below <= count / 2 && gap > least ? gap : least;
    }
    return least;
}

/* Mean over the words [from, to), by length. */
static double sure_of(const struct ocr_words *words, size_t from, size_t to)
{
    double sum = 0;
    size_t bytes = 0;

    for (size_t i = from; i < to; i++) {
        size_t length = strlen(words->items[i].text);
        sum += words->items[i].sure * (double)length;
        bytes += length;
    }
    return bytes ? sum / (double)bytes : 0;
}

static bool is_first_icon(const struct ocr_words *words, int tall)
{
    const struct ocr_word *word = &words->items[0];
    struct looks looks = looks_of(word->text);
    int gap = words->items[1].left - word->right;
    int usual = usual_gap(words, 1, words->count - 1);

    if (looks.characters > ICON_CHARACTERS || looks.is_foreign) {
        return false;
    }
    if (looks.signs == looks.characters) {
        return true;
    }
    bool is_guess =
        word->sure < ICON_SURE && sure_of(words, 1, words->count) >= word->sure + REST_SURER;
    bool is_apart = usual > 0 && gap * 100 >= APART_TALL * tall && gap * 10 >= APART_TIMES * usual;
    bool is_number = looks.digits == looks.characters;
    return is_number ? is_guess && is_apart : is_guess || (is_apart && looks.letters);
}

/* At the end: a caret, a bell, a sign of what opens there. Letters there are text. */
static bool is_last_icon(const struct ocr_words *words)
{
    const struct ocr_word *word = &words->items[words->count - 1];
    struct looks looks = looks_of(word->text);

    if (looks.characters > ICON_CHARACTERS || looks.is_foreign || looks.digits || looks.letters) {
        return false;
    }
    return looks.signs == looks.characters ||
           (word->sure < ICON_SURE &&
            sure_of(words, 0, words->count - 1) >= word->sure + REST_SURER);
}

static void drop(struct ocr_words *words, size_t index)
{
    free(words->items[index].text);
    words->count--;
    memmove(&words->items[index], &words->items[index + 1],
            (words->count - index) * sizeof(*words->items));
}

/* Whether an emoji or an arrow stands before `x`, or behind it: then that is the line's end. */
static bool has_insert(const struct ocr_line_picture *line, int x, bool before)
{
    bool has = false;

    for (size_t i = 0; i < line->insert_count && !has; i++) {
        const struct ocr_insert *insert = &line->inserts[i];
        has = !ocr_mark_is_underscore(insert->text) &&
              (before ? insert->left < x : insert->right > x);
    }
    return has;
}

void ocr_words_drop_icons(struct ocr_words *words, const struct ocr_line_picture *line)
{
    while (words->count > 1 && is_first_icon(words, line->tall) &&
           !has_insert(line, words->items[0].left, true)) {
        drop(words, 0);
    }
    while (words->count > 1 && is_last_icon(words) &&
           !has_insert(line, words->items[words->count - 1].right, false)) {
        drop(words, words->count - 1);
    }
}

/* What a dot is read as behind a word. */
static bool is_like_dot(char letter)
{
    return letter == '-' || letter == '.' || letter == ':' || letter == '*';
}

void ocr_words_drop_marks(struct ocr_words *words, const struct ocr_line_picture *line)
{
    for (size_t i = 0; i < line->insert_count; i++) {
        const struct ocr_insert *insert = &line->inserts[i];
        int middle = (insert->left + insert->right) / 2;
        for (size_t k = words->count; k-- > 0 && ocr_mark_is_dot(insert->text);) {
            struct ocr_word *word = &words->items[k];
            size_t length = strlen(word->text);
            struct looks looks = looks_of(word->text);
            int away = abs((word->left + word->right) / 2 - middle) * 3;
            int reach = looks.letters + looks.digits ? line->tall : line->tall * 2;
            if (looks.characters == 1 && away <= reach) {
                drop(words, k);
            } else if (length > 1 && is_like_dot(word->text[length - 1]) && word->left < middle &&
                       word->right >= insert->left) {
                word->text[length - 1] = '\0';
            }
        }
    }
}
