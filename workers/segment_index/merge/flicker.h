/* What changes faster than anybody reads: a counter, a stop-watch, a percentage; and letters being
 * typed. */
#pragma once

#include "workers/segment_index/merge/merge.h"

/* Joins states that follow one another at one place, none of which stood longer than 500 ms and that
 * differ in numbers alone, to one segment: from the first to the last, with the text that stood
 * longest. Drops a text that lies in another one: where it stood for 500 ms at most just before that one, which has all of
 * it but two letters, or only while that one, read as surely, stood still and has all of it. `segments` are
 * those of cv_text_merge, ordered; *count is what is left of them. */
CV_MUST_CHECK int cv_join_flicker(struct cv_detection *segments, size_t *count, size_t *parts,
                                  struct cv_reasons *reasons, struct cv_error *error);
