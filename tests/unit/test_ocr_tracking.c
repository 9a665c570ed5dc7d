/* Following lines from frame to frame: same pixels, shifts, edges, times, one reading a line. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/tracks/same_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 640, HEIGHT = 480, BAR = 60, PITCH = 70, LINES = 12 };

static const char *const page[LINES] = {
    "Thursday evening train", "leaves platform nine", "remember your camera", "light over harbour",
    "market opens early",     "every stall sells",    "fresh bread coffee",   "flowers near bridge",
    "walked until sunset",    "shared a quiet",       "dinner with friends",  "tickets cost less",
};

/* Blurs as a codec does that saves bits: every pixel takes a fifth of each neighbour. */
static void soften(struct cv_frame *frame)
{
    for (int c = 0; c < 3; c++) {
        uint8_t *plane = frame->plane[c], left = plane[0];
        for (int i = 1; i + 1 < frame->width * frame->height; i++) {
            uint8_t here = plane[i];
            plane[i] = (uint8_t)((left + 3 * here + plane[i + 1]) / 5);
            left = here;
        }
    }
    compute_luma(frame);
}

/* Whether a line of small letters, drawn again, blurred and under noise, counts as the same. */
static bool same_small(const char *before, const char *after)
{
    cv_auto(cv_frame_deinit) struct cv_frame first = new_frame(WIDTH, HEIGHT, white);
    cv_auto(cv_frame_deinit) struct cv_frame second = new_frame(WIDTH, HEIGHT, white);
    struct ocr_match match;
    struct cv_error error;

    (void)draw_text(&first, before, 40, 100, 12, black);
    (void)draw_text(&second, after, 40, 100, 12, black);
    soften(&second);
    add_noise(&first, 12, 7);
    add_noise(&second, 12, 21);
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = cut_line(&first);
    assert_int_equal(ocr_match(&crop, &second, (struct cv_point){40, 100}, &match, &error), 0);
    return match.whole;
}

static void test_small_letters_are_known_when_they_blur(void **state)
{
    (void)state;
    assert_true(same_small("wiki", "wiki"));
    assert_true(same_small("that was so close", "that was so close"));
    assert_false(same_small("wiki", "wild"));
    assert_false(same_small("that was so close", "that was so closs"));
    assert_false(same_small("rate is 3.5", "rate is 3 5"));
}

/* A page of lines, `scrolled` pixels up, between a status bar and a tab bar. */
static struct cv_frame page_at(int scrolled, unsigned noise)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    for (int i = 0; i < LINES; i++) {
        int y = BAR + 20 + i * PITCH - scrolled;
        if (y > -60 && y < HEIGHT) {
            (void)draw_text(&frame, page[i], 40, y, 20, black);
        }
    }
    fill_box(&frame, (struct cv_box){0, 0, WIDTH, BAR}, white);
    fill_box(&frame, (struct cv_box){0, HEIGHT - BAR, WIDTH, BAR}, white);
    (void)draw_text(&frame, "Nine forty one", 40, 16, 20, black);
    (void)draw_text(&frame, "Home", 40, HEIGHT - 44, 20, black);
    add_noise(&frame, 4, noise);
    return frame;
}

/* Steps of a recording that shows the frames `picture` makes of 0, 1, …, of which each moves by `dy`
 * from its `from`-th on. */
static void learn(struct cv_panes *panes, struct cv_frame (*picture)(int, unsigned), int from,
                  int count, int dy)
{
    struct cv_error error;

    for (int i = from; i < from + count; i++) {
        cv_auto(cv_frame_deinit) struct cv_frame before = picture(i, (unsigned)i + 1);
        cv_auto(cv_frame_deinit) struct cv_frame after = picture(i + 1, (unsigned)i + 2);
        assert_int_equal(cv_panes_step(panes, &before, &after, (struct cv_point){0, dy}, &error),
                         0);
    }
}

enum { PANEL_X = 304, PANEL_Y = 120, PANEL_WIDTH = 320, PANEL_HEIGHT = 240 };

/* Four steps in which a panel scrolls by 37 pixels in a page that stands, then steps of the page with
 * the panel in it. */
