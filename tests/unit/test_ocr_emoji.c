/* Emoji known again when they are drawn at other sizes, on other paper, under noise; and what is none. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/emoji/mean_colours.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { SIDE = 120, EVERY = 61 };

static struct ocr_emoji_banks open_banks(void)
{
    struct ocr_emoji_banks banks = {.count = 0};
    struct cv_error error;

    assert_int_equal(ocr_emoji_banks_init(&banks, &error), 0);
    return banks;
}

/* Draws an emoji of the bank, `size` pixels high, at 20, 20. */
static struct cv_box draw_emoji(struct cv_frame *frame, const struct ocr_emoji_bank *bank,
                                size_t entry, int size)
{
    struct cv_box box = {20, 20, size * ocr_emoji_aspect(bank, entry) / 256, size};
    const uint8_t *picture = bank->fine + entry * OCR_EMOJI_FINE * OCR_EMOJI_FINE * 4;

    for (int y = 0; y < box.height; y++) {
        for (int x = 0; x < box.width; x++) {
            const uint8_t *cell = picture + 4 * (y * OCR_EMOJI_FINE / box.height * OCR_EMOJI_FINE +
                                                 x * OCR_EMOJI_FINE / box.width);
            for (int c = 0; c < 3; c++) {
                uint8_t *at = &frame->plane[c][(box.y + y) * frame->width + box.x + x];
                *at = (uint8_t)(cell[c] + *at * (255 - cell[3]) / 255);
            }
        }
    }
    compute_luma(frame);
    return box;
}

static void test_the_bank_has_unicode_s_emoji_of_three_vendors(void **state)
{
    (void)state;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = open_banks();
    static const char *const some[] = {"😂",  "❤️",  "☕",      "👍🏽", "👨‍👩‍👧",
                                       "🇩🇪", "1️⃣", "🌧️"};
    size_t found[CV_COUNT(some)] = {0};

    assert_int_equal(banks.count, 1);
    assert_true(banks.items[0].count > 10000);
    for (size_t i = 0; i < banks.items[0].count; i++) {
        for (size_t k = 0; k < CV_COUNT(some); k++) {
            found[k] += strcmp(ocr_emoji_text(&banks.items[0], i), some[k]) == 0;
        }
        assert_string_not_equal(ocr_emoji_text(&banks.items[0], i), "©️");
        assert_string_not_equal(ocr_emoji_text(&banks.items[0], i), "🇨🇵"); /* France's */
    }
    for (size_t k = 0; k < CV_COUNT(some); k++) {
        assert_in_range(found[k], 2,
                        3); /* Noto's, Twemoji's, and Fluent's without flags and families */
    }
}

static void test_emoji_are_known_at_any_size_on_any_paper(void **state)
{
    (void)state;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = open_banks();
    const struct ocr_emoji_bank *bank = &banks.items[0];
    static const int sizes[] = {20, 34, 60};
    int drawn = 0, known = 0;

    for (size_t entry = 0; entry < bank->count; entry += EVERY) {
        const int size = sizes[entry / EVERY % 3];
        const struct colour paper = entry / EVERY % 2 ? night : white;
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, paper);
        struct cv_box box = draw_emoji(&frame, bank, entry, size);
        add_noise(&frame, 6, (unsigned)entry);
        const uint8_t levels[3] = {paper.red, paper.green, paper.blue};
        struct ocr_emoji_match match = ocr_emoji_match(&banks, &frame, levels, &box);
        drawn++;
        known += match.score > 0.8 && strcmp(match.text, ocr_emoji_text(bank, entry)) == 0;
    }
    assert_true(drawn >= 50);
    assert_true(known * 100 >= drawn * 95);
}

/* A disc whose colour runs from one side to the other, as avatars are. */
static void test_an_avatar_is_plain(void **state)
{
    (void)state;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = open_banks();
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, white);
    const uint8_t paper[3] = {255, 255, 255};
    const struct cv_box box = {20, 20, 60, 60};

    for (int y = -30; y < 30; y++) {
        for (int x = -30; x < 30; x++) {
            struct colour here = {(uint8_t)(120 + x), (uint8_t)(140 + y), 90};
            set_pixel(&frame, 50 + x, 50 + y, here, x * x + y * y <= 900 ? 255 : 0);
        }
    }
    struct ocr_emoji_match match = ocr_emoji_match(&banks, &frame, paper, &box);
    assert_true(match.plain > 0.85);
    assert_true(match.score - match.plain < 0.06);
}

