/* Finding lines of text, and cutting emoji out, on drawn frames. */
#include "common/screen/touching_rows.h"

#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/emoji/candidates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect_box(const struct cv_box *found, const struct cv_box *drawn, int slack)
{
    assert_in_range(found->x + slack, drawn->x, drawn->x + 2 * slack);
    assert_in_range(found->y + slack, drawn->y, drawn->y + 2 * slack);
    assert_in_range(cv_box_right(found) + slack, cv_box_right(drawn),
                    cv_box_right(drawn) + 2 * slack);
    assert_in_range(cv_box_bottom(found) + slack, cv_box_bottom(drawn),
                    cv_box_bottom(drawn) + 2 * slack);
}

static void test_dark_light_and_coloured_lines_are_found(void **state)
{
    (void)state;
    struct {
        struct colour paper, ink;
    } themes[] = {{white, black},
                  {night, white},
                  {night, grey},
                  {white, grey},
                  {white, blue},
                  {night, purple},
                  {{200, 30, 40}, {40, 140, 30}}};
    for (size_t i = 0; i < CV_COUNT(themes); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 300, themes[i].paper);
        struct cv_box first =
            draw_text(&frame, "Thursday evening train", 40, 40, 22, themes[i].ink);
        struct cv_box second = draw_text(&frame, "platform nine, jump", 40, 100, 22, themes[i].ink);
        add_noise(&frame, 6, 7);
        cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
        assert_int_equal(lines.count, 2);
        expect_box(&lines.items[0].box, &first, 2);
        expect_box(&lines.items[1].box, &second, 2);
    }
}

/* Forty levels and fewer, as hints and placeholders are written: noise does not hide them, and is none. */
static void test_faint_lines_on_even_ground_are_found(void **state)
{
    (void)state;
    static const struct {
        struct colour paper, ink;
        int noise;
    } themes[] = {{{64, 64, 66}, {104, 104, 108}, 0},
                  {{64, 64, 66}, {104, 104, 108}, 3},
                  {{200, 200, 204}, {158, 158, 160}, 2},
                  {{240, 240, 240}, {210, 210, 210}, 1}};
    for (size_t i = 0; i < CV_COUNT(themes); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 400, themes[i].paper);
        struct cv_box strong = draw_text(&frame, "platform nine", 40, 40, 22, black);
        struct cv_box first =
            draw_text(&frame, "Thursday evening train", 40, 150, 22, themes[i].ink);
        struct cv_box second = draw_text(&frame, "platform nine", 40, 190, 18, themes[i].ink);
        add_noise(&frame, themes[i].noise, 7);
        cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
        assert_int_equal(lines.count, 3);
        expect_box(&lines.items[0].box, &strong, 2);
        expect_box(&lines.items[1].box, &first, 2);
        expect_box(&lines.items[2].box, &second, 2);
        assert_false(lines.items[0].is_faint);
        assert_true(lines.items[1].is_faint && lines.items[2].is_faint);
        for (size_t k = 0; k < lines.count; k++) {
            struct ocr_crop crop = {.grey = NULL};
            struct cv_error error;
            assert_int_equal(ocr_crop_make(&frame, &lines.items[k],
                                           lines.glyphs + lines.items[k].first_glyph, &crop,
                                           &error),
                             0);
            assert_true(crop.grey[0] > 128); /* paper is white, whatever it was */
            ocr_crop_deinit(&crop);
        }
    }
}

/* Noise has no lines, nor has a slope; on a slope, between strong letters and under much noise nobody
 * looks for faint ones. */
