/* Dots and underscores: found by their pixels, put back into the text. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/marks.h"

#include <string.h>

enum { WIDTH = 700, HEIGHT = 100, TALL = 28, TOP = 30 };

/* Two words with a mark of the size of `mark` between them, its middle `up` pixels above the baseline;
 * `blank` pixels stay free on both of its sides. */
static struct ocr_crop line_with(struct ocr_box mark, int up, int blank, int *ret_mark_x)
{
    cv_auto(ocr_frame_deinit) struct ocr_frame frame = new_frame(WIDTH, HEIGHT, white);
    struct ocr_box name = draw_text(&frame, "Anna Weber", 30, TOP, TALL, black);
    struct ocr_box box = {ocr_right(&name) + blank, ocr_bottom(&name) - up - mark.height / 2,
                          mark.width, mark.height};
    fill_box(&frame, box, grey);
    struct ocr_box age = draw_text(&frame, "7h", ocr_right(&box) + blank, TOP, TALL, grey);
    struct ocr_box all = ocr_box_union(&name, &age);
    all = ocr_box_union(&all, &box);
    struct ocr_crop crop = {.width = all.width, .height = all.height, .tall = TALL};

    ocr_ink_measure(&frame, &all, false, &crop.ink);
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    assert_non_null(crop.grey);
    ocr_ink_apply(&crop.ink, &frame, &all, 0, crop.grey);
    *ret_mark_x = box.x - all.x;
    return crop;
}

/* Marks found there; *ret_middle is the first one's, from the mark's left edge. */
static size_t marks_between(struct ocr_box mark, int up, int blank, enum ocr_mark_kind kind,
                            int *ret_middle)
{
    struct ocr_mark marks[OCR_MARKS_MAX] = {{0, 0}};
    int x;
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = line_with(mark, up, blank, &x);
    size_t count = ocr_marks_find(&crop, marks), found = 0;

    for (size_t i = count; i-- > 0;) {
        if (marks[i].kind == kind) {
            *ret_middle = marks[i].middle - x;
            found++;
        }
    }
    return found;
}

static size_t dots_between(struct ocr_box mark, int up, int blank, int *ret_middle)
{
    return marks_between(mark, up, blank, OCR_MARK_DOT, ret_middle);
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

static void test_a_bar_below_the_baseline_is_an_underscore(void **state)
{
    int middle;

    (void)state;
    assert_int_equal(
        marks_between((struct ocr_box){0, 0, 20, 3}, -4, 5, OCR_MARK_UNDERSCORE, &middle), 1);
    assert_in_range(middle, 9, 11);
    /* a comma's tail, a hyphen, an underline below a word */
    assert_int_equal(
        marks_between((struct ocr_box){0, 0, 6, 5}, -3, 5, OCR_MARK_UNDERSCORE, &middle), 0);
    assert_int_equal(
        marks_between((struct ocr_box){0, 0, 20, 3}, 10, 5, OCR_MARK_UNDERSCORE, &middle), 0);
    assert_int_equal(
        marks_between((struct ocr_box){0, 0, 60, 3}, -4, -30, OCR_MARK_UNDERSCORE, &middle), 0);
}

static void test_marks_come_back_into_the_text(void **state)
{
    static const struct {
        const char *read;
        enum ocr_mark_kind kind;
        int place; /* per cent of the line */
        const char *restored;
    } cases[] = {
        {"Anna_Weber : ih", OCR_MARK_DOT, 81, "Anna_Weber · 1h"},
        {"lena-photo - ıh", OCR_MARK_DOT, 80, "lena-photo · 1h"},
        {"theo.builds - 20h", OCR_MARK_DOT, 76, "theo.builds · 20h"},
        {"theo.builds 2Oh", OCR_MARK_DOT, 76, "theo.builds · 20h"},
        {"order : id", OCR_MARK_DOT, 75, "order · id"},
        {"very : low", OCR_MARK_DOT, 68, "very · low"},
        {"wolf_mm - iih", OCR_MARK_DOT, 76, "wolf_mm · 11h"},
        {"entre : ils", OCR_MARK_DOT, 68, "entre · ils"},
        {"a - b on page one", OCR_MARK_DOT, 90, "a - b on page · one"},
        {"word", OCR_MARK_DOT, 50, "word"},
        {"see @wolf mm there", OCR_MARK_UNDERSCORE, 53, "see @wolf_mm there"},
        {"see @wolf_mm there", OCR_MARK_UNDERSCORE, 53, "see @wolf_mm there"},
        {"a long line of words", OCR_MARK_UNDERSCORE, 99, "a long line of words"},
    };

    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto_free char *text = strdup(cases[i].read);
        struct cv_error error;
        assert_non_null(text);
        struct ocr_mark mark = {cases[i].kind, cases[i].place};
        assert_int_equal(ocr_marks_restore(&mark, 1, 100, &text, &error), 0);
        assert_string_equal(text, cases[i].restored);
    }
}

static void test_two_dots_and_none(void **state)
{
    cv_auto_free char *text = strdup("4K - 120 fps : HDR");
    const struct ocr_mark marks[2] = {{OCR_MARK_DOT, 18}, {OCR_MARK_DOT, 75}};
    struct cv_error error;

    (void)state;
    assert_non_null(text);
    assert_int_equal(ocr_marks_restore(NULL, 0, 100, &text, &error), 0);
    assert_string_equal(text, "4K - 120 fps : HDR");
    assert_int_equal(ocr_marks_restore(marks, 2, 100, &text, &error), 0);
    assert_string_equal(text, "4K · 120 fps · HDR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dot_at_half_height_is_found),
        cmocka_unit_test(test_a_bar_below_the_baseline_is_an_underscore),
        cmocka_unit_test(test_marks_come_back_into_the_text),
        cmocka_unit_test(test_two_dots_and_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
