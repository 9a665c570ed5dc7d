/* Filters pictures with libavfilter: deinterlacing, rotation, and palettes for GIF. Private to
 * common/media. */
#pragma once

#include "common/media/decode.h"
#include "common/media/demux.h"
#include "common/media/info.h"

#include <libavutil/frame.h>

/* ---- deinterlacing --------------------------------------------------------------------------- */

struct cv_deinterlacer;

CV_MUST_CHECK int cv_deinterlacer_new(struct cv_deinterlacer **ret_deinterlacer,
                                      struct cv_error *error);
void cv_deinterlacer_free(struct cv_deinterlacer *deinterlacer);
CV_DEFINE_CLEANUP(struct cv_deinterlacer *, cv_deinterlacer_free)

/* Sends a frame to the filter, which keeps a reference to the picture; NULL: no more frames follow.
 * Progressive frames pass unchanged, in order. */
CV_MUST_CHECK int cv_deinterlacer_send(struct cv_deinterlacer *deinterlacer,
                                       const struct cv_video_frame *frame, struct cv_error *error);

enum cv_deinterlacer_outcome { CV_DEINTERLACER_FRAME = 0, CV_DEINTERLACER_NEEDS_MORE = 1 };

/* Returns the next deinterlaced picture with its time and duration. The picture is borrowed until
 * the next call. Each frame that was sent comes out some calls later: an interlaced one as two
 * pictures, one for each field, of which only the first may be a key frame. */
CV_MUST_CHECK int cv_deinterlacer_receive(struct cv_deinterlacer *deinterlacer,
                                          struct cv_video_frame *ret_frame, struct cv_error *error);

/* ---- rotation -------------------------------------------------------------------------------- */

struct cv_upright;

/* `aspect`: the aspect ratio of a pixel after rotation. Pixels are made square; 1/1: they stay as
 * they are. */
CV_MUST_CHECK int cv_upright_new(const struct cv_orientation *orientation, AVRational aspect,
                                 struct cv_upright **ret_upright, struct cv_error *error);
void cv_upright_free(struct cv_upright *upright);
CV_DEFINE_CLEANUP(struct cv_upright *, cv_upright_free)

/* Moves `frame` into `ret_frame` (which must be empty), rotated and stretched; other properties are
 * kept. Size and format may change from one frame to the next. */
CV_MUST_CHECK int cv_upright_turn(struct cv_upright *upright, AVFrame *frame, AVFrame *ret_frame,
                                  struct cv_error *error);

/* ---- palettes -------------------------------------------------------------------------------- */

struct cv_palette;

/* `first`: the size, format and colours of all pictures. */
CV_MUST_CHECK int cv_palette_new(const AVFrame *first, struct cv_palette **ret_palette,
                                 struct cv_error *error);
void cv_palette_free(struct cv_palette *palette);
CV_DEFINE_CLEANUP(struct cv_palette *, cv_palette_free)

/* Replaces *frame by the same picture with 256 colours and their palette (AV_PIX_FMT_PAL8). */
CV_MUST_CHECK int cv_palette_apply(struct cv_palette *palette, AVFrame **frame,
                                   struct cv_error *error);
