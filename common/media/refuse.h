/* Says of a file that cannot be read as a video what it is, and what to do about it: by its first bytes
 * (common/recognise), and in MP4 by its boxes. Each sentence has a German text in
 * web/lang/refusals.de.json. */
#pragma once

#include "common/base/base.h"

/* The sentence for a video whose pictures need a key. */
#define CV_MEDIA_ENCRYPTED \
    "the video is encrypted and cannot be read without its key; give a copy without protection"

/* The sentence for a video whose index lists more than the file holds. */
#define CV_MEDIA_ENDS_EARLY \
    "the file ends early: its index promises more than is there; copy or download it again"

/* Fails with the sentence for what the file is: CV_ERROR_NOT_A_VIDEO, or
 * CV_ERROR_UNSUPPORTED_MEDIA for an encrypted video and an animated WebP. Fails with the byte
 * source's error if that cannot be read. 0: nothing is recognised, which can also mean a video. Only
 * for files that FFmpeg has refused: a video in an unusual container may begin like something else.
 */
CV_MUST_CHECK int cv_refuse_recognised(const struct cv_byte_source *source, struct cv_error *error);