static struct cv_frame panel_step(int i, unsigned noise)
{
    int inner = cv_min(i, 4) * 37, outer = cv_max(i - 4, 0) * 37;
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    for (int k = 0; k < LINES; k++) {
        (void)draw_text(&frame, page[LINES - 1 - k], 16, 10 + k * 50 - outer, 18, black);
    }
    struct cv_box panel = {PANEL_X, PANEL_Y - outer, PANEL_WIDTH, PANEL_HEIGHT};
    fill_box(&frame, panel, white);
    for (int k = 0; k < LINES; k++) {
        int y = 10 + k * 44 - inner;
        if (y > 0 && y < PANEL_HEIGHT - 30) {
            (void)draw_text(&frame, page[k], panel.x + 20, panel.y + y, 18, black);
        }
    }
    add_noise(&frame, 4, noise);
    return frame;
}

static void test_panes_are_told_apart(void **state)
{
    const struct cv_places unseen = {.count = 0};
    (void)state;
    cv_auto(cv_panes_deinit) struct cv_panes panes = {0};
    struct cv_error error;

    assert_int_equal(cv_panes_scene(&panes, &error), 0);
    learn(&panes, panel_step, 0, 7, -37);
    assert_int_equal(cv_panes_finish(&panes, &error), 0);
    assert_int_equal(panes.count, 2);
    const struct cv_pane *panel = &panes.items[0], *whole = &panes.items[1];
    assert_true(panel->top >= PANEL_Y - 2 && panel->bottom <= PANEL_Y + PANEL_HEIGHT + 4);
    assert_true(panel->left >= PANEL_X - 8 && panel->right <= PANEL_X + PANEL_WIDTH + 8);
    assert_true(whole->top < PANEL_Y - 60 && whole->bottom > PANEL_Y + PANEL_HEIGHT + 60);
    assert_int_equal(cv_panes_at(&panes, 4), 0);
    assert_int_equal(cv_panes_at(&panes, 5), 1);
    assert_int_equal(cv_panes_near(&panes, 0), 0);
    /* a line beside the panel moves with the page alone */
    const struct cv_box beside = {16, 210, 200, 20}, within = {PANEL_X + 20, 210, 200, 20};
    assert_false(cv_panes_move(&panes, 0, &unseen, &beside));
    assert_true(cv_panes_move(&panes, 1, &unseen, &beside));
    assert_true(cv_panes_move(&panes, 0, &unseen, &within));
}

enum { BUTTON_X = 240, BUTTON_Y = 300, BUTTON_WIDTH = WIDTH - 240, BUTTON_HEIGHT = 64 };

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

/* Frames of what `picture` shows at `offsets`, 100 ms apart, with the shifts between them when
 * `shifts`. */
static json_t *read_pictures(struct cv_frame (*picture)(int, unsigned), const int *offsets,
                             size_t count, bool shifts)
{
    struct ocr_timing timings[32] = {{0}};
    struct ocr_motion motions[32][10];
    cv_auto(ocr_session_free) struct ocr_session *session = NULL;
    struct cv_error error;
    json_t *result = NULL;

    assert_true(count <= CV_COUNT(timings));
    for (size_t i = 0; i < count; i++) {
        timings[i] =
            (struct ocr_timing){.t_start = (int64_t)i * 100, .t_end = (int64_t)i * 100 + 100};
        if (i && shifts) {
            timings[i].shift_known = true;
            timings[i].dy = offsets[i - 1] - offsets[i];
            timings[i].motion = motions[i];
            timings[i].motion_count = 10;
            for (int k = 0; k < 10; k++) {
                motions[i][k] = (struct ocr_motion){(int64_t)i * 100 - 90 + k * 10, 0,
                                                    timings[i].dy * (k + 1) / 10};
            }
        }
    }
    assert_int_equal(ocr_session_new(engine, timings, count, &session, &error), 0);
    for (size_t i = 0; i < count; i++) {
        struct cv_frame frame = picture(offsets[i], (unsigned)i + 5);
        assert_int_equal(ocr_session_frame(session, &frame, &error), 0);
    }
    assert_int_equal(ocr_session_finish(session, 0.6, &result, &error), 0);
    return result;
}

