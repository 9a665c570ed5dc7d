/* A source frame that the sampler holds on to, with its luma. */
#pragma once

#include "common/base/base.h"

#include "workers/sample/gate.h"
#include "workers/sample/plane.h"

#include <libavutil/frame.h>

struct picture {
    AVFrame *frame; /* a reference */
    uint8_t *copy;  /* luma of formats that have none in 8 bits */
    size_t copy_size;
    struct plane luma;
    int64_t time_us;
    bool held;
};

CV_MUST_CHECK int picture_init(struct picture *picture, struct cv_error *error);
void picture_deinit(struct picture *picture);

/* Holds `frame` instead of what was held. */
CV_MUST_CHECK int picture_hold(struct picture *picture, const AVFrame *frame, int64_t time_us,
                               struct cv_error *error);
void picture_release(struct picture *picture);

/* Keeps only what comparing needs; the frame itself is no longer used. */
void picture_slim(struct picture *picture);

/* Whether `current` shows other text than `reference`, in luma or only in colours. */
bool picture_differs(struct gate *gate, const struct picture *reference,
                     const struct picture *current, enum gate_view view,
                     struct gate_result *ret_result);
