/* Where each word of a line stands in its picture. Found from the picture and the final text, not from
 * Tesseract's boxes: those are of a reading before marks and emoji came into it, and of a line read again
 * or remembered there are none. */
#pragma once

#include "workers/ocr/reading/reader.h"

#include <jansson.h>

/* [x, width, …] of the blank-separated words of `text`, in its order, per mille of the crop's width;
 * for a text without words an empty list. NULL: out of memory. */
json_t *ocr_word_boxes(const struct ocr_crop *crop, const char *text);
