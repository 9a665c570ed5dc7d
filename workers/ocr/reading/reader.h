/* From a line's grey crop to its text: scale, margin, first reading, a second one with other
 * settings where the first is doubtful, and a third by another model where both are. */
#pragma once

#include "workers/ocr/emoji/emoji.h"
#include "workers/ocr/reading/engine.h"

/* The coloured picture of an emoji or an icon, so that another bank can read it later. */
struct ocr_patch {
    struct ocr_box box; /* crop pixels; a little more than the emoji's own */
    uint8_t *rgb;       /* three bytes a pixel; NULL where none was kept; owned */
};

enum {
    OCR_PATCH_MARGIN = 4,    /* pixels around an emoji that its comparison looks at */
    OCR_PATCH_SIDE_MAX = 96, /* of what was not read: larger ones are photos, not emoji */
};

/* A line cut out of a frame: what is read, compared and kept. */
struct ocr_crop {
    struct ocr_ink ink;
    int width, height;
    int tall;            /* height of capitals in crop pixels */
    uint8_t *grey;       /* width × height, 0 ink … 255 paper, emoji included; owned */
    struct ocr_box box;  /* where it was cut out, in frame pixels */
    struct ocr_box line; /* the part that lines.c found: without emoji beside it; frame pixels */
    struct ocr_emoji emoji[OCR_EMOJI_LINE_MAX];   /* in crop pixels; cut out for reading */
    struct ocr_patch patches[OCR_EMOJI_LINE_MAX]; /* of the emoji; until the line is packed */
    size_t emoji_count;
    bool has_letters; /* else it is emoji alone */
};

/* Cuts `line` out, with the emoji in it and beside it, which `banks` outlives. CV_OCR_NO_TEXT when
 * what is there cannot be text: too faint, too blurred, or nothing but pictures. */
enum { CV_OCR_NO_TEXT = 1 };
CV_MUST_CHECK int ocr_crop_make(const struct ocr_emoji_banks *banks, const struct ocr_frame *frame,
                                const struct ocr_line *line, const struct ocr_box *glyphs,
                                struct ocr_crop *ret_crop, struct cv_error *error);
void ocr_crop_deinit(struct ocr_crop *crop);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_crop, ocr_crop_deinit)

/* Gives the patches back. */
void ocr_crop_drop_patches(struct ocr_crop *crop);

/* The sixteen levels of grey that a line is read and kept in: a line that was kept reads the same. */
static inline uint8_t ocr_level(uint8_t grey)
{
    return (uint8_t)((grey + 8) / 17);
}

/* Reads a crop, in sixteen levels; `*readings` grows by the number of calls of the engine. */
CV_MUST_CHECK int ocr_read(struct ocr_engine *engine, const struct ocr_crop *crop,
                           struct ocr_reading *ret_reading, int64_t *readings,
                           struct cv_error *error);

/* A grey picture of a crop in which capitals are `tall` pixels high (or fewer, where it would be too wide), without its
 * emoji, with a white margin; the caller frees `grey`. */
struct ocr_scaled_line {
    uint8_t *grey;
    int width, height;
};
CV_MUST_CHECK int ocr_scale_line(const struct ocr_crop *crop, int tall,
                                 struct ocr_scaled_line *ret_line, struct cv_error *error);

/* Takes off what no text has: lone marks that pictures beside the text were read as. A bar that is
 * an "I" becomes one. In place. */
void ocr_text_clean(char *text);

enum { OCR_COMPARED_MAX = 300 }; /* bytes of texts that are compared */

/* Edits that turn one text into the other, over bytes; both at most OCR_COMPARED_MAX long. */
size_t ocr_text_edits(const char *a, const char *b);

/* Whether a word of the text is what dictionaries get wrong: @name, #tag, address, number. */
bool ocr_text_has_entity(const char *text);
