/* One engine of Tesseract over models that it was given, and one line read by it. */
#pragma once

#include "workers/ocr/reading/line_text.h"

#include <tesseract/capi.h>

/* Loads models ("eng", "deu+eng": what the first is unsure of, the next ones read, too) from
 * `data_path`, with their word lists or without. CV_ERROR_OCR. Free with ocr_tesseract_stop. */
CV_MUST_CHECK int ocr_tesseract_start(const char *data_path, const char *languages, bool with_words,
                                      TessBaseAPI **ret_api, struct cv_error *error);
void ocr_tesseract_stop(TessBaseAPI *api);

/* The words of a line as the models read them, nothing corrected. */
CV_MUST_CHECK int ocr_tesseract_read(TessBaseAPI *api, const struct ocr_line_picture *line,
                                     struct ocr_words *ret_words, struct cv_error *error);

/* Corrects the words of a line and puts them together; the reading's language is that of the model that most of it was
 * read by. */
CV_MUST_CHECK int ocr_words_finish(struct ocr_words *words, const struct ocr_line_picture *line,
                                   struct ocr_reading *ret_reading, struct cv_error *error);
