/* Dots, arrows and underscores: found by their pixels, put back into the text. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/reading/line_text.h"
#include "workers/ocr/reading/special_characters.h"

#include <string.h>

enum { WIDTH = 700, HEIGHT = 100, TALL = 28, TOP = 30 };

/* Two words with a mark of the size of `mark` between them, its middle `up` pixels above the baseline;
 * `blank` pixels stay free on both of its sides. */
static struct ocr_crop line_with(struct cv_box mark, int up, int blank, int *ret_mark_x)
{
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);
    struct cv_box name = draw_text(&frame, "Anna Weber", 30, TOP, TALL, black);
    struct cv_box box = {cv_box_right(&name) + blank, cv_box_bottom(&name) - up - mark.height / 2,
                         mark.width, mark.height};
    fill_box(&frame, box, grey);
    struct cv_box age = draw_text(&frame, "7h", cv_box_right(&box) + blank, TOP, TALL, grey);
    struct cv_box all = cv_box_union(&name, &age);
    all = cv_box_union(&all, &box);
    struct ocr_crop crop = {.width = all.width, .height = all.height, .tall = TALL};

    cv_ink_measure(&frame, &all, false, &crop.ink);
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    assert_non_null(crop.grey);
    cv_ink_apply(&crop.ink, &frame, &all, 0, crop.grey);
    *ret_mark_x = box.x - all.x;
    return crop;
}

/* Marks found there; *ret_middle is the first one's, from the mark's left edge. */
static size_t marks_between(struct cv_box mark, int up, int blank, const char *text,
                            int *ret_middle)
{
    struct ocr_special_characters marks;
    int x;
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = line_with(mark, up, blank, &x);
    size_t found = 0;

    ocr_special_characters_find(&crop, &marks);
    for (size_t i = marks.count; i-- > 0;) {
        if (strcmp(marks.items[i].text, text) == 0) {
            *ret_middle = marks.items[i].box.x + marks.items[i].box.width / 2 - x;
            found++;
        }
    }
    return found;
}

static size_t dots_between(struct cv_box mark, int up, int blank, int *ret_middle)
{
    return marks_between(mark, up, blank, "·", ret_middle);
}

static void test_a_dot_at_half_height_is_found(void **state)
{
    int middle;

    (void)state;
    assert_int_equal(dots_between((struct cv_box){0, 0, 4, 4}, 10, 9, &middle), 1);
    assert_in_range(middle, 1, 3);
    /* a full stop, a hyphen, a dot that touches a letter, an apostrophe */
    assert_int_equal(dots_between((struct cv_box){0, 0, 4, 4}, 2, 9, &middle), 0);
    assert_int_equal(dots_between((struct cv_box){0, 0, 10, 4}, 10, 9, &middle), 0);
    assert_int_equal(dots_between((struct cv_box){0, 0, 4, 4}, 10, 1, &middle), 0);
    assert_int_equal(dots_between((struct cv_box){0, 0, 4, 8}, 22, 9, &middle), 0);
}

static void test_a_bar_below_the_baseline_is_an_underscore(void **state)
{
    int middle;

    (void)state;
    assert_int_equal(marks_between((struct cv_box){0, 0, 20, 3}, -4, 5, "_", &middle), 1);
    assert_in_range(middle, 9, 11);
    /* a comma's tail, a hyphen, an underline below a word */
    assert_int_equal(marks_between((struct cv_box){0, 0, 6, 5}, -3, 5, "_", &middle), 0);
    assert_int_equal(marks_between((struct cv_box){0, 0, 20, 3}, 10, 5, "_", &middle), 0);
    assert_int_equal(marks_between((struct cv_box){0, 0, 60, 3}, -4, -30, "_", &middle), 0);
}

/* The text of a line of words whose letters are ten pixels wide, with marks. */
static void assert_joined(const char *read, struct ocr_insert *marks, size_t count,
                          const char *expected)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    cv_auto_free char *text = strdup(read);
    struct cv_error error;
    char *rest = NULL;

    assert_non_null(text);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int left = (int)(word - text) * 10;
        struct ocr_word added = {.text = word,
                                 .left = left,
                                 .right = left + (int)strlen(word) * 10,
                                 .sure = 0.9,
                                 .language = "eng"};
        assert_int_equal(ocr_words_add(&words, &added, &error), 0);
    }
    struct ocr_line_picture line = {
        .width = 400, .tall = 14, .inserts = marks, .insert_count = count};
    ocr_words_drop_misread_dots(&words, &line);
    assert_int_equal(ocr_words_join(&words, &line, &reading, &error), 0);
    assert_string_equal(reading.text, expected);
}

