/* A picture as separate colour planes in memory, decoded from a JPEG of any origin with bounded memory. */
#pragma once

#include "common/base/base.h"

enum {
    /* Frames above this are decoded at a half, a quarter or an eighth of their side: 12 million
     * pixels hold 3840 × 2400 and 1440 × 3200 whole and keep the planes under 48 MB. */
    CV_FRAME_AREA_MAX = 12 * 1000 * 1000,
    CV_FRAME_SIDE_MAX = 16384,             /* pixels of the JPEG as it is stored */
    CV_FRAME_BYTES_MAX = 64 * 1024 * 1024, /* of the JPEG itself */
};

enum cv_plane { CV_RED, CV_GREEN, CV_BLUE, CV_LUMA, CV_PLANES };

/* Pixels of one plane lie at plane[y * width + x]. */
struct cv_frame {
    int width, height;
    int reduction; /* 1, 2, 4 or 8: frame pixels × reduction = pixels of the stored picture */
    uint8_t *plane[CV_PLANES]; /* one allocation, owned by plane[0] */
};

/* Decodes a JPEG. CV_ERROR_DECODE when it is no JPEG or is damaged, CV_ERROR_LIMIT_EXCEEDED when it
 * is too large. `ret_frame` is freed with cv_frame_deinit. */
CV_MUST_CHECK int cv_frame_decode(const void *data, size_t size, struct cv_frame *ret_frame,
                                  struct cv_error *error);

/* A frame of width × height whose planes are 0. */
CV_MUST_CHECK int cv_frame_init(struct cv_frame *frame, int width, int height,
                                struct cv_error *error);
void cv_frame_deinit(struct cv_frame *frame);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_frame, cv_frame_deinit)
