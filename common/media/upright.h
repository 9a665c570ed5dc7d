/* Turns decoded pictures upright. Private to common/media. */
#pragma once

#include "common/media/input.h"

struct cv_upright;

CV_MUST_CHECK int cv_upright_new(const struct cv_orientation *orientation,
                                 struct cv_upright **ret_upright, struct cv_error *error);
void cv_upright_free(struct cv_upright *upright);
CV_DEFINE_CLEANUP(struct cv_upright *, cv_upright_free)

/* Moves `frame` into `ret_frame` (which must be empty), turned; properties are kept. Follows a
 * change of size or format from one frame to the next. */
CV_MUST_CHECK int cv_upright_turn(struct cv_upright *upright, AVFrame *frame, AVFrame *ret_frame,
                                  struct cv_error *error);
