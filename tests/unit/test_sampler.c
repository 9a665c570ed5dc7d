/* Which frames are kept and for how long, and the shift estimator, on pictures without a codec. */
#include "workers/sample/sampler.h"
#include "workers/sample/scroll.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 320, HEIGHT = 480, PAGE_HEIGHT = 4000, KEPT_MAX = 256, NOISE = 3 };

static uint32_t random_state;

static int random_below(int limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (int)((random_state >> 8) % (uint32_t)limit);
}

/* A long page of something like text: words of vertical strokes with bars. */
static uint8_t page[PAGE_HEIGHT][WIDTH];

static void write_word(uint8_t *origin, int letters)
{
    for (int letter = 0; letter < letters; letter++) {
        int shape = 1 + random_below(31);
        for (int y = 0; y < 14; y++) {
            uint8_t *row = origin + y * WIDTH + letter * 10;
            bool bar = shape >> (y / 3) & 1;
            row[0] = row[1] = 10;
            for (int x = 2; bar && x < 8; x++) {
                row[x] = 10;
            }
        }
    }
}

static void make_page(uint32_t seed)
{
    random_state = seed;
    memset(page, 240, sizeof(page));
    for (int y = 6; y + 20 < PAGE_HEIGHT; y += 24 + 8 * (random_below(5) == 0)) {
        for (int x = 8; x < WIDTH - 90; x += 84) {
            write_word(&page[y][x], 1 + random_below(8));
        }
    }
}

static AVFrame *new_picture(void)
{
    AVFrame *frame = av_frame_alloc();
    assert_non_null(frame);
    frame->width = WIDTH;
    frame->height = HEIGHT;
    frame->format = AV_PIX_FMT_GRAY8;
    assert_int_equal(av_frame_get_buffer(frame, 0), 0);
    return frame;
}

struct view {
    int scroll; /* row of the page at the top of the viewport */
    int header; /* rows of a fixed header */
    int box;    /* >= 0: something else fills a square, changing with this number */
    bool noisy;
};

