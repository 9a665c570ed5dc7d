/* Telling the ink of a line from its paper, or from a picture behind it, on drawn frames. */
#include "tests/unit/ocr_pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect_dark_on_light(struct colour paper, struct colour ink, bool light)
{
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(400, 100, paper);

    (void)draw_text(&frame, "Harbour", 30, 30, 25, ink);
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = cut_line(&frame);
    assert_int_equal(crop.ink.light, light);
    assert_true(crop.ink.clarity > 0.7);
    int dark = 0, bright = 0;
    for (int i = 0; i < crop.width * crop.height; i++) {
        dark += crop.grey[i] < 60;
        bright += crop.grey[i] > 200;
    }
    assert_true(dark * 100 > crop.width * crop.height * 8);
    assert_true(bright > dark);
}

static void test_ink_is_dark_on_light_whatever_the_theme(void **state)
{
    (void)state;
    expect_dark_on_light(white, black, false);
    expect_dark_on_light(night, white, true);
    expect_dark_on_light(white, blue, false);
    expect_dark_on_light(night, purple, true);
    /* Equal in luma: only the colours tell them apart. */
    expect_dark_on_light((struct colour){200, 60, 60}, (struct colour){60, 130, 80}, false);
}

/* Where the picture is as bright as the fill or as dark as the outline, the fill is what is enclosed. */
static void test_a_fill_is_told_from_its_outline_on_any_picture(void **state)
{
    (void)state;
    static const struct colour grounds[] = {{250, 250, 190}, {215, 205, 225}, {14, 30, 12}};
    for (int i = 0; i < 6; i++) {
        struct colour fill = i % 2 ? black : white, outline = i % 2 ? white : black;
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 140, grounds[i / 2]);
        fill_box(&frame, (struct cv_box){200, 0, 150, 140}, (struct colour){200, 40, 150});
        fill_box(&frame, (struct cv_box){350, 30, 350, 60}, grounds[(i / 2 + 1) % 3]);
        for (int dy = -2; dy <= 2; dy++) {
            for (int dx = -2; dx <= 2; dx++) {
                (void)draw_text(&frame, "candle ticket", 60 + dx, 40 + dy, 30, outline);
            }
        }
        struct cv_box drawn = draw_text(&frame, "candle ticket", 60, 40, 30, fill);
        add_noise(&frame, 5, 11);
        struct cv_box box = {drawn.x - 2, drawn.y - 2, drawn.width + 4, drawn.height + 4};
        struct cv_ink ink;
        cv_ink_measure(&frame, &box, i % 2 == 0, &ink);
        assert_int_not_equal(ink.kind, i % 2 ? CV_INK_LIGHT : CV_INK_DARK);
        assert_int_equal(ink.light, i % 2 == 0);
        assert_true(cv_ink_is_clear(&ink));
    }
}

/* A yellow fill is dark in blue, and its outline in all channels: luma tells them apart. */
static void test_a_coloured_fill_is_told_from_its_outline(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame =
        new_frame(700, 140, (struct colour){0, 150, 30});
    fill_box(&frame, (struct cv_box){150, 0, 170, 140}, (struct colour){60, 0, 220});
    fill_box(&frame, (struct cv_box){320, 0, 200, 140}, (struct colour){200, 0, 140});
    for (int dy = -2; dy <= 2; dy++) {
        for (int dx = -2; dx <= 2; dx++) {
            (void)draw_text(&frame, "candle ticket", 60 + dx, 40 + dy, 30, black);
        }
    }
    struct cv_box drawn =
        draw_text(&frame, "candle ticket", 60, 40, 30, (struct colour){250, 240, 0});
    add_noise(&frame, 5, 11);
    struct cv_box box = {drawn.x - 2, drawn.y - 2, drawn.width + 4, drawn.height + 4};
    struct cv_ink ink;
    cv_ink_measure(&frame, &box, true, &ink);
    assert_int_equal(ink.kind, CV_INK_LIGHT);
    assert_true(ink.by_luma);
    assert_true(cv_ink_is_clear(&ink));
}

/* White letters with a black outline on a bright picture: the letters are the ink. */
static void test_outlined_letters(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(600, 120, white);
    for (int y = 0; y < 120; y++) {
        for (int x = 0; x < 600; x++) {
            set_pixel(&frame, x, y, (struct colour){(uint8_t)(80 + x / 4), 60, 200}, 255);
        }
    }
    for (int dy = -3; dy <= 3; dy++) {
        for (int dx = -3; dx <= 3; dx++) {
            (void)draw_text(&frame, "Tickets", 60 + dx, 40 + dy, 32, (struct colour){0, 0, 0});
        }
    }
    struct cv_box drawn = draw_text(&frame, "Tickets", 60, 40, 32, white);
    struct cv_box box = {drawn.x - 3, drawn.y - 3, drawn.width + 6, drawn.height + 6};
    struct cv_ink ink;
    cv_ink_measure(&frame, &box, true, &ink);
    assert_int_equal(ink.kind, CV_INK_LIGHT);
    assert_true(ink.light);
}

