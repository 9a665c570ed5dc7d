#include "workers/ocr/reading/line_text.h"

#include "workers/ocr/reading/special_characters.h"

#include <string.h>
#include <utf8proc.h>

/* Room between characters, in hundredths of a capital's height. Beside Chinese and Japanese a
 * blank is 36 and more, their own room up to 20; between kana it is up to 75, so that what is
 * wider than ROOM_WIDE is an ideographic blank. */
enum { ROOM_BESIDE = 25, ROOM_WIDE = 130 };

void ocr_words_deinit(struct ocr_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        free(words->items[i].text);
    }
    free(words->items);
    free(words->symbols);
    *words = (struct ocr_words){0};
}

/* Marks of direction and joiners' bounds: nothing of them is seen. */
static bool is_direction(utf8proc_int32_t point)
{
    return (point >= 0x200E && point <= 0x200F) || (point >= 0x202A && point <= 0x202E) ||
           (point >= 0x2066 && point <= 0x2069) || point == 0x061C;
}

size_t ocr_next_point(const char *text, int32_t *ret_point)
{
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, ret_point);

    if (size <= 0) {
        *ret_point = 0xFFFD;
        return 1;
    }
    return (size_t)size;
}

static void drop_directions(char *text)
{
    char *to = text;

    while (*text) {
        utf8proc_int32_t point;
        size_t size = ocr_next_point(text, &point);
        if (!is_direction(point)) {
            memmove(to, text, (size_t)size);
            to += size;
        }
        text += size;
    }
    *to = '\0';
}

int ocr_words_add(struct ocr_words *words, const struct ocr_word *word, struct cv_error *error)
{
    if (words->count == OCR_WORDS_MAX) {
        return 0;
    }
    CV_TRY_MEMORY(CV_MAKE_ROOM(words->items, words->count), error, "words");
    cv_auto_free char *text = strdup(word->text);
    CV_TRY_MEMORY(text, error, "a word");
    drop_directions(text);
    if (text[0]) {
        words->items[words->count] = *word;
        words->items[words->count++].text = cv_take(text);
    }
    return 0;
}

int ocr_words_add_symbol(struct ocr_words *words, const struct ocr_symbol *symbol,
                         struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(words->symbols, words->symbol_count), error, "letters");
    words->symbols[words->symbol_count++] = *symbol;
    return 0;
}

/* Whether a character is of a script in which a letter may be a word: Chinese, Japanese, Korean,
 * Thai, Lao, Burmese, Khmer. */
static bool is_word_alone(utf8proc_int32_t point)
{
    return (point >= 0x0E00 && point <= 0x0EFF) || (point >= 0x1000 && point <= 0x11FF) ||
           (point >= 0x1780 && point <= 0x17FF) || (point >= 0x2E80 && point <= 0x9FFF) ||
           (point >= 0xAC00 && point <= 0xD7AF) || (point >= 0xF900 && point <= 0xFAFF) ||
           (point >= 0xFF00 && point <= 0xFFEF) || (point >= 0x20000 && point <= 0x3FFFF);
}

/* Whether a blank stands between two words that are `gap` pixels apart. Tesseract takes most
 * characters of some scripts for words, but the model that reads them also reads blanks: of 345
 * drawn lines in Chinese, Japanese and Korean whose characters are right, 325 have the right
 * blanks; by the room between characters 269 had. */
static bool is_blank(const char *before, const char *behind, enum ocr_blank blank, int gap,
                     int tall)
{
    utf8proc_int32_t left = ' ', right;

    (void)ocr_next_point(behind, &right);
    while (*before) {
        before += ocr_next_point(before, &left);
    }
    if (!is_word_alone(left) && !is_word_alone(right)) {
        return true;
    }
    int room = blank == OCR_BLANK_BY_ROOM ? ROOM_BESIDE : ROOM_WIDE;
    return blank == OCR_BLANK_READ || gap * 100 >= room * tall;
}

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
    /* Hundredths of a capital's height. In 48 recordings signs like > = ~ + are at most 86 wide. A Wi-Fi symbol
     * that is read as one of them is 130 to 210 wide, a check mark 96 to 136. Before numbers they are up to 107 in
     * 1,560 drawn lines. */
    SIGN_WIDTH = 95,
    NUMBER_SIGN_WIDTH = 115,
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
        size_t size = ocr_next_point(text, &point);
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

/* Whether a word is one sign of mathematics, of a currency, or a dash, before a number. */
static bool is_number_sign(const struct ocr_word *word, const struct ocr_word *next)
{
    utf8proc_int32_t point;
    size_t size = ocr_next_point(word->text, &point);
    utf8proc_category_t category = utf8proc_category(point);

    return !word->text[size] && looks_of(next->text).letters == 0 && looks_of(next->text).digits &&
           (category == UTF8PROC_CATEGORY_SM || category == UTF8PROC_CATEGORY_SC ||
            category == UTF8PROC_CATEGORY_PD);
}

