/* Words that belong to no language: hexadecimal numbers, such as the hashes of commits, and
 * numbers with slashed zeros. Tesseract reads some of their digits as letters. */
#include "workers/ocr/reading/words.h"

#include <ctype.h>
#include <string.h>

enum {
    CODE_MIN = 12,    /* characters of a hexadecimal number that no word has by chance */
    CODE_DIGITS = 4,  /* digits in it … */
    CODE_LETTERS = 2, /* … and letters */
    CODE_DOUBTS = 4,  /* one in so many of its characters may be what a digit was taken for */
};

/* The hexadecimal digit that Tesseract reads as `letter`; 0: there is none. */
static char digit_for(char letter)
{
    return letter == 'O' || letter == 'o' || letter == '@' ? '0'
           : letter == 'l' || letter == 'I'                ? '1'
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

/* `symbols` are those of the characters; NULL where they are not known. A zero with a stroke through it is read
 * as an "a" that is as high as a digit. */
static void mend_code(char *text, size_t length, const struct ocr_symbol *symbols)
{
    int tall = 0;

    for (size_t i = 0; i < length && symbols; i++) {
        int height = symbols[i].bottom - symbols[i].top;
        tall = isdigit((unsigned char)text[i]) && (!tall || height < tall) ? height : tall;
    }
    for (size_t i = 0; i < length; i++) {
        char digit = digit_for(text[i]);
        bool is_tall = tall && symbols[i].bottom - symbols[i].top >= tall;
        text[i] = digit                       ? digit
                  : text[i] == 'a' && is_tall ? '0'
                                              : (char)tolower((unsigned char)text[i]);
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

/* A slashed zero is read as @: in a word with digits, where no name can begin. */
static void mend_zeros(char *text)
{
    if (!strpbrk(text, "0123456789")) {
        return;
    }
    for (char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
        bool begins_name = is_letter(at[1]) || at[1] == '_' || at[1] == '@';
        bool in_number =
            at > text && isdigit((unsigned char)at[-1]) && isdigit((unsigned char)at[1]);
        bool in_word = at > text && (isalpha((unsigned char)at[-1]) || at[-1] == '.');
        *at = in_number || (!begins_name && !in_word) ? '0' : '@';
    }
}

void ocr_words_mend_codes(struct ocr_words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        const struct ocr_word *word = &words->items[i];
        char *text = word->text;
        mend_zeros(text);
        if (strstr(text, "://") || strncmp(text, "www.", 4) == 0) {
            mend_dashes(text);
        }
        bool is_known = word->symbol_count == strlen(text);
        const struct ocr_symbol *symbols = is_known ? words->symbols + word->first_symbol : NULL;
        for (size_t from = 0; text[from];) {
            size_t to = from;
            while (is_of_code(text[to])) {
                to++;
            }
            bool is_whole = (!from || !is_letter(text[from - 1])) && !is_letter(text[to]);
            if (is_whole && is_code(text + from, to - from)) {
                mend_code(text + from, to - from, symbols ? symbols + from : NULL);
            }
            from = to + (text[to] != '\0');
        }
    }
}

int ocr_words_part_units(struct ocr_words *words, int tall, struct cv_error *error)
{
    /* Hundredths of a capital's height: letters of one word are up to 25 apart, "2 ms" of a display 73. */
    enum { APART = 60 };

    for (size_t i = 0; i < words->count; i++) {
        struct ocr_word *word = &words->items[i];
        const struct ocr_symbol *symbols = words->symbols + word->first_symbol;
        size_t digits = strspn(word->text, "0123456789.,");
        if (!digits || word->symbol_count != strlen(word->text) ||
            !isalpha((unsigned char)word->text[digits]) ||
            (symbols[digits].left - symbols[digits - 1].right) * 100 < APART * tall) {
            continue;
        }
        char *parted = NULL;
        CV_TRY(cv_format(&parted, error, "%.*s %s", (int)digits, word->text, word->text + digits));
        free(word->text);
        word->text = parted;
    }
    return 0;
}
