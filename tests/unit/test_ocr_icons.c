/* What stands between words and is no letter: the symbol of a file, the edge of a mark. */
#include "tests/unit/ocr_pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The edge of a mark between two words is no ink. */
static void test_the_edge_of_a_mark_is_no_letter(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, white);
    struct colour teal = {64, 203, 188};
    struct cv_box first = draw_text(&frame, "a test message", 40, 40, 18, grey);
    struct cv_box mark = {cv_box_right(&first) + 8, 34, 160, 34};
    fill_box(&frame, mark, teal);
    struct cv_box second = draw_text(&frame, "harbour", mark.x + 10, 40, 18, black);
    struct cv_box line = cv_box_union(&first, &second);
    cv_auto_free uint8_t *pixels = malloc((size_t)line.width * (size_t)line.height);
    struct cv_ink ink;
    assert_non_null(pixels);
    add_noise(&frame, 2, 7);
    cv_ink_measure(&frame, &line, false, &ink);
    cv_ink_apply(&ink, &frame, &line, 0, pixels);
    for (int i = 0; i < line.width * line.height; i++) {
        int x = line.x + i % line.width;
        if (x > cv_box_right(&first) + 2 && x < second.x - 2) {
            assert_true(pixels[i] > 200);
        }
    }
}

/* The symbol of a file between two words, with marks cut out of it, is a gap; a capital of its height is text. */
static void test_a_framed_icon_is_no_letter(void **state)
{
    (void)state;
    for (int is_icon = 0; is_icon < 2; is_icon++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(400, 120, night);
        struct cv_box first = draw_text(&frame, "of", 40, 40, 10, white);
        struct cv_box icon = {cv_box_right(&first) + 8, 41, 20, 13};
        if (is_icon) {
            fill_box(&frame, icon, white);
            fill_box(&frame, (struct cv_box){icon.x + 4, icon.y + 4, 2, 4}, night);
            fill_box(&frame, (struct cv_box){icon.x + 8, icon.y + 4, 2, 4}, night);
            fill_box(&frame, (struct cv_box){icon.x + 14, icon.y + 4, 3, 4}, night);
        } else {
            (void)draw_text(&frame, "MW", icon.x, 40, 10, white);
        }
        (void)draw_text(&frame, "20250312.md", cv_box_right(&icon) + 12, 40, 10, white);
        cv_auto(ocr_crop_deinit) struct ocr_crop crop = cut_line(&frame);
        assert_int_equal(crop.emoji_count, is_icon);
        assert_null(crop.emoji[0].text);
    }
}

/* Small coloured digits bleed into their paper, and fill their boxes like pictures; a dash and a point are no measure of
 * how high letters are. */
static void test_coloured_digits_are_no_pictures(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(200, 80, night);
    struct colour red = {240, 110, 100};
    const struct cv_box letters[] = {
        {40, 36, 10, 2}, {53, 30, 10, 13}, {65, 40, 3, 3}, {71, 30, 10, 13}};
    for (size_t i = 0; i < CV_COUNT(letters); i++) {
        fill_box(&frame, letters[i], red);
        if (letters[i].height > 9) {
            fill_box(&frame, (struct cv_box){letters[i].x + 3, 33, 3, 3}, night);
            fill_box(&frame, (struct cv_box){letters[i].x + 3, 38, 3, 2}, night);
        }
    }
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = cut_line(&frame);
    assert_int_equal(crop.emoji_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_edge_of_a_mark_is_no_letter),
        cmocka_unit_test(test_a_framed_icon_is_no_letter),
        cmocka_unit_test(test_coloured_digits_are_no_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