static void test_uneven_ground_has_no_faint_lines(void **state)
{
    (void)state;
    static const struct colour ground = {120, 120, 120}, ink = {148, 148, 148};
    cv_auto(cv_frame_deinit) struct cv_frame noise = new_frame(700, 300, ground);
    add_noise(&noise, 9, 3);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines none = find_lines(&noise);
    assert_int_equal(none.count, 0);

    cv_auto(cv_frame_deinit) struct cv_frame hidden = new_frame(700, 300, ground);
    (void)draw_text(&hidden, "Thursday evening train", 40, 120, 22, ink);
    add_noise(&hidden, 9, 3);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines under = find_lines(&hidden);
    assert_int_equal(under.count, 0);

    cv_auto(cv_frame_deinit) struct cv_frame slope = new_frame(700, 300, ground);
    for (int y = 0; y < slope.height; y++) {
        for (int x = 0; x < slope.width; x++) {
            int level = 60 + (x % 50 < 25 ? x % 50 : 50 - x % 50) * 5;
            set_pixel(&slope, x, y, (struct colour){(uint8_t)level, 100, 100}, 255);
        }
    }
    compute_luma(&slope);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines hills = find_lines(&slope);
    assert_int_equal(hills.count, 0);

    cv_auto(cv_frame_deinit) struct cv_frame near = new_frame(700, 300, ground);
    struct cv_box strong = draw_text(&near, "platform", 40, 120, 22, white);
    struct cv_box weak = draw_text(&near, "nine at noon", cv_box_right(&strong) + 10, 120, 22, ink);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines beside = find_lines(&near);
    assert_int_equal(beside.count, 2);
    expect_box(&beside.items[0].box, &strong, 2);
    expect_box(&beside.items[1].box, &weak, 2);
}

static void test_sizes_from_small_to_large(void **state)
{
    (void)state;
    static const int sizes[] = {9, 12, 20, 40, 60};
    for (size_t i = 0; i < CV_COUNT(sizes); i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(1400, 200, white);
        struct cv_box drawn = draw_text(&frame, "Quick lazy fox", 30, 60, sizes[i], black);
        cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
        assert_int_equal(lines.count, 1);
        expect_box(&lines.items[0].box, &drawn, 2);
    }
}

static void test_columns_are_split_and_words_are_not(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(900, 120, white);
    struct cv_box left = draw_text(&frame, "12 likes", 30, 40, 18, black);
    struct cv_box right = draw_text(&frame, "34 comments", cv_box_right(&left) + 60, 40, 18, black);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 2);
    expect_box(&lines.items[0].box, lines.items[0].box.x < 200 ? &left : &right, 2);
}

/* A key has no tall letter and a narrow colon; its row tells how wide a blank may be. */
static void test_a_key_and_its_value_are_one_line(void **state)
{
    (void)state;
    const char *values[] = {"\"later\"", "\"Thursday\""};
    for (size_t i = 0; i < CV_COUNT(values); i++) {
        for (int apart = 0; apart < 2; apart++) {
            cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 120, white);
            struct cv_box key = draw_text(&frame, "one:", 40, 45, 20, black);
            int x = cv_box_right(&key) + (apart ? 60 : 26);
            struct cv_box value = draw_text(&frame, values[i], x, 37, 20, black);
            struct cv_box whole = cv_box_union(&key, &value);
            cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
            assert_int_equal(lines.count, apart ? 2 : 1);
            if (!apart) {
                expect_box(&lines.items[0].box, &whole, 2);
            }
        }
    }
}

/* Where a list has dashes, a blank lies between one and its item; a dash further off is of another column. */
static void test_a_dash_before_an_item_is_of_its_line(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 120, white);
        struct cv_box item = draw_text(&frame, "milk and bread", 120, 40, 18, black);
        struct cv_box dash = {item.x - (apart ? 60 : 28), 50, 9, 3};
        fill_box(&frame, dash, black);
        struct cv_box whole = apart ? item : cv_box_union(&dash, &item);
        cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
        assert_int_equal(lines.count, 1);
        expect_box(&lines.items[0].box, &whole, 2);
    }
}

/* A label further below a bar than an underscore below letters, but not for the bar's height. */
static void test_a_label_under_a_bar_is_a_line(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(400, 260, white);
    struct cv_box label = draw_text(&frame, "8-14 Feb", 60, 200, 10, black);
    fill_box(&frame, (struct cv_box){label.x + 2, label.y - 20 - 136, 34, 136}, blue);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 2); /* the bar, too: it may be an I */
    expect_box(&lines.items[1].box, &label, 2);
}

/* Bars as high as letters of a headline do not take the numbers above them for their dots. */
static void test_labels_of_a_chart_are_lines(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 260, white);
    struct cv_box labels[4];
    for (int i = 0; i < 4; i++) {
        fill_box(&frame, (struct cv_box){60 + 100 * i, 120 - 10 * i, 44, 90 + 10 * i}, blue);
        labels[i] = draw_text(&frame, "2,840", 64 + 100 * i, 104 - 10 * i, 9, black);
    }
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 4);
    for (int i = 0; i < 4; i++) {
        expect_box(&lines.items[i].box, &labels[3 - i], 2);
    }
}

