/* The state of one cut, and the steps it takes: what can be cut, and what becomes of each group of
 * pictures. Private to common/media. */
#pragma once

#include "common/media/cut_internal.h"

struct cv_cut_state {
    const struct cv_cut_params *params;
    struct cv_input *input;
    struct cv_h264_sets sets; /* of the source */
    struct cv_h264_sets all;  /* and of the encoder */
    struct cv_cut_encoding encoding;
    int depth;
    struct cv_cut_group group;
    struct cv_cut_file *file;
    struct cv_cut_sound *sound;
    AVPacket *packet;
    AVFrame *first, *last; /* what was encoded at the ends; NULL: copied */
    int64_t target_us;     /* where reading started */
    int64_t group_end_us;  /* where the newest group ends that was taken */
    int64_t first_us, last_us, after_us;
    int64_t last_duration_us;
    int64_t copied, encoded;
    int beyond; /* pictures seen in this group that show after the range */
    bool pictures_done, sound_done, ended;
    char reason[CV_CUT_REASON_SIZE];
};

/* Looks at the stream, and chooses what its encoded pictures are to be like. */
CV_MUST_CHECK int cv_cut_prepare(struct cv_cut_state *cut, struct cv_error *error);

/* Takes the group that was read: leaves it out, copies it, encodes what lies in the range of it, or
 * copies its front and encodes the few pictures that were reordered over the end. */
CV_MUST_CHECK int cv_cut_take_group(struct cv_cut_state *cut, struct cv_error *error);

/* The usual distance of pictures. */
int64_t cv_cut_step_us(const struct cv_cut_state *cut);

/* A presentation time in ticks from the clip's start. */
int64_t cv_cut_ticks(const struct cv_cut_state *cut, int64_t time_us);
