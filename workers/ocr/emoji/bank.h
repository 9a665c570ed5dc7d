/* Small pictures of all emoji, drawn from colour fonts by scripts/emoji_bank.py. One bank is part of
 * the program; more come from the files that CORTANA_EMOJI_BANK names, separated by colons (they have
 * to lie where a stage may read: below /usr or CORTANA_READ_PATHS).
 *
 * Layout of a bank, little endian: "CVEMOJI1", count, bytes of a text (48), side of the coarse picture
 * (8), side of the fine one (20), each 32 bits; then all texts, NUL-padded; all aspects (width × 256 /
 * height, 16 bits); all coarse pictures; all fine ones. A picture is RGBA with premultiplied colours,
 * the emoji's tight box stretched to a square. */
#pragma once

#include "common/base/base.h"

enum {
    OCR_EMOJI_TEXT = 48,
    OCR_EMOJI_COARSE = 8,
    OCR_EMOJI_FINE = 20,
    OCR_EMOJI_QUARTERS = 4,
    OCR_EMOJI_BANKS_MAX = 8,
    OCR_EMOJI_COUNT_MAX = 20000, /* of one bank: Unicode has 3,700, with all its sequences */
};

/* What a coarse picture's cells sum up to, quarter by quarter: premultiplied colours, and the share
 * of the paper that is seen. */
struct ocr_emoji_quarters {
    float colours[3][OCR_EMOJI_QUARTERS], bare[OCR_EMOJI_QUARTERS];
};

struct ocr_emoji_bank {
    size_t count;
    const char *texts;
    const uint8_t *aspects, *coarse, *fine;
    struct ocr_emoji_quarters *quarters; /* owned; of all coarse pictures */
    void *file; /* owned bytes of a bank that was read; NULL for the built-in one */
};

struct ocr_emoji_banks {
    struct ocr_emoji_bank items[OCR_EMOJI_BANKS_MAX];
    size_t count;
};

/* Opens the built-in bank and those of the environment. CV_ERROR_CONFIGURATION names a file that
 * cannot be read or is no bank. Free with ocr_emoji_banks_deinit. */
CV_MUST_CHECK int ocr_emoji_banks_init(struct ocr_emoji_banks *ret_banks, struct cv_error *error);
void ocr_emoji_banks_deinit(struct ocr_emoji_banks *banks);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_emoji_banks, ocr_emoji_banks_deinit)

/* A number that says which pictures the banks hold: the same ones read the same. */
uint64_t ocr_emoji_banks_id(const struct ocr_emoji_banks *banks);

static inline const char *ocr_emoji_text(const struct ocr_emoji_bank *bank, size_t i)
{
    return bank->texts + i * OCR_EMOJI_TEXT;
}

/* Width over height of the tight box, × 256. */
static inline int ocr_emoji_aspect(const struct ocr_emoji_bank *bank, size_t i)
{
    return bank->aspects[2 * i] | bank->aspects[2 * i + 1] << 8;
}

/* The quarter in which a cell of a coarse picture lies. */
static inline int ocr_emoji_quarter(int cell)
{
    int half = OCR_EMOJI_COARSE / 2;
    return cell / OCR_EMOJI_COARSE / half * 2 + cell % OCR_EMOJI_COARSE / half;
}