/* A card is no letter, though the tallest thing on it is a button. */
static void test_text_on_a_card_with_a_button_is_found(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 260, night);
    fill_box(&frame, (struct cv_box){40, 40, 400, 150}, grey);
    fill_box(&frame, (struct cv_box){60, 130, 120, 34}, blue);
    struct cv_box question = draw_text(&frame, "remove three files", 60, 60, 11, white);
    struct cv_box note = draw_text(&frame, "they are kept for a month", 60, 90, 9, white);
    struct cv_box button = draw_text(&frame, "remove", 80, 142, 10, white);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 3);
    expect_box(&lines.items[0].box, &question, 2);
    expect_box(&lines.items[1].box, &note, 2);
    expect_box(&lines.items[2].box, &button, 2);
}

/* The outline of a button is no letter, though it is of one colour with the word in it. */
static void test_a_word_in_an_outline_is_found(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(300, 120, white);
    struct cv_box button = {100, 40, 45, 23};
    fill_box(&frame, button, blue);
    fill_box(&frame, (struct cv_box){101, 41, 43, 21}, white);
    struct cv_box word = draw_text(&frame, "edit", 110, 46, 7, blue);
    add_noise(&frame, 4, 7);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 1);
    expect_box(&lines.items[0].box, &word, 2);
}

/* A thing with a label of several letters above it is no letter with its dots, whatever it is. */
static void test_a_label_above_a_large_thing_is_a_line(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(300, 200, night);
    fill_box(&frame, (struct cv_box){100, 60, 50, 80}, blue);
    fill_box(&frame, (struct cv_box){110, 75, 30, 50}, purple);
    fill_box(&frame, (struct cv_box){120, 60, 10, 80}, purple);
    struct cv_box label = draw_text(&frame, "stone", 104, 44, 8, white);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_true(lines.count >= 1);
    expect_box(&lines.items[0].box, &label, 2);
}

/* Words of a search result with a mark behind one of them: its upper and lower edges are no part of the line, and
 * both backgrounds become white. */
static void test_a_line_on_two_backgrounds(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, white);
    struct colour pink = {248, 208, 225};
    struct cv_box first = draw_text(&frame, "slate", 40, 40, 22, grey);
    struct cv_box mark = {cv_box_right(&first) + 12, 34, 240, 46};
    fill_box(&frame, mark, pink);
    struct cv_box second = draw_text(&frame, "harbour", mark.x + 4, 40, 22, black);
    fill_box(&frame, (struct cv_box){cv_box_right(&second) + 3, 34, 200, 46}, white);
    add_noise(&frame, 2, 7);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    struct cv_box both = cv_box_union(&first, &second);
    struct cv_ink ink;
    assert_int_equal(lines.count, 1);
    expect_box(&lines.items[0].box, &both, 2);
    cv_ink_measure(&frame, &lines.items[0].box, false, &ink);
    assert_int_equal(ink.kind, CV_INK_FLAT);
    assert_true(ink.part_count > 1);
}

/* Draws text whose letters touch a rule on the baseline, and expects the line that is found without the rule. */
static void expect_rule_removed(const char *text, int tall, struct colour paper, struct colour ink)
{
    cv_auto(cv_frame_deinit) struct cv_frame plain = new_frame(600, 120, paper);
    cv_auto(cv_frame_deinit) struct cv_frame ruled = new_frame(600, 120, paper);
    struct cv_box box = draw_text(&plain, text, 40, 40, tall, ink);
    cv_auto(cv_frame_deinit) struct cv_frame scratch = new_frame(600, 120, paper);
    struct cv_box letters = draw_text(&scratch, "half", 40, 40, tall, ink);
    int baseline = cv_box_bottom(&letters);
    draw_text(&ruled, text, 40, 40, tall, ink);
    fill_box(&ruled, (struct cv_box){box.x, baseline, box.width, cv_max(tall / 12, 1)}, ink);
    add_noise(&plain, 4, 7);
    add_noise(&ruled, 4, 7);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines wanted = find_lines(&plain);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&ruled);
    assert_int_equal(wanted.count, 1);
    assert_int_equal(lines.count, 1);
    assert_in_range(lines.items[0].glyphs, wanted.items[0].glyphs - 2, wanted.items[0].glyphs + 2);
    expect_box(&lines.items[0].box, &box, 2);
}

