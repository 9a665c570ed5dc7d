/* Says what a file is that is no video, and what to do about it, by its first bytes. Each sentence has a
 * German text in web/lang/refusals.de.json. Any thread may call these functions. */
#pragma once

#include "common/base/base.h"

/* How many first bytes are looked at: a web page says in its first line that it is one. */
enum { CV_RECOGNISE_BYTES = 4096 };

/* Fails with the sentence for what begins with these bytes (CV_RECOGNISE_BYTES of a file, or all that it
 * has): CV_ERROR_NOT_A_VIDEO, or CV_ERROR_UNSUPPORTED_MEDIA for an animated WebP. 0: nothing is
 * recognised, which can also mean a video. For files that FFmpeg has refused: a video in an unusual
 * container may begin like something else. */
CV_MUST_CHECK int cv_recognise(const unsigned char *head, size_t length, struct cv_error *error);

/* The same, only for bytes with which no video begins that could be read: for files of which no more is
 * known yet. `is_whole`: the file has no more bytes. */
CV_MUST_CHECK int cv_recognise_surely(const unsigned char *head, size_t length, bool is_whole,
                                      struct cv_error *error);

/* Fails with CV_ERROR_NOT_A_VIDEO and the sentence for a file that has nothing but sound. */
CV_MUST_CHECK int cv_recognise_sound(const char *codec, struct cv_error *error);
