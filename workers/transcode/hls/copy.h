/* The source's own coded pictures as the largest rendition: nothing is encoded, and every picture
 * stands at its own time. Private to workers/transcode/hls.
 *
 * What is copied reaches browsers, so that it is looked at first (cv_copy_suits), while it passes,
 * and against what the decoder makes of it: each coded picture gives one picture, at the same time,
 * in the same order. A source that turns out otherwise is refused, with a reason; who asked for the
 * copy then encodes. Used by one thread. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/coded.h"
#include "workers/transcode/hls/hls.h"
#include "workers/transcode/hls/segments.h"

struct cv_copy;

struct cv_copy_params {
    const AVCodecParameters *codec; /* of the source's pictures; borrowed while opening */
    const char *name;               /* of the rendition; borrowed while opening */
    int max_rate;                   /* bits per second in the mean; twice as much at most */
    int64_t from,
        until; /* ticks: a stretch begins with the first key picture that is shown from there on */
    struct cv_files *files; /* borrowed */
};

/* Whether a source of so many bytes can be copied, as far as its header says; `reason` is written
 * when it cannot. */
bool cv_copy_suits(const struct cv_media_info *source, const AVCodecParameters *codec,
                   int64_t bytes, int max_rate, char reason[CV_LADDER_REASON_SIZE]);

CV_MUST_CHECK int cv_copy_new(const struct cv_copy_params *params, struct cv_copy **ret_copy,
                              struct cv_error *error);
void cv_copy_free(struct cv_copy *copy);
CV_DEFINE_CLEANUP(struct cv_copy *, cv_copy_free)

/* The next coded picture in decoding order, and when it is shown (AV_NOPTS_VALUE: nobody knows). */
CV_MUST_CHECK int cv_copy_packet(struct cv_copy *copy, const AVPacket *packet, int64_t pts_us,
                                 struct cv_error *error);

enum cv_copy_place {
    CV_COPY_BEFORE, /* of the stretch before this one */
    CV_COPY_PICTURE,
    CV_COPY_KEY,
    CV_COPY_BEHIND, /* of the next stretch: nothing more is needed */
};

/* The next decoded picture in order of presentation, shown from `ticks` on. */
enum cv_copy_place cv_copy_frame(struct cv_copy *copy, int64_t ticks);

/* The presentation, or the stretch, ends at `end` ticks. */
CV_MUST_CHECK int cv_copy_finish(struct cv_copy *copy, int64_t end, struct cv_error *error);

/* Why the source cannot be copied after all; NULL: nothing speaks against it so far. */
const char *cv_copy_refusal(const struct cv_copy *copy);
void cv_copy_refuse(struct cv_copy *copy, const char *reason);

struct cv_segments *cv_copy_segments(struct cv_copy *copy);
int64_t cv_copy_frames(const struct cv_copy *copy);