static AVFrame *show(const struct view *view)
{
    AVFrame *frame = new_picture();
    for (int y = 0; y < HEIGHT; y++) {
        uint8_t *row = frame->data[0] + y * frame->linesize[0];
        bool fixed = y < view->header;
        memcpy(row, fixed ? page[PAGE_HEIGHT - HEIGHT + y] : page[view->scroll + y], WIDTH);
        for (int x = 0; view->noisy && x < WIDTH; x++) {
            int value = row[x] + random_below(2 * NOISE + 1) - NOISE;
            row[x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
        if (view->box >= 0 && y >= 200 && y < 240) {
            memcpy(row + 100, &page[(view->box * 97) % 3000 + y - 200][8], 160);
        }
    }
    return frame;
}

struct kept {
    int64_t start[KEPT_MAX], before[KEPT_MAX];
    int dx[KEPT_MAX], dy[KEPT_MAX];
    bool related[KEPT_MAX];
    size_t motions[KEPT_MAX];
    size_t count;
};

static int note(void *opaque, const struct sampler_frame *frame, struct cv_error *error)
{
    (void)error;
    struct kept *kept = opaque;
    assert_true(kept->count < KEPT_MAX);
    size_t i = kept->count++;
    kept->start[i] = frame->start_us;
    kept->before[i] = frame->before_us;
    kept->dx[i] = frame->dx;
    kept->dy[i] = frame->dy;
    kept->related[i] = frame->related;
    kept->motions[i] = frame->motion_count;
    return 0;
}

static struct sampler *new_sampler(struct kept *kept, double target_fps)
{
    struct sampler_params params = {.target_fps = target_fps, .dedupe_threshold = 0.95};
    struct sampler *sampler;
    struct cv_error error;
    *kept = (struct kept){0};
    assert_int_equal(sampler_new(&params, note, kept, &sampler, &error), 0);
    return sampler;
}

static void push_at(struct sampler *sampler, int64_t time_us, const struct view *view)
{
    AVFrame *frame = show(view);
    struct cv_error error;
    assert_int_equal(sampler_push(sampler, frame, time_us, &error), 0);
    av_frame_free(&frame);
}

static void finish(struct sampler *sampler)
{
    struct cv_error error;
    assert_int_equal(sampler_finish(sampler, &error), 0);
    sampler_free(sampler);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void test_states_begin_at_their_first_frame(void **state)
{
    (void)state;
    make_page(1);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    static const int boxes[] = {0, 1, 2, 3};
    static const int begins[] = {0, 31, 35, 80}; /* frames; the third state stands 45 of them */
    size_t next = 0;
    struct view view = {.box = -1, .noisy = true};
    for (int i = 0; i < 120; i++) {
        if (next < CV_COUNT(begins) && i == begins[next]) {
            view.box = boxes[next++];
        }
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    assert_int_equal(kept.count, 4);
    for (size_t i = 0; i < kept.count; i++) {
        assert_int_equal(kept.start[i], (int64_t)begins[i] * 16667);
    }
}

static void test_a_frame_between_two_states_is_not_kept(void **state)
{
    (void)state;
    make_page(2);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 60; i++) {
        struct view view = {.box = i < 30 ? 0 : i == 30 ? 7 : 1};
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.start[1], 31 * 16667);
    assert_int_equal(kept.before[1], 30 * 16667); /* the old one was gone a frame earlier */
}

static void test_a_flash_leaves_the_state_before_whole(void **state)
{
    (void)state;
    make_page(3);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 60; i++) {
        struct view view = {.box = i == 30 ? 7 : 0};
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    assert_int_equal(kept.count, 1);
}

static void test_the_last_frame_is_never_lost(void **state)
{
    (void)state;
    make_page(4);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 1);
    for (int i = 0; i < 30; i++) {
        struct view view = {.box = i == 29 ? 1 : 0};
        push_at(sampler, (int64_t)i * 33333, &view);
    }
    finish(sampler);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.start[1], 29 * 33333);
}

static void test_endless_change_neither_floods_nor_starves(void **state)
{
    (void)state;
    make_page(5);
    static const double rates[] = {2, 10, 25};
    for (size_t k = 0; k < CV_COUNT(rates); k++) {
        struct kept kept;
        struct sampler *sampler = new_sampler(&kept, rates[k]);
        for (int i = 0; i < 300; i++) {
            struct view view = {.box = i};
            push_at(sampler, (int64_t)i * 16667, &view);
        }
        finish(sampler);
        assert_true((double)kept.count <= rates[k] * 5 + 2);
        assert_true((double)kept.count >= rates[k] * 5 * 0.75);
    }
}

static void test_a_slow_fade_adds_up(void **state)
{
    (void)state;
    make_page(6);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    struct cv_error error;
    for (int i = 0; i < 200; i++) { /* ink appears by one step of 256 a frame */
        struct view view = {.box = -1};
        AVFrame *frame = show(&view);
        for (int y = 0; y < HEIGHT; y++) {
            uint8_t *row = frame->data[0] + y * frame->linesize[0];
            for (int x = 0; x < WIDTH; x++) {
                row[x] = (uint8_t)(240 - (240 - row[x]) * i / 199);
            }
        }
        assert_int_equal(sampler_push(sampler, frame, (int64_t)i * 16667, &error), 0);
        av_frame_free(&frame);
    }
    finish(sampler);
    assert_true(kept.count >= 3);
    assert_true(kept.start[kept.count - 1] > 100 * 16667);
}

/* Hills of light without strokes, `shift` pixels further on, and before them strokes of a digit. */
static void push_hills(struct sampler *sampler, int64_t time_us, int shift, bool digit)
{
    AVFrame *frame = new_picture();
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            frame->data[0][y * frame->linesize[0] + x] =
                digit && y >= 64 && y < 72 && x >= 64 && x < 80 && x % 6 < 2
                    ? 255
                    : (uint8_t)(128 + 80 * sin((x + shift) / 40.0) * cos(y / 50.0));
        }
    }
    struct cv_error error;
    assert_int_equal(sampler_push(sampler, frame, time_us, &error), 0);
    av_frame_free(&frame);
}

static void test_a_film_is_kept_once_a_second_until_text_comes(void **state)
{
    (void)state;
    make_page(8);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 125; i++) {
        push_hills(sampler, (int64_t)i * 40000, 3 * i, false);
        assert_false(i < 50 && sampler_sees_film(sampler));
    }
    assert_in_range(kept.count, 4, 6);
    assert_true(sampler_sees_film(sampler));
    for (int i = 125; i < 130; i++) {
        push_hills(sampler, (int64_t)i * 40000, 3 * i, true);
        assert_true(sampler_sees_film(sampler));
    }
    assert_int_equal(kept.start[kept.count - 1], 125 * 40000);
    struct view view = {.box = -1};
    for (int i = 130; i < 140; i++) {
        push_at(sampler, (int64_t)i * 40000, &view);
        assert_false(sampler_sees_film(sampler));
    }
    finish(sampler);
    assert_int_equal(kept.start[kept.count - 1], 130 * 40000);
}

