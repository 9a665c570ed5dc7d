#include "common/media/cadence.h"
#include "common/media/fit.h"
#include "common/media/frame_clock.h"
#include "common/media/playlist.h"
#include "common/media/poster.h"
#include "common/media/tone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void clock_keeps_good_times(void **state)
{
    (void)state;
    struct cv_frame_clock clock = {.interval_us = 40000};
    assert_int_equal(cv_frame_clock_stamp(&clock, 0), 0);
    assert_int_equal(cv_frame_clock_stamp(&clock, 16683), 16683);
    assert_int_equal(cv_frame_clock_stamp(&clock, 600016683), 600016683);
}

static void clock_repairs_as_little_as_possible(void **state)
{
    (void)state;
    struct cv_frame_clock clock = {.interval_us = 40000};
    assert_int_equal(cv_frame_clock_stamp(&clock, -5), 0);
    assert_int_equal(cv_frame_clock_stamp(&clock, 100), 100);
    assert_int_equal(cv_frame_clock_stamp(&clock, 100), 101);
    assert_int_equal(cv_frame_clock_stamp(&clock, 50), 102);
    assert_int_equal(cv_frame_clock_stamp(&clock, INT64_MIN), 40102);
    cv_frame_clock_reset(&clock);
    assert_int_equal(cv_frame_clock_stamp(&clock, 7), 7);
}

static int admitted(int64_t interval_us, int64_t jitter_us, int count)
{
    struct cv_cadence cadence;
    cv_cadence_init(&cadence, 16666, 2000000, 500000);
    int frames = 0;
    for (int i = 0; i < count; i++) {
        frames += cv_cadence_admit(&cadence, i * interval_us + (i % 3 - 1) * jitter_us);
    }
    return frames;
}

static void cap_halves_120_and_keeps_an_unsteady_60(void **state)
{
    (void)state;
    assert_in_range(admitted(8333, 0, 1200), 599, 601);
    assert_int_equal(admitted(16667, 0, 600), 600);
    assert_int_equal(admitted(16667, 3000, 600), 600);
    assert_int_equal(admitted(33333, 0, 300), 300);
    assert_in_range(admitted(11111, 0, 900), 599, 602); /* 90 per second: two of three */
    assert_in_range(admitted(13333, 0, 750), 540, 601); /* 75: never more than 60 */
}

static void key_frames_lie_on_a_grid_of_time(void **state)
{
    (void)state;
    struct cv_cadence cadence;
    cv_cadence_init(&cadence, 0, 2000000, 500000);
    int64_t keys[16];
    int count = 0;
    for (int64_t pts = 0; pts < 10000000; pts += 33367) {
        if (cv_cadence_show(&cadence, pts)) {
            assert_in_range(count, 0, 15);
            keys[count++] = pts;
        }
    }
    assert_int_equal(count, 5);
    for (int i = 0; i < count; i++) {
        assert_in_range(keys[i], i * 2000000, i * 2000000 + 33367);
    }
}

static void pauses_are_filled_at_key_times(void **state)
{
    (void)state;
    struct cv_cadence cadence;
    cv_cadence_init(&cadence, 0, 2000000, 500000);
    assert_true(cadence.last_us == INT64_MIN);
    assert_true(cv_cadence_repeat(&cadence, 100) == INT64_MIN);
    assert_true(cv_cadence_show(&cadence, 0));
    assert_true(cv_cadence_repeat(&cadence, 400000) == INT64_MIN);
    assert_false(cv_cadence_show(&cadence, 400000));
    int64_t expected = 2000000, pts;
    while ((pts = cv_cadence_repeat(&cadence, 600000000)) != INT64_MIN) {
        assert_int_equal(pts, expected);
        assert_true(cv_cadence_show(&cadence, pts));
        expected += 2000000;
    }
    assert_int_equal(expected, 600000000);
}

static void sizes_are_even_and_never_larger(void **state)
{
    (void)state;
    static const struct {
        int width, height, max_side, fitted_width, fitted_height;
    } cases[] = {
        {1080, 1920, 3840, 1080, 1920}, {161, 121, 3840, 160, 120},    {1, 1, 3840, 2, 2},
        {8192, 8192, 3840, 3840, 3840}, {3840, 2160, 1280, 1280, 720}, {16384, 2, 3840, 3840, 2},
        {5000, 3000, 0, 5000, 3000},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        int width, height;
        cv_fit_size(cases[i].width, cases[i].height, cases[i].max_side, &width, &height);
        assert_int_equal(width, cases[i].fitted_width);
        assert_int_equal(height, cases[i].fitted_height);
    }
}

