/* From the words that Tesseract found on a line to the line's text: blanks where the page has them,
 * emoji at their places, in the order in which the line is read. */
#pragma once

#include "workers/ocr/reading/reader.h"

enum { OCR_WORDS_MAX = 1024 }; /* of one line; what is more is left out */

/* One letter as it was read. */
struct ocr_symbol {
    char text[8];                 /* UTF-8; "" where it is longer */
    int left, top, right, bottom; /* pixels of the picture; right and bottom exclusive */
    double sure;                  /* 0…1 */
};

/* Whether a blank stands before a word: as the model has read that read it and the word before;
 * by the room between them where different models did. */
enum ocr_blank { OCR_BLANK_BY_ROOM, OCR_BLANK_READ, OCR_BLANK_NONE };

/* One word, in reading order. */
struct ocr_word {
    char *text;      /* owned */
    int left, right; /* pixels of the picture; right exclusive */
    double sure;     /* 0…1 */
    enum ocr_blank blank;
    bool is_listed; /* in the model's word list */
    char language[OCR_LANGUAGE_NAME_MAX];
    size_t first_symbol, symbol_count; /* its letters in the line's; 0 where they are not known */
};

struct ocr_words {
    struct ocr_word *items;
    size_t count;
    struct ocr_symbol *symbols; /* of all words, in their order, also of those that were dropped */
    size_t symbol_count;
};

void ocr_words_deinit(struct ocr_words *words);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_words, ocr_words_deinit)

/* Adds a word, without marks that only direct writing; `text` is copied. */
CV_MUST_CHECK int ocr_words_add(struct ocr_words *words, const struct ocr_word *word,
                                struct cv_error *error);

/* Adds the next letter of the word that is added next. */
CV_MUST_CHECK int ocr_words_add_symbol(struct ocr_words *words, const struct ocr_symbol *symbol,
                                       struct cv_error *error);

/* Removes the words at the ends of a line that are icons beside it, but not beside an emoji or a mark.
 * Not for lines that are read from the right. */
void ocr_words_drop_icons(struct ocr_words *words, const struct ocr_line_picture *line);

/* Removes what was read where a dot is put in. */
void ocr_words_drop_misread_dots(struct ocr_words *words, const struct ocr_line_picture *line);

/* Whether most letters of a word are written from right to left. */
bool ocr_word_is_from_right(const char *text);

/* Puts the words of `picture` and its inserts together. Inserts stand from left to right; where
 * a line is read from the right, they are put in from there. An underscore among them stands in
 * place of a blank. The language is the one that most bytes were read in. */
CV_MUST_CHECK int ocr_words_join(const struct ocr_words *words,
                                 const struct ocr_line_picture *picture,
                                 struct ocr_reading *ret_reading, struct cv_error *error);
