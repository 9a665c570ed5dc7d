/* Chooses the video and sound streams of a container, and describes them before anything is
 * decoded. */
#pragma once

#include "common/media/demux.h"

/* Chooses the streams, discards the others, and fills video, audio, tracks, orientation, zero_us
 * and info of an input whose container is open. Errors as for cv_decoder_open. */
CV_MUST_CHECK int cv_input_choose_streams(struct cv_input *input, struct cv_error *error);
