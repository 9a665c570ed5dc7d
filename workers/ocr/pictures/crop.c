#include "workers/ocr/pictures/crop.h"

#include <string.h>

enum {
    PATCH_MARGIN = 4,    /* pixels around an emoji that its comparison looks at */
    PATCH_SIDE_MAX = 96, /* of what was not read: larger ones are photos, not emoji */
};

void ocr_crop_deinit(struct ocr_crop *crop)
{
    ocr_crop_drop_patches(crop);
    free(crop->grey);
    *crop = (struct ocr_crop){0};
}

void ocr_crop_drop_patches(struct ocr_crop *crop)
{
    for (size_t i = 0; i < crop->emoji_count; i++) {
        free(crop->patches[i].rgb);
        crop->patches[i] = (struct ocr_patch){.rgb = NULL};
    }
}

/* Whether a glyph lies in an emoji. */
static bool in_emoji(const struct cv_box *glyph, const struct ocr_emoji *emoji, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (cv_box_overlap(glyph, &emoji[i].box) > 0) {
            return true;
        }
    }
    return false;
}

/* The height that one in `share` of the glyphs exceeds, emoji left out: 6 gives the height of
 * capitals, 2 the median. 0: there are no glyphs. */
static int letters_height(const struct cv_text_line *line, const struct cv_box *glyphs,
                          const struct ocr_emoji *emoji, size_t emoji_count, int share)
{
    int heights[257] = {0}, letters = 0;

    for (size_t i = 0; i < line->glyph_count; i++) {
        if (!in_emoji(&glyphs[i], emoji, emoji_count)) {
            heights[cv_min(glyphs[i].height, 256)]++;
            letters++;
        }
    }
    int above = letters / share;
    for (int height = 256; height > 0; height--) {
        above -= heights[height];
        if (above < 0) {
            return height;
        }
    }
    return 0;
}

/* The widest part of the line that holds no emoji. */
static struct cv_box widest_without(const struct cv_box *line, const struct ocr_emoji *emoji,
                                    size_t count)
{
    struct cv_box best = {0};
    int from = line->x;

    for (size_t i = 0; i <= count; i++) {
        int to = i < count ? cv_min(emoji[i].box.x, cv_box_right(line)) : cv_box_right(line);
        if (to - from > best.width) {
            best = (struct cv_box){from, line->y, to - from, line->height};
        }
        from = i < count ? cv_max(from, cv_box_right(&emoji[i].box)) : from;
    }
    return best.width ? best : *line;
}

/* Removes a picture from an end of the line: an avatar before a name or an icon behind it,
 * further from the letters than a blank is wide. When the picture goes under an edge, the text
 * is still there. Returns whether there was one. */
static bool trim_end(const struct cv_text_line *line, const struct cv_box *glyphs, bool right,
                     struct ocr_crop *crop)
{
    int middle = letters_height(line, glyphs, crop->emoji, crop->emoji_count, 2);
    size_t end = right ? crop->emoji_count - 1 : 0;
    struct cv_box rest = {0}, picture = {0};

    if (!crop->emoji_count || crop->emoji[end].text) {
        return false;
    }
    for (size_t i = 0; i < line->glyph_count; i++) {
        struct cv_box *part = cv_box_overlap(&glyphs[i], &crop->emoji[end].box) ? &picture : &rest;
        *part = part->width ? cv_box_union(part, &glyphs[i]) : glyphs[i];
    }
    for (size_t i = 0; i < crop->emoji_count && rest.width; i++) {
        rest = i == end ? rest : cv_box_union(&rest, &crop->emoji[i].box);
    }
    int gap = right ? picture.x - cv_box_right(&rest) : rest.x - cv_box_right(&picture);
    if (!rest.width || gap * 20 < middle * 13) {
        return false;
    }
    crop->box = rest;
    crop->emoji_count--;
    memmove(&crop->emoji[end], &crop->emoji[end + 1],
            (crop->emoji_count - end) * sizeof(*crop->emoji));
    return true;
}

enum {
    REST_MIN = 3,  /* letters that tell where a line's capitals and its baseline are */
    ICON_GAP = 40, /* percent of a capital's height between an icon and the text; a blank has 38 */
    ICON_WIDTH = 60, /* percent of its height; brackets and bars are narrower */
    /* Percent of its height: a wider sign as high as letters is a box with something in it. W has 135. */
    SIGN_WIDTH = 140,
    CARET_WIDTH = 17, /* percent of its height at most */
    BLOCK_WIDTH = 35, /* percent of its height at least: the cursor of a terminal has 45 to 60 */
    BLOCK_LEVELS =
        32, /* levels by which its pixels differ: codecs leave less, letters have 100 and more */
};

/* The letters of a line without those at one end. */
struct rest {
    struct cv_box box;
    int tall, baseline, count;
};

