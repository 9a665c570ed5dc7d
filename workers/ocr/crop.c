#include "workers/ocr/reader.h"

#include <string.h>

/* Text on anything has two groups of pixels; texture and gradients have not. */
static const double CLARITY_MIN = 0.55;
enum { CONTRAST_MIN = 36 };

void ocr_crop_deinit(struct ocr_crop *crop)
{
    free(crop->grey);
    *crop = (struct ocr_crop){0};
}

static int contrast(const struct ocr_ink *ink)
{
    return ink->kind == OCR_INK_FLAT ? ink->low : ink->high - ink->low;
}

/* Height of capitals among the glyphs that are no emoji. */
static int letters_tall(const struct ocr_line *line, const struct ocr_box *glyphs,
                        const struct ocr_box *emoji, size_t emoji_count)
{
    int heights[257] = {0}, letters = 0;

    for (size_t i = 0; i < line->glyph_count; i++) {
        bool is_emoji = false;
        for (size_t k = 0; k < emoji_count; k++) {
            is_emoji = is_emoji || ocr_box_overlap(&glyphs[i], &emoji[k]) > 0;
        }
        if (!is_emoji) {
            heights[ocr_min(glyphs[i].height, 256)]++;
            letters++;
        }
    }
    int above = letters / 6;
    for (int height = 256; height > 0; height--) {
        above -= heights[height];
        if (above < 0) {
            return height;
        }
    }
    return 0;
}

/* The widest part of the line that holds no emoji. */
static struct ocr_box widest_without(const struct ocr_box *line, const struct ocr_box *emoji,
                                     size_t count)
{
    struct ocr_box best = {0};
    int from = line->x;

    for (size_t i = 0; i <= count; i++) {
        int to = i < count ? emoji[i].x : ocr_right(line);
        if (to - from > best.width) {
            best = (struct ocr_box){from, line->y, to - from, line->height};
        }
        from = i < count ? ocr_max(from, ocr_right(&emoji[i])) : from;
    }
    return best.width ? best : *line;
}

int ocr_crop_make(const struct ocr_frame *frame, const struct ocr_line *line,
                  const struct ocr_box *glyphs, struct ocr_crop *ret_crop, struct cv_error *error)
{
    struct ocr_crop crop = {.width = line->box.width, .height = line->box.height};

    ocr_ink_measure(frame, &line->box, &crop.ink);
    if (contrast(&crop.ink) < CONTRAST_MIN || crop.ink.clarity < CLARITY_MIN) {
        return CV_OCR_NO_TEXT;
    }
    crop.emoji_count =
        ocr_emoji_find(frame, &crop.ink, line, glyphs, crop.emoji, CV_COUNT(crop.emoji));
    if (crop.emoji_count) {
        struct ocr_box letters = widest_without(&line->box, crop.emoji, crop.emoji_count);
        ocr_ink_measure(frame, &letters, &crop.ink);
    }
    crop.tall = letters_tall(line, glyphs, crop.emoji, crop.emoji_count);
    if (crop.tall < OCR_GLYPH_HEIGHT_MIN) {
        return CV_OCR_NO_TEXT;
    }
    for (size_t i = 0; i < crop.emoji_count; i++) {
        crop.emoji[i].x -= line->box.x;
        crop.emoji[i].y -= line->box.y;
    }
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    if (!crop.grey) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a line of %d × %d pixels",
                       crop.width, crop.height);
    }
    ocr_ink_apply(&crop.ink, frame, &line->box, crop.grey);
    *ret_crop = crop;
    return 0;
}