static json_t *read_page(const int *offsets, size_t count, bool shifts)
{
    return read_pictures(page_at, offsets, count, shifts);
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static size_t rows_with(const json_t *result, const char *text, const json_t **ret_first)
{
    const json_t *rows = json_object_get(result, "detections");
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "text")), text) == 0) {
            *ret_first = found++ ? *ret_first : row;
        }
    }
    return found;
}

static void test_a_standing_line_is_read_once(void **state)
{
    (void)state;
    int offsets[20] = {0};
    const json_t *row = NULL;
    json_t *result = read_page(offsets, CV_COUNT(offsets), true);

    assert_int_equal(rows_with(result, "leaves platform nine", &row), 1);
    assert_int_equal(number(row, "t_start"), 0);
    assert_int_equal(number(row, "t_end"), 2000);
    assert_true(number(result, "lines_seen") >= 20 * 6);
    assert_true(number(result, "lines_read") <= 8);
    json_decref(result);
}

static const char *typed;

/* The first letters of what is typed, with a caret behind them. */
static struct cv_frame typed_letters(int letters, unsigned seed)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, night);
    char text[32];

    (void)snprintf(text, sizeof(text), "%.*s", letters, typed);
    struct cv_box line = draw_text(&frame, text, 40, 100, 18, white);
    if (seed % 2) {
        fill_box(&frame, (struct cv_box){cv_box_right(&line) + 3, 94, 2, 30}, white);
    }
    return frame;
}

/* The last letter is narrow. What was read before it came does not stay. */
static void test_typed_lines_end_with_their_last_letter(void **state)
{
    (void)state;
    const char *texts[] = {"start the test", "open the mail", "make it all"};
    for (size_t i = 0; i < CV_COUNT(texts); i++) {
        int all = (int)strlen(texts[i]), letters[10];
        const json_t *row = NULL;
        typed = texts[i];
        for (int k = 0; k < 10; k++) {
            letters[k] = cv_min(all - 2 + k, all);
        }
        json_t *result = read_pictures(typed_letters, letters, 10, false);
        assert_int_equal(rows_with(result, texts[i], &row), 1);
        assert_int_equal(number(row, "t_end"), 1000);
        json_decref(result);
    }
}

static void expect_scrolled_page(bool shifts)
{
    int offsets[12];
    const json_t *row = NULL;

    for (int i = 0; i < 12; i++) {
        offsets[i] = i * 41;
    }
    json_t *result = read_page(offsets, CV_COUNT(offsets), shifts);
    for (int i = 0; i < LINES - 1; i++) {
        assert_int_equal(rows_with(result, page[i], &row), 1);
    }
    assert_int_equal(rows_with(result, "Home", &row), 1);
    assert_int_equal(number(row, "t_end") - number(row, "t_start"), 1200);
    /* 12 lines of the page, 2 of the bars, and a few that were cut at first. */
    assert_true(number(result, "lines_read") <= LINES + 2 + 6);
    json_decref(result);
}

static void test_a_scrolled_page_gives_each_line_once(void **state)
{
    (void)state;
    expect_scrolled_page(true);
    expect_scrolled_page(false);
}

/* Line 3 stands at y 290 … and leaves the moving area, which begins at 60, when 230 are scrolled. */
static void test_times_come_from_the_motion(void **state)
{
    (void)state;
    int offsets[12];
    const json_t *row = NULL;

    for (int i = 0; i < 12; i++) {
        offsets[i] = i * 40;
    }
    json_t *result = read_page(offsets, CV_COUNT(offsets), true);
    assert_int_equal(rows_with(result, page[3], &row), 1);
    assert_int_equal(number(row, "t_start"), 0);
    /* 4 pixels every 10 ms: 230 pixels at 580 ms, within a source frame. */
    assert_in_range(number(row, "t_end"), 560, 600);
    assert_int_equal(rows_with(result, page[8], &row), 1);
    /* Line 8 begins at y 640 and has to be above 420 whole: 220 + its height of some 24. */
    assert_in_range(number(row, "t_start"), 580, 660);
    json_decref(result);
}

