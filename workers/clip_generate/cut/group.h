/* Coded pictures from one key frame up to the next, as they are cut. Private to workers/clip_generate/cut. */
#pragma once

#include "common/media/media.h"

#include <libavcodec/packet.h>

struct cv_cut_picture {
    AVPacket *packet;  /* times in the source's time base */
    int64_t time_us;   /* presentation */
    int64_t latest_us; /* of this one and those before it in the group */
    bool hidden;       /* decoded, but an edit list leaves it out */
};

/* In decoding order; the first one is an IDR picture. */
struct cv_cut_group {
    struct cv_cut_picture *pictures;
    size_t count;
    int64_t bytes;
};

void cv_cut_group_deinit(struct cv_cut_group *group);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_cut_group, cv_cut_group_deinit)

/* Takes the packet's data and leaves it blank. */
CV_MUST_CHECK int cv_cut_group_push(struct cv_cut_group *group, AVPacket *packet, int64_t time_us,
                                    struct cv_error *error);

/* How many pictures from the front on can be kept as they are: all of them show before `end_us`, and
 * what is dropped behind them shows after every one of them. */
size_t cv_cut_group_prefix(const struct cv_cut_group *group, int64_t end_us);
