/* Lines that are seen badly for a while: blurred by the codec, under a pointer, in pieces. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/tracks/interruptions.h"
#include "workers/ocr/tracks/match.h"
#include "workers/ocr/tracks/same_line.h"
#include "workers/ocr/tracks/session.h"
#include "workers/ocr/tracks/session_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 640, HEIGHT = 200, TALL = 14, STEP_MS = 200 };

static struct ocr_engine *engine;

static int start_engine(void **state)
{
    static const char *const languages[] = {"eng"};
    struct cv_error error;
    (void)state;
    return ocr_engine_new(languages, 1, &engine, &error);
}

static int stop_engine(void **state)
{
    (void)state;
    ocr_engine_free(engine);
    return 0;
}

/* Blurs along the rows and across them, as a codec does with new text that it has few bits for. */
static void blur(struct cv_frame *frame, int times)
{
    int steps[] = {1, frame->width};

    for (int round = 0; round < 2 * times; round++) {
        int step = steps[round % 2];
        for (int c = 0; c < 3; c++) {
            uint8_t *plane = frame->plane[c];
            for (int i = 0; i + step < frame->width * frame->height; i++) {
                plane[i] = (uint8_t)((plane[i] + plane[i + step] + 1) / 2);
            }
        }
    }
    compute_luma(frame);
}

static struct cv_frame picture_at(int y, const char *text, int blurred, unsigned noise)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    (void)draw_text(&frame, text, 40, y, TALL, grey);
    blur(&frame, blurred);
    add_noise(&frame, 4, noise);
    return frame;
}

static struct cv_frame picture_of(const char *text, int blurred, unsigned noise)
{
    return picture_at(80, text, blurred, noise);
}

/* Of the line in `frame` with what stands at its place in `before`. */
static enum ocr_likeness likeness_in(const struct cv_frame *before, struct cv_frame *frame)
{
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = cut_line(frame);
    enum ocr_likeness found = OCR_LIKENESS_NONE;
    struct cv_error error;

    assert_int_equal(ocr_match_likeness(&crop, before, (struct cv_point){crop.box.x, crop.box.y},
                                        &found, &error),
                     0);
    return found;
}

static enum ocr_likeness likeness(const char *text, int blurred, const char *after)
{
    cv_auto(cv_frame_deinit) struct cv_frame before = picture_of(text, blurred, 3);
    cv_auto(cv_frame_deinit) struct cv_frame frame = picture_of(after, 0, 9);

    return likeness_in(&before, &frame);
}

static void test_a_blurred_line_is_known(void **state)
{
    (void)state;
    assert_int_equal(likeness("Redis stays on metal", 0, "Redis stays on metal"),
                     OCR_LIKENESS_SAME);
    assert_int_equal(likeness("Redis stays on metal", 2, "Redis stays on metal"),
                     OCR_LIKENESS_BLURRED);
    assert_int_equal(likeness("Redis stays in metal", 0, "Redis stays on metal"),
                     OCR_LIKENESS_NONE);
    assert_int_equal(likeness("Score 1,476", 0, "Score 1,477"), OCR_LIKENESS_NONE);
    assert_int_equal(likeness("", 0, "Redis stays on metal"), OCR_LIKENESS_NONE);
}

/* Small text, `quarters` of a pixel lower: where a recording has another size than the screen, its content moves by
 * parts of a pixel. */
static struct cv_frame picture_lower(const char *text, int quarters)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    (void)draw_text(&frame, text, 40, 80, 8, grey);
    for (int c = 0; c < 3; c++) {
        for (int i = WIDTH * HEIGHT - 1; i >= WIDTH; i--) {
            uint8_t *at = frame.plane[c] + i;
            *at = (uint8_t)((*at * (4 - quarters) + at[-WIDTH] * quarters + 2) / 4);
        }
    }
    compute_luma(&frame);
    return frame;
}

static enum ocr_likeness likeness_lower(const char *text, const char *after)
{
    cv_auto(cv_frame_deinit) struct cv_frame before = picture_lower(text, 4);
    cv_auto(cv_frame_deinit) struct cv_frame frame = picture_lower(after, 2);

    return likeness_in(&before, &frame);
}