static void test_a_line_that_comes_back_is_not_read_again(void **state)
{
    (void)state;
    int offsets[] = {0, 60, 120, 180, 240, 300, 240, 180, 120, 60, 0};
    const json_t *row = NULL;
    json_t *result = read_page(offsets, CV_COUNT(offsets), true);

    assert_int_equal(rows_with(result, page[1], &row), 2);
    assert_true(number(result, "lines_read") <= LINES + 2 + 6);
    json_decref(result);
}

/* A row of a line that was sighted once. */
static struct ocr_row row_at(char *text, int64_t id, int frame, struct cv_box box)
{
    return (struct ocr_row){.text = text,
                            .id = id,
                            .predecessor = id - 1,
                            .tall = 14,
                            .stretch = {.first = {frame, box.x, box.y},
                                        .last = {frame, box.x, box.y},
                                        .width = box.width,
                                        .height = box.height}};
}

/* Two rows of one line, of which a step is between, beside a button at x 240, y 300. */
static struct ocr_row united_by(int dx, int dy, const char *before, struct cv_box before_box,
                                const char *after, struct cv_box after_box,
                                struct ocr_row *ret_before)
{
    char first[64], second[64];
    (void)snprintf(first, sizeof(first), "%s", before);
    (void)snprintf(second, sizeof(second), "%s", after);
    struct ocr_timing timings[2] = {
        {.t_end = 1000}, {.t_start = 1000, .t_end = 2000, .shift_known = true, .dx = dx, .dy = dy}};
    struct ocr_row rows[2] = {row_at(first, 1, 0, before_box), row_at(second, 2, 1, after_box)};
    struct cv_box button = {BUTTON_X, BUTTON_Y, BUTTON_WIDTH, BUTTON_HEIGHT};
    struct cv_pane pane = {60, 420, 0, WIDTH, 1, 1, &button, 1};
    int steps[] = {CV_SCENE_BEGINS, 0}, near[] = {0, 0};
    struct ocr_session session = {
        .timings = timings,
        .timing_count = 2,
        .panes = {.items = &pane, .count = 1, .steps = steps, .near = near, .step_count = 2},
        .screen = {0, 0, WIDTH, HEIGHT},
        .rows = rows,
        .row_count = 2};
    struct cv_error error;

    assert_int_equal(ocr_join_hidden_rows(&session, &error), 0);
    *ret_before = rows[0];
    return rows[1];
}

/* The same for a line that moved 80 pixels up. */
static struct ocr_row united(const char *before, int before_width, int before_y, const char *after,
                             int after_width, struct ocr_row *ret_before)
{
    return united_by(0, -80, before, (struct cv_box){40, before_y, before_width, 20}, after,
                     (struct cv_box){40, before_y - 80, after_width, 20}, ret_before);
}

static void test_what_the_side_cuts_is_no_line_of_its_own(void **state)
{
    (void)state;
    struct ocr_row before;
    struct cv_box left = {2, 100, 60, 20}, right = {WIDTH - 110, 100, 108, 20};
    /* comes in from the right */
    struct ocr_row after = united_by(-150, 0, "harbour la", right, "harbour lantern",
                                     (struct cv_box){WIDTH - 260, 100, 160, 20}, &before);
    assert_true(before.is_gone && !after.is_gone && after.stretch.pieced);
    assert_int_equal(after.stretch.first.x, WIDTH - 110);
    /* leaves to the left, but for a few letters */
    after = united_by(-150, 0, "harbour lantern", (struct cv_box){52, 100, 160, 20}, "tern", left,
                      &before);
    assert_true(!before.is_gone && after.is_gone);
    /* moved up instead: it stands at the side, and nothing says that it is cut */
    after = united_by(0, -60, "harbour la", right, "harbour lantern",
                      (struct cv_box){WIDTH - 110, 40, 108, 20}, &before);
    assert_true(!before.is_gone && !after.is_gone);
}

