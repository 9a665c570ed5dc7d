/* Chooses the frames of a video that are worth reading, and measures how long each was on screen.
 *
 * Takes every source frame in presentation order and hands out those to keep. Reference: the last
 * kept frame. Candidate: the first source frame of the state that followed it. A candidate is kept
 * when it has stood long enough to be read, when change goes on and target_fps allows a frame, and,
 * while content scrolls, when so much has moved that lines could be lost, when motion turns round
 * or settles, or after a second. */
#pragma once

#include "common/base/base.h"

#include <libavutil/frame.h>

struct sampler_params {
    double target_fps;       /* 0.1…60 */
    double dedupe_threshold; /* 0…1, see gate.h */
};

/* Where the content stood at a source frame, against the kept frame before. */
struct sampler_motion {
    int64_t time_us;
    int dx, dy; /* pixels; positive: right, down */
};

struct sampler_frame {
    const AVFrame *picture; /* borrowed for the call */
    int64_t time_us;        /* of the picture */
    int64_t start_us;  /* the first source frame of its state, which ends where the next begins */
    int64_t before_us; /* the first source frame that no longer showed the one before */
    bool related;      /* dx, dy are known; else nothing can be said of the one before */
    int dx, dy;        /* of the content, against the kept frame before; 0, 0: in place */
    const struct sampler_motion *motion; /* changes of position since the kept frame before */
    size_t motion_count;
};

struct sampler;

typedef int sampler_keep(void *opaque, const struct sampler_frame *frame, struct cv_error *error);

/* `keep` is called for every kept frame, in order, from push and finish; a failure of it is passed
 * up. */
CV_MUST_CHECK int sampler_new(const struct sampler_params *params, sampler_keep *keep, void *opaque,
                              struct sampler **ret_sampler, struct cv_error *error);
void sampler_free(struct sampler *sampler);
CV_DEFINE_CLEANUP(struct sampler *, sampler_free)

/* The next source frame; times grow. Keeps a reference to the picture, never more than three. */
CV_MUST_CHECK int sampler_push(struct sampler *sampler, const AVFrame *picture, int64_t time_us,
                               struct cv_error *error);

/* Whether much of the picture has moved for two seconds, with shorter pauses, without a text that came or went, other
 * than a clock or less: the next frame, or two of a high rate, may be left out. */
bool sampler_sees_film(const struct sampler *sampler);

/* Called after the last frame: keeps the last state if it has not been kept yet. */
CV_MUST_CHECK int sampler_finish(struct sampler *sampler, struct cv_error *error);