static void test_a_line_that_moved_by_a_part_of_a_pixel_is_known(void **state)
{
    (void)state;
    assert_int_equal(likeness_lower("Redis stays on metal", "Redis stays on metal"),
                     OCR_LIKENESS_SAME);
    assert_int_equal(likeness_lower("Redis stays in metal", "Redis stays on metal"),
                     OCR_LIKENESS_NONE);
    assert_int_equal(likeness_lower("Score 1,476", "Score 1,477"), OCR_LIKENESS_NONE);
    assert_int_equal(likeness_lower("Score 1,476", "Score 1,478"), OCR_LIKENESS_NONE);
}

static void test_a_letter_for_a_digit_is_no_other_number(void **state)
{
    (void)state;
    assert_false(ocr_digits_differ("Harbours 0f the coast", "Harbours of the coast"));
    assert_false(ocr_digits_differ("↑ / 4 navigate", "↑ / ↓ navigate"));
    assert_false(ocr_digits_differ("1,476 watching now", "1,476 watching new"));
    assert_true(ocr_digits_differ("1,476 watching now", "1,470 watching now"));
    assert_true(ocr_digits_differ("1,47 watching now", "1,476 watching now"));
    assert_true(ocr_digits_differ("1,47O watching now", "1,470 watching now"));
    assert_true(ocr_digits_differ("Chapter", "Chapter 2"));
}

/* The content moves by `dy` when the frame at `moved` comes; 0: no shift is reported. */
static json_t *read_moved(struct cv_frame (*picture)(int), int count, int moved, int dy)
{
    struct ocr_timing timings[16] = {{0}};
    cv_auto(ocr_session_free) struct ocr_session *session = NULL;
    struct cv_error error;
    json_t *result = NULL;

    assert_true(count <= (int)CV_COUNT(timings));
    for (int i = 0; i < count; i++) {
        timings[i] = (struct ocr_timing){.t_start = (int64_t)i * STEP_MS,
                                         .t_end = (int64_t)(i + 1) * STEP_MS,
                                         .shift_known = i > 0,
                                         .dy = i == moved ? dy : 0};
    }
    assert_int_equal(ocr_session_new(engine, timings, (size_t)count, &session, &error), 0);
    for (int i = 0; i < count; i++) {
        struct cv_frame frame = picture(i);
        assert_int_equal(ocr_session_frame(session, &frame, &error), 0);
    }
    assert_int_equal(ocr_session_finish(session, 0.6, &result, &error), 0);
    return result;
}

static json_t *read_frames(struct cv_frame (*picture)(int), int count)
{
    return read_moved(picture, count, 0, 0);
}

/* The row at `index`, and that it reads so and stands from frame to frame. */
static void expect_row(const json_t *result, size_t index, const char *text, int from, int to)
{
    const json_t *row = json_array_get(json_object_get(result, "detections"), index);

    assert_non_null(row);
    assert_string_equal(json_string_value(json_object_get(row, "text")), text);
    assert_int_equal(json_integer_value(json_object_get(row, "t_start")), from * STEP_MS);
    assert_int_equal(json_integer_value(json_object_get(row, "t_end")), to * STEP_MS);
}

static void expect_rows(const json_t *result, size_t count)
{
    assert_int_equal(json_array_size(json_object_get(result, "detections")), count);
}

/* New words in three lines of every frame, above a line that stands. */
static struct cv_frame crowded(int i)
{
    static const char *const words[] = {"copper kettle", "seven herons",  "green ledger",
                                        "paper lantern", "salted plums",  "quiet harbour",
                                        "wooden spoons", "autumn ferry",  "brass doorbell",
                                        "winter market", "stone bridges", "yellow tram"};
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    for (int k = 0; k < 3; k++) {
        const char *text = words[(size_t)(3 * i + k) % CV_COUNT(words)];
        (void)draw_text(&frame, text, 40 + 31 * i % 90, 20 + 35 * k, TALL, grey);
    }
    (void)draw_text(&frame, "The bakery opens at seven", 40, 150, TALL, grey);
    return frame;
}

