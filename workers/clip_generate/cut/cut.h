/* Cuts a range out of an H.264 video, encoding only a few pictures at the ends. */
#pragma once

#include "common/media/media.h"

enum { CV_CUT_REASON_SIZE = 192 };

/* Named outcomes of cv_cut. */
enum cv_cut_outcome {
    CV_CUT_DONE = 0,
    CV_CUT_REFUSED = 1, /* this source or range must be encoded; `reason` says why */
};

struct cv_cut_params {
    int64_t start_us, end_us; /* what is shown and heard from start_us to end_us */
    int max_side, max_height; /* pixels; larger pictures are refused; 0: no limit */
    const char *path;         /* the MP4 to write */
    bool sound;               /* false: the file has no sound, but is as long */
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends with CV_ERROR_CANCELED */
    /* Called with the progress of the cut, 0..1; may be NULL. */
    void (*progress)(void *opaque, double fraction);
    void *opaque;
};

struct cv_cut_report {
    int64_t first_us, last_us; /* times of the first and last source pictures used */
    int64_t source_end_us;     /* end of the source; INT64_MAX if the cut ended before it */
    int64_t copied, encoded;   /* pictures */
    struct cv_output_summary summary;
    char reason[CV_CUT_REASON_SIZE];
};

/* Cuts a range out of an H.264 video, or what the video has of it. It starts with the picture that
 * is shown at its start, and its last picture is shown until its end. Pictures are copied bit by
 * bit, except those between the start and the next key frame, and the few at the end that are
 * decoded in another order than they are shown; these are encoded (libx264, CRF 18). Sound is
 * encoded. The result is an MP4 as with CV_OUTPUT_MP4, but the rotation
 * is signalled instead of applied. Only the container's index and the range are read, from the key
 * frame before it on.
 *
 * The source is not trusted. A group of pictures counts as closed if it starts with an IDR picture
 * and its times do not overlap with a neighbour's. Refused are: other parameter sets within the
 * range, interlacing, pictures hidden by an edit list, damage, high dynamic range, mirrored
 * pictures, and anything but 8-bit 4:2:0. The written file is read back and decoded: number, times
 * and order of the pictures, the content of the first and the last, and the length of the sound
 * must be right. After CV_CUT_REFUSED a useless file may be left. Errors as for cv_decoder_open;
 * *ret_report is written for both outcomes. */
CV_MUST_CHECK int cv_cut(const struct cv_byte_source *source, const struct cv_cut_params *params,
                         struct cv_cut_report *ret_report, struct cv_error *error);
