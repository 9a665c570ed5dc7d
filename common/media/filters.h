/* Woven half-pictures made whole. Private to common/media. */
#pragma once

#include "common/media/media.h"

struct cv_deinterlacer;

/* Whether a decoded picture is two half-pictures of different instants. */
bool cv_is_interlaced(const AVFrame *picture);

CV_MUST_CHECK int cv_deinterlacer_new(struct cv_deinterlacer **ret_deinterlacer,
                                      struct cv_error *error);
void cv_deinterlacer_free(struct cv_deinterlacer *deinterlacer);
CV_DEFINE_CLEANUP(struct cv_deinterlacer *, cv_deinterlacer_free)

/* Takes a frame in, refers to its picture; NULL: there will be no more. Progressive frames pass as
 * they are, in order. */
CV_MUST_CHECK int cv_deinterlacer_send(struct cv_deinterlacer *deinterlacer,
                                       const struct cv_video_frame *frame, struct cv_error *error);

enum cv_deinterlacer_outcome { CV_DEINTERLACER_FRAME = 0, CV_DEINTERLACER_NEEDS_MORE = 1 };

/* The next whole picture with the time and duration that it came with; its picture is borrowed until
 * the next call. One comes out for each that was sent, some calls later. */
CV_MUST_CHECK int cv_deinterlacer_receive(struct cv_deinterlacer *deinterlacer,
                                          struct cv_video_frame *ret_frame, struct cv_error *error);