/* Where more new text comes than is read, what stands is read, with all of its time, and it is said that lines are missing. */
static void test_what_stands_is_read_among_too_much(void **state)
{
    enum { FRAMES = 12, ROOM_AT = 6, STEP = OCR_BUDGET_COLUMNS_A_SECOND * STEP_MS / 1000 };
    struct ocr_timing timings[FRAMES] = {{0}};
    cv_auto(ocr_session_free) struct ocr_session *session = NULL;
    cv_auto(json_decref) json_t *result = NULL;
    struct cv_error error;
    bool is_found = false;
    (void)state;

    for (int i = 0; i < FRAMES; i++) {
        timings[i] = (struct ocr_timing){.t_start = (int64_t)i * STEP_MS,
                                         .t_end = (int64_t)(i + 1) * STEP_MS};
    }
    assert_int_equal(ocr_session_new(engine, timings, FRAMES, &session, &error), 0);
    for (int i = 0; i < FRAMES; i++) {
        struct cv_frame frame = crowded(i);
        /* Room for one line in the first frame and in the late ones, for none between. */
        session->budget.columns = i == 0 ? 1 : i < ROOM_AT ? -STEP : 1 - STEP;
        assert_int_equal(ocr_session_frame(session, &frame, &error), 0);
    }
    assert_int_equal(ocr_session_finish(session, 0.6, &result, &error), 0);
    size_t count = json_array_size(json_object_get(result, "detections"));
    for (size_t i = 0; i < count && !is_found; i++) {
        const json_t *row = json_array_get(json_object_get(result, "detections"), i);
        is_found = strcmp(json_string_value(json_object_get(row, "text")),
                          "The bakery opens at seven") == 0;
        if (is_found) {
            expect_row(result, i, "The bakery opens at seven", 0, FRAMES);
        }
    }
    assert_true(is_found);
    assert_true(count < (size_t)3 * FRAMES);
    assert_true(json_integer_value(json_object_get(result, "truncated")) > 0);
}

static struct cv_frame refined(int i)
{
    return picture_of("Good points both, she said", i < 2 ? 3 : 0, (unsigned)i + 7);
}

static void test_a_line_begins_while_it_is_blurred(void **state)
{
    (void)state;
    json_t *result = read_frames(refined, 5);
    expect_rows(result, 1);
    expect_row(result, 0, "Good points both, she said", 0, 5);
    json_decref(result);
}

static struct cv_frame pointed_at(int i)
{
    struct cv_frame frame = picture_of("Remember your camera today", 0, (unsigned)i + 7);

    for (int row = 0; row < 22 && i >= 2 && i < 5; row++) {
        fill_box(&frame, (struct cv_box){150 + 8 * i, 78 + row, 2 + row / 2, 1}, black);
    }
    return frame;
}

static void test_a_pointer_does_not_end_a_line(void **state)
{
    (void)state;
    json_t *result = read_frames(pointed_at, 8);
    expect_rows(result, 1);
    expect_row(result, 0, "Remember your camera today", 0, 8);
    json_decref(result);
}

/* A terminal's cursor that blinks right behind the last letter. */
static struct cv_frame before_a_cursor(int i)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, night);
    struct cv_box text = draw_text(&frame, "the first row of 8", 40, 80, TALL, grey);

    if (i % 2) {
        fill_box(&frame, (struct cv_box){cv_box_right(&text) + 2, text.y - 3, 11, 22}, white);
    }
    add_noise(&frame, 4, (unsigned)i + 7);
    return frame;
}

static void test_a_cursor_does_not_end_a_line(void **state)
{
    (void)state;
    json_t *result = read_frames(before_a_cursor, 6);
    expect_rows(result, 1);
    expect_row(result, 0, "the first row of 8", 0, 6);
    json_decref(result);
}

/* Crosses that move behind a box of text come so near that they are drawn into its line. */
static struct cv_frame beside_crosses(int i)
{
    struct cv_frame frame = picture_of("this is another", 0, (unsigned)i + 7);

    for (int k = 0; k < 5 && i >= 2 && i < 5; k++) {
        int x = 222 + 64 * k + i;
        fill_box(&frame, (struct cv_box){x + 27, 62, 6, 60}, blue);
        fill_box(&frame, (struct cv_box){x, 89, 60, 6}, blue);
    }
    return frame;
}

