/* Addresses of pages: Tesseract reads blanks in them, and other marks in place of theirs, because no word list has them. */
#include "workers/ocr/reading/word_corrections.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Hundredths of a capital's height, of columns without ink between two pieces of an address. In 12 recordings of drawn
 * addresses (looked at) it was 32 at most, 39 before a one and 40 before a mark; blanks of text are 32 and more in narrow
 * fonts, so that nothing is joined where both pieces end in letters. */
enum {
    ROOM = 33,
    ROOM_BEFORE_ONE = 39,
    ROOM_BEFORE_MARK = 40,
    ROOM_IN_SCHEME = 60, /* behind "://" and "www.", which end no word */
};

/* Hundredths of a capital's height that the ink of a plus is high at most. In 113 Latin fonts, drawn at 20 and 40 pixels, a t
 * is 85 and more; pluses of some fonts are as high, and stay as they are read. */
enum { PLUS_HEIGHT = 75 };

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

/* Whether a text begins with the four numbers of an IP address, with points between them, of which all but one may be commas. */
static bool is_ip_address(const char *text)
{
    enum { NUMBERS = 4, DIGITS = 3, END = 256 };
    int points = 0;

    for (int i = 0; i < NUMBERS; i++) {
        size_t length = strspn(text, "0123456789");
        char end = text[length];
        bool is_end = i + 1 < NUMBERS ? end == '.' || end == ',' : !end || end == ':' || end == '/';
        if (!length || length > DIGITS || strtol(text, NULL, 10) >= END || !is_end) {
            return false;
        }
        points += i + 1 < NUMBERS && end == '.';
        text += length + (i + 1 < NUMBERS);
    }
    return points > 0;
}

/* Whether a text is the beginning of an address: has a scheme, or a host and what follows one. */
static bool is_address(char *text)
{
    char *host = host_of(text);
    size_t length = strspn(host, HOST), letters = 0;
    const char *dot = memchr(host, '.', length);
    bool is_followed =
        host[length] == '/' || (host[length] == ':' && isdigit((unsigned char)host[length + 1]));

    for (size_t i = 0; i < length; i++) {
        letters += isalpha((unsigned char)host[i]) != 0;
    }
    bool is_name = letters && dot && dot > host && (size_t)(dot - host) + 1 < length;
    return host > text || begins_with(text, "www.") || is_ip_address(host) ||
           (is_followed && (is_name || begins_with(text, "localhost")));
}

/* The widest paper that two pieces of one address have between them, in hundredths of a capital's height; -1 where they are
 * none. A sentence that an address ends goes on with a capital. */
static int widest_room(const char *before, const char *behind)
{
    char last = before[strlen(before) - 1], next = behind[0];
    bool is_digit = isdigit((unsigned char)last) && isdigit((unsigned char)next);
    bool is_open = strchr("/:=&?+_-", last) || (last == '.' && !isupper((unsigned char)next));

    if (ends_with(before, "://") || ends_with(before, "www.")) {
        return ROOM_IN_SCHEME;
    }
    if (strchr("/?=&:", next) && isalnum((unsigned char)behind[1])) {
        return ROOM_BEFORE_MARK;
    }
    return !is_digit && !is_open ? -1 : next == '1' ? ROOM_BEFORE_ONE : ROOM;
}

/* Whether the word at `index` and the next one, of known letters, are pieces of one address. */
static int is_in_pieces(const struct ocr_words *words, size_t index,
                        const struct ocr_line_picture *line, bool *ret_is, struct cv_error *error)
{
    const struct ocr_word *word = &words->items[index], *next = word + 1;
    cv_auto(cv_buffer_deinit) struct cv_buffer both = CV_BUFFER_INIT;
    cv_auto_free char *text = NULL;
    int widest = widest_room(word->text, next->text);

    *ret_is = false;
    if (widest < 0 || word->symbol_count != strlen(word->text) ||
        next->symbol_count != strlen(next->text)) {
        return 0;
    }
    cv_buffer_printf(&both, "%s%s", word->text, next->text);
    CV_TRY(cv_buffer_detach(&both, &text, error));
    const struct ocr_symbol *last = &words->symbols[word->first_symbol + word->symbol_count - 1];
    const struct ocr_symbol *first = &words->symbols[next->first_symbol];
    /* the box of the last letter before a blank may reach to the end of the line */
    int from = (last->left + cv_min(last->right, first->left)) / 2;
    int to = first->left + cv_min(first->right - first->left, line->tall) / 2;
    *ret_is = is_address(text) && last->left < first->left &&
              ocr_widest_paper(line, from, to) * 100 <= widest * line->tall;
    return 0;
}

/* A colon of a scheme that is read as a semicolon, and points of a host that are read as commas. */
static void mend_marks(char *text)
{
    if (begins_with(text, "http;//") || begins_with(text, "https;//")) {
        *strchr(text, ';') = ':';
    }
    char *host = host_of(text);
    if (host > text || begins_with(host, "www,") || is_ip_address(host)) {
        for (char *at = host; *at && !strchr("/?#:", *at); at++) {
            *at = *at == ',' && at[1] ? '.' : *at;
        }
    }
}

/* A plus between the words of a query is read as t. */
static void mend_plus(const struct ocr_line_picture *line, char *text,
                      const struct ocr_symbol *symbols)
{
    const char *query = strchr(text, '?');
    const char *value = query ? strchr(query, '=') : NULL;

    for (size_t i = value ? (size_t)(value - text) + 1 : strlen(text); text[i]; i++) {
        if (text[i] == 't' && text[i + 1] &&
            ocr_symbol_ink(line, &symbols[i]).height * 100 < PLUS_HEIGHT * line->tall) {
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