static void test_rules_under_text_are_removed(void **state)
{
    (void)state;
    for (int tall = 9; tall <= 27; tall += 3) {
        expect_rule_removed("the slate harbour", tall, white, blue);
        expect_rule_removed("narrow gauge railway", tall, night, white);
        expect_rule_removed("Museum of Quarrying", tall, white, black);
    }
}

/* Bars and feet of letters, struck letters, a field, a filled cell: nothing is painted over. */
static void test_what_is_no_rule_stays(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(900, 420, white);
    cv_auto(cv_frame_deinit) struct cv_frame before = {0};
    struct cv_error error;
    for (int tall = 8; tall <= 32; tall += 8) {
        draw_text(&frame, "EZL TEE BED e-e-e = __ TTTT", 20, tall * 4, tall, black);
    }
    struct cv_box struck = draw_text(&frame, "three times", 600, 30, 14, black);
    fill_box(&frame, (struct cv_box){struck.x, 38, struck.width, 1}, black);
    fill_box(&frame, (struct cv_box){600, 80, 140, 22}, grey);
    fill_box(&frame, (struct cv_box){601, 81, 138, 20}, white);
    draw_text(&frame, "harbour", 610, 86, 11, black);
    fill_box(&frame, (struct cv_box){600, 130, 140, 20}, blue);
    draw_text(&frame, "Article", 610, 135, 11, white);
    fill_box(&frame, (struct cv_box){600, 220, 260, 2}, grey);
    assert_int_equal(cv_frame_init(&before, frame.width, frame.height, &error), 0);
    size_t bytes = CV_PLANES * (size_t)frame.width * (size_t)frame.height;
    memcpy(before.plane[0], frame.plane[0], bytes);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_memory_equal(frame.plane[0], before.plane[0], bytes);
}

/* A codec leaves specks in the blocks of letters, above some and below others. */
static void test_specks_do_not_make_a_line_higher(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(1300, 160, night);
    struct cv_box row =
        draw_text(&frame, "does a man own a sea near us or a dune", 40, 60, 29, white);
    fill_box(&frame, (struct cv_box){row.x + 26, row.y - 10, 5, 3}, white);
    fill_box(&frame, (struct cv_box){cv_box_right(&row) - 50, cv_box_bottom(&row) + 5, 7, 5},
             white);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 1);
    assert_true(cv_box_overlap(&lines.items[0].box, &row) * 100 >=
                (int64_t)row.width * row.height * 95);
}

/* A tall emoji in front does not let a line reach over the gap between two columns. */
static void test_an_emoji_does_not_join_columns(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(900, 120, white);
    fill_box(&frame, (struct cv_box){40, 30, 44, 46}, blue);
    struct cv_box left = draw_text(&frame, "460", 96, 40, 26, black);
    struct cv_box right = draw_text(&frame, "71 comments", cv_box_right(&left) + 60, 40, 26, black);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 2);
    expect_box(&lines.items[lines.items[0].box.x < 200 ? 1 : 0].box, &right, 2);
}

/* An avatar at the left and a frame around do not swallow the line beside or inside of them. */
static void test_pictures_beside_text_stay_out_of_the_line(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 400, white);
    fill_box(&frame, (struct cv_box){40, 40, 90, 90}, (struct colour){60, 120, 90});
    struct cv_box name = draw_text(&frame, "kitchen nora", 150, 70, 23, black);
    fill_box(&frame, (struct cv_box){40, 200, 500, 60}, (struct colour){20, 60, 100});
    struct cv_box label = draw_text(&frame, "Live from Porto", 60, 218, 22, white);
    fill_box(&frame, (struct cv_box){40, 290, 90, 90}, (struct colour){60, 120, 90});
    struct cv_box small = draw_text(&frame, "so none use a ruse", 152, 328, 15, black);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    bool found_name = false, found_label = false, found_small = false;
    for (size_t i = 0; i < lines.count; i++) {
        const struct cv_box *box = &lines.items[i].box;
        found_name = found_name || (abs(box->x - name.x) <= 2 && abs(box->width - name.width) <= 4);
        found_small =
            found_small || (abs(box->x - small.x) <= 2 && abs(box->width - small.width) <= 4);
        found_label =
            found_label || (abs(box->x - label.x) <= 2 && abs(box->width - label.width) <= 4);
    }
    assert_true(found_name);
    assert_true(found_label);
    assert_true(found_small);
}