static void test_what_moves_beside_a_line_does_not_end_it(void **state)
{
    (void)state;
    json_t *result = read_frames(beside_crosses, 8);
    expect_rows(result, 1);
    expect_row(result, 0, "this is another", 0, 8);
    json_decref(result);
}

static struct cv_frame counting(int i)
{
    return picture_of(i < 3 ? "Score 1,476 points" : "Score 1,477 points", 0, (unsigned)i + 7);
}

static void test_another_number_is_another_line(void **state)
{
    (void)state;
    json_t *result = read_frames(counting, 6);
    expect_rows(result, 2);
    expect_row(result, 0, "Score 1,476 points", 0, 3);
    expect_row(result, 1, "Score 1,477 points", 3, 6);
    json_decref(result);
}

static struct cv_frame away_and_back(int i)
{
    return picture_of(i < 2 || i >= 6 ? "Every stall sells bread" : "", 0, (unsigned)i + 7);
}

static void test_a_line_that_was_away_is_two(void **state)
{
    (void)state;
    json_t *result = read_frames(away_and_back, 8);
    expect_rows(result, 2);
    expect_row(result, 0, "Every stall sells bread", 0, 2);
    expect_row(result, 1, "Every stall sells bread", 6, 8);
    json_decref(result);
}

static struct cv_frame jumping(int i)
{
    return picture_at(i < 3 ? 120 : 70, "Lines of a chat go up when one is added", i == 3 ? 2 : 0,
                      (unsigned)i + 7);
}

static void test_a_line_that_jumps_goes_on(void **state)
{
    (void)state;
    json_t *result = read_frames(jumping, 6);
    expect_rows(result, 1);
    expect_row(result, 0, "Lines of a chat go up when one is added", 0, 6);
    json_decref(result);
}

/* The row between two lists is replaced by a taller and a lower one. */
static struct cv_frame parting(int i)
{
    static const char *const lines[] = {"actions of a first kind", "others follow below",
                                        "rows that come after", "the last one of them"};
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    for (int k = 0; k < 4; k++) {
        int moved = i < 3 ? 0 : k < 2 ? 18 : -20;
        (void)draw_text(&frame, lines[k], 40, 20 + 30 * k + (k < 2 ? 0 : 40) + moved, TALL, grey);
    }
    add_noise(&frame, 4, (unsigned)i + 7);
    return frame;
}

static void test_lines_jump_two_ways_at_once(void **state)
{
    (void)state;
    json_t *result = read_frames(parting, 6);
    expect_rows(result, 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = json_array_get(json_object_get(result, "detections"), i);
        expect_row(result, i, json_string_value(json_object_get(row, "text")), 0, 6);
    }
    json_decref(result);
}

/* A chat in which every message has the same name above it, and is as high as the others. */
enum { MESSAGE_HEIGHT = 60 };

static struct cv_frame chatting(int i)
{
    static const char *const messages[] = {"this is the first", "another came later",
                                           "and a third one now"};
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    for (int k = 0; k < (i < 3 ? 2 : 3); k++) {
        int y = (i < 3 ? 70 : 10) + MESSAGE_HEIGHT * k;
        (void)draw_text(&frame, "Maria Lunge", 40, y, TALL, grey);
        (void)draw_text(&frame, messages[k], 40, y + 24, TALL, grey);
    }
    add_noise(&frame, 4, (unsigned)i + 7);
    return frame;
}

static void expect_names(json_t *result)
{
    expect_rows(result, 6);
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = json_array_get(json_object_get(result, "detections"), i);
        expect_row(result, i, json_string_value(json_object_get(row, "text")), i < 4 ? 0 : 3, 6);
    }
    json_decref(result);
}

static void test_equal_names_jump_with_their_messages(void **state)
{
    (void)state;
    expect_names(read_frames(chatting, 6));
    expect_names(read_moved(chatting, 6, 3, -MESSAGE_HEIGHT));
}

