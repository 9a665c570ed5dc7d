/* Coded pictures from one key frame up to the next, as they are cut. Private to workers/clip_generate/cut. */
#pragma once

#include "workers/clip_generate/cut/h264.h"

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
    size_t count, capacity;
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

/* What a coded picture is made of. */
enum cv_cut_kind {
    CV_CUT_DEPENDENT, /* needs pictures before it */
    CV_CUT_IDR,       /* nothing behind it needs anything before it */
    CV_CUT_BROKEN,    /* cannot be taken apart */
    CV_CUT_CHANGED,   /* brings parameter sets that the stream's header does not have */
};
enum cv_cut_kind cv_cut_look(const struct cv_h264_sets *sets, const AVPacket *packet);

/* Brings a packet into the form of MP4: units with lengths of four bytes, no parameter sets, no
 * delimiters. Untouched when it has that form already. */
CV_MUST_CHECK int cv_cut_repack(const struct cv_h264_sets *sets, AVPacket *packet,
                                struct cv_error *error);
