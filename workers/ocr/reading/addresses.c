/* Addresses of pages: Tesseract reads blanks in them, and other marks in place of theirs, because no word list has them. */
#include "workers/ocr/reading/word_corrections.h"

#include <ctype.h>
#include <string.h>

/* Hundredths of a capital's height, of ink-free columns, in 288 drawn addresses and in the words of 21 recordings: blanks
 * that are none have 31 at most, 39 beside a one, and up to 42 before a mark; blanks have 36 and more beside letters that
 * are no mark. */
enum {
    ROOM = 33,
    ROOM_BESIDE_ONE = 10,
    ROOM_BEFORE_MARK = 45,
    ROOM_IN_SCHEME = 60, /* behind "://" and "www.", which end no word */
};

/* The ink of a plus is 71 hundredths of a capital's height high at most, that of a t 88 and more. */
enum { PLUS_HEIGHT = 78 };

static const char HOST[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), least = strlen(end);
    return length >= least && strcmp(text + length - least, end) == 0;
}

/* Where the host of a URL begins; the text itself where no scheme is before it. */
static char *host_of(char *text)
{
    char *scheme = strstr(text, "://");
    return scheme ? scheme + strlen("://") : text;
}

/* Whether a text is the beginning of an address: has a scheme, or a host and what follows one. */
static bool is_address(char *text)
{
    char *host = host_of(text);
    size_t length = strspn(host, HOST);
    const char *dot = memchr(host, '.', length);
    bool has_labels = dot && dot > host && (size_t)(dot - host) + 1 < length;
    bool is_followed =
        host[length] == '/' || (host[length] == ':' && isdigit((unsigned char)host[length + 1]));

    return host > text || begins_with(text, "www.") ||
           (is_followed && (has_labels || begins_with(text, "localhost")));
}

/* The widest paper that two words of one address have between them, in hundredths of a capital's height. */
static int widest_room(const char *before, const char *behind)
{
    if (ends_with(before, "://") || ends_with(before, "www.")) {
        return ROOM_IN_SCHEME;
    }
    if (strchr("/?=&#:", behind[0])) {
        return ROOM_BEFORE_MARK;
    }
    return ROOM + (ends_with(before, "1") || behind[0] == '1' ? ROOM_BESIDE_ONE : 0);
}

/* Whether the word at `index` and the next one, of known letters, are pieces of one address. */
static int is_in_pieces(const struct ocr_words *words, size_t index,
                        const struct ocr_line_picture *line, bool *ret_is, struct cv_error *error)
{
    const struct ocr_word *word = &words->items[index], *next = word + 1;
    cv_auto(cv_buffer_deinit) struct cv_buffer both = CV_BUFFER_INIT;
    cv_auto_free char *text = NULL;

    cv_buffer_printf(&both, "%s%s", word->text, next->text);
    CV_TRY(cv_buffer_detach(&both, &text, error));
    *ret_is = false;
    if (word->symbol_count == strlen(word->text) && next->symbol_count == strlen(next->text) &&
        is_address(text)) {
        const struct ocr_symbol *last =
            &words->symbols[word->first_symbol + word->symbol_count - 1];
        const struct ocr_symbol *first = &words->symbols[next->first_symbol];
        /* the box of the last letter before a blank may reach to the end of the line */
        int from = (last->left + cv_min(last->right, first->left)) / 2;
        int to = first->left + cv_min(first->right - first->left, line->tall) / 2;
        *ret_is = ocr_widest_paper(line, from, to) * 100 <=
                  widest_room(word->text, next->text) * line->tall;
    }
    return 0;
}

static bool is_number_below_256(const char *text, size_t length)
{
    enum { DIGITS = 3, END = 256 };
    int value = 0;

    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]) || length > DIGITS) {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    return length > 0 && value < END;
}

/* Whether a text begins with four numbers of an IP address, with points or commas between them. */
static bool is_ip_address(const char *text)
{
    enum { NUMBERS = 4 };

    for (int i = 0; i < NUMBERS; i++) {
        size_t length = strcspn(text, ".,:/");
        if (!is_number_below_256(text, length) ||
            (i + 1 < NUMBERS && !strchr(".,", text[length]))) {
            return false;
        }
        text += length + (i + 1 < NUMBERS);
    }
    return true;
}

/* A colon of a scheme that is read as a semicolon, and points of a host that are read as commas. */
static void mend_marks(char *text)
{
    char *scheme = strstr(text, ";//");

    if (scheme && begins_with(text, "http")) {
        *scheme = ':';
    }
    char *host = host_of(text);
    if (host > text || begins_with(host, "www,") || is_ip_address(host)) {
        for (char *at = host; *at && !strchr("/?#:", *at); at++) {
            *at = *at == ',' && at[1] ? '.' : *at;
        }
    }
}

/* How high the ink of a letter's box is, in pixels. */
static int ink_height(const struct ocr_line_picture *line, const struct ocr_symbol *symbol)
{
    int top = line->height, bottom = 0;

    for (int y = cv_max(symbol->top, 0); y < cv_min(symbol->bottom, line->height); y++) {
        for (int x = cv_max(symbol->left, 0); x < cv_min(symbol->right, line->width); x++) {
            if (ocr_line_has_ink(line, x, y)) {
                top = cv_min(top, y);
                bottom = y + 1;
            }
        }
    }
    return cv_max(bottom - top, 0);
}

/* A plus between the words of a query is read as t. */
static void mend_plus(const struct ocr_line_picture *line, char *text,
                      const struct ocr_symbol *symbols)
{
    const char *query = strchr(text, '?');
    const char *value = query ? strchr(query, '=') : NULL;

    for (size_t i = value ? (size_t)(value - text) + 1 : strlen(text); text[i]; i++) {
        if (text[i] == 't' && text[i + 1] &&
            ink_height(line, &symbols[i]) * 100 < PLUS_HEIGHT * line->tall) {
            text[i] = '+';
        }
    }
}

int ocr_words_mend_addresses(struct ocr_words *words, const struct ocr_line_picture *line,
                             struct cv_error *error)
{
    for (size_t i = 0; i < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        for (bool is_one = true; i + 1 < words->count && is_one;) {
            CV_TRY(is_in_pieces(words, i, line, &is_one, error));
            CV_TRY(is_one ? ocr_words_join_next(words, i, error) : 0);
        }
        mend_marks(word->text);
        if (word->symbol_count == strlen(word->text) && is_address(word->text)) {
            mend_plus(line, word->text, words->symbols + word->first_symbol);
        }
    }
    return 0;
}
