/* Copies the source's coded pictures as the largest rendition: nothing is encoded, and every
 * picture keeps its time. Private to workers/transcode/hls.
 *
 * Browsers will play the copied bits, so they are checked: before copying (cv_copy_suits), while
 * copying, and against the decoder's output: each coded picture must decode to one picture, at the
 * same time and in the same order. A source that fails a check is refused with a reason; the caller
 * then encodes it. Used by one thread. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/coded.h"
#include "workers/transcode/hls/hls.h"
#include "workers/transcode/hls/segments.h"

struct cv_copy;

struct cv_copy_params {
    const AVCodecParameters *codec; /* of the source's pictures; borrowed while opening */
    const char *name;               /* of the rendition; borrowed while opening */
    int max_rate;                   /* highest mean bits per second; the peak may be twice that */
    int64_t from,
        until; /* ticks: a part begins at the first key picture shown at or after this time */
    struct cv_files *files; /* borrowed */
};

/* Whether a source with `bytes` bytes can be copied, as far as its header says; otherwise `reason`
 * is written. */
bool cv_copy_suits(const struct cv_media_info *source, const AVCodecParameters *codec,
                   int64_t bytes, int max_rate, char reason[CV_LADDER_REASON_SIZE]);

CV_MUST_CHECK int cv_copy_new(const struct cv_copy_params *params, struct cv_copy **ret_copy,
                              struct cv_error *error);
void cv_copy_free(struct cv_copy *copy);
CV_DEFINE_CLEANUP(struct cv_copy *, cv_copy_free)

/* Adds the next coded picture in decoding order, and its presentation time (AV_NOPTS_VALUE if
 * unknown). */
CV_MUST_CHECK int cv_copy_packet(struct cv_copy *copy, const AVPacket *packet, int64_t pts_us,
                                 struct cv_error *error);

enum cv_copy_place {
    CV_COPY_BEFORE, /* belongs to the part before */
    CV_COPY_PICTURE,
    CV_COPY_KEY,
    CV_COPY_BEHIND, /* belongs to the next part: no more frames are needed */
};

/* Adds the next decoded picture in presentation order, shown from `ticks` on. */
enum cv_copy_place cv_copy_frame(struct cv_copy *copy, int64_t ticks);

/* Ends the copy: the presentation, or the part, ends at `end` ticks. */
CV_MUST_CHECK int cv_copy_finish(struct cv_copy *copy, int64_t end, struct cv_error *error);

/* The reason why the source cannot be copied after all; NULL if none is known so far. */
const char *cv_copy_refusal(const struct cv_copy *copy);
void cv_copy_refuse(struct cv_copy *copy, const char *reason);

struct cv_segments *cv_copy_segments(struct cv_copy *copy);
int64_t cv_copy_frames(const struct cv_copy *copy);