static void test_what_a_cover_hid_is_no_line_of_its_own(void **state)
{
    (void)state;
    struct ocr_row before;
    /* comes out from under the button */
    struct ocr_row after = united("light over", 190, 310, "light over harbour", 300, &before);
    assert_true(before.is_gone && !after.is_gone && after.stretch.pieced);
    assert_int_equal(after.stretch.first.frame, 0);
    assert_int_equal(after.stretch.first.y, 310);
    /* was read with the button beside it */
    after = united("light over \U0001F91C", 260, 310, "light over", 190, &before);
    assert_true(before.is_gone && !after.is_gone);
    /* goes under it */
    after = united("light over harbour", 300, 390, "light ov", 150, &before);
    assert_true(!before.is_gone && after.is_gone);
    /* the same with nothing over it: two lines, or one that grows */
    after = united("light over", 190, 200, "light over harbour", 300, &before);
    assert_true(!before.is_gone && !after.is_gone);
    /* another line, although it stands there */
    after = united("light over", 190, 310, "market opens early", 300, &before);
    assert_true(!before.is_gone && !after.is_gone);
    /* the same text goes on wherever it is */
    after = united("light over", 190, 200, "light over", 190, &before);
    assert_true(before.is_gone && !after.is_gone && !after.stretch.pieced);
}

/* Four lines before and after a page has grown by `percent`, of which the third has left by the side
 * and the fourth stays as it is; returns how many rows are left. */
static size_t left_after_growth(int percent)
{
    static const char *const texts[][2] = {
        {"light over harbour", "light over harbour"},
        {"market opens early", "market opens early"},
        {"every stall sells flowers", "every stall sells fl"},
        {"fresh bread", "fresh bread"},
    };
    char text[4][2][64];
    struct ocr_row rows[8];
    struct ocr_row *before[4], *after[4];
    size_t left = 0;
    struct ocr_session session = {.screen = {0, 0, WIDTH, HEIGHT}};

    for (int i = 0; i < 4; i++) {
        int width = i == 2 ? 500 : 300, grown = percent * width / 100;
        struct cv_box from = {100, 40 + i * 80, width, 20};
        struct cv_box to = {percent, percent * from.y / 100, grown, 20};
        to.width = to.x + grown > WIDTH - 2 ? WIDTH - 2 - to.x : grown;
        for (int k = 0; k < 2; k++) {
            (void)snprintf(text[i][k], sizeof(text[i][k]), "%s", texts[i][k]);
        }
        rows[i] = row_at(text[i][0], 1 + i, 0, from);
        rows[4 + i] = row_at(text[i][1], 5 + i, 1, to);
        before[i] = &rows[i];
        after[i] = &rows[4 + i];
    }
    ocr_join_grown_rows(&session, before, 4, after, 4);
    for (int i = 0; i < 8; i++) {
        left += !rows[i].is_gone;
    }
    return left;
}

static void test_a_page_that_grows(void **state)
{
    (void)state;
    assert_int_equal(left_after_growth(120), 4); /* each line once, the third as it was */
    assert_int_equal(left_after_growth(108), 4);
    /* they stand: two of a kind are two */
    assert_int_equal(left_after_growth(100), 8);
}

static void test_cut_lines_leave_no_garbage(void **state)
{
    (void)state;
    int offsets[14];

    for (int i = 0; i < 14; i++) {
        offsets[i] = i * 29;
    }
    json_t *result = read_page(offsets, CV_COUNT(offsets), true);
    const json_t *rows = json_object_get(result, "detections");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *text = json_string_value(json_object_get(json_array_get(rows, i), "text"));
        bool known = strcmp(text, "Home") == 0 || strcmp(text, "Nine forty one") == 0;
        for (int k = 0; k < LINES; k++) {
            known = known || strcmp(text, page[k]) == 0;
        }
        if (!known) {
            fail_msg("\"%s\" was never on the page", text);
        }
    }
    json_decref(result);
}

/* The first line of a terminal: its letters begin at the picture's edge. */
static struct cv_frame prompt_at(int scrolled, unsigned noise)
{
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, white);

    (void)draw_text(&frame, "leaves platform nine", 40, -scrolled, 20, black);
    add_noise(&frame, 4, noise);
    return frame;
}

