/* FFmpeg's failures as ours. Private to common/media. */
#pragma once

#include "common/base/base.h"

/* Raises an AVERROR code: one table (averror.c) says what each code means. A code that only says
 * "something about the data was wrong" becomes `data_error`, which the caller knows best: at
 * opening that is CV_ERROR_NOT_A_VIDEO, at decoding CV_ERROR_DECODE, at writing CV_ERROR_ENCODE.
 * ": <FFmpeg's words>" is put behind the message. */
CV_MUST_CHECK int cv_fail_av(struct cv_error *error, int av_error, enum cv_error_type data_error,
                             const char *format, ...) CV_PRINTF(4, 5);

/* Sends FFmpeg's log to ours at debug level. Thread-safe; costs nothing after the first call. */
void cv_media_capture_log(void);
