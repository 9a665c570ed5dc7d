/* Emoji are known by their shape, whoever drew them; what only looks like one is none. */
#include "tests/unit/ocr_pictures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SIDE = 120 };

/* A disc whose colour runs from one side to the other, as avatars have it; a square, as buttons are. */
static void test_discs_and_squares_are_no_emoji(void **state)
{
    (void)state;
    static const int radii[] = {9, 14, 20, 32};

    for (size_t i = 0; i < 2 * CV_COUNT(radii); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame =
            new_frame(SIDE, SIDE, i % 3 ? white : night);
        const struct colour paper = i % 3 ? white : night;
        const uint8_t levels[3] = {paper.red, paper.green, paper.blue};
        const int radius = radii[i / 2];
        const struct cv_box box = {50 - radius, 50 - radius, 2 * radius, 2 * radius};
        for (int y = -radius; y < radius; y++) {
            for (int x = -radius; x < radius; x++) {
                struct colour here = {(uint8_t)(120 + x), (uint8_t)(140 + y), 90};
                bool inside = i % 2 || x * x + y * y <= radius * radius;
                set_pixel(&frame, 50 + x, 50 + y, here, inside ? 255 : 0);
            }
        }
        struct ocr_emoji_match match = ocr_emoji_match(&frame, levels, &box);
        assert_false(ocr_emoji_is_sure(&match));
    }
}

/* Draws a heart of no vendor in the middle of a frame, and returns its box. */
static struct cv_box draw_heart(struct cv_frame *frame, int size)
{
    const struct colour red = {221, 46, 68};
    struct cv_box box = {0};

    for (int at = 0; at < SIDE * SIDE; at++) {
        struct cv_box here = {at % SIDE, at / SIDE, 1, 1};
        double x = (here.x - 60) * 2.6 / size, y = (62 - here.y) * 2.6 / size;
        double round = x * x + y * y - 1;
        if (round * round * round - x * x * y * y * y <= 0) {
            set_pixel(frame, here.x, here.y, red, 255);
            box = box.width ? cv_box_union(&box, &here) : here;
        }
    }
    add_noise(frame, 6, (unsigned)size);
    return box;
}

static void test_a_shape_is_known_that_no_vendor_drew(void **state)
{
    (void)state;
    static const int sizes[] = {18, 28, 60};

    for (size_t i = 0; i < CV_COUNT(sizes); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, white);
        const uint8_t paper[3] = {white.red, white.green, white.blue};
        struct cv_box box = draw_heart(&frame, sizes[i]);
        struct ocr_emoji_match match = ocr_emoji_match(&frame, paper, &box);
        assert_string_equal(match.text, "❤️");
        assert_true(match.score > 0.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_discs_and_squares_are_no_emoji),
        cmocka_unit_test(test_a_shape_is_known_that_no_vendor_drew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
