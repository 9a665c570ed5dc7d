/* Pictures of 256 colours, each with a palette of its own, as GIF wants them. Private to
 * common/media. */
#pragma once

#include "common/media/media.h"

struct cv_palette;

/* `first`: the size, format and colours of all pictures. */
CV_MUST_CHECK int cv_palette_new(const AVFrame *first, struct cv_palette **ret_palette,
                                 struct cv_error *error);
void cv_palette_free(struct cv_palette *palette);
CV_DEFINE_CLEANUP(struct cv_palette *, cv_palette_free)

/* Replaces *frame by the same picture with a palette (AV_PIX_FMT_PAL8). */
CV_MUST_CHECK int cv_palette_apply(struct cv_palette *palette, AVFrame **frame,
                                   struct cv_error *error);
