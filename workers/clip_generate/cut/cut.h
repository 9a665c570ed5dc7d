/* Cuts a stretch out of an H.264 video without encoding it, but for a few pictures at the ends. */
#pragma once

#include "common/media/media.h"

enum { CV_CUT_REASON_SIZE = 192 };

/* Named outcomes of cv_cut. */
enum cv_cut_outcome {
    CV_CUT_DONE = 0,
    CV_CUT_REFUSED = 1, /* this source or range has to be encoded; `reason` says why */
};

struct cv_cut_params {
    int64_t start_us, end_us; /* pictures with start_us <= time < end_us */
    int64_t late_us;          /* refused when the first of them comes this long after start_us */
    int max_side, max_height; /* pixels; larger pictures are refused, 0: none are */
    const char *path;         /* the MP4 to write */
    bool sound;
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends with CV_ERROR_CANCELED */
    /* Told how far the cut is, 0..1; may be NULL. */
    void (*progress)(void *opaque, double fraction);
    void *opaque;
};

struct cv_cut_report {
    int64_t first_us, last_us; /* of the source's pictures that went in */
    int64_t source_end_us;     /* where the source ends, INT64_MAX when the cut ended before it */
    int64_t copied, encoded;   /* pictures */
    struct cv_output_summary summary;
    char reason[CV_CUT_REASON_SIZE];
};

/* Cuts a stretch out of an H.264 video: pictures are copied bit by bit, but for those between the
 * start and the next key frame, and for the few that are reordered over the end; these are encoded
 * (libx264, CRF 18). The result is an MP4 as CV_OUTPUT_MP4 makes it, with the rotation signalled
 * instead of applied; sound is encoded. Only the container's index and the range are read, from the
 * key frame before it on.
 *
 * Nothing is taken on trust: a group of pictures counts as closed when it starts with an IDR picture
 * and no time of it reaches into a neighbour; other parameter sets within the range, interlacing,
 * pictures hidden by an edit list, damage, high dynamic range, mirrored pictures and everything but
 * 4:2:0 of 8 bits are refused. The file is read back and decoded before it counts: number, times
 * and order of the pictures, what the first and the last show, the sound's length. A refusal may
 * leave a useless file. Errors as for cv_decoder_open; *ret_report is written for both outcomes. */
CV_MUST_CHECK int cv_cut(const struct cv_byte_source *source, const struct cv_cut_params *params,
                         struct cv_cut_report *ret_report, struct cv_error *error);
