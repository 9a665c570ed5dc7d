/* Failures of libjpeg, which reports them by a callback that must not return. */
#pragma once

#include "common/base/base.h" /* jpeglib.h needs size_t and FILE */

#include <jpeglib.h>
#include <setjmp.h>

struct cv_jpeg_failure {
    struct jpeg_error_mgr manager; /* must be first: libjpeg passes this address to the callbacks */
    jmp_buf back; /* set by the caller's setjmp(), which returns again after a failure */
    char message[JMSG_LENGTH_MAX];
};

/* Returns the error manager for an encoder or decoder. After a failure, and after a warning while
 * reading, it fills in `message` and jumps to `back`. */
struct jpeg_error_mgr *cv_jpeg_errors(struct cv_jpeg_failure *failure);