static void test_marks_come_back_into_the_text(void **state)
{
    static const struct {
        const char *read, *mark;
        int place; /* letters from the left */
        const char *restored;
    } cases[] = {
        {"theo.builds - 20h", "·", 12, "theo.builds · 20h"},
        {"theo.builds  20h", "·", 11, "theo.builds · 20h"},
        {"theo.builds- 20h", "·", 11, "theo.builds · 20h"},
        {"order : id", "·", 6, "order · id"},
        {"very : low", "·", 5, "very · low"},
        {"entre : ils", "·", 6, "entre · ils"},
        {"a - b on page  one", "·", 14, "a - b on page · one"},
        {"word", "·", 2, "word"},
        {"/ or Tab", "↑", -1, "↑/ or Tab"},
        {"see @wolf mm there", "_", 9, "see @wolf_mm there"},
        {"see @wolf_mm there", "_", 9, "see @wolf_mm there"},
        {"see @wolf_ mm there", "_", 10, "see @wolf_ mm there"},
        {"a long line of words", "_", 20, "a long line of words"},
    };

    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct ocr_insert mark = {cases[i].place * 10 + 2, cases[i].place * 10 + 9, cases[i].mark};
        assert_joined(cases[i].read, &mark, 1, cases[i].restored);
    }
}

static void test_two_dots_and_none(void **state)
{
    struct ocr_insert marks[2] = {{33, 38, "·"}, {113, 118, "·"}};

    (void)state;
    assert_joined("4K - 120 fps : HDR", NULL, 0, "4K - 120 fps : HDR");
    marks[1] = (struct ocr_insert){133, 138, "·"};
    assert_joined("4K - 120 fps : HDR", marks, 2, "4K · 120 fps · HDR");
}

/* A stem with a head at one end, or with a bar at it. */
static size_t arrows_of(int head, bool is_bar, bool is_down, const char *text)
{
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);
    struct cv_box word = draw_text(&frame, "to move", 60, TOP, TALL, black);
    struct cv_box all = {20, word.y, cv_box_right(&word) - 20, word.height};
    struct ocr_crop crop = {.width = all.width, .height = all.height, .tall = TALL};
    struct ocr_special_characters marks;
    size_t found = 0;

    for (int i = 0; i < TALL; i++) {
        int at = is_down ? TOP + TALL - 1 - i : TOP + i;
        int reach = is_bar && i < 4 ? head : !is_bar && i < head ? i : 0;
        fill_box(&frame, (struct cv_box){35 - 1, at, 3, 1}, black);
        fill_box(&frame, (struct cv_box){35 - reach - 1, at, 3, 1}, black);
        fill_box(&frame, (struct cv_box){35 + reach - 1, at, 3, 1}, black);
        if (is_bar && i < 4) {
            fill_box(&frame, (struct cv_box){35 - reach, at, 2 * reach, 1}, black);
        }
    }
    cv_ink_measure(&frame, &all, false, &crop.ink);
    crop.grey = malloc((size_t)crop.width * (size_t)crop.height);
    assert_non_null(crop.grey);
    cv_ink_apply(&crop.ink, &frame, &all, 0, crop.grey);
    ocr_special_characters_find(&crop, &marks);
    for (size_t i = 0; i < marks.count; i++) {
        found += strcmp(marks.items[i].text, text) == 0;
    }
    ocr_crop_deinit(&crop);
    return found;
}

static void test_an_arrow_is_no_letter(void **state)
{
    (void)state;
    assert_int_equal(arrows_of(9, false, false, "↑"), 1);
    assert_int_equal(arrows_of(9, false, true, "↓"), 1);
    assert_int_equal(arrows_of(9, false, false, "↓"), 0);
    /* a T, and one on its head */
    assert_int_equal(arrows_of(9, true, false, "↑"), 0);
    assert_int_equal(arrows_of(9, true, true, "↓"), 0);
}

/* A four of 10 pixels, of a serif font: a stem, and above its bar a slope and paper between them. */
static void test_a_small_four_is_no_arrow(void **state)
{
    enum { FOUR_WIDTH = 9, FOUR_HEIGHT = 10 };
    static uint8_t four[FOUR_HEIGHT][FOUR_WIDTH] = {
        {255, 255, 255, 255, 255, 102, 0, 221, 255},
        {255, 255, 255, 255, 204, 68, 0, 221, 255},
        {255, 255, 255, 238, 51, 187, 0, 221, 255},
        {255, 255, 255, 102, 170, 204, 0, 221, 255},
        {255, 255, 187, 102, 255, 204, 0, 204, 255},
        {255, 238, 34, 255, 255, 204, 0, 221, 255},
        {255, 136, 0, 0, 0, 0, 0, 0, 17},
        {238, 255, 255, 255, 255, 204, 0, 221, 255},
        {255, 255, 255, 255, 255, 204, 0, 204, 255},
        {255, 255, 255, 255, 153, 34, 0, 68, 187},
    };
    struct ocr_crop crop = {
        .width = FOUR_WIDTH, .height = FOUR_HEIGHT, .tall = FOUR_HEIGHT, .grey = four[0]};
    struct ocr_special_characters marks;

    (void)state;
    ocr_special_characters_find(&crop, &marks);
    assert_int_equal(marks.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_dot_at_half_height_is_found),
        cmocka_unit_test(test_a_bar_below_the_baseline_is_an_underscore),
        cmocka_unit_test(test_marks_come_back_into_the_text),
        cmocka_unit_test(test_two_dots_and_none),
        cmocka_unit_test(test_an_arrow_is_no_letter),
        cmocka_unit_test(test_a_small_four_is_no_arrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
