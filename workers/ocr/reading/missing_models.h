/* The scripts of lines that no model of a job could read, so that a user is told which model is missing. They are
 * named by Tesseract's orientation and script detection (the model "osd"), which is wrong about single lines: what
 * counts is what pages of several lines agree on. Only refused lines (accept.h) are looked at, and no line is
 * refused or left out for what is found here. */
#pragma once

#include "workers/ocr/pictures/pictures.h"

enum {
    OCR_MISSING_MODELS_MAX = 16
}; /* of one job's result; there are fewer that are named at all */

/* Adds to `unread`, a list of {"script", "lines"} with the names of Tesseract's models of scripts ("Cyrillic"), the
 * scripts of a pack's pictures of which no row is text; `is_text` has a flag for each picture. "lines" are those on
 * the pages that named the script: where there are too many lines to look at, some of them, from all of the pack.
 * `languages` are the models that have read ("eng+deu"): what one of them reads is not named. Nothing is added where
 * there are few lines, where "osd" is not installed, or where pages do not agree. CV_ERROR_DECODE where the pack is
 * damaged. One thread. */
CV_MUST_CHECK int ocr_missing_scripts(const char *languages, const struct cv_byte_source *pack,
                                      const bool *is_text, json_t *unread, struct cv_error *error);

/* The same of the pack that ocr_pack_write has written to the file `path`; its rows say what is text. */
CV_MUST_CHECK int ocr_missing_scripts_in_file(const char *languages, const char *path,
                                              json_t *unread, struct cv_error *error);

/* Adds to `unread` the languages of Latin letters that no model has read, as {"script": "spa", "lines"} with the name of
 * Tesseract's model: their lines are read, but with the letters of other languages (ë for é). A language is named
 * where at least a fifth of the words of all lines is in it, and four lines of three words or so are. `detections` is
 * the list of a result. */
CV_MUST_CHECK int ocr_missing_languages(const char *languages, const json_t *detections,
                                        json_t *unread, struct cv_error *error);
