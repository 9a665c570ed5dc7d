/* Cuts a range out of a video by encoding it, exact to the frame and to the sample of sound. */
#pragma once

#include "common/media/media.h"

#include "workers/clip_generate/request.h"

enum { CUT_LONG_SIDE_MAX = 3840 }; /* what browsers decode in hardware */

/* A range of the presentation: what is shown and heard from start_us to end_us. The frame that is
 * shown at start_us is the first one, also if it was shown before. */
struct cut_range {
    int64_t start_us;
    int64_t end_us;
};

struct cut_report {
    int64_t first_us, last_us; /* times of the source's first and last frame in the clip */
    int64_t source_end_us;     /* end of the source; INT64_MAX when the cut ended before it */
    struct cv_output_summary summary; /* of a part of an output: duration_us alone */
};

struct cut_params {
    struct cut_range range;
    enum cv_output_kind kind;
    const char *path; /* the file to write */
    /* Borrowed: the cut is written into it, from `at_us` of its axis on; the caller finishes it, and
     * `kind`, `path` and `max_height` say nothing. NULL: the cut is a file of its own. */
    struct cv_output *output;
    int64_t at_us;
    struct clip_box crop;
    struct clip_covers *covers; /* borrowed */
    int max_height;             /* 0: as it is */
    bool mute;                  /* the file has no sound, but is as long */
    struct cv_cancel *cancel;   /* borrowed; an abort ends the cut with CV_ERROR_CANCELED */
    int threads;
    /* Told how far the cut is, 0..1; may be NULL. */
    void (*progress)(void *opaque, double fraction);
    void *opaque;
};

/* Named outcomes. */
enum cut_outcome {
    CUT_DONE = 0,
    CUT_BEYOND_END = 1, /* the source ends before the range starts; nothing was written */
};

/* Opens a source for what is below: with sound, because a source ends with its sound if that is longer. */
CV_MUST_CHECK int cut_open_source(const struct cv_byte_source *source, int threads,
                                  struct cv_cancel *cancel, struct cv_decoder **ret_decoder,
                                  struct cv_error *error);

/* Decodes and encodes the whole range, or what the source has of it. A crop that reaches over the
 * picture's edge is CV_ERROR_INVALID_PAYLOAD. *ret_report is written for both outcomes. */
CV_MUST_CHECK int cut_by_encoding(struct cv_decoder *decoder, const struct cut_params *params,
                                  struct cut_report *ret_report, struct cv_error *error);

/* One moment of a video as a picture. */

struct still_report {
    int64_t time_us;       /* of the picture */
    int64_t source_end_us; /* as in cut_report */
};

/* The picture that is on screen at `moment_us`, or the first one if that comes later, as a JPEG in
 * new memory; free() it. `scratch`: a folder for a file. */
CV_MUST_CHECK int still_make(struct cv_decoder *decoder, int64_t moment_us,
                             struct clip_request *request, const char *scratch, void **ret_data,
                             size_t *ret_size, struct still_report *ret_report,
                             struct cv_error *error);