/* Whether a word is one sign of mathematics, of a currency, or of quotation, and wider than such a sign is. */
static bool is_too_wide(const struct ocr_word *word, int widest, int tall)
{
    utf8proc_int32_t point;
    size_t size = ocr_next_point(word->text, &point);
    utf8proc_category_t category = utf8proc_category(point);
    bool is_narrow = category == UTF8PROC_CATEGORY_SM || category == UTF8PROC_CATEGORY_SC ||
                     category == UTF8PROC_CATEGORY_PI || category == UTF8PROC_CATEGORY_PF;

    return is_narrow && point < MARKS_FROM && !word->text[size] &&
           (word->right - word->left) * 100 > widest * tall;
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
    bool is_of_number = is_number_sign(word, word + 1);
    if ((looks.signs == looks.characters && !is_of_number) ||
        is_too_wide(word, is_of_number ? NUMBER_SIGN_WIDTH : SIGN_WIDTH, tall)) {
        return true;
    }
    if (is_of_number) {
        return false;
    }
    bool is_guess =
        word->sure < ICON_SURE && sure_of(words, 1, words->count) >= word->sure + REST_SURER;
    bool is_apart = usual > 0 && gap * 100 >= APART_TALL * tall && gap * 10 >= APART_TIMES * usual;
    bool is_number = looks.digits == looks.characters;
    return is_number ? is_guess && is_apart : is_guess || (is_apart && looks.letters);
}

/* At the end: a caret, a bell, a sign of what opens there. Letters there are text. */
static bool is_last_icon(const struct ocr_words *words, int tall)
{
    const struct ocr_word *word = &words->items[words->count - 1];
    struct looks looks = looks_of(word->text);

    if (looks.characters > ICON_CHARACTERS || looks.is_foreign || looks.digits || looks.letters) {
        return false;
    }
    return looks.signs == looks.characters || is_too_wide(word, SIGN_WIDTH, tall) ||
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
        has = !ocr_is_underscore(insert->text) && (before ? insert->left < x : insert->right > x);
    }
    return has;
}

void ocr_words_drop_icons(struct ocr_words *words, const struct ocr_line_picture *line)
{
    while (words->count > 1 && is_first_icon(words, line->tall) &&
           !has_insert(line, words->items[0].left, true)) {
        drop(words, 0);
    }
    while (words->count > 1 && is_last_icon(words, line->tall) &&
           !has_insert(line, words->items[words->count - 1].right, false)) {
        drop(words, words->count - 1);
    }
}

/* What a dot is read as behind a word. */
static bool is_like_dot(char letter)
{
    return letter == '-' || letter == '.' || letter == ':' || letter == '*';
}

