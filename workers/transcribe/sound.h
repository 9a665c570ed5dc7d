/* The sound of a video in pieces, as a recogniser of speech wants it. */
#pragma once

#include "common/media/media.h"

enum {
    SOUND_RATE = 16000, /* samples a second: recognisers hear nothing above 8 kHz */
    SOUND_PER_MS = SOUND_RATE / 1000,
    /* A piece ends at its quietest moment, at most so long before the longest piece would end. What failed is sent again, so
     * that long pieces cost more; recognisers listen to half a minute at a time. */
    SOUND_PIECE_MS = 5 * 60 * 1000,
    SOUND_CUT_MS = 30 * 1000,
};

struct sound_piece {
    int16_t *samples; /* mono; SOUND_PIECE_MS at most */
    size_t count;     /* a multiple of SOUND_PER_MS unless the sound ends here */
    bool is_last;
};
void sound_piece_deinit(struct sound_piece *piece);
CV_DEFINE_CLEANUP_ADDRESS(struct sound_piece, sound_piece_deinit)

/* Reads the piece that begins at a time of the presentation. Gaps are silent. The decoder decodes sound, and nothing
 * was read from it yet. A video without sound has one empty piece. */
CV_MUST_CHECK int sound_read(struct cv_decoder *decoder, int64_t from_ms, struct cv_cancel *cancel,
                             struct sound_piece *ret_piece, struct cv_error *error);

/* Whether nobody could hear anything. */
bool sound_is_silent(const struct sound_piece *piece);

/* The piece as a WAV file, in new memory. */
CV_MUST_CHECK int sound_encode(const struct sound_piece *piece, char **ret_file, size_t *ret_size,
                               struct cv_error *error);