static void test_what_stood_before_it_moved_is_no_film(void **state)
{
    (void)state;
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 290; i++) { /* stands for 10 s, and then moves for 1.6 */
        push_hills(sampler, (int64_t)i * 40000, i < 250 ? 0 : 3 * (i - 250), false);
        assert_false(sampler_sees_film(sampler));
    }
    assert_in_range(kept.count, 2, 3);
    finish(sampler);
}

static void test_pictures_that_stand_are_no_film(void **state)
{
    (void)state;
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 250; i++) { /* another one each second */
        push_hills(sampler, (int64_t)i * 40000, 60 * (i / 25), false);
        assert_false(sampler_sees_film(sampler));
    }
    assert_int_equal(kept.count, 10);
    finish(sampler);
}

static void test_a_new_size_starts_anew(void **state)
{
    (void)state;
    make_page(7);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    struct view view = {.box = -1};
    struct cv_error error;
    push_at(sampler, 0, &view);
    AVFrame *small = av_frame_alloc();
    small->width = 33;
    small->height = 17;
    small->format = AV_PIX_FMT_GRAY8;
    assert_int_equal(av_frame_get_buffer(small, 0), 0);
    memset(small->data[0], 0, (size_t)small->linesize[0] * 17);
    assert_int_equal(sampler_push(sampler, small, 40000, &error), 0);
    av_frame_free(&small);
    push_at(sampler, 80000, &view);
    finish(sampler);
    assert_int_equal(kept.count, 3);
    assert_false(kept.related[1]);
}

/* ---- scrolling ------------------------------------------------------------------------------- */

static bool estimate(const struct view *from, const struct view *to, int *ret_dy)
{
    struct scroll_profile profiles[2] = {0};
    struct cv_error error;
    const struct view *views[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        AVFrame *frame = show(views[i]);
        struct plane plane = {frame->data[0], frame->linesize[0], WIDTH, HEIGHT};
        assert_int_equal(scroll_profile_init(&profiles[i], HEIGHT, &error), 0);
        scroll_profile_of(&plane, SCROLL_VERTICAL, &profiles[i]);
        av_frame_free(&frame);
    }
    bool found = scroll_match(&profiles[0], &profiles[1], 0, ret_dy);
    scroll_profile_deinit(&profiles[0]);
    scroll_profile_deinit(&profiles[1]);
    return found;
}

static void test_shifts_are_exact(void **state)
{
    (void)state;
    for (uint32_t seed = 10; seed < 20; seed++) {
        make_page(seed);
        for (int shift = 1; shift < 240; shift += 1 + shift / 4) {
            struct view from = {.scroll = 1000, .header = 40, .box = -1, .noisy = true};
            struct view to = from;
            int dy = 0;
            to.scroll = 1000 + shift;
            assert_true(estimate(&from, &to, &dy));
            assert_int_equal(dy, -shift);
            to.scroll = 1000 - shift;
            assert_true(estimate(&from, &to, &dy));
            assert_int_equal(dy, shift);
        }
    }
}

static void test_another_page_is_no_shift(void **state)
{
    (void)state;
    make_page(21);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 40; i++) {
        struct view view = {.scroll = i < 20 ? 0 : 2100, .box = -1};
        push_at(sampler, (int64_t)i * 33333, &view);
    }
    finish(sampler);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.dy[1], 0);
    assert_int_equal(kept.motions[1], 0);
}

static void test_repeated_content_goes_the_shortest_way(void **state)
{
    (void)state;
    make_page(22);
    for (int y = 60; y < PAGE_HEIGHT; y++) { /* the same post again and again */
        memcpy(page[y], page[y - 60], WIDTH);
    }
    struct view from = {.scroll = 600, .box = -1, .noisy = true};
    struct view to = from;
    to.scroll = 600 + 17;
    int dy = 0;
    assert_true(estimate(&from, &to, &dy));
    assert_int_equal(dy, -17);
}

