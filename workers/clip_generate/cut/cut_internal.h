/* The parts of a cut without encoding, and its state. Private to cut.
 *
 * Functions here may answer CV_CUT_REFUSED: what was found cannot be cut this way; `reason` says
 * why. */
#pragma once

#include "common/media/media.h"

#include "workers/clip_generate/cut/cut.h"
#include "workers/clip_generate/cut/group.h"

/* Of cv_cut_file_pictures and _finish: `depth` is too small for the order of the pictures. */
enum { CV_CUT_TOO_DEEP = CV_CUT_REFUSED + 1 };

/* Writes a reason and returns CV_CUT_REFUSED. */
CV_MUST_CHECK int cv_cut_refuse(char reason[CV_CUT_REASON_SIZE], const char *format, ...)
    CV_PRINTF(2, 3);

/* ---- pictures that are encoded --------------------------------------------------------------- */

struct cv_cut_encoding {
    const struct cv_input *input;
    AVRational clock;   /* of the pictures that come out */
    int64_t origin_pts; /* the clip's time 0 in the source's time base */
    int profile;        /* H.264 profile_idc of the source */
    int set_id;         /* of the parameter sets, free in the source */
    int threads;
    char *reason; /* CV_CUT_REASON_SIZE */
};

/* Opens an encoder whose pictures may stand beside the source's; avcodec_free_context it. */
CV_MUST_CHECK int cv_cut_encoder_open(const struct cv_cut_encoding *encoding,
                                      AVCodecContext **ret_encoder, struct cv_error *error);

/* Pictures that were encoded, and what they show, to compare with. */
struct cv_cut_piece {
    struct cv_packet_queue packets;
    AVFrame *first, *last; /* as decoded from the source */
};
void cv_cut_piece_deinit(struct cv_cut_piece *piece);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_cut_piece, cv_cut_piece_deinit)

/* Decodes a group and encodes those of its pictures that show within [from_us, to_us). The
 * parameter sets must come out as those of `sets`. */
CV_MUST_CHECK int cv_cut_encode(const struct cv_cut_encoding *encoding,
                                const struct cv_h264_sets *sets, const struct cv_cut_group *group,
                                int64_t from_us, int64_t to_us, struct cv_cut_piece *piece,
                                struct cv_error *error);

/* ---- the file -------------------------------------------------------------------------------- */

struct cv_cut_file;

struct cv_cut_file_params {
    const char *path;
    const AVStream *source; /* its size, colours, aspect and display matrix are taken over */
    const struct cv_h264_sets *sets;
    const AVCodecContext *sound; /* NULL: silent */
    AVRational clock;
    int depth;    /* pictures that may stand before one that shows earlier */
    int64_t step; /* a picture's usual distance in ticks */
    char *reason; /* CV_CUT_REASON_SIZE */
};
CV_MUST_CHECK int cv_cut_file_open(const struct cv_cut_file_params *params,
                                   struct cv_cut_file **ret_file, struct cv_error *error);
void cv_cut_file_close(struct cv_cut_file *file);
CV_DEFINE_CLEANUP(struct cv_cut_file *, cv_cut_file_close)

/* Writes pictures in decoding order with presentation times in ticks; all of them show after those
 * of earlier calls. Empties the queue. */
CV_MUST_CHECK int cv_cut_file_pictures(struct cv_cut_file *file, struct cv_packet_queue *pictures,
                                       struct cv_error *error);

/* The last picture stands until `end` ticks. Completes the file. */
CV_MUST_CHECK int cv_cut_file_finish(struct cv_cut_file *file, int64_t end, struct cv_error *error);

/* Presentation times of all pictures so far, growing. Borrowed. */
const int64_t *cv_cut_file_times(const struct cv_cut_file *file, size_t *ret_count);

/* Where the last but one of the groups written starts, which is a key frame. */
size_t cv_cut_file_tail(const struct cv_cut_file *file);

/* ---- sound ----------------------------------------------------------------------------------- */

struct cv_cut_sound;

/* Decodes the input's sound. Packets wait until cv_cut_sound_start. */
CV_MUST_CHECK int cv_cut_sound_new(const struct cv_input *input, struct cv_cut_sound **ret_sound,
                                   struct cv_error *error);
void cv_cut_sound_free(struct cv_cut_sound *sound);
CV_DEFINE_CLEANUP(struct cv_cut_sound *, cv_cut_sound_free)

/* Makes the encoder; sample 0 lies at `origin_us`. */
CV_MUST_CHECK int cv_cut_sound_start(struct cv_cut_sound *sound, int64_t origin_us,
                                     struct cv_error *error);
const AVCodecContext *cv_cut_sound_codec(const struct cv_cut_sound *sound);

/* From here on sound goes into the file. */
CV_MUST_CHECK int cv_cut_sound_connect(struct cv_cut_sound *sound, struct cv_cut_file *file,
                                       struct cv_error *error);

/* Takes the packet's data. */
CV_MUST_CHECK int cv_cut_sound_packet(struct cv_cut_sound *sound, AVPacket *packet,
                                      struct cv_error *error);

/* No more packets come. Ends at cv_cut_sound_end_us at the latest known. */
CV_MUST_CHECK int cv_cut_sound_drain(struct cv_cut_sound *sound, struct cv_error *error);
int64_t cv_cut_sound_end_us(const struct cv_cut_sound *sound);

/* Cuts or fills up to `end_us` exactly, and writes the rest. */
CV_MUST_CHECK int cv_cut_sound_finish(struct cv_cut_sound *sound, int64_t end_us,
                                      struct cv_error *error);

/* ---- the check ------------------------------------------------------------------------------- */

struct cv_cut_check {
    const char *path;
    const int64_t *times; /* of every picture in ticks, growing */
    size_t count;
    size_t tail; /* of the pictures, from where on they are decoded in any case */
    AVRational clock;
    int64_t end;                 /* ticks */
    const AVFrame *first, *last; /* what the first and last picture show; NULL: copied ones */
    bool sound;
    int threads;
    struct cv_cancel *cancel;
    char *reason; /* CV_CUT_REASON_SIZE */
};

/* Reads a clip and decodes it: as many pictures as planned, at their times, none damaged, the first
 * and the last showing what they should, decoding times growing, sound as long as the pictures. Of a
 * long clip the middle is read, but not decoded: it is the source's own, between two key frames. */
CV_MUST_CHECK int cv_cut_check(const struct cv_cut_check *check, struct cv_error *error);

/* ---- the cut --------------------------------------------------------------------------------- */

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

/* Takes the group that was read: leaves it out, copies it, encodes what lies in the range of it, or
 * copies its front and encodes the few pictures that were reordered over the end. */
CV_MUST_CHECK int cv_cut_take_group(struct cv_cut_state *cut, struct cv_error *error);

/* The usual distance of pictures. */
int64_t cv_cut_step_us(const struct cv_cut_state *cut);

/* A presentation time in ticks from the clip's start. */
int64_t cv_cut_ticks(const struct cv_cut_state *cut, int64_t time_us);
