#include "common/media/cadence.h"
#include "common/media/scale.h"

#include "workers/transcode/hls/playlist.h"
#include "workers/transcode/hls/rendition.h"
#include "workers/transcode/hls/thumbnails.h"

#include <math.h>
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

/* Of frames that come early and late by up to `jitter_us`, from a source of which `rate` is told. */
static int admitted(double rate, int64_t interval_us, int64_t jitter_us, int count)
{
    struct cv_cadence cadence;
    int64_t shown[1200];
    cv_cadence_init(&cadence, 16666, 2000000, 500000);
    cv_cadence_expect(&cadence, rate);
    int frames = 0, before = 0;
    for (int i = 0; i < count; i++) {
        int64_t pts_us = i * interval_us + ((i * 7) % 11 - 5) * jitter_us / 5;
        if (cv_cadence_admit(&cadence, pts_us)) {
            shown[frames++] = pts_us;
        }
        while (before < frames && shown[before] <= pts_us - 1000000) {
            before++;
        }
        assert_in_range(frames - before, 0, 63);
    }
    return frames;
}

static void cap_halves_120_and_keeps_an_unsteady_60(void **state)
{
    (void)state;
    assert_in_range(admitted(120, 8333, 0, 1200), 599, 601);
    assert_in_range(admitted(0, 8333, 0, 1200), 599, 601);
    assert_in_range(admitted(30, 8333, 0, 1200), 599, 603); /* the header was wrong */
    assert_int_equal(admitted(60, 16667, 0, 600), 600);
    assert_int_equal(admitted(0, 16667, 3000, 600), 600);
    assert_int_equal(admitted(59.94, 16683, 4000, 600), 600);
    assert_int_equal(admitted(59.94, 16683, 12000, 600), 600);
    assert_int_equal(admitted(30, 33333, 0, 300), 300);
    assert_in_range(admitted(90, 11111, 0, 900), 599, 602); /* two of three */
    assert_in_range(admitted(75, 13333, 0, 750), 540, 603); /* two more at the beginning */
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

static void plan_goes_by_short_side_and_pixels(void **state)
{
    (void)state;
    static const struct {
        int width, height;
        size_t count;
        struct {
            int width, height;
        } renditions[4];
    } cases[] = {
        {1920, 1080, 4, {{1920, 1080}, {1280, 720}, {854, 480}, {640, 360}}},
        {1080, 1920, 4, {{1080, 1920}, {720, 1280}, {480, 854}, {360, 640}}},
        {3840, 2160, 4, {{1920, 1080}, {1280, 720}, {854, 480}, {640, 360}}},
        {1080, 2400, 4, {{1002, 2226}, {666, 1480}, {444, 986}, {332, 740}}},
        {800, 600, 3, {{800, 600}, {640, 480}, {480, 360}}},
        {640, 360, 1, {{640, 360}}},
        {161, 121, 1, {{160, 120}}},
        {1, 1, 1, {{2, 2}}},
        {17, 3, 1, {{12, 2}}},
        {3, 5000, 1, {{2, 3334}}},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX];
        assert_int_equal(cv_ladder_plan(cases[i].width, cases[i].height, NULL, 0, renditions),
                         cases[i].count);
        for (size_t j = 0; j < cases[i].count; j++) {
            assert_int_equal(renditions[j].width, cases[i].renditions[j].width);
            assert_int_equal(renditions[j].height, cases[i].renditions[j].height);
        }
    }
}

static void plan_follows_what_is_asked_for(void **state)
{
    (void)state;
    static const int asked[] = {360, 2160};
    struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX];
    assert_int_equal(cv_ladder_plan(3840, 2160, asked, 2, renditions), 2);
    assert_int_equal(renditions[0].width, 3840);
    assert_int_equal(renditions[1].height, 360);
    assert_int_equal(cv_ladder_plan(16384, 2, NULL, 0, renditions), 1);
    assert_int_equal(renditions[0].width, 3840);
    assert_true(cv_ladder_is_preset(1440));
    assert_false(cv_ladder_is_preset(1000));
}

static void pixels_are_squared_as_players_do(void **state)
{
    (void)state;
    static const struct {
        struct cv_media_info info;
        int width, height;
    } cases[] = {
        {{.width = 640, .height = 360, .sample_aspect = {2, 3}}, 427, 360},
        {{.width = 720, .height = 576, .sample_aspect = {64, 45}}, 1024, 576},
        {{.width = 576, .height = 720, .sample_aspect = {45, 64}, .rotation = 90}, 576, 1024},
        {{.width = 320, .height = 240, .sample_aspect = {1, 1}}, 320, 240},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        int width, height;
        cv_shown_size(&cases[i].info, &width, &height);
        assert_int_equal(width, cases[i].width);
        assert_int_equal(height, cases[i].height);
    }
}

