/* Where in a frame a code may be: a test that costs a hundredth of reading the frame for codes. */
#pragma once

#include "common/screen/screen.h"

enum { OCR_CODE_PLACES_MAX = 16 }; /* of a frame */

struct ocr_code_place {
    struct cv_box box; /* the code; of a QR code also what is around it */
    bool is_bars;
};

/* At most OCR_CODE_PLACES_MAX places into `places`; *ret_count is their number. */
CV_MUST_CHECK int ocr_find_code_places(const struct cv_frame *frame, struct ocr_code_place *places,
                                       size_t *ret_count, struct cv_error *error);
