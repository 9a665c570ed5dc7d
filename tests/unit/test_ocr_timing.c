/* When a line was wholly visible, by the movement of the content between kept frames. */
#include "workers/ocr/tracks/timing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WIDTH = 640, HEIGHT = 480 };

/* A line rests half under the tab bar: it is wholly visible when it has come out, and no longer when it goes back. */
static void test_a_line_at_rest_on_an_edge(void **state)
{
    (void)state;
    struct ocr_motion up[] = {{1000, 0, -3}, {1017, 0, -10}, {1033, 0, -20}};
    struct ocr_motion down[] = {{2000, 0, 5}, {2017, 0, 18}, {2033, 0, 20}};
    const struct ocr_timing timings[3] = {
        {.t_start = 0, .t_end = 1000},
        {.t_start = 1033,
         .t_end = 2000,
         .shift_known = true,
         .dy = -20,
         .motion = up,
         .motion_count = 3},
        {.t_start = 2033,
         .t_end = 3000,
         .shift_known = true,
         .dy = 20,
         .motion = down,
         .motion_count = 3},
    };
    const struct ocr_stretch stretch = {
        .first = {0, 40, 405}, .last = {2, 40, 405}, .width = 100, .height = 20};
    struct cv_pane pane = {60, 420, 0, WIDTH, 1, 1, NULL, 0};
    int steps[] = {CV_SCENE_BEGINS, 0, 0}, near[] = {0, 0, 0};
    const struct cv_panes panes = {
        .items = &pane, .count = 1, .steps = steps, .near = near, .step_count = 3};
    const struct ocr_course course = {timings, 3, &panes, {0, 0, WIDTH, HEIGHT}, 1};

    struct ocr_visits visits;
    ocr_timing_of(&course, &stretch, &visits);
    assert_int_equal(visits.items[0].span.start, 1017);
    assert_int_equal(visits.items[0].span.end, 2017);
}

/* Seen in two kept frames, and under the header between them: two visits. Where the steps do not
 * lead to where it was last seen, nobody knows where it was meanwhile. */
static void test_a_line_leaves_between_two_sightings(void **state)
{
    (void)state;
    struct ocr_motion bounce[] = {
        {1000, 0, -20}, {1017, 0, -30}, {1033, 0, -60}, {1050, 0, -20}, {1067, 0, -10}};
    const struct ocr_timing timings[2] = {
        {.t_start = 0, .t_end = 1067},
        {.t_start = 1067,
         .t_end = 2000,
         .shift_known = true,
         .dy = -10,
         .motion = bounce,
         .motion_count = 5},
    };
    struct ocr_stretch stretch = {
        .first = {0, 40, 80}, .last = {1, 40, 70}, .width = 100, .height = 20};
    struct cv_pane pane = {60, 420, 0, WIDTH, 1, 1, NULL, 0};
    int steps[] = {CV_SCENE_BEGINS, 0}, near[] = {0, 0};
    const struct cv_panes panes = {
        .items = &pane, .count = 1, .steps = steps, .near = near, .step_count = 2};
    const struct ocr_course course = {timings, 2, &panes, {0, 0, WIDTH, HEIGHT}, 1};
    struct ocr_visits visits;

    ocr_timing_of(&course, &stretch, &visits);
    assert_int_equal(visits.count, 2);
    assert_int_equal(visits.items[0].span.start, 0);
    assert_int_equal(visits.items[0].span.end, 1017);
    assert_int_equal(visits.items[0].last.y, 80);
    assert_int_equal(visits.items[1].span.start, 1050);
    assert_int_equal(visits.items[1].span.end, 2000);
    assert_int_equal(visits.items[1].first.y, 70);
    stretch.last.y = 100;
    ocr_timing_of(&course, &stretch, &visits);
    assert_int_equal(visits.count, 1);
    assert_int_equal(visits.items[0].span.start, 0);
    assert_int_equal(visits.items[0].span.end, 2000);
}

/* First seen whole above a button that hid its end in the kept frame before: the way up tells when it
 * came out from behind. */
static void test_a_line_comes_out_from_under_a_button(void **state)
{
    (void)state;
    struct ocr_motion up[] = {{1000, 0, -10}, {1017, 0, -30}, {1033, 0, -60}, {1050, 0, -80}};
    const struct ocr_timing timings[2] = {
        {.t_start = 0, .t_end = 1000},
        {.t_start = 1050,
         .t_end = 2000,
         .shift_known = true,
         .dy = -80,
         .motion = up,
         .motion_count = 4},
    };
    const struct ocr_stretch stretch = {
        .first = {1, 40, 250}, .last = {1, 40, 250}, .width = 240, .height = 20};
    struct cv_box button = {240, 300, 400, 64};
    struct cv_pane pane = {60, 420, 0, WIDTH, 1, 1, &button, 1};
    int steps[] = {CV_SCENE_BEGINS, 0}, near[] = {0, 0};
    const struct cv_panes panes = {
        .items = &pane, .count = 1, .steps = steps, .near = near, .step_count = 2};
    const struct ocr_course course = {timings, 2, &panes, {0, 0, WIDTH, HEIGHT}, 1};

    struct ocr_visits visits;
    ocr_timing_of(&course, &stretch, &visits);
    assert_int_equal(visits.items[0].span.start, 1033);
    assert_int_equal(visits.items[0].span.end, 2000);
    pane.cover_count = 0; /* nothing hid it: it came while the content moved */
    ocr_timing_of(&course, &stretch, &visits);
    assert_int_equal(visits.items[0].span.start, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_at_rest_on_an_edge),
        cmocka_unit_test(test_a_line_leaves_between_two_sightings),
        cmocka_unit_test(test_a_line_comes_out_from_under_a_button),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
