/* Copies the source's coded pictures as the largest rendition: nothing is encoded, and every
 * picture keeps its time. Private to workers/transcode/hls.
 *
 * Browsers will play the copied bits, so they are checked: before copying, while
 * copying, and against the decoder's output: each coded picture must decode to one picture, at the
 * same time and in the same order. A source that fails a check is refused with a reason; the caller
 * then encodes it. Used by one thread. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/coded.h"
#include "workers/transcode/hls/hls.h"
#include "workers/transcode/hls/segments.h"

struct cv_copy;

void cv_copy_free(struct cv_copy *copy);
CV_DEFINE_CLEANUP(struct cv_copy *, cv_copy_free)

/* The reason why the source cannot be copied after all; NULL if none is known so far. */
const char *cv_copy_refusal(const struct cv_copy *copy);
struct cv_segments *cv_copy_segments(struct cv_copy *copy);
int64_t cv_copy_frames(const struct cv_copy *copy);