void ocr_words_drop_misread_dots(struct ocr_words *words, const struct ocr_line_picture *line)
{
    for (size_t i = 0; i < line->insert_count; i++) {
        const struct ocr_insert *insert = &line->inserts[i];
        int middle = (insert->left + insert->right) / 2;
        for (size_t k = words->count; k-- > 0 && ocr_is_middle_dot(insert->text);) {
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

/* A line under construction; pixels count from where it begins to be read. */
struct joining {
    struct cv_buffer text;
    const struct ocr_line_picture *picture;
    size_t next_insert;
    bool from_right;
    const char *last; /* word, NULL before the first */
    int left, right;  /* of what was put in last */
    bool after_insert;
    bool is_joined; /* an underscore stands behind the last word */
    double confidence, worst;
    size_t bytes;
};

/* Where a span lies in the direction of reading. */
static void turn(const struct joining *line, int *left, int *right)
{
    if (line->from_right) {
        int from = line->picture->width - *right;
        *right = line->picture->width - *left;
        *left = from;
    }
}

/* The next insert in the direction of reading; false when there is none. */
static bool peek_insert(const struct joining *line, struct ocr_insert *ret_insert)
{
    if (line->next_insert == line->picture->insert_count) {
        return false;
    }
    size_t index =
        line->from_right ? line->picture->insert_count - 1 - line->next_insert : line->next_insert;
    *ret_insert = line->picture->inserts[index];
    turn(line, &ret_insert->left, &ret_insert->right);
    return true;
}

/* Words are apart as their script has it; beside an emoji or an arrow a gap of a fifth of a capital's height is
 * a blank, beside a dot there always is one. */
static void put_in(struct joining *line, const char *text, enum ocr_blank blank, int left,
                   int right, bool is_insert)
{
    bool apart;

    if (is_insert && line->after_insert) {
        apart = ocr_inserts_apart((line->left + line->right) / 2, (left + right) / 2,
                                  line->picture->tall);
    } else if (is_insert || line->after_insert) {
        const char *insert = is_insert ? text : line->last;
        apart = ocr_is_middle_dot(insert) || (left - line->right) * 5 > line->picture->tall;
    } else {
        apart = !line->is_joined &&
                (!line->last ||
                 is_blank(line->last, text, blank, left - line->right, line->picture->tall));
    }
    cv_buffer_printf(&line->text, "%s%s", line->text.length && apart ? " " : "", text);
    line->last = text;
    line->left = left;
    line->right = right;
    line->after_insert = is_insert;
    line->is_joined = false;
}

/* Puts an underscore in place of the blank between two words, unless either was read with it. */
static void put_underscore(struct joining *line, const struct ocr_insert *insert, int next_left,
                           const char *next)
{
    int middle = (insert->left + insert->right) / 2, reach = line->picture->tall / 3;
    bool is_between = line->last && next && !line->after_insert && middle > line->right - reach &&
                      middle < next_left + reach;

    if (is_between && next[0] != '_' && line->last[strlen(line->last) - 1] != '_') {
        cv_buffer_text(&line->text, "_");
        line->is_joined = true;
    }
}

/* Puts in what stands before `x`: the middle of the next word, which begins at `next_left`. */
static void put_inserts(struct joining *line, int x, int next_left, const char *next)
{
    struct ocr_insert insert;

    while (peek_insert(line, &insert) && insert.left < x) {
        if (ocr_is_underscore(insert.text)) {
            put_underscore(line, &insert, next_left, next);
        } else if (!ocr_is_middle_dot(insert.text) || (line->last && next)) {
            put_in(line, insert.text, OCR_BLANK_BY_ROOM, insert.left, insert.right, true);
        }
        line->next_insert++;
    }
}

/* Letters that are written from right to left, less those from left to right. */
static int balance_of(const char *text)
{
    int balance = 0;

    while (*text) {
        utf8proc_int32_t point;
        text += ocr_next_point(text, &point);
        utf8proc_bidi_class_t direction =
            (utf8proc_bidi_class_t)utf8proc_get_property(point)->bidi_class;
        balance += direction == UTF8PROC_BIDI_CLASS_R || direction == UTF8PROC_BIDI_CLASS_AL;
        balance -= direction == UTF8PROC_BIDI_CLASS_L;
    }
    return balance;
}

bool ocr_word_is_from_right(const char *text)
{
    return balance_of(text) > 0;
}

static bool is_from_right(const struct ocr_words *words)
{
    int balance = 0;

    for (size_t i = 0; i < words->count; i++) {
        balance += balance_of(words->items[i].text);
    }
    return balance > 0;
}

static void put_word(struct joining *line, const struct ocr_word *word)
{
    int left = word->left, right = word->right;
    size_t bytes = strlen(word->text);

    turn(line, &left, &right);
    put_inserts(line, (left + right) / 2, left, word->text);
    put_in(line, word->text, word->blank, left, right, false);
    line->confidence += word->sure * (double)bytes;
    line->worst = word->sure < line->worst ? word->sure : line->worst;
    line->bytes += bytes;
}

/* The language of the most bytes; the first of several. */
static void choose_language(const struct ocr_words *words, char *ret_language)
{
    size_t most = 0;

    for (size_t i = 0; i < words->count; i++) {
        const char *name = words->items[i].language;
        size_t bytes = 0;
        for (size_t k = 0; k < words->count; k++) {
            bytes += strcmp(words->items[k].language, name) == 0 ? strlen(words->items[k].text) : 0;
        }
        if (bytes > most) {
            most = bytes;
            memcpy(ret_language, name, OCR_LANGUAGE_NAME_MAX);
        }
    }
}

int ocr_words_join(const struct ocr_words *words, const struct ocr_line_picture *picture,
                   struct ocr_reading *ret_reading, struct cv_error *error)
{
    struct joining line = {
        .text = CV_BUFFER_INIT, .picture = picture, .from_right = is_from_right(words), .worst = 1};
    struct ocr_reading reading = {.text = NULL};

    for (size_t i = 0; i < words->count && line.bytes < OCR_LINE_BYTES_MAX / 2; i++) {
        put_word(&line, &words->items[i]);
    }
    put_inserts(&line, INT32_MAX, INT32_MAX, NULL);
    int result = cv_buffer_detach(&line.text, &reading.text, error);
    cv_buffer_deinit(&line.text);
    if (result < 0) {
        return result;
    }
    reading.confidence = line.bytes ? line.confidence / (double)line.bytes : 0;
    reading.worst_word = line.bytes ? line.worst : 0;
    choose_language(words, reading.language);
    *ret_reading = reading;
    return 0;
}