/* The usual place of an avatar: beside a name and the line below it, little larger than their letters,
 * and of one colour. It joins the two to nothing. */
static void test_a_disc_before_two_lines_joins_neither(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, night);
    for (int y = 0; y < 34; y++) {
        for (int x = 0; x < 34; x++) {
            if ((x - 17) * (x - 17) + (y - 17) * (y - 17) <= 17 * 17) {
                set_pixel(&frame, 10 + x, 20 + y, grey, 255);
            }
        }
    }
    struct cv_box name = draw_text(&frame, "kitchen nora", 60, 22, 15, blue);
    struct cv_box below = draw_text(&frame, "so none use a ruse", 60, 49, 15, white);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 2);
    expect_box(&lines.items[0].box, &name, 2);
    expect_box(&lines.items[1].box, &below, 2);
}

/* A cup with its steam and saucer behind a sentence: pieces half as high as the letters, which are not
 * to be taken for the line's letters and put the @ out. */
static void test_an_emoji_in_pieces_puts_no_letter_out(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 120, white);
    struct cv_box text = draw_text(&frame, "(dev) vinyl", 40, 40, 26, black);
    int x = cv_box_right(&text) + 12, bottom = cv_box_bottom(&text);
    fill_box(&frame, (struct cv_box){x, text.y - 8, 30, 51}, blue);
    fill_box(&frame, (struct cv_box){x + 46, bottom - 36, 43, 14}, blue);
    fill_box(&frame, (struct cv_box){x + 46, bottom - 14, 26, 14}, blue);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    bool whole = false;
    for (size_t i = 0; i < lines.count; i++) {
        whole = whole || (lines.items[i].box.x <= text.x + 2 &&
                          cv_box_right(&lines.items[i].box) >= cv_box_right(&text) - 2);
    }
    assert_true(whole);
}

static void test_noise_and_gradients_hold_no_lines(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(640, 360, white);
    for (int y = 0; y < 360; y++) {
        for (int x = 0; x < 640; x++) {
            set_pixel(&frame, x, y, (struct colour){(uint8_t)(x / 3), (uint8_t)(y / 2), 90}, 255);
        }
    }
    add_noise(&frame, 8, 3);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 0);
}

static size_t emoji_in(struct cv_frame *frame)
{
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(frame);
    size_t count = 0;

    for (size_t i = 0; i < lines.count; i++) {
        struct ocr_emoji_candidate spots[8];
        struct cv_ink ink;
        cv_ink_measure(frame, &lines.items[i].box, lines.items[i].is_light, &ink);
        size_t found =
            ocr_emoji_candidates(frame, &ink, &lines.items[i],
                                 lines.glyphs + lines.items[i].first_glyph, spots, CV_COUNT(spots));
        for (size_t k = 0; k < found; k++) {
            count += spots[k].picture;
        }
    }
    return count;
}

static void draw_smiley(struct cv_frame *frame, int x, int y, int size)
{
    int half = size / 2;

    for (int row = -half; row <= half; row++) {
        for (int column = -half; column <= half; column++) {
            if (row * row + column * column <= half * half) {
                bool eye = abs(row + half / 3) < 4 && abs(abs(column) - half / 2) < 4;
                struct colour skin = {250, 200, 60}, dark = {90, 50, 30};
                set_pixel(frame, x + half + column, y + half + row, eye ? dark : skin, 255);
            }
        }
    }
    compute_luma(frame);
}

static void test_emoji_are_cut_out_and_coloured_words_are_not(void **state)
{
    (void)state;
    struct colour papers[] = {white, night}, inks[] = {black, white};
    for (size_t i = 0; i < 2; i++) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(700, 120, papers[i]);
        struct cv_box text = draw_text(&frame, "fresh bread", 30, 40, 27, inks[i]);
        assert_int_equal(emoji_in(&frame), 0);
        draw_smiley(&frame, cv_box_right(&text) + 10, text.y - 4, 40);
        assert_int_equal(emoji_in(&frame), 1);
        cv_auto(cv_frame_deinit) struct cv_frame words = new_frame(700, 120, papers[i]);
        text = draw_text(&words, "tagged with", 30, 40, 27, inks[i]);
        (void)draw_text(&words, "#harbour", cv_box_right(&text) + 12, 40, 27, i ? purple : blue);
        assert_int_equal(emoji_in(&words), 0);
    }
}

