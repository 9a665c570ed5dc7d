/* Frames drawn for the tests of the OCR stage: text of a bitmap font in any colours and sizes. */
#pragma once

#include "workers/ocr/reading/reader.h"

#include <leptonica/allheaders.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Emoji are found and cut out, and none is read. */

struct colour {
    uint8_t red, green, blue;
};

static const struct colour white = {255, 255, 255}, black = {12, 12, 16}, grey = {113, 118, 123};
static const struct colour night = {10, 10, 14}, blue = {29, 100, 235}, purple = {190, 150, 250};

/* Computes the luma plane (weights of BT.601) from red, green and blue. */
static inline void compute_luma(struct cv_frame *frame)
{
    uint8_t *const *plane = frame->plane;

    for (int i = 0; i < frame->width * frame->height; i++) {
        plane[CV_LUMA][i] = (uint8_t)((77 * plane[CV_RED][i] + 150 * plane[CV_GREEN][i] +
                                       29 * plane[CV_BLUE][i] + 128) >>
                                      8);
    }
}

static inline struct cv_frame new_frame(int width, int height, struct colour paper)
{
    struct cv_frame frame = {0};
    struct cv_error error;

    assert_int_equal(cv_frame_init(&frame, width, height, &error), 0);
    for (int i = 0; i < width * height; i++) {
        frame.plane[CV_RED][i] = paper.red;
        frame.plane[CV_GREEN][i] = paper.green;
        frame.plane[CV_BLUE][i] = paper.blue;
    }
    compute_luma(&frame);
    return frame;
}

static inline void set_pixel(struct cv_frame *frame, int x, int y, struct colour ink, int share)
{
    const uint8_t levels[3] = {ink.red, ink.green, ink.blue};

    if (x < 0 || y < 0 || x >= frame->width || y >= frame->height) {
        return;
    }
    for (int c = 0; c < 3; c++) {
        uint8_t *at = &frame->plane[c][y * frame->width + x];
        *at = (uint8_t)((*at * (255 - share) + levels[c] * share) / 255);
    }
}

static inline void fill_box(struct cv_frame *frame, struct cv_box box, struct colour ink)
{
    for (int y = box.y; y < box.y + box.height; y++) {
        for (int x = box.x; x < box.x + box.width; x++) {
            set_pixel(frame, x, y, ink, 255);
        }
    }
    compute_luma(frame);
}

enum { FONT_TALL = 42 }; /* pixels of capitals in leptonica's font of 20 points */

/* Draws one line with the left top corner of its ink at x, y and capitals of `tall` pixels, smooth.
 * Returns the box of the ink. */
static inline struct cv_box draw_text(struct cv_frame *frame, const char *text, int x, int y,
                                      int tall, struct colour ink)
{
    float zoom = (float)tall / FONT_TALL;
    L_BMF *font = bmfCreate(NULL, 20);
    PIX *page = pixCreate(2400, 140, 8), *large;
    l_int32 width = 0, overflow = 0;
    struct cv_box box = {0};

    assert_non_null(font);
    assert_non_null(page);
    assert_int_equal(pixSetTextline(page, font, text, 255, 8, 90, &width, &overflow), 0);
    assert_int_equal(overflow, 0);
    large = pixScaleGeneral(page, zoom, zoom, 0.0F, 0);
    assert_non_null(large);
    int left = pixGetWidth(large), top = pixGetHeight(large);
    for (int pass = 0; pass < 2; pass++) {
        for (int row = 0; row < pixGetHeight(large); row++) {
            for (int column = 0; column < pixGetWidth(large); column++) {
                l_uint32 share = 0;
                (void)pixGetPixel(large, column, row, &share);
                if (share < 64) {
                    continue;
                }
                if (pass == 0) {
                    left = cv_min(left, column);
                    top = cv_min(top, row);
                    continue;
                }
                struct cv_box pixel = {x + column - left, y + row - top, 1, 1};
                set_pixel(frame, pixel.x, pixel.y, ink, (int)share);
                box = box.width ? cv_box_union(&box, &pixel) : pixel;
            }
        }
    }
    pixDestroy(&page);
    pixDestroy(&large);
    bmfDestroy(&font);
    compute_luma(frame);
    return box;
}

/* Repeatable noise of ± `reach` levels in every channel, as a codec leaves it. */
static inline void add_noise(struct cv_frame *frame, int reach, unsigned seed)
{
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < frame->width * frame->height; i++) {
            seed = seed * 1103515245u + 12345u;
            int level = frame->plane[c][i] + (int)(seed >> 16) % (2 * reach + 1) - reach;
            frame->plane[c][i] = (uint8_t)cv_max(0, cv_min(255, level));
        }
    }
    compute_luma(frame);
}

static inline struct cv_text_lines find_lines(struct cv_frame *frame)
{
    struct cv_text_lines lines = {0};
    struct cv_error error;

    assert_int_equal(cv_text_lines_find(frame, &lines, &error), 0);
    return lines;
}

/* Cuts out the line of a picture that has one; the caller must ocr_crop_deinit it. */
static inline struct ocr_crop cut_line(struct cv_frame *frame)
{
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(frame);
    struct ocr_crop crop = {0};
    struct cv_error error;

    assert_int_equal(lines.count, 1);
    assert_int_equal(ocr_crop_make(frame, &lines.items[0],
                                   lines.glyphs + lines.items[0].first_glyph, &crop, &error),
                     0);
    return crop;
}