/* Segments of 4, 4.05 and 1.033 s. */
static void fill_list(struct cv_segment_list *list)
{
    static const struct cv_segment segments[] = {
        {0, 360000, 400000, 120}, {360000, 364500, 200000, 120}, {724500, 93003, 300000, 31}};
    static const struct cv_key keys[] = {
        {0, 0, 0, 10000}, {180000, 0, 200000, 11000}, {360000, 1, 0, 9000}, {724500, 2, 0, 8000}};
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(segments); i++) {
        assert_int_equal(cv_segment_list_add(list, &segments[i], &error), 0);
    }
    for (size_t i = 0; i < CV_COUNT(keys); i++) {
        assert_int_equal(cv_segment_list_add_key(list, &keys[i], &error), 0);
    }
}

static void check_text(int result, char *text, const char *expected)
{
    assert_int_equal(result, 0);
    assert_string_equal(text, expected);
    free(text);
}

static void playlists_name_true_durations(void **state)
{
    (void)state;
    struct cv_error error;
    struct cv_segment_list list = {0};
    fill_list(&list);
    struct cv_playlist_names names = {"640x360", "ts", false};
    char *text = NULL;
    int result = cv_playlist_media(&list, &names, 4, &text, &error);
    check_text(result, text,
               "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:0\n"
               "#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-INDEPENDENT-SEGMENTS\n"
               "#EXTINF:4.000000,\nsegment_640x360_00000.ts\n"
               "#EXTINF:4.050000,\nsegment_640x360_00001.ts\n"
               "#EXTINF:1.033367,\nsegment_640x360_00002.ts\n#EXT-X-ENDLIST\n");
    result = cv_playlist_key_frames(&list, &names, &text, &error);
    check_text(result, text,
               "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:0\n"
               "#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-I-FRAMES-ONLY\n"
               "#EXTINF:2.000000,\n#EXT-X-BYTERANGE:10000@0\nsegment_640x360_00000.ts\n"
               "#EXTINF:2.000000,\n#EXT-X-BYTERANGE:11000@200000\nsegment_640x360_00000.ts\n"
               "#EXTINF:4.050000,\n#EXT-X-BYTERANGE:9000@0\nsegment_640x360_00001.ts\n"
               "#EXTINF:1.033367,\n#EXT-X-BYTERANGE:8000@0\nsegment_640x360_00002.ts\n"
               "#EXT-X-ENDLIST\n");
    cv_segment_list_deinit(&list);
}

static void rates_are_measured(void **state)
{
    (void)state;
    struct cv_error error;
    struct cv_segment_list list = {0};
    fill_list(&list);
    assert_int_equal(cv_segment_list_target(&list), 4);
    assert_int_equal(cv_segment_list_end(&list), 817503);
    assert_int_equal(cv_segment_list_average(&list), 792658); /* 900,000 bytes in 9.083 s */
    /* 400,000 bytes in 4 s; the last two together have less, the last alone is too short. */
    assert_int_equal(cv_segment_list_peak(&list, 4), 800000);
    assert_true(fabs(cv_segment_list_frame_rate(&list) - 30) < 0.01);
    struct cv_playlist_variant variant = {"640x360", "avc1.64001F", 640, 360, 30, &list};
    struct cv_playlist_sound sound = {"sound", "", "", "mp4a.40.2", &list};
    char *text = NULL;
    const struct cv_playlist_index index = {&variant, 1, &sound, 1, 4};
    int result = cv_playlist_multivariant(&index, &text, &error);
    check_text(result, text,
               "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n"
               "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"Sound\",DEFAULT=YES,"
               "AUTOSELECT=YES,CHANNELS=\"2\",URI=\"sound.m3u8\"\n"
               "#EXT-X-STREAM-INF:BANDWIDTH=1600000,AVERAGE-BANDWIDTH=1585316,"
               "CODECS=\"avc1.64001F,mp4a.40.2\",RESOLUTION=640x360,FRAME-RATE=30.000,"
               "AUDIO=\"sound\"\n640x360.m3u8\n"
               "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=61934,AVERAGE-BANDWIDTH=33468,"
               "CODECS=\"avc1.64001F\",RESOLUTION=640x360,URI=\"640x360_keys.m3u8\"\n");
    cv_segment_list_deinit(&list);
}

