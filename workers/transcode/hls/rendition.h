/* One rendition of a ladder: its size and rate, and a thread that scales, encodes and cuts into
 * segments, and passes its scaled pictures on to the next smaller rendition. Private to
 * workers/transcode/hls. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/segments.h"
#include "workers/transcode/hls/thumbnails.h"

/* ---- sizes and rates ------------------------------------------------------------------------- */

struct cv_rendition_size {
    int width, height;
    int max_rate; /* highest bits per second over a second or two */
};

/* Plans the renditions of a source that is shown at width × height, largest first; returns their
 * number, at least 1. `short_sides` names presets (cv_ladder_is_preset; 0 of them: the default
 * ladder). No rendition is larger than the source except for rounding up to even, and no two are
 * nearly the same size. */
size_t cv_ladder_plan(int width, int height, const int *short_sides, size_t count,
                      struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX]);

/* Plans renditions with the source's own size as the largest one; returns 0 if the source is larger
 * than all presets, or (without `any_size`) is not one of `short_sides`. */
size_t cv_ladder_plan_copied(int width, int height, const int *short_sides, size_t count,
                             bool any_size,
                             struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX]);

/* ---- encoding -------------------------------------------------------------------------------- */

struct cv_rendition;

struct cv_rendition_params {
    struct cv_rendition_size size;
    int source_width, source_height; /* of the incoming pictures */
    AVRational aspect;               /* of their pixels */
    double frame_rate;               /* for the encoder's level; 0: unknown */
    int threads;                     /* threads of the encoder */
    bool own_thread;
    enum cv_segment_format format;
    bool goes_on; /* the first segment is not where the presentation begins */
    struct cv_files *files;
    struct cv_rendition *next;  /* borrowed; NULL: the smallest */
    struct cv_poster *poster;   /* borrowed; offered every picture; may be NULL */
    struct cv_sprites *sprites; /* borrowed; shown every picture; may be NULL */
};

CV_MUST_CHECK int cv_rendition_new(const struct cv_rendition_params *params,
                                   struct cv_rendition **ret_rung, struct cv_error *error);
/* Stops the thread at once. Larger renditions must be freed before smaller ones. */
void cv_rendition_free(struct cv_rendition *rendition);

/* Adds a picture that is shown from `ticks` (90 kHz) on; keeps a reference. Waits while the
 * rendition is busy. If the rendition's thread has failed, fails with its error. */
CV_MUST_CHECK int cv_rendition_show(struct cv_rendition *rendition, const AVFrame *picture,
                                    int64_t ticks, bool key, struct cv_error *error);

/* Ends this rendition and all smaller ones at `end` ticks; cv_rendition_join waits for them. */
CV_MUST_CHECK int cv_rendition_end(struct cv_rendition *rendition, int64_t end,
                                   struct cv_error *error);
CV_MUST_CHECK int cv_rendition_join(struct cv_rendition *rendition, struct cv_error *error);

/* The rendition's segments, to be used after cv_rendition_join, except for the functions of
 * segments.h that any thread may call. NULL before the first picture has arrived. */
struct cv_segments *cv_rendition_segments(struct cv_rendition *rendition);
int64_t cv_rendition_frames(const struct cv_rendition *rendition);
