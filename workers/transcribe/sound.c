#include "workers/transcribe/sound.h"

#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES_MAX = SOUND_PIECE_MS * SOUND_PER_MS,
    FULL = 1,              /* an outcome: the piece has all its samples */
    LATE_US = 1000 * 1000, /* sound that begins later than this after a seek may have been missed */
    SILENT_PEAK = 33,      /* of 32767: -60 dB, the noise of a good recording */
    WINDOW_MS = 200,       /* whose energy is compared: a pause between two words */
    STEP_MS = 20,
};

void sound_piece_deinit(struct sound_piece *piece)
{
    free(piece->samples);
    *piece = (struct sound_piece){.count = 0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static int keep(void *opaque, uint8_t *const *planes, int count, struct cv_error *error)
{
    struct sound_piece *piece = opaque;
    size_t room = SAMPLES_MAX - piece->count;
    size_t taken = (size_t)count < room ? (size_t)count : room;
    (void)error;
    memcpy(piece->samples + piece->count, planes[0], taken * sizeof(*piece->samples));
    piece->count += taken;
    return piece->count == SAMPLES_MAX ? FULL : 0;
}

/* Reads until the piece is full (FULL) or the sound is over. Where the index has led behind the beginning, all is read. */
static int read_samples(struct cv_decoder *decoder, int64_t from_us, struct cv_sound_line *line,
                        struct cv_error *error)
{
    bool may_be_late = from_us > 0 && cv_can_seek(cv_decoder_info(decoder));
    struct cv_video_frame unused;
    struct cv_sound sound;
    CV_TRY(may_be_late ? cv_decoder_seek(decoder, from_us, error) : 0);
    for (int result;
         (result = cv_decoder_next_any(decoder, &unused, &sound, error)) != CV_DECODER_END;) {
        if (result < 0) {
            return result;
        }
        if (may_be_late && sound.pts_us != AV_NOPTS_VALUE && sound.pts_us > from_us + LATE_US) {
            CV_TRY(cv_decoder_seek(decoder, 0, error));
        } else if (result == CV_DECODER_SOUND) {
            CV_TRY(cv_sound_line_write(line, &sound, error));
        }
        may_be_late = false;
    }
    return cv_sound_line_finish(line, cv_sound_line_end_us(line), error);
}

/* The loudness of a window, as a sum of squares. */
static double energy(const int16_t *samples)
{
    double sum = 0;
    for (int i = 0; i < WINDOW_MS * SOUND_PER_MS; i++) {
        sum += (double)samples[i] * samples[i];
    }
    return sum;
}

/* Ends a full piece in its quietest moment, so that no word is cut; of equal ones the last. */
static void cut(struct sound_piece *piece)
{
    double least = 0;
    size_t end = piece->count;
    for (int back = WINDOW_MS; back <= SOUND_CUT_MS; back += STEP_MS) {
        size_t start = piece->count - (size_t)back * SOUND_PER_MS;
        double loudness = energy(piece->samples + start);
        if (back == WINDOW_MS || loudness < least) {
            least = loudness;
            end = start + WINDOW_MS / 2 * SOUND_PER_MS;
        }
    }
    piece->count = end;
}

int sound_read(struct cv_decoder *decoder, int64_t from_ms, struct cv_cancel *cancel,
               struct sound_piece *ret_piece, struct cv_error *error)
{
    cv_auto(sound_piece_deinit) struct sound_piece piece = {
        .samples = malloc(SAMPLES_MAX * sizeof(*piece.samples))};
    cv_auto(cv_sound_line_free) struct cv_sound_line *line = NULL;
    const struct cv_sound_line_params params = {.origin_us = from_ms * 1000,
                                                .rate = SOUND_RATE,
                                                .channels = 1,
                                                .format = AV_SAMPLE_FMT_S16,
                                                .cancel = cancel,
                                                .write = keep,
                                                .opaque = &piece};
    CV_TRY_MEMORY(piece.samples, error, "sound");
    CV_TRY(cv_sound_line_new(&params, &line, error));
    int result = read_samples(decoder, from_ms * 1000, line, error);
    if (result < 0) {
        return result;
    }
    piece.is_last = result != FULL;
    if (!piece.is_last) {
        cut(&piece);
    }
    *ret_piece = piece;
    piece.samples = NULL;
    return 0;
}

bool sound_is_silent(const struct sound_piece *piece)
{
    for (size_t i = 0; i < piece->count; i++) {
        if (abs(piece->samples[i]) > SILENT_PEAK) {
            return false;
        }
    }
    return true;
}

/* ---- WAV ----------------------------------------------------------------------------------- */

/* Little-endian, as the samples themselves on the machines that Debian and FFmpeg run on. */
static void append_number(struct cv_buffer *text, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        char byte = (char)(number >> 8 * i & 0xff);
        cv_buffer_append(text, &byte, 1);
    }
}

int sound_encode(const struct sound_piece *piece, char **ret_file, size_t *ret_size,
                 struct cv_error *error)
{
    enum { PCM = 1, HEAD = 36, FORMAT = 16, SAMPLE = sizeof(*piece->samples) };
    cv_auto(cv_buffer_deinit) struct cv_buffer file = CV_BUFFER_INIT;
    uint32_t size = (uint32_t)(piece->count * SAMPLE);
    cv_buffer_text(&file, "RIFF");
    append_number(&file, HEAD + size, 4);
    cv_buffer_text(&file, "WAVEfmt ");
    append_number(&file, FORMAT, 4);
    append_number(&file, PCM, 2);
    append_number(&file, 1, 2);
    append_number(&file, SOUND_RATE, 4);
    append_number(&file, SOUND_RATE * SAMPLE, 4);
    append_number(&file, SAMPLE, 2);
    append_number(&file, 8 * SAMPLE, 2);
    cv_buffer_text(&file, "data");
    append_number(&file, size, 4);
    cv_buffer_append(&file, piece->samples, size);
    *ret_size = file.length;
    return cv_buffer_detach(&file, ret_file, error);
}