static void tracks_have_names_of_their_own(void **state)
{
    (void)state;
    struct cv_segment_list list = {0};
    struct cv_error error;
    struct cv_playlist_sound sounds[] = {
        {"sound", "ger", "", "mp4a.40.2", &list},
        {"sound_2", "deu", "", "mp4a.40.2", &list},
        {"sound_3", "x-1", "Director's talk", "mp4a.40.2", &list},
        {"sound_4", "gsw", "", "mp4a.40.2", &list},
    };
    cv_auto(cv_buffer_deinit) struct cv_buffer buffer = CV_BUFFER_INIT;
    char *text = NULL;
    cv_playlist_sound_lines(&buffer, sounds, CV_COUNT(sounds));
    int result = cv_buffer_detach(&buffer, &text, &error);
    check_text(result, text,
               "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"de\",LANGUAGE=\"de\","
               "DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"sound.m3u8\"\n"
               "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"de (2)\",LANGUAGE=\"de\","
               "DEFAULT=NO,AUTOSELECT=NO,CHANNELS=\"2\",URI=\"sound_2.m3u8\"\n"
               "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"Director's talk\","
               "DEFAULT=NO,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"sound_3.m3u8\"\n"
               "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"gsw\",LANGUAGE=\"gsw\","
               "DEFAULT=NO,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"sound_4.m3u8\"\n");
}

/* A picture that is black, grey with a gradient, or lines of "text". */
enum { SIDE = 256 };
static AVFrame picture_of(int kind)
{
    static uint8_t luma[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE, y = i / SIDE;
        luma[i] = kind == 0             ? 16
                  : kind == 1           ? (uint8_t)(16 + x / 16)
                  : (x * 7 + y / 8) % 5 ? 235
                                        : 16;
    }
    return (AVFrame){.format = AV_PIX_FMT_GRAY8,
                     .width = SIDE,
                     .height = SIDE,
                     .data = {luma},
                     .linesize = {SIDE}};
}

static double score_of(int kind)
{
    AVFrame picture = picture_of(kind);
    return cv_poster_score(&picture);
}

static void posters_show_something(void **state)
{
    (void)state;
    double black = score_of(0), faint = score_of(1), text = score_of(2);
    assert_true(black < 0.001);
    assert_true(faint > black);
    assert_true(text > faint);
    /* A recording that is blank at first, and whose picture then stays: the second one is looked at, however soon it comes. */
    struct cv_error error;
    struct cv_poster poster;
    cv_poster_init(&poster, INT64_C(3600) * 1000 * 1000);
    for (int kind = 0; kind <= 2; kind += 2) {
        AVFrame picture = picture_of(kind);
        assert_int_equal(cv_poster_offer(&poster, &picture, kind * 10000, &error), 0);
    }
    assert_true(poster.best_score == text);
    cv_poster_deinit(&poster);
}

/* Ten bits, one grey: what it becomes. */
static int mapped(uint16_t code, enum AVColorTransferCharacteristic curve)
{
    uint16_t luma[4] = {code, code, code, code}, chroma[1] = {512};
    AVFrame picture = {
        .width = 2,
        .height = 2,
        .format = AV_PIX_FMT_YUV420P10LE,
        .color_trc = curve,
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
    static const struct {
        enum AVColorTransferCharacteristic curve;
        uint16_t reference_white; /* the code of 203 nits */
    } cases[] = {{AVCOL_TRC_SMPTE2084, 572}, {AVCOL_TRC_ARIB_STD_B67, 721}};
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        enum AVColorTransferCharacteristic curve = cases[i].curve;
        assert_int_equal(mapped(64, curve), 16);
        assert_int_equal(mapped(940, curve), 235);
        assert_in_range(mapped(cases[i].reference_white, curve), 205, 220);
        for (uint16_t code = 64; code < 940; code += 12) {
            assert_true(mapped(code, curve) <= mapped((uint16_t)(code + 12), curve));
        }
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
        cmocka_unit_test(plan_goes_by_short_side_and_pixels),
        cmocka_unit_test(plan_follows_what_is_asked_for),
        cmocka_unit_test(pixels_are_squared_as_players_do),
        cmocka_unit_test(playlists_name_true_durations),
        cmocka_unit_test(rates_are_measured),
        cmocka_unit_test(tracks_have_names_of_their_own),
        cmocka_unit_test(posters_show_something),
        cmocka_unit_test(high_dynamic_range_keeps_black_white_and_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
