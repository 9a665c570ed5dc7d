/* The dot between a name and an age: found by its pixels, put back into the text. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/dots.h"

#include <string.h>

enum { WIDTH = 700, HEIGHT = 100, TALL = 28, TOP = 30 };

/* Two words with a mark of `mark` pixels between them, its middle `up` pixels above the baseline;
 * `blank` pixels stay free on both of its sides. Returns what is found. */
static size_t dots_between(struct ocr_box mark, int up, int blank, int *ret_middle)
{
    cv_auto(ocr_frame_deinit) struct ocr_frame frame = new_frame(WIDTH, HEIGHT, white);
    struct ocr_box name = draw_text(&frame, "Anna Weber", 30, TOP, TALL, black);
    struct ocr_box box = {ocr_right(&name) + blank, ocr_bottom(&name) - up - mark.height / 2,
                          mark.width, mark.height};
    fill_box(&frame, box, grey);
    struct ocr_box age = draw_text(&frame, "7h", ocr_right(&box) + blank, TOP, TALL, grey);
    struct ocr_line line = {.box = ocr_box_union(&name, &age), .tall = TALL};
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {
        .width = line.box.width, .height = line.box.height, .tall = TALL};
    int middles[OCR_DOTS_MAX] = {0};

    ocr_ink_measure(&frame, &line.box, &crop.ink);
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    assert_non_null(crop.grey);
    ocr_ink_apply(&crop.ink, &frame, &line.box, crop.grey);
    size_t count = ocr_dots_find(&crop, middles);
    *ret_middle = middles[0] + line.box.x - box.x;
    return count;
}

static void test_a_dot_at_half_height_is_found(void **state)
{
    int middle;

    (void)state;
    assert_int_equal(dots_between((struct ocr_box){0, 0, 4, 4}, 10, 9, &middle), 1);
    assert_in_range(middle, 1, 3);
    /* a full stop, a hyphen, a dot that touches a letter, an apostrophe */
    assert_int_equal(dots_between((struct ocr_box){0, 0, 4, 4}, 2, 9, &middle), 0);
    assert_int_equal(dots_between((struct ocr_box){0, 0, 10, 4}, 10, 9, &middle), 0);
    assert_int_equal(dots_between((struct ocr_box){0, 0, 4, 4}, 10, 1, &middle), 0);
    assert_int_equal(dots_between((struct ocr_box){0, 0, 4, 8}, 22, 9, &middle), 0);
}

static void test_the_dot_comes_back_into_the_text(void **state)
{
    static const struct {
        const char *read;
        int place; /* per cent of the line */
        const char *restored;
    } cases[] = {
        {"Anna_Weber : ih", 81, "Anna_Weber · 1h"},
        {"lena-photo - ıh", 80, "lena-photo · 1h"},
        {"theo.builds - 20h", 76, "theo.builds · 20h"},
        {"theo.builds 2Oh", 76, "theo.builds · 20h"},
        {"order : id", 75, "order · id"},
        {"very : low", 68, "very · low"},
        {"wolf_mm - iih", 76, "wolf_mm · 11h"},
        {"entre : ils", 68, "entre · ils"},
        {"a - b on page one", 90, "a - b on page · one"},
        {"word", 50, "word"},
    };

    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto_free char *text = strdup(cases[i].read);
        struct cv_error error;
        assert_non_null(text);
        assert_int_equal(ocr_dots_restore(&cases[i].place, 1, 100, &text, &error), 0);
        assert_string_equal(text, cases[i].restored);
    }
}

static void test_two_dots_and_none(void **state)
{
    cv_auto_free char *text = strdup("4K - 120 fps : HDR");
    const int middles[2] = {18, 75};
    struct cv_error error;

    (void)state;
    assert_non_null(text);
    assert_int_equal(ocr_dots_restore(NULL, 0, 100, &text, &error), 0);
    assert_string_equal(text, "4K - 120 fps : HDR");
    assert_int_equal(ocr_dots_restore(middles, 2, 100, &text, &error), 0);
    assert_string_equal(text, "4K · 120 fps · HDR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dot_at_half_height_is_found),
        cmocka_unit_test(test_the_dot_comes_back_into_the_text),
        cmocka_unit_test(test_two_dots_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
