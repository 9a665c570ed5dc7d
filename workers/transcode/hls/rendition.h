/* One rendition of a ladder: its size and rate; a thread that scales, encodes and cuts into segments, and
 * hands its scaled pictures down to the next smaller one. Private to workers/transcode/hls. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/segments.h"
#include "workers/transcode/hls/thumbnails.h"

/* ---- sizes and rates ------------------------------------------------------------------------- */

struct cv_rendition_size {
    int width, height;
    int max_rate; /* bits per second that no stretch of a second or two goes beyond */
};

/* The renditions of a source that is shown at width × height, largest first; their number, at least
 * 1. `short_sides` names presets (0 of them: the default ladder), as cv_ladder_is_preset knows them.
 * Never larger than the source but for evenness, no two nearly alike. */
size_t cv_ladder_plan(int width, int height, const int *short_sides, size_t count,
                      struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX]);

/* The same with the source's own size as the largest one; 0: it is larger than all presets, or (without
 * `any_size`) `short_sides` do not ask for it. */
size_t cv_ladder_plan_copied(int width, int height, const int *short_sides, size_t count,
                             bool any_size,
                             struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX]);

/* ---- encoding -------------------------------------------------------------------------------- */

struct cv_rendition;

struct cv_rendition_params {
    struct cv_rendition_size size;
    int source_width, source_height; /* of the pictures that come in */
    AVRational aspect;               /* of their pixels */
    double frame_rate;               /* for the encoder's level; 0: unknown */
    int threads;                     /* of the encoder */
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
/* Ends the thread, whatever it is doing. Larger renditions are freed before smaller ones. */
void cv_rendition_free(struct cv_rendition *rendition);

/* A picture that is shown from `ticks` (90 kHz) on; refers to it. Waits while the rendition is
 * busy. Fails with what has gone wrong on the rendition's thread. */
CV_MUST_CHECK int cv_rendition_show(struct cv_rendition *rendition, const AVFrame *picture,
                                    int64_t ticks, bool key, struct cv_error *error);

/* Ends this rendition and all smaller ones at `end` ticks; waits for them only in cv_rendition_join. */
CV_MUST_CHECK int cv_rendition_end(struct cv_rendition *rendition, int64_t end,
                                   struct cv_error *error);
CV_MUST_CHECK int cv_rendition_join(struct cv_rendition *rendition, struct cv_error *error);

/* After cv_rendition_join, but for what any thread may ask of the segments. NULL before the first picture
 * has been taken in. */
struct cv_segments *cv_rendition_segments(struct cv_rendition *rendition);
int64_t cv_rendition_frames(const struct cv_rendition *rendition);
