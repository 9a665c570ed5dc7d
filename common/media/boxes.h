/* Reads the boxes that an MP4 or QuickTime file consists of (ISO/IEC 14496-12, 4.2), for what
 * libavformat does not tell. Private to common/media. */
#pragma once

#include "common/base/base.h"

enum {
    CV_BOXES_MAX = 64, /* boxes of one level that are looked at; a usual file has fewer than ten */
};

struct cv_mp4_box {
    char type[5];
    int64_t content, end; /* offsets in the file; the end may be behind the file's */
};

/* Reads `length` bytes, or up to the end of the file. Fails with the byte source's error. */
CV_MUST_CHECK int cv_read_at(const struct cv_byte_source *source, int64_t offset, void *data,
                             size_t length, size_t *ret_got, struct cv_error *error);

/* Reads the head of the box at `offset`. 1: there is none before `end`. Fails with the byte source's
 * error. */
CV_MUST_CHECK int cv_read_box(const struct cv_byte_source *source, int64_t offset, int64_t end,
                              struct cv_mp4_box *ret_box, struct cv_error *error);

/* The length of the whole presentation, its edit lists applied, as the movie header (mvhd) announces
 * it, µs; 0 if it announces none. Fails with the byte source's error. */
CV_MUST_CHECK int cv_read_movie_us(const struct cv_byte_source *source, int64_t *ret_us,
                                   struct cv_error *error);