static void playlist_names_true_durations(void **state)
{
    (void)state;
    struct cv_error error;
    struct cv_playlist playlist = {0};
    assert_int_equal(cv_playlist_add(&playlist, 360000, &error), 0);
    assert_int_equal(cv_playlist_add(&playlist, 364500, &error), 0);
    assert_int_equal(cv_playlist_add(&playlist, 93003, &error), 0);
    char *text = NULL;
    assert_int_equal(cv_playlist_text(&playlist, &text, &error), 0);
    assert_string_equal(text, "#EXTM3U\n"
                              "#EXT-X-VERSION:6\n"
                              "#EXT-X-TARGETDURATION:5\n"
                              "#EXT-X-MEDIA-SEQUENCE:0\n"
                              "#EXT-X-PLAYLIST-TYPE:VOD\n"
                              "#EXT-X-INDEPENDENT-SEGMENTS\n"
                              "#EXTINF:4.000000,\n"
                              "segment_00000.ts\n"
                              "#EXTINF:4.050000,\n"
                              "segment_00001.ts\n"
                              "#EXTINF:1.033367,\n"
                              "segment_00002.ts\n"
                              "#EXT-X-ENDLIST\n");
    free(text);
    cv_playlist_deinit(&playlist);
}

/* A picture that is black, grey with a gradient, or lines of "text". */
enum { SIDE = 256 };
static double score_of(int kind)
{
    static uint8_t luma[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE, y = i / SIDE;
        luma[i] = kind == 0             ? 16
                  : kind == 1           ? (uint8_t)(16 + x / 16)
                  : (x * 7 + y / 8) % 5 ? 235
                                        : 16;
    }
    AVFrame picture = {.width = SIDE, .height = SIDE, .data = {luma}, .linesize = {SIDE}};
    return cv_poster_score(&picture);
}

static void posters_show_something(void **state)
{
    (void)state;
    double black = score_of(0), faint = score_of(1), text = score_of(2);
    assert_true(black < 0.001);
    assert_true(faint > black);
    assert_true(text > faint);
}

/* Ten bits of PQ, one grey: what it becomes. */
static int mapped(uint16_t code)
{
    uint16_t luma[4] = {code, code, code, code}, chroma[1] = {512};
    AVFrame picture = {
        .width = 2,
        .height = 2,
        .format = AV_PIX_FMT_YUV420P10LE,
        .color_trc = AVCOL_TRC_SMPTE2084,
        .color_range = AVCOL_RANGE_MPEG,
        .data = {(uint8_t *)luma, (uint8_t *)chroma, (uint8_t *)chroma},
        .linesize = {4, 2, 2},
    };
    assert_true(cv_tone_is_high(&picture));
    struct cv_error error;
    AVFrame *frame = NULL;
    assert_int_equal(cv_tone_map(&picture, &frame, &error), 0);
    assert_int_equal(frame->format, AV_PIX_FMT_YUV420P);
    assert_int_equal(frame->data[1][0], 128);
    int value = frame->data[0][0];
    av_frame_free(&frame);
    return value;
}

static void high_dynamic_range_keeps_black_white_and_order(void **state)
{
    (void)state;
    assert_int_equal(mapped(64), 16);
    assert_int_equal(mapped(940), 235);
    assert_in_range(mapped(572), 205, 220); /* 203 nits, reference white */
    for (uint16_t code = 64; code < 940; code += 12) {
        assert_true(mapped(code) <= mapped((uint16_t)(code + 12)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_keeps_good_times),
        cmocka_unit_test(clock_repairs_as_little_as_possible),
        cmocka_unit_test(cap_halves_120_and_keeps_an_unsteady_60),
        cmocka_unit_test(key_frames_lie_on_a_grid_of_time),
        cmocka_unit_test(pauses_are_filled_at_key_times),
        cmocka_unit_test(sizes_are_even_and_never_larger),
        cmocka_unit_test(playlist_names_true_durations),
        cmocka_unit_test(posters_show_something),
        cmocka_unit_test(high_dynamic_range_keeps_black_white_and_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
