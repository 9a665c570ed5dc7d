/* The picture of a line, cut out of a frame: grey, with the emoji of the line beside it. */
#pragma once

#include "workers/ocr/emoji/emoji.h"

/* The coloured picture of an emoji or an icon, so that a later network can read it. */
struct ocr_patch {
    struct cv_box box; /* crop pixels; a little more than the emoji's own */
    uint8_t *rgb;      /* three bytes a pixel; NULL where none was kept; owned */
};

/* A line cut out of a frame: what is read, compared and kept. */
struct ocr_crop {
    struct cv_ink ink;
    int width, height;
    int tall;           /* height of capitals in crop pixels */
    uint8_t *grey;      /* width × height, 0 ink … 255 paper, emoji included; owned */
    struct cv_box box;  /* where it was cut out, in frame pixels */
    struct cv_box line; /* the line as it was found, without emoji beside it; frame pixels */
    struct ocr_emoji emoji[OCR_EMOJI_LINE_MAX];   /* in crop pixels; cut out for reading */
    struct ocr_patch patches[OCR_EMOJI_LINE_MAX]; /* of the emoji; until the line is packed */
    size_t emoji_count;
    bool has_letters; /* else it is emoji alone */
    bool has_no_bars; /* a bar in it is an I: of subtitles, whose words nothing separates */
};

/* Cuts `line` out, with the emoji in it and beside it. CV_OCR_NO_TEXT when
 * what is there cannot be text: too faint, too blurred, or nothing but pictures. */
enum { CV_OCR_NO_TEXT = 1 };
CV_MUST_CHECK int ocr_crop_make(const struct cv_frame *frame, const struct cv_text_line *line,
                                const struct cv_box *glyphs, struct ocr_crop *ret_crop,
                                struct cv_error *error);
void ocr_crop_deinit(struct ocr_crop *crop);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_crop, ocr_crop_deinit)

/* Gives the patches back. */
void ocr_crop_drop_patches(struct ocr_crop *crop);

/* The sixteen levels of grey that a line is read and kept in: a line that was kept reads the same. */
static inline uint8_t ocr_level(uint8_t grey)
{
    return (uint8_t)((grey + 8) / 17);
}
