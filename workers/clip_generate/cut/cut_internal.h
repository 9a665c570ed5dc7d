/* The parts of a cut without encoding, and its state. Private to cut. Functions may return
 * CV_CUT_REFUSED if the source cannot be cut this way; `reason` says why. */
#pragma once

#include "common/media/media.h"

#include "workers/clip_generate/cut/cut.h"
#include "workers/clip_generate/cut/group.h"

/* An outcome of cv_cut_file_pictures and cv_cut_file_finish: `depth` is too small for the order of
 * the pictures. */
enum { CV_CUT_TOO_DEEP = CV_CUT_REFUSED + 1 };

/* Writes a reason and returns CV_CUT_REFUSED. */
CV_MUST_CHECK int cv_cut_refuse(char reason[CV_CUT_REASON_SIZE], const char *format, ...)
    CV_PRINTF(2, 3);

/* ---- pictures that are encoded --------------------------------------------------------------- */

struct cv_cut_encoding {
    const struct cv_input *input;
    AVRational clock; /* time base of the clip's pictures */
    int64_t origin;   /* the clip's time 0, as a time stamp of the source in ticks of the clock */
    int profile;      /* H.264 profile_idc of the source */
    int set_id;       /* identifier of the encoder's parameter sets, unused in the source */
    int threads;
    char *reason; /* CV_CUT_REASON_SIZE */
};

/* Opens an encoder whose pictures can be mixed with the source's; avcodec_free_context it. */
CV_MUST_CHECK int cv_cut_encoder_open(const struct cv_cut_encoding *encoding,
                                      AVCodecContext **ret_encoder, struct cv_error *error);

/* Converts a time stamp of the source's pictures to the clip's ticks. The picture that is shown when
 * the clip starts has time 0. */
int64_t cv_cut_tick(const struct cv_cut_encoding *encoding, int64_t pts);

/* Encoded pictures, and decoded ones to compare them with. */
struct cv_cut_piece {
    struct cv_packet_queue packets;
    AVFrame *first, *last; /* as decoded from the source */
};
void cv_cut_piece_deinit(struct cv_cut_piece *piece);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_cut_piece, cv_cut_piece_deinit)

/* Decodes a group and encodes those of its pictures that are shown within [from_us, to_us). The
 * encoder must produce the parameter sets in `sets`. */
CV_MUST_CHECK int cv_cut_encode(const struct cv_cut_encoding *encoding,
                                const struct cv_h264_sets *sets, const struct cv_cut_group *group,
                                int64_t from_us, int64_t to_us, struct cv_cut_piece *piece,
                                struct cv_error *error);

/* ---- the file -------------------------------------------------------------------------------- */

struct cv_cut_file;

struct cv_cut_file_params {
    const char *path;
    const AVStream *source; /* size, colours, aspect and display matrix are copied from it */
    const struct cv_h264_sets *sets;
    const AVCodecContext *sound; /* NULL: silent */
    AVRational clock;
    int depth;    /* how many pictures may precede one that is shown earlier */
    int64_t step; /* usual distance of pictures, ticks */
    char *reason; /* CV_CUT_REASON_SIZE */
};
CV_MUST_CHECK int cv_cut_file_open(const struct cv_cut_file_params *params,
                                   struct cv_cut_file **ret_file, struct cv_error *error);
void cv_cut_file_close(struct cv_cut_file *file);
CV_DEFINE_CLEANUP(struct cv_cut_file *, cv_cut_file_close)

/* Writes pictures in decoding order with presentation times in ticks; all of them must be shown
 * after those of earlier calls. Empties the queue. */
CV_MUST_CHECK int cv_cut_file_pictures(struct cv_cut_file *file, struct cv_packet_queue *pictures,
                                       struct cv_error *error);

/* Completes the file; the last picture, which is also the last in decoding order, is shown until
 * `end` ticks. */
CV_MUST_CHECK int cv_cut_file_finish(struct cv_cut_file *file, int64_t end, struct cv_error *error);

/* Presentation times of all pictures so far, increasing. Borrowed. */
const int64_t *cv_cut_file_times(const struct cv_cut_file *file, size_t *ret_count);

/* The start of the last but one group written, which is a key frame. */
size_t cv_cut_file_tail(const struct cv_cut_file *file);

/* ---- sound ----------------------------------------------------------------------------------- */

struct cv_cut_sound;

/* Creates a decoder of the input's sound, and an encoder whose sample 0 has the time `origin_us`.
 * Packets are queued until cv_cut_sound_connect. `mute`: sound is only decoded, to know its end. */
CV_MUST_CHECK int cv_cut_sound_new(const struct cv_input *input, int64_t origin_us, bool mute,
                                   struct cv_cut_sound **ret_sound, struct cv_error *error);
void cv_cut_sound_free(struct cv_cut_sound *sound);
CV_DEFINE_CLEANUP(struct cv_cut_sound *, cv_cut_sound_free)

/* The encoder; NULL if the sound is muted. */
const AVCodecContext *cv_cut_sound_codec(const struct cv_cut_sound *sound);

/* From now on sound is written to the file. */
CV_MUST_CHECK int cv_cut_sound_connect(struct cv_cut_sound *sound, struct cv_cut_file *file,
                                       struct cv_error *error);

/* Adds a packet; takes its data over. */
CV_MUST_CHECK int cv_cut_sound_packet(struct cv_cut_sound *sound, AVPacket *packet,
                                      struct cv_error *error);

/* Decodes what is left; no more packets follow. */
CV_MUST_CHECK int cv_cut_sound_drain(struct cv_cut_sound *sound, struct cv_error *error);

/* The end of the sound decoded so far, on the presentation's axis. */
int64_t cv_cut_sound_end_us(const struct cv_cut_sound *sound);

/* Ends the sound at exactly `end_us`, by dropping samples or adding silence, and writes the rest. */
CV_MUST_CHECK int cv_cut_sound_finish(struct cv_cut_sound *sound, int64_t end_us,
                                      struct cv_error *error);

/* ---- the cut --------------------------------------------------------------------------------- */

struct cv_cut_state {
    const struct cv_cut_params *params;
    struct cv_input *input;
    struct cv_h264_sets sets; /* of the source */
    struct cv_h264_sets all;  /* of the source and the encoder */
    struct cv_cut_encoding encoding;
    int depth;
    struct cv_cut_group group;
    struct cv_cut_file *file;
    struct cv_cut_sound *sound;
    AVPacket *packet;
    AVFrame *first, *last; /* the encoded first and last picture; NULL: copied */
    int64_t target_us;     /* where reading started */
    int64_t group_end_us;  /* end of the newest group that was taken */
    int64_t first_us, last_us, last_duration_us;
    int64_t end_us; /* of the clip, and of the source if that ends within the range */
    int64_t copied, encoded;
    int beyond;   /* pictures of this group so far that are shown after the range */
    bool skipped; /* pictures before the first key frame were not read */
    bool pictures_done, sound_done;
    bool source_goes_on; /* a picture or sound after the range was read */
    char reason[CV_CUT_REASON_SIZE];
};

/* Processes the group that was read: skips it, copies it, encodes its part within the range, or
 * copies its beginning and encodes the few pictures at the end that are decoded in another order
 * than they are shown. `next_us` is when the next group is shown; INT64_MAX: none within the range. */
CV_MUST_CHECK int cv_cut_add_group(struct cv_cut_state *cut, int64_t next_us,
                                   struct cv_error *error);

/* The usual distance of pictures. */
int64_t cv_cut_step_us(const struct cv_cut_state *cut);
