/* Which streams of an opened container are worked on, and what is known of them. Private to
 * common/media. */
#pragma once

#include "common/media/input.h"

/* Picks the streams, discards the others, and fills video, audio, orientation, zero_us and info. */
CV_MUST_CHECK int cv_streams_choose(struct cv_input *input, struct cv_error *error);
