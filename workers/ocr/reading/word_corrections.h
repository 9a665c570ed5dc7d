/* Corrects what Tesseract misreads in terminals, code, addresses and numbers. */
#pragma once

#include "workers/ocr/reading/line_text.h"

/* Where a line's letters stand in equal cells: joins words between which no cell is empty, and leaves one letter in
 * each cell. */
CV_MUST_CHECK int ocr_words_join_cells(struct ocr_words *words, struct cv_error *error);

/* Appends the next word to the one at `index`; their letters must be known. */
CV_MUST_CHECK int ocr_words_join_next(struct ocr_words *words, size_t index,
                                      struct cv_error *error);

/* Mends letters in hexadecimal numbers, zeros that are read as other characters, and dashes in addresses. `line` is
 * the picture that the words were read in; letters whose boxes are not known are judged by the text alone. */
void ocr_words_mend_codes(struct ocr_words *words, const struct ocr_line_picture *line);

/* Joins words that are pieces of one address of a page, and mends the colon of its scheme, the points of its host, and
 * the pluses of its query. `line` is the picture that the words were read in. */
CV_MUST_CHECK int ocr_words_mend_addresses(struct ocr_words *words,
                                           const struct ocr_line_picture *line,
                                           struct cv_error *error);

/* Mends letters in names and addresses: 7, l and I read for a one, € for the e of a hexadecimal number, ® and
 * © for the @ of a mail address, I for the l of a host. `line` is the picture that the words were read in. */
CV_MUST_CHECK int ocr_words_mend_names(struct ocr_words *words, const struct ocr_line_picture *line,
                                       struct cv_error *error);

/* Puts a blank between a number and its sign or unit where one word has both, and room between them ("+ 4.2", "2 ms"),
 * and points and commas that were taken for a part of the digit behind them. `line` is the picture that the words were
 * read in. */
CV_MUST_CHECK int ocr_words_mend_numbers(struct ocr_words *words,
                                         const struct ocr_line_picture *line,
                                         struct cv_error *error);

/* The widest run of columns without ink among the columns [from, to) of a line's picture, in its pixels; 0 where there are
 * no such columns. */
int ocr_widest_paper(const struct ocr_line_picture *line, int from, int to);

/* The box of the ink within a letter's box; without width where there is none. */
struct cv_box ocr_symbol_ink(const struct ocr_line_picture *line, const struct ocr_symbol *symbol);
