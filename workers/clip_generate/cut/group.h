/* A group: coded pictures from one key frame up to the next. Private to workers/clip_generate/cut. */
#pragma once

#include "common/media/media.h"

#include <libavcodec/packet.h>

struct cv_cut_picture {
    AVPacket *packet;  /* times in the source's time base */
    int64_t time_us;   /* presentation */
    int64_t latest_us; /* latest time of this one and those before it in the group */
    bool hidden;       /* it is decoded, but an edit list hides it */
};

/* In decoding order; the first one is an IDR picture. */
struct cv_cut_group {
    struct cv_cut_picture *pictures;
    size_t count;
    int64_t bytes;
};

void cv_cut_group_deinit(struct cv_cut_group *group);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_cut_group, cv_cut_group_deinit)

/* Appends a packet; moves its data and leaves it blank. */
CV_MUST_CHECK int cv_cut_group_push(struct cv_cut_group *group, AVPacket *packet, int64_t time_us,
                                    struct cv_error *error);

/* How many pictures at the start of the group can be copied for a clip that ends at `end_us`: all
 * of them are shown before `end_us`, and all pictures after them are shown later. */
size_t cv_cut_group_prefix(const struct cv_cut_group *group, int64_t end_us);