/* Faint digits beside an emoji become as black as if it were not there. */
static void test_an_emoji_takes_no_contrast(void **state)
{
    (void)state;
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(400, 120, white);
    draw_smiley(&frame, 30, 34, 40);
    struct cv_box text = draw_text(&frame, "520", 84, 40, 27, grey);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 1);
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {0};
    struct cv_error error;
    assert_int_equal(ocr_crop_make(&frame, &lines.items[0],
                                   lines.glyphs + lines.items[0].first_glyph, &crop, &error),
                     0);
    int darkest = 255;
    for (int x = text.x - lines.items[0].box.x; x < crop.width; x++) {
        for (int y = 0; y < crop.height; y++) {
            darkest = cv_min(darkest, crop.grey[y * crop.width + x]);
        }
    }
    assert_true(darkest < 24);
}

/* Two rows of letters 10 × 14 pixels, 4 pixels apart, with one component of `width` pixels through both in place of the
 * letter at `place`; how many components there are when it has been looked at. */
static size_t split_rows(int place, int width, struct cv_components *components)
{
    enum { LETTERS = 8 };
    struct cv_error error;

    components->items = calloc(2 * LETTERS, sizeof(*components->items));
    assert_non_null(components->items);
    for (int i = 0; i < LETTERS; i++) {
        struct cv_component letter = {.box = {20 + i * 14, 40, 10, 14}, .peak = 200};
        if (i == place) {
            letter.box.width = width;
            letter.box.height = 32;
            components->items[components->count++] = letter;
            continue;
        }
        components->items[components->count++] = letter;
        letter.box.y = 58;
        components->items[components->count++] = letter;
    }
    assert_int_equal(cv_touching_rows_cut(components, &error), 0);
    return components->count;
}

static void test_letters_of_two_rows_that_touch_are_cut_apart(void **state)
{
    cv_auto(cv_components_deinit) struct cv_components within = {0}, before = {0}, bar = {0};

    (void)state;
    assert_int_equal(split_rows(3, 10, &within), 16);
    assert_int_equal(within.items[6].box.height, 18);
    assert_int_equal(within.items[7].box.y, 58);
    assert_int_equal(within.items[7].box.height, 14);
    /* an icon before two rows, a line between their words */
    assert_int_equal(split_rows(0, 10, &before), 15);
    assert_int_equal(split_rows(3, 2, &bar), 15);
}

/* Square letters of two parts, 22 pixels high: the parts reach 5 pixels into one another. */
static struct cv_box draw_square_letters(struct cv_frame *frame, int x, int y, int count)
{
    for (int i = 0; i < count; i++) {
        int left = x + i * 24;
        fill_box(frame, (struct cv_box){left, y, 18, 3}, black);
        fill_box(frame, (struct cv_box){left + 15, y, 3, 14}, black);
        fill_box(frame, (struct cv_box){left, y + 9, 3, 13}, black);
        fill_box(frame, (struct cv_box){left, y + 19, 18, 3}, black);
    }
    return (struct cv_box){x, y, (count - 1) * 24 + 18, 22};
}

/* Eight letters of one part each, the third of which is wider. */
static struct cv_box draw_row(struct cv_frame *frame, int y, int height, int width, int wider)
{
    int x = 60;

    for (int i = 0; i < 8; i++) {
        int wide = i == 2 ? wider : width;
        fill_box(frame, (struct cv_box){x, y, wide, 4}, black);
        fill_box(frame, (struct cv_box){x, y, 4, height}, black);
        fill_box(frame, (struct cv_box){x + wide - 4, y, 4, height}, black);
        x += wide + 4;
    }
    return (struct cv_box){60, y, x - 4 - 60, height};
}

/* The parts of Hangul and Han reach into one another: no two rows. */
static void test_parts_of_square_letters_are_one_line(void **state)
{
    (void)state;
    for (int count = 2; count <= 12; count += 5) {
        cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, white);
        struct cv_box drawn = draw_square_letters(&frame, 60, 40, count);
        add_noise(&frame, 4, 7);
        cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
        assert_int_equal(lines.count, 1);
        expect_box(&lines.items[0].box, &drawn, 2);
    }
}

