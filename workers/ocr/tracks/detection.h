/* Whether a row is text, and how it stands in the result of the stage. */
#pragma once

#include "workers/ocr/tracks/track.h"

/* How likely a row is a line of text that stood as `kept` says; the line is `width` crop pixels wide. Where
 * that is below `least`, kept->refusal says why. */
double ocr_row_judge(const struct ocr_row *row, int width, double least, struct ocr_kept_row *kept);

/* The detection of a row, with the text, language and confidence of `row` and times and boxes of
 * `kept`; NULL: out of memory. */
json_t *ocr_detection_json(const struct ocr_row *row, const struct ocr_kept_row *kept);

/* What the model saw of a row, for scripts/fit_accept, with the id of its track, for `cortana why`; NULL: out of memory. */
json_t *ocr_evidence_json(const struct ocr_row *row, int width, const struct ocr_kept_row *kept,
                          double acceptance);
