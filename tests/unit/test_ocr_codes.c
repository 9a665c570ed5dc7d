/* Codes in pictures that are drawn here; what QR codes say is tried with qrencode and zbarimg in tests/system/test_ocr.py. */
#include "workers/ocr/codes/codes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* 4006381333931 as EAN-13: the modules of one row, 1 is dark. */
static const char bars[] = "101"
                           "000110101001110101111011110100010010110011"
                           "01010"
                           "100001010000101000010111010010000101100110"
                           "101";
enum { MODULE = 2, LEFT = 50, TOP = 40, TALL = 60 };

static void draw_bars(struct cv_frame *frame)
{
    for (int y = TOP; y < TOP + TALL; y++) {
        for (size_t i = 0; i < strlen(bars) * MODULE; i++) {
            frame->plane[CV_LUMA][(size_t)y * (size_t)frame->width + LEFT + i] =
                bars[i / MODULE] == '1' ? 0 : 255;
        }
    }
}

static void see(struct ocr_codes *codes, const struct cv_frame *frame, int64_t start)
{
    struct cv_error error = {0};
    assert_int_equal(ocr_codes_frame(codes, frame, start, start + 1000, &error), 0);
}

static void bars_are_one_code_while_they_are_visible(void **state)
{
    (void)state;
    struct cv_error error = {0};
    cv_auto(cv_frame_deinit) struct cv_frame with = {0}, without = {0};
    cv_auto(ocr_codes_free) struct ocr_codes *codes = NULL;
    cv_auto(json_decref) json_t *found = NULL;

    assert_int_equal(cv_frame_init(&with, 320, 150, &error), 0);
    assert_int_equal(cv_frame_init(&without, 320, 150, &error), 0);
    memset(with.plane[CV_LUMA], 255, 320 * 150);
    memset(without.plane[CV_LUMA], 255, 320 * 150);
    draw_bars(&with);
    assert_int_equal(ocr_codes_new(&codes, &error), 0);
    see(codes, &without, 0);
    see(codes, &with, 1000);
    see(codes, &with, 2000);
    see(codes, &without, 3000);
    see(codes, &without, 4000);
    see(codes, &without, 5000);
    see(codes, &with, 6000); /* once more */
    assert_int_equal(ocr_codes_finish(codes, &found, &error), 0);
    assert_int_equal(json_array_size(found), 2);
    const json_t *first = json_array_get(found, 0), *box = json_object_get(first, "bounding_box");
    assert_string_equal(json_string_value(json_object_get(first, "text")), "4006381333931");
    assert_int_equal(json_integer_value(json_object_get(first, "t_start")), 1000);
    assert_int_equal(json_integer_value(json_object_get(first, "t_end")), 3000);
    assert_int_equal(json_integer_value(json_object_get(box, "x")), LEFT);
    assert_int_equal(json_integer_value(json_object_get(box, "width")), 95 * MODULE);
    assert_null(json_object_get(first, "end_box"));
}

static void other_pictures_have_no_codes(void **state)
{
    static const struct {
        int width, height, stripe; /* 0: noise */
    } pictures[] = {{1, 1, 0}, {63, 5, 0}, {65, 67, 0}, {640, 360, 0}, {640, 360, 3}, {129, 33, 1}};
    cv_auto(ocr_codes_free) struct ocr_codes *codes = NULL;
    cv_auto(json_decref) json_t *found = NULL;
    struct cv_error error = {0};
    uint32_t dice = 7;

    (void)state;
    assert_int_equal(ocr_codes_new(&codes, &error), 0);
    for (size_t i = 0; i < CV_COUNT(pictures); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = {0};
        int width = pictures[i].width, stripe = pictures[i].stripe;
        assert_int_equal(cv_frame_init(&frame, width, pictures[i].height, &error), 0);
        for (int at = 0; at < width * pictures[i].height; at++) {
            dice = dice * 1664525 + 1013904223;
            frame.plane[CV_LUMA][at] =
                (uint8_t)(stripe ? (at % width / stripe % 2) * 255 : (int)(dice >> 24));
        }
        see(codes, &frame, (int64_t)i * 1000);
    }
    assert_int_equal(ocr_codes_finish(codes, &found, &error), 0);
    assert_int_equal(json_array_size(found), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_are_one_code_while_they_are_visible),
        cmocka_unit_test(other_pictures_have_no_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