static void test_scrolling_keeps_overlapping_frames_and_the_place_of_rest(void **state)
{
    (void)state;
    make_page(23);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    int scroll = 100;
    for (int i = 0; i < 150; i++) {
        if (i >= 20 && i < 80) {
            scroll += 15;
        }
        struct view view = {.scroll = scroll, .header = 40, .box = -1, .noisy = true};
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    int moved = 0;
    for (size_t i = 1; i < kept.count; i++) {
        assert_true(kept.related[i]);
        assert_true(kept.dy[i] < 0 && kept.dy[i] >= -(HEIGHT - 40) * 2 / 5);
        moved += kept.dy[i];
    }
    assert_int_equal(moved, -60 * 15);
    assert_int_equal(kept.start[kept.count - 1], 79 * 16667);
    assert_true(kept.count <= 9); /* 900 pixels in steps of 30 % of 440, the first and the last */
}

/* A list of equal entries looks the same after each of them: it went on, and did not jump back. */
static void test_a_period_is_no_way_back(void **state)
{
    (void)state;
    enum { PERIOD = 120 };
    make_page(11);
    for (int y = PERIOD; y < PAGE_HEIGHT - HEIGHT; y++) {
        memcpy(page[y], page[y % PERIOD], WIDTH);
    }
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    int scroll = 0;
    for (int i = 0; i < 100; i++) {
        struct view view = {.scroll = scroll, .header = 40, .box = -1, .noisy = true};
        push_at(sampler, (int64_t)i * 16667, &view);
        scroll += scroll < 300 ? 6 : 0; /* rests at PERIOD after PERIOD, and half of one */
    }
    finish(sampler);
    int place = 0;
    for (size_t i = 1; i < kept.count; i++) {
        assert_true(kept.related[i]);
        assert_true(kept.dy[i] <= 0);
        place += kept.dy[i];
    }
    assert_int_equal(place, -300);
}

/* … but what comes back to where it was, came back. */
static void test_a_jump_back_is_one(void **state)
{
    (void)state;
    make_page(12);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 60; i++) {
        struct view view = {.scroll = i < 10 || i >= 24 ? 100 : 100 + 4 * (i - 9), .box = -1};
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    int place = 0;
    for (size_t i = 1; i < kept.count; i++) {
        place += kept.dy[i];
    }
    assert_int_equal(place, 0);
}

static void test_turning_round_keeps_the_turn(void **state)
{
    (void)state;
    make_page(24);
    struct kept kept;
    struct sampler *sampler = new_sampler(&kept, 10);
    for (int i = 0; i < 60; i++) {
        int away = i < 20 ? 0 : i < 30 ? (i - 20) * 10 : i < 40 ? (40 - i) * 10 - 10 : 0;
        struct view view = {.scroll = 500 + away, .header = 40, .box = -1};
        push_at(sampler, (int64_t)i * 16667, &view);
    }
    finish(sampler);
    assert_true(kept.count >= 3);
    assert_int_equal(kept.dy[1], -90);
    assert_int_equal(kept.start[1], 29 * 16667);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states_begin_at_their_first_frame),
        cmocka_unit_test(test_a_frame_between_two_states_is_not_kept),
        cmocka_unit_test(test_a_flash_leaves_the_state_before_whole),
        cmocka_unit_test(test_the_last_frame_is_never_lost),
        cmocka_unit_test(test_endless_change_neither_floods_nor_starves),
        cmocka_unit_test(test_a_slow_fade_adds_up),
        cmocka_unit_test(test_a_film_is_kept_once_a_second_until_text_comes),
        cmocka_unit_test(test_what_stood_before_it_moved_is_no_film),
        cmocka_unit_test(test_pictures_that_stand_are_no_film),
        cmocka_unit_test(test_a_new_size_starts_anew),
        cmocka_unit_test(test_shifts_are_exact),
        cmocka_unit_test(test_another_page_is_no_shift),
        cmocka_unit_test(test_repeated_content_goes_the_shortest_way),
        cmocka_unit_test(test_scrolling_keeps_overlapping_frames_and_the_place_of_rest),
        cmocka_unit_test(test_a_period_is_no_way_back),
        cmocka_unit_test(test_a_jump_back_is_one),
        cmocka_unit_test(test_turning_round_keeps_the_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