/* Another skin tone is no rival, another emoji is; and discs are no emoji, however alike. */
static void test_what_makes_a_match_sure(void **state)
{
    (void)state;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = open_banks();
    const struct ocr_emoji_bank *bank = &banks.items[0];
    static const struct {
        const char *text;
        bool sure;
    } cases[] = {{"👍🏽", true}, {"🥐", true}, {"🔴", false}, {"🌑", false}, {"⬜", false}};

    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, night);
        const uint8_t paper[3] = {night.red, night.green, night.blue};
        size_t entry = 0;
        while (strcmp(ocr_emoji_text(bank, entry), cases[i].text) != 0) {
            assert_true(++entry < bank->count);
        }
        struct cv_box box = draw_emoji(&frame, bank, entry, 40);
        struct ocr_emoji_match match = ocr_emoji_match(&banks, &frame, paper, &box);
        assert_string_equal(match.text, cases[i].text);
        assert_int_equal(ocr_emoji_is_sure(&match), cases[i].sure);
        match.rival = match.score;
        assert_false(ocr_emoji_is_sure(&match));
    }
}

/* What is left out early must be what would not have won. */
static void test_a_bound_is_never_above_the_distance(void **state)
{
    (void)state;
    cv_auto(ocr_emoji_banks_deinit) struct ocr_emoji_banks banks = open_banks();
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, white);
    const struct ocr_emoji_bank *bank = &banks.items[0];
    const uint8_t paper[3] = {255, 255, 255};
    enum { COARSE = OCR_EMOJI_COARSE, CELLS = OCR_COARSE_CELLS };
    float cells[OCR_COARSE_FLOATS];
    struct ocr_emoji_quarters quarters;

    struct cv_box box = draw_emoji(&frame, bank, bank->count / 2, 34);
    struct ocr_placing placing = {box.x, box.y, box.width, box.height};
    ocr_mean_colours_measure(&frame, &placing, COARSE, cells);
    ocr_mean_colours_quarters(cells, &quarters);
    for (size_t i = 0; i < bank->count; i++) {
        const uint8_t *picture = bank->coarse + i * CELLS * 4;
        double least = ocr_mean_colours_distance_least(&bank->quarters[i], &quarters, paper);
        double distance = ocr_mean_colours_distance(picture, cells, COARSE, paper, DBL_MAX);
        assert_true(least <= distance);
        assert_true(distance == 0 || ocr_mean_colours_distance(picture, cells, COARSE, paper,
                                                               distance / 2) > distance / 2);
    }
}

/* Red grows by two levels a pixel to the right, green by one downwards: what a cell's samples come
 * to is the level at its centre. */
static void test_cells_are_the_levels_at_their_centres(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(SIDE, SIDE, white);
    const struct ocr_placing placing = {10.5, 20.25, 33, 27};
    enum { SIDE_CELLS = OCR_EMOJI_FINE };
    float cells[OCR_FINE_FLOATS];

    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            set_pixel(&frame, x, y, (struct colour){(uint8_t)(2 * x), (uint8_t)y, 7}, 255);
        }
    }
    ocr_mean_colours_measure(&frame, &placing, SIDE_CELLS, cells);
    for (int i = 0; i < SIDE_CELLS * SIDE_CELLS; i++) {
        double x = placing.x - 0.5 + (i % SIDE_CELLS + 0.5) * placing.width / SIDE_CELLS;
        double y = placing.y - 0.5 + (i / SIDE_CELLS + 0.5) * placing.height / SIDE_CELLS;
        assert_true(fabs(cells[3 * i] - 2 * x) < 0.001);
        assert_true(fabs(cells[3 * i + 1] - y) < 0.001);
        assert_true(fabs(cells[3 * i + 2] - 7) < 0.001);
    }
}

static void test_a_file_that_is_no_bank_is_refused(void **state)
{
    struct ocr_emoji_banks banks;
    struct cv_error error;

    (void)state;
    assert_int_equal(setenv("CORTANA_EMOJI_BANK", "/usr/bin/env", 1), 0);
    assert_true(ocr_emoji_banks_init(&banks, &error) < 0);
    assert_int_equal(setenv("CORTANA_EMOJI_BANK", "/nowhere/at.all", 1), 0);
    assert_true(ocr_emoji_banks_init(&banks, &error) < 0);
    assert_int_equal(unsetenv("CORTANA_EMOJI_BANK"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bank_has_unicode_s_emoji_of_three_vendors),
        cmocka_unit_test(test_emoji_are_known_at_any_size_on_any_paper),
        cmocka_unit_test(test_an_avatar_is_plain),
        cmocka_unit_test(test_what_makes_a_match_sure),
        cmocka_unit_test(test_a_bound_is_never_above_the_distance),
        cmocka_unit_test(test_cells_are_the_levels_at_their_centres),
        cmocka_unit_test(test_a_file_that_is_no_bank_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