/* A line fades in over an older text that fades out. */
static struct cv_frame fading(int i)
{
    static const struct colour faint = {175, 175, 175};
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    (void)draw_text(&frame, "Description", 40, 80, TALL, i < 3 ? faint : black);
    for (int x = 44; x < 130 && i < 3; x += 9) {
        fill_box(&frame, (struct cv_box){x, 81, 5, 12}, faint);
    }
    add_noise(&frame, 4, (unsigned)i + 7);
    return frame;
}

static void test_a_line_begins_with_half_its_strength(void **state)
{
    (void)state;
    json_t *result = read_frames(fading, 6);
    expect_rows(result, 1);
    expect_row(result, 0, "Description", 3, 6);
    json_decref(result);
}

/* A colour that runs through a line hides letters of it, and then leaves some out of its box. */
static void test_a_line_that_is_found_narrower_goes_on(void **state)
{
    enum { WHOLE, PIECE, AGAIN, ROWS };
    static const struct {
        const char *text;
        int from, to, x, width;
    } seen[ROWS] = {[WHOLE] = {"happy birthday", 0, 2, 23, 452},
                    [PIECE] = {"ha birthday", 3, 4, 69, 406},
                    [AGAIN] = {"happy birthday", 5, 7, 69, 406}};
    struct ocr_timing timings[8];
    cv_auto(ocr_session_free) struct ocr_session *session = NULL;
    struct cv_error error;
    (void)state;

    for (int i = 0; i < (int)CV_COUNT(timings); i++) {
        timings[i] = (struct ocr_timing){.t_start = (int64_t)i * STEP_MS,
                                         .t_end = (int64_t)(i + 1) * STEP_MS,
                                         .shift_known = i > 0};
    }
    assert_int_equal(ocr_session_new(engine, timings, CV_COUNT(timings), &session, &error), 0);
    session->rows = calloc(ROWS, sizeof(*session->rows));
    assert_non_null(session->rows);
    for (int i = 0; i < ROWS; i++) {
        session->rows[session->row_count++] = (struct ocr_row){
            .text = strdup(seen[i].text),
            .confidence = 0.97,
            .worst_word = 0.97,
            .agreement = 1,
            .id = i + 1,
            .tall = 40,
            .ink = {.kind = CV_INK_FLAT, .clarity = 0.95},
            .weight = OCR_WEIGHT_WORDS,
            .has_company = true,
            .stretch = {.first = {seen[i].from, seen[i].x, 44},
                        .last = {seen[i].to, seen[i].x, 44},
                        .width = seen[i].width,
                        .height = 55},
        };
    }
    assert_int_equal(ocr_join_interrupted_rows(session, 0.6, &error), 0);
    assert_false(session->rows[WHOLE].is_gone);
    const struct ocr_stretch *whole = &session->rows[WHOLE].stretch;
    assert_int_equal(whole->last.frame, seen[AGAIN].to);
    assert_int_equal(whole->last.x, seen[WHOLE].x);
    assert_int_equal(whole->width, seen[WHOLE].width);
    assert_true(session->rows[PIECE].is_gone && session->rows[AGAIN].is_gone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stands_is_read_among_too_much),
        cmocka_unit_test(test_a_blurred_line_is_known),
        cmocka_unit_test(test_a_line_that_moved_by_a_part_of_a_pixel_is_known),
        cmocka_unit_test(test_a_letter_for_a_digit_is_no_other_number),
        cmocka_unit_test(test_a_line_begins_while_it_is_blurred),
        cmocka_unit_test(test_a_pointer_does_not_end_a_line),
        cmocka_unit_test(test_a_cursor_does_not_end_a_line),
        cmocka_unit_test(test_what_moves_beside_a_line_does_not_end_it),
        cmocka_unit_test(test_another_number_is_another_line),
        cmocka_unit_test(test_a_line_that_was_away_is_two),
        cmocka_unit_test(test_a_line_that_jumps_goes_on),
        cmocka_unit_test(test_lines_jump_two_ways_at_once),
        cmocka_unit_test(test_equal_names_jump_with_their_messages),
        cmocka_unit_test(test_a_line_begins_with_half_its_strength),
        cmocka_unit_test(test_a_line_that_is_found_narrower_goes_on),
    };
    return cmocka_run_group_tests(tests, start_engine, stop_engine);
}