/* Measures the letters outside of the columns of `end`; false when they are too few. */
static bool measure_rest(const struct cv_text_line *line, const struct cv_box *glyphs,
                         const struct cv_box *end, struct rest *rest)
{
    enum { LOOKED_AT = 64 };
    int tops[LOOKED_AT], bottoms[LOOKED_AT];

    *rest = (struct rest){.count = 0};
    for (size_t i = 0; i < line->glyph_count; i++) {
        if (glyphs[i].x < cv_box_right(end) && cv_box_right(&glyphs[i]) > end->x) {
            continue;
        }
        if (rest->count < LOOKED_AT) {
            tops[rest->count] = glyphs[i].y;
            bottoms[rest->count] = cv_box_bottom(&glyphs[i]);
        }
        rest->box = rest->count ? cv_box_union(&rest->box, &glyphs[i]) : glyphs[i];
        rest->count++;
    }
    int looked = cv_min(rest->count, LOOKED_AT);
    if (looked < REST_MIN) {
        return false;
    }
    qsort(tops, (size_t)looked, sizeof(*tops), cv_compare_ints);
    qsort(bottoms, (size_t)looked, sizeof(*bottoms), cv_compare_ints);
    rest->baseline = bottoms[looked / 2];
    rest->tall = rest->baseline - tops[looked / 6];
    return rest->tall >= CV_GLYPH_HEIGHT_MIN;
}

/* Whether a box is of one colour but for its rim: a cursor as large as a letter's cell. */
static bool is_block(const struct cv_frame *frame, const struct cv_box *box)
{
    int least = UINT8_MAX, most = 0;

    for (int y = box->y + 2; y < cv_box_bottom(box) - 2; y++) {
        for (int x = box->x + 2; x < cv_box_right(box) - 2; x++) {
            int level = frame->plane[CV_LUMA][(size_t)y * (size_t)frame->width + (size_t)x];
            least = cv_min(least, level);
            most = cv_max(most, level);
        }
    }
    return most >= least && most - least <= BLOCK_LEVELS &&
           box->width * 100 >= box->height * BLOCK_WIDTH;
}

/* Whether what stands at an end of a line is an icon or a cursor: higher than capitals and lower than the
 * baseline, as no letter is, and apart from the text or nothing but a bar or a block; or a wide sign before it. */
static bool is_no_letter(const struct cv_frame *frame, const struct cv_box *end,
                         const struct rest *rest, bool right)
{
    int least = cv_max(rest->tall / 20, 1);
    int gap = right ? end->x - cv_box_right(&rest->box) : rest->box.x - cv_box_right(end);
    bool is_apart = gap * 100 >= rest->tall * ICON_GAP;
    bool sticks_out = end->y <= rest->baseline - rest->tall - least &&
                      cv_box_bottom(end) >= rest->baseline + least;
    bool is_icon = sticks_out && is_apart && end->width * 100 >= end->height * ICON_WIDTH;
    bool is_caret = sticks_out && (end->width * 100 <= end->height * CARET_WIDTH ||
                                   (right && is_block(frame, end)));
    bool is_sign = is_apart && !right && end->width * 100 >= end->height * SIGN_WIDTH &&
                   end->height * 10 >= rest->tall * 8;

    return is_icon || is_caret || is_sign;
}

/* What stands at an end of a line, by its columns: a glyph with all that is above, below or in it. */
static struct cv_box end_of(const struct cv_text_line *line, const struct cv_box *glyphs,
                            bool right)
{
    size_t count = line->glyph_count;
    struct cv_box end = glyphs[right ? count - 1 : 0];

    for (size_t i = 0; right && i < count; i++) {
        end = cv_box_right(&glyphs[i]) > cv_box_right(&end) ? glyphs[i] : end;
    }
    for (size_t i = 0; i < count; i++) {
        const struct cv_box *glyph = &glyphs[right ? count - 1 - i : i];
        if (glyph->x < cv_box_right(&end) && cv_box_right(glyph) > end.x) {
            end = cv_box_union(&end, glyph);
        }
    }
    return end;
}

/* Removes an icon or a caret from an end of the line: it would be read as a letter, and the line
 * stays the same when its caret blinks. */
static void trim_no_letter(const struct cv_frame *frame, const struct cv_text_line *line,
                           const struct cv_box *glyphs, bool right, struct ocr_crop *crop)
{
    struct cv_box end = end_of(line, glyphs, right);
    struct rest rest;

    if (in_emoji(&end, crop->emoji, crop->emoji_count) ||
        !measure_rest(line, glyphs, &end, &rest) || !is_no_letter(frame, &end, &rest, right)) {
        return;
    }
    int from = right ? crop->box.x : cv_max(rest.box.x, crop->box.x);
    int to = right ? cv_min(cv_box_right(&rest.box), cv_box_right(&crop->box))
                   : cv_box_right(&crop->box);
    for (size_t i = 0; i < crop->emoji_count; i++) {
        from = cv_min(from, crop->emoji[i].box.x);
        to = cv_max(to, cv_box_right(&crop->emoji[i].box));
    }
    crop->box.x = from;
    crop->box.width = to - from;
}

