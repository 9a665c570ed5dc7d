/* One rendition of a ladder: scales, encodes and cuts into segments, on a thread of its own or
 * within the call, and hands its scaled pictures down to the next smaller one. Private to
 * common/media. */
#pragma once

#include "common/media/poster.h"
#include "common/media/preset.h"
#include "common/media/segments.h"
#include "common/media/sprites.h"

struct cv_rung;

struct cv_rung_params {
    struct cv_rung_size size;
    int source_width, source_height; /* of the pictures that come in */
    AVRational aspect;               /* of their pixels */
    double frame_rate;               /* for the encoder's level; 0: unknown */
    int threads;                     /* of the encoder */
    bool own_thread;
    enum cv_segment_format format;
    size_t first; /* number of the first segment */
    struct cv_files *files;
    struct cv_rung *next;       /* borrowed; NULL: the smallest */
    struct cv_poster *poster;   /* borrowed; offered every picture; may be NULL */
    struct cv_sprites *sprites; /* borrowed; shown every picture; may be NULL */
};

CV_MUST_CHECK int cv_rung_new(const struct cv_rung_params *params, struct cv_rung **ret_rung,
                              struct cv_error *error);
/* Ends the thread, whatever it is doing. Larger renditions are freed before smaller ones. */
void cv_rung_free(struct cv_rung *rung);

/* A picture that is shown from `ticks` (90 kHz) on; refers to it. Waits while the rendition is
 * busy. Fails with what has gone wrong on the rendition's thread. */
CV_MUST_CHECK int cv_rung_show(struct cv_rung *rung, const AVFrame *picture, int64_t ticks,
                               bool key, struct cv_error *error);

/* Ends this rendition and all smaller ones at `end` ticks; waits for them only in cv_rung_join. */
CV_MUST_CHECK int cv_rung_end(struct cv_rung *rung, int64_t end, struct cv_error *error);
CV_MUST_CHECK int cv_rung_join(struct cv_rung *rung, struct cv_error *error);

/* After cv_rung_join, but for what any thread may ask of the segments. NULL before the first picture
 * has been taken in. */
struct cv_segments *cv_rung_segments(struct cv_rung *rung);
const char *cv_rung_name(const struct cv_rung *rung);
int64_t cv_rung_frames(const struct cv_rung *rung);
