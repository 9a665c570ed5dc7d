/* QR and bar codes in the kept frames of a video: each once while it is visible, with its content,
 * its box and its times. */
#pragma once

#include "common/screen/screen.h"

#include <jansson.h>

struct ocr_codes;

CV_MUST_CHECK int ocr_codes_new(struct ocr_codes **ret_codes, struct cv_error *error);
void ocr_codes_free(struct ocr_codes *codes);
CV_DEFINE_CLEANUP(struct ocr_codes *, ocr_codes_free)

/* The next frame, in order of time, which was on screen from t_start to t_end (ms). */
CV_MUST_CHECK int ocr_codes_frame(struct ocr_codes *codes, const struct cv_frame *frame,
                                  int64_t t_start, int64_t t_end, struct cv_error *error);

/* What was found, as cv_said_store() takes it: [{"text", "t_start", "t_end", "entities", "bounding_box"}], and "end_box"
 * if it moved; boxes are in pixels of the stored picture. In order of t_start. */
CV_MUST_CHECK int ocr_codes_finish(struct ocr_codes *codes, json_t **ret_lines,
                                   struct cv_error *error);