/* Rows of bold capitals on a poster, of Han letters of which two touch, and of thin letters. */
static void test_rows_near_each_other_stay_two(void **state)
{
    static const struct {
        int height, width, wider;
    } rows[] = {{24, 20, 30}, {30, 28, 60}};
    (void)state;

    for (int kind = 0; kind < (int)CV_COUNT(rows); kind++) {
        for (int apart = 1; apart <= 8; apart++) {
            cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 160, white);
            struct cv_box first =
                draw_row(&frame, 40, rows[kind].height, rows[kind].width, rows[kind].wider);
            struct cv_box second = draw_row(&frame, cv_box_bottom(&first) + apart,
                                            rows[kind].height, rows[kind].width, rows[kind].wider);
            add_noise(&frame, 4, 7);
            cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
            assert_int_equal(lines.count, 2);
            expect_box(&lines.items[0].box, &first, 2);
            expect_box(&lines.items[1].box, &second, 2);
        }
    }
    cv_auto(cv_frame_deinit) struct cv_frame frame = new_frame(500, 120, white);
    struct cv_box first = draw_text(&frame, "Thursday evening", 60, 40, 14, black);
    (void)draw_text(&frame, "MAMMOTH WOMEN", 60, cv_box_bottom(&first) + 1, 14, black);
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = find_lines(&frame);
    assert_int_equal(lines.count, 2);
}

static void test_text_is_cleaned_of_lone_marks(void **state)
{
    (void)state;
    static const struct {
        const char *read, *clean;
    } cases[] = {
        {"© 752", "752"},
        {"nice @ #", "nice"},
        {"@nora #coffee", "@nora #coffee"},
        {"# 12", "12"},
        {"~ 2,314", "~ 2,314"},
        {"a  b", "a b"},
        {"", ""},
        {"@", ""},
        {"50 ¢ each", "50 each"},
        {"| have never", "I have never"},
        {"|'m here", "I'm here"},
        {"| Home | About", "Home About"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s", cases[i].read);
        ocr_text_clean(text);
        assert_string_equal(text, cases[i].clean);
    }
    assert_true(ocr_text_has_entity("see @nora"));
    assert_true(ocr_text_has_entity("example.org/menu"));
    assert_true(ocr_text_has_entity("7 apples"));
    assert_false(ocr_text_has_entity("just words. And more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dark_light_and_coloured_lines_are_found),
        cmocka_unit_test(test_faint_lines_on_even_ground_are_found),
        cmocka_unit_test(test_uneven_ground_has_no_faint_lines),
        cmocka_unit_test(test_sizes_from_small_to_large),
        cmocka_unit_test(test_columns_are_split_and_words_are_not),
        cmocka_unit_test(test_a_key_and_its_value_are_one_line),
        cmocka_unit_test(test_a_dash_before_an_item_is_of_its_line),
        cmocka_unit_test(test_a_label_under_a_bar_is_a_line),
        cmocka_unit_test(test_labels_of_a_chart_are_lines),
        cmocka_unit_test(test_text_on_a_card_with_a_button_is_found),
        cmocka_unit_test(test_a_word_in_an_outline_is_found),
        cmocka_unit_test(test_a_label_above_a_large_thing_is_a_line),
        cmocka_unit_test(test_a_line_on_two_backgrounds),
        cmocka_unit_test(test_rules_under_text_are_removed),
        cmocka_unit_test(test_what_is_no_rule_stays),
        cmocka_unit_test(test_specks_do_not_make_a_line_higher),
        cmocka_unit_test(test_an_emoji_does_not_join_columns),
        cmocka_unit_test(test_pictures_beside_text_stay_out_of_the_line),
        cmocka_unit_test(test_a_disc_before_two_lines_joins_neither),
        cmocka_unit_test(test_an_emoji_in_pieces_puts_no_letter_out),
        cmocka_unit_test(test_noise_and_gradients_hold_no_lines),
        cmocka_unit_test(test_emoji_are_cut_out_and_coloured_words_are_not),
        cmocka_unit_test(test_an_emoji_takes_no_contrast),
        cmocka_unit_test(test_letters_of_two_rows_that_touch_are_cut_apart),
        cmocka_unit_test(test_parts_of_square_letters_are_one_line),
        cmocka_unit_test(test_rows_near_each_other_stay_two),
        cmocka_unit_test(test_text_is_cleaned_of_lone_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