/* The paper is as far from the outline as from the letters. */
static void test_an_outline_on_plain_paper_is_no_ink(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame =
        new_frame(400, 100, (struct colour){120, 120, 120});
    for (int dy = -2; dy <= 2; dy++) {
        for (int dx = -2; dx <= 2; dx++) {
            (void)draw_text(&frame, "Harbour", 60 + dx, 40 + dy, 25, black);
        }
    }
    struct cv_box box = draw_text(&frame, "Harbour", 60, 40, 25, white);
    struct cv_ink ink;
    cv_ink_measure(&frame, &box, true, &ink);
    assert_int_equal(ink.kind, CV_INK_LIGHT);
    assert_true(ink.low > 120);
    assert_true(cv_ink_is_clear(&ink));
}

/* Of the runs of the letters and of the light clouds beside them 89 % are enclosed where the sky is ink with them, and
 * 77 % where it is not; the outline is enclosed less often by 43 and 68 %. */
static void test_a_sky_behind_outlined_letters_is_paper(void **state)
{
    (void)state;
    static const struct colour grounds[] = {{60, 90, 150}, {40, 150, 60}, {160, 40, 120}};
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(480, 140, grounds[0]);
    fill_box(&frame, (struct cv_box){120, 0, 70, 140}, grounds[1]);
    fill_box(&frame, (struct cv_box){190, 0, 70, 140}, grounds[2]);
    fill_box(&frame, (struct cv_box){260, 0, 220, 140}, (struct colour){150, 170, 240});
    for (int x = 340; x < 460; x += 30) {
        fill_box(&frame, (struct cv_box){x, 0, 6, 140}, white);
    }
    for (int dy = -2; dy <= 2; dy++) {
        for (int dx = -2; dx <= 2; dx++) {
            (void)draw_text(&frame, "candle ticket", 60 + dx, 40 + dy, 30, black);
        }
    }
    struct cv_box drawn = draw_text(&frame, "candle ticket", 60, 40, 30, white);
    add_noise(&frame, 5, 11);
    struct cv_box box = {drawn.x - 2, drawn.y - 2, 460 - drawn.x, drawn.height + 4};
    struct cv_box cloud = {402, 50, 2, 20}, sky = {408, 50, 18, 20};
    struct cv_ink ink;
    uint8_t levels[360];
    cv_ink_measure(&frame, &box, true, &ink);
    assert_true(cv_ink_is_clear(&ink));
    cv_ink_apply(&ink, &frame, &cloud, 0, levels);
    assert_true(levels[0] < 60);
    cv_ink_apply(&ink, &frame, &sky, 0, levels);
    for (size_t i = 0; i < sizeof(levels); i++) {
        assert_true(levels[i] > 190);
    }
}

/* A glow behind light letters stays paper: read as ink it would join two words or add a digit. */
static void test_a_glow_behind_letters_is_paper(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, night);
    for (int x = 0; x < 500; x++) {
        uint8_t glow = (uint8_t)(x < 250 ? 35 + x / 2 : 285 - x / 2);
        struct colour here = {glow, 230, 240};
        fill_box(&frame, (struct cv_box){x, 0, 1, 120}, here);
    }
    struct cv_box box = draw_text(&frame, "0800 555 017", 60, 40, 32, white);
    struct cv_ink ink;
    cv_ink_measure(&frame, &box, true, &ink);
    assert_int_equal(ink.kind, CV_INK_LIGHT);
    struct cv_box middle = {240, 90, 20, 20};
    uint8_t levels[400];
    cv_ink_apply(&ink, &frame, &middle, 0, levels);
    for (size_t i = 0; i < sizeof(levels); i++) {
        assert_true(levels[i] > 190);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ink_is_dark_on_light_whatever_the_theme),
        cmocka_unit_test(test_outlined_letters),
        cmocka_unit_test(test_an_outline_on_plain_paper_is_no_ink),
        cmocka_unit_test(test_a_coloured_fill_is_told_from_its_outline),
        cmocka_unit_test(test_a_fill_is_told_from_its_outline_on_any_picture),
        cmocka_unit_test(test_a_sky_behind_outlined_letters_is_paper),
        cmocka_unit_test(test_a_glow_behind_letters_is_paper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