static void test_a_line_that_stands_at_the_edge_is_read(void **state)
{
    (void)state;
    int offsets[10];
    const json_t *row = NULL;

    for (size_t i = 0; i < CV_COUNT(offsets); i++) {
        offsets[i] = 2; /* of the room above ascenders */
    }
    json_t *result = read_pictures(prompt_at, offsets, CV_COUNT(offsets), false);
    assert_int_equal(rows_with(result, "leaves platform nine", &row), 1);
    assert_int_equal(number(row, "t_end") - number(row, "t_start"), 1000);
    json_decref(result);
}

enum { FILM_FIRST = 6, FILM_LAST = 22, FILM_FRAMES = 28 };

/* Light things that move behind letters, which stand from FILM_FIRST to FILM_LAST. */
static struct cv_frame film_at(int offset, unsigned noise)
{
    int i = (int)noise - 5; /* as read_pictures counts */
    (void)offset;
    static const struct colour dusk = {70, 78, 86}, light = {232, 226, 214};
    struct cv_frame frame = new_frame(WIDTH, HEIGHT, dusk);

    for (int k = 0; k < 48; k++) { /* the most of them above and below */
        int x = (k * 97 + i * (11 + k % 4)) % (WIDTH + 80) - 80;
        int y = k < 16 ? 40 + k * 53 % (HEIGHT - 120) : k % 2 ? k * 31 % 120 : 320 + k * 37 % 110;
        fill_box(&frame, (struct cv_box){x, y, 34 + k % 5 * 6, 26 + k % 4 * 9}, light);
    }
    if (i >= FILM_FIRST && i <= FILM_LAST) {
        (void)draw_text(&frame, "remember your camera", 60, 200, 24, white);
        (void)draw_text(&frame, "light over harbour", 60, 250, 24, white);
    }
    add_noise(&frame, 3, noise);
    return frame;
}

static void test_light_letters_stand_in_a_film(void **state)
{
    (void)state;
    int offsets[FILM_FRAMES] = {0};
    const json_t *row = NULL;
    json_t *result = read_pictures(film_at, offsets, FILM_FRAMES, true);
    assert_int_equal(rows_with(result, "remember your camera", &row), 1);
    assert_int_equal(number(row, "t_start"), FILM_FIRST * 100);
    assert_int_equal(number(row, "t_end"), (FILM_LAST + 1) * 100);
    assert_int_equal(rows_with(result, "light over harbour", &row), 1);
    json_decref(result);
}

static void test_model_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",  "../eng",  "eng/../deu",  "script/../eng",
                                      "e", "eng+deu", "/etc/passwd", "xyz"};
    for (size_t i = 0; i < CV_COUNT(bad); i++) {
        struct ocr_engine *none = NULL;
        struct cv_error error;
        assert_true(ocr_engine_new(&bad[i], 1, &none, &error) < 0);
        assert_int_equal(error.type, CV_ERROR_INVALID_PAYLOAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_letters_are_known_when_they_blur),
        cmocka_unit_test(test_panes_are_told_apart),
        cmocka_unit_test(test_a_standing_line_is_read_once),
        cmocka_unit_test(test_a_scrolled_page_gives_each_line_once),
        cmocka_unit_test(test_times_come_from_the_motion),
        cmocka_unit_test(test_a_line_that_comes_back_is_not_read_again),
        cmocka_unit_test(test_what_a_cover_hid_is_no_line_of_its_own),
        cmocka_unit_test(test_what_the_side_cuts_is_no_line_of_its_own),
        cmocka_unit_test(test_a_page_that_grows),
        cmocka_unit_test(test_typed_lines_end_with_their_last_letter),
        cmocka_unit_test(test_cut_lines_leave_no_garbage),
        cmocka_unit_test(test_a_line_that_stands_at_the_edge_is_read),
        cmocka_unit_test(test_light_letters_stand_in_a_film),
        cmocka_unit_test(test_model_names),
    };
    return cmocka_run_group_tests(tests, start_engine, stop_engine);
}