/* Emoji are not faint. */
static int measure_faint(const struct cv_frame *frame, const struct cv_text_line *line,
                         const struct cv_box *glyphs, struct ocr_crop *crop)
{
    cv_ink_measure_faint(frame, &line->box, line->is_light, &crop->ink);
    crop->box = line->box;
    trim_no_letter(frame, line, glyphs, false, crop);
    trim_no_letter(frame, line, glyphs, true, crop);
    crop->tall = letters_height(line, glyphs, NULL, 0, 6);
    crop->has_letters = crop->tall >= CV_GLYPH_HEIGHT_MIN;
    return crop->has_letters && cv_ink_is_clear(&crop->ink) ? 0 : CV_OCR_NO_TEXT;
}

/* Finds the emoji and what of the line is left for letters; CV_OCR_NO_TEXT when neither is there. */
static int find_emoji_and_letters(const struct cv_frame *frame, const struct cv_text_line *line,
                                  const struct cv_box *glyphs, struct ocr_crop *crop)
{
    bool is_read = false;

    if (line->is_faint) {
        return measure_faint(frame, line, glyphs, crop);
    }
    cv_ink_measure(frame, &line->box, line->is_light, &crop->ink);
    crop->emoji_count = ocr_emoji_read(frame, &crop->ink, line, glyphs, crop->emoji);
    crop->box = line->box;
    for (size_t i = 0; i < crop->emoji_count; i++) {
        is_read = is_read || crop->emoji[i].text;
        crop->box = cv_box_union(&crop->box, &crop->emoji[i].box);
    }
    crop->ink.left = line->box.x - crop->box.x;
    crop->tall = letters_height(line, glyphs, crop->emoji, crop->emoji_count, 6);
    crop->has_letters = crop->tall >= CV_GLYPH_HEIGHT_MIN;
    if (!crop->has_letters && is_read) {
        crop->tall = cv_max(crop->box.height * 2 / 3, CV_GLYPH_HEIGHT_MIN);
        return 0;
    }
    while (crop->has_letters &&
           (trim_end(line, glyphs, false, crop) || trim_end(line, glyphs, true, crop))) {
    }
    if (crop->has_letters) {
        trim_no_letter(frame, line, glyphs, false, crop);
        trim_no_letter(frame, line, glyphs, true, crop);
    }
    bool is_trimmed = crop->box.width < line->box.width;
    if (crop->has_letters && (crop->emoji_count || is_trimmed)) {
        struct cv_box letters = is_trimmed ? crop->box : line->box;
        letters = widest_without(&letters, crop->emoji, crop->emoji_count);
        cv_ink_measure(frame, &letters, line->is_light, &crop->ink);
        crop->ink.left = letters.x - crop->box.x;
    }
    return crop->has_letters && cv_ink_is_clear(&crop->ink) ? 0 : CV_OCR_NO_TEXT;
}

/* Keeps the colours of one emoji; `box` is its box in frame pixels. */
static int cut_patch(const struct cv_frame *frame, const struct cv_box *box,
                     struct ocr_patch *ret_patch, struct cv_error *error)
{
    struct cv_box wanted = {box->x - PATCH_MARGIN, box->y - PATCH_MARGIN,
                            box->width + 2 * PATCH_MARGIN, box->height + 2 * PATCH_MARGIN};
    struct cv_box here = cv_box_clip(&wanted, frame->width, frame->height);
    uint8_t *rgb = malloc((size_t)here.width * (size_t)here.height * 3);

    CV_TRY_MEMORY(rgb, error, "an emoji");
    uint8_t *to = rgb;
    for (int y = here.y; y < cv_box_bottom(&here); y++) {
        for (int x = here.x; x < cv_box_right(&here); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            *to++ = frame->plane[CV_RED][at];
            *to++ = frame->plane[CV_GREEN][at];
            *to++ = frame->plane[CV_BLUE][at];
        }
    }
    *ret_patch = (struct ocr_patch){here, rgb};
    return 0;
}

static int cut_patches(const struct cv_frame *frame, struct ocr_crop *crop, struct cv_error *error)
{
    for (size_t i = 0; i < crop->emoji_count; i++) {
        const struct ocr_emoji *emoji = &crop->emoji[i];
        if (!emoji->text && cv_max(emoji->box.width, emoji->box.height) > PATCH_SIDE_MAX) {
            continue;
        }
        CV_TRY(cut_patch(frame, &emoji->box, &crop->patches[i], error));
        crop->patches[i].box.x -= crop->box.x;
        crop->patches[i].box.y -= crop->box.y;
    }
    return 0;
}

int ocr_crop_make(const struct cv_frame *frame, const struct cv_text_line *line,
                  const struct cv_box *glyphs, struct ocr_crop *ret_crop, struct cv_error *error)
{
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {.line = line->box};

    CV_TRY(find_emoji_and_letters(frame, line, glyphs, &crop));
    CV_TRY(cut_patches(frame, &crop, error));
    crop.width = crop.box.width;
    crop.height = crop.box.height;
    for (size_t i = 0; i < crop.emoji_count; i++) {
        crop.emoji[i].box.x -= crop.box.x;
        crop.emoji[i].box.y -= crop.box.y;
    }
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    CV_TRY_MEMORY(crop.grey, error, "a text line");
    cv_ink_apply(&crop.ink, frame, &crop.box, 0, crop.grey);
    *ret_crop = crop;
    crop = (struct ocr_crop){.grey = NULL};
    return 0;
}
