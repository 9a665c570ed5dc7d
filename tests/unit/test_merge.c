#include "workers/segment_index/merge/merge.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 64 };

/* Detections of a test, and what they merged into. */
struct scene {
    struct cv_detection detections[MOST];
    char *normalized[MOST];
    size_t count;
    struct cv_detection *segments;
    size_t segment_count;
};

static void scene_deinit(struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++) {
        free(scene->normalized[i]);
    }
    free(scene->segments);
}
CV_DEFINE_CLEANUP_ADDRESS(struct scene, scene_deinit)

static struct cv_detection *see(struct scene *scene, const char *text, int64_t from, int64_t to,
                                int x, int y)
{
    size_t at = scene->count++;
    assert_true(at < MOST);
    scene->normalized[at] = strdup(text);
    assert_non_null(scene->normalized[at]);
    for (char *letter = scene->normalized[at]; *letter; letter++) {
        *letter = *letter >= 'A' && *letter <= 'Z' ? (char)(*letter - 'A' + 'a') : *letter;
    }
    scene->detections[at] = (struct cv_detection){
        .text = text,
        .normalized = scene->normalized[at],
        .confidence = 0.9,
        .t_start_ms = from,
        .t_end_ms = to,
        .box = {x, y, (int)strlen(text) * 20, 40},
        .source = (int64_t)at,
    };
    return &scene->detections[at];
}

/* Where only the segments matter. */
static int merge(const struct cv_detection *detections, size_t count,
                 struct cv_detection **ret_segments, size_t *ret_count, struct cv_error *error)
{
    cv_auto_free size_t *parts = calloc(count + 1, sizeof(*parts));
    assert_non_null(parts);
    return cv_text_merge(detections, count, ret_segments, ret_count, parts, NULL, error);
}

static void expect_fixpoint(const struct cv_detection *segments, size_t count)
{
    struct cv_error error;
    cv_auto_free struct cv_detection *again = NULL;
    size_t again_count = 0;
    assert_int_equal(merge(segments, count, &again, &again_count, &error), 0);
    assert_int_equal(again_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(again[i].text, segments[i].text);
        assert_int_equal(again[i].t_start_ms, segments[i].t_start_ms);
        assert_int_equal(again[i].t_end_ms, segments[i].t_end_ms);
        assert_memory_equal(&again[i].box, &segments[i].box, sizeof(struct cv_box));
        assert_memory_equal(&again[i].end_box, &segments[i].end_box, sizeof(struct cv_box));
        assert_true(again[i].confidence == segments[i].confidence);
    }
}

/* Merges; `expected` is "start-end text", one a line. */
static void expect_segments(struct scene *scene, const char *expected)
{
    struct cv_error error;
    assert_int_equal(
        merge(scene->detections, scene->count, &scene->segments, &scene->segment_count, &error), 0);
    cv_auto(cv_buffer_deinit) struct cv_buffer found = CV_BUFFER_INIT;
    for (size_t i = 0; i < scene->segment_count; i++) {
        const struct cv_detection *segment = &scene->segments[i];
        cv_buffer_printf(&found, "%s%lld-%lld %s", i ? "\n" : "", (long long)segment->t_start_ms,
                         (long long)segment->t_end_ms, segment->text);
    }
    assert_string_equal(found.data ? found.data : "", expected);
    expect_fixpoint(scene->segments, scene->segment_count);
}

#define SCENE(name) cv_auto(scene_deinit) struct scene name = {0}

static void test_nothing(void **state)
{
    (void)state;
    SCENE(s);
    expect_segments(&s, "");
}

static void test_one_text_becomes_one_range(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Friday Night", 0, 100, 50, 50);
    see(&s, "Friday Night", 100, 200, 50, 50);
    see(&s, "Friday Night", 233, 300, 51, 50);
    see(&s, "friday  night", 300, 500, 50, 51);
    expect_segments(&s, "0-500 Friday Night");
    assert_int_equal(s.segments[0].box.x, 50);
}

static void test_a_long_pause_makes_two(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Friday Night", 0, 100, 50, 50);
    see(&s, "Friday Night", 500, 600, 50, 50);
    see(&s, "Friday Night", 9000, 9100, 50, 50);
    expect_segments(&s, "0-600 Friday Night\n9000-9100 Friday Night");
}

static void test_readings_vote(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Turn 1eft after the o1d mill.", 0, 100, 50, 50)->confidence = 0.95;
    see(&s, "Turn left after the old mill.", 100, 500, 50, 50);
    see(&s, "Tum left after the old mi|l.", 500, 600, 50, 50);
    see(&s, "Turn left after thc old mill", 600, 700, 50, 50)->confidence = 0.5;
    expect_segments(&s, "0-700 Turn left after the old mill.");
    assert_int_equal(s.segments[0].source, 1);
    assert_true(s.segments[0].confidence > 0.8 && s.segments[0].confidence < 0.9);
}

static void test_another_word_stays_another_line(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Turn left after the old mill", 0, 1000, 50, 50);
    see(&s, "Turn right after the old mill", 1000, 2000, 50, 50);
    see(&s, "Train leaves platform nine", 0, 1000, 50, 150);
    see(&s, "Train leaves platform five", 1000, 2000, 50, 150);
    see(&s, "cat", 0, 1000, 50, 250);
    see(&s, "car", 1000, 2000, 50, 250);
    expect_segments(&s, "0-1000 Turn left after the old mill\n0-1000 Train leaves platform nine\n"
                        "0-1000 cat\n1000-2000 Turn right after the old mill\n"
                        "1000-2000 Train leaves platform five\n1000-2000 car");
}

static void test_a_counter_keeps_its_states(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "1,470 watching now", 0, 500, 50, 50);
    see(&s, "1,471 watching now", 500, 800, 50, 50);
    see(&s, "1,479 watching now", 800, 2000, 50, 50);
    see(&s, "9", 0, 500, 50, 150);
    see(&s, "10", 500, 900, 50, 150);
    expect_segments(&s, "0-500 1,470 watching now\n0-500 9\n500-800 1,471 watching now\n"
                        "500-900 10\n800-2000 1,479 watching now");
}

static void test_equal_texts_at_two_places_stay_two(void **state)
{
    (void)state;
    SCENE(s);
    for (int64_t t = 0; t < 500; t += 100) {
        see(&s, "61 comments", t, t + 100, 50, 400);
        see(&s, "61 comments", t, t + 100, 50, 1200);
    }
    expect_segments(&s, "0-500 61 comments\n0-500 61 comments");
    assert_int_equal(s.segments[0].box.y, 400);
    assert_int_equal(s.segments[1].box.y, 1200);
}

static void test_scrolling_lines_are_followed(void **state)
{
    (void)state;
    SCENE(s);
    for (int i = 0; i < 6; i++) {
        int64_t t = 100 * i;
        see(&s, "Thursday evening train leaves", t, t + 100, 50, 1500 - 200 * i);
        see(&s, "61 comments", t, t + 100, 50, 1560 - 200 * i);
        see(&s, "Home", t, t + 100, 50, 1800);
    }
    /* the next post's counter comes in where the first did */
    see(&s, "61 comments", 500, 600, 50, 1560);
    expect_segments(&s, "0-600 Thursday evening train leaves\n0-600 61 comments\n0-600 Home\n"
                        "500-600 61 comments");
    assert_int_equal(s.segments[1].box.y, 1560);
    assert_int_equal(s.segments[1].end_box.y, 560);
}

static void test_what_left_is_not_what_came(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Thursday evening train leaves", 0, 100, 50, 700);
    see(&s, "Like", 0, 100, 50, 100);
    see(&s, "Thursday evening train leaves", 100, 200, 50, 400);
    see(&s, "Like", 100, 200, 50, 1500);
    expect_segments(&s, "0-100 Like\n0-200 Thursday evening train leaves\n100-200 Like");
}

static void test_what_is_replaced_did_not_move(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "45,000 km", 0, 500, 100, 300);
    see(&s, "20,000 km", 500, 1000, 100, 300);
    see(&s, "45,000 km", 500, 1000, 700, 300);
    see(&s, "@maker", 0, 500, 100, 900);
    see(&s, "@maker", 500, 1000, 900, 1200);
    expect_segments(&s, "0-500 45,000 km\n0-1000 @maker\n500-1000 20,000 km\n500-1000 45,000 km");
}

static void test_followed_lines_keep_their_ends(void **state)
{
    (void)state;
    SCENE(s);
    struct cv_detection *first = see(&s, "61 comments", 0, 3000, 50, 1700);
    first->end_box = first->box;
    first->end_box.y = 100;
    see(&s, "61 comments", 3100, 5000, 50, 1700);
    expect_segments(&s, "0-3000 61 comments\n3100-5000 61 comments");
}

static void test_equal_posts_one_after_the_other_stay_two(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Stall sells fresh bread coffee or flowers", 6133, 10167, 44, 1589);
    see(&s, "Stall sells fresh bread coffee or flowers", 10350, 11433, 44, 1667);
    expect_segments(&s, "6133-10167 Stall sells fresh bread coffee or flowers\n"
                        "10350-11433 Stall sells fresh bread coffee or flowers");
}

static void test_a_label_floats_up(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Description", 700, 4200, 36, 288);
    see(&s, "Description", 4300, 5000, 36, 258);
    expect_segments(&s, "700-5000 Description");
}

static void test_remains_at_an_edge_go(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "evening train leaves", 0, 100, 210, 50);
    see(&s, "Thursday evening train leaves platform", 100, 900, 50, 50);
    see(&s, "Thursday", 900, 3000, 50, 900);
    expect_segments(&s, "100-900 Thursday evening train leaves platform\n900-3000 Thursday");
}

static void test_a_piece_of_a_line_that_stands_goes(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Thursday evening train leaves platform", 0, 3000, 50, 50);
    see(&s, "evening train leaves", 1000, 2000, 230, 50);
    see(&s, "hursday eveni", 1000, 2000, 70, 50);
    see(&s, "train leaves platform", 1000, 2000, 390, 50)->confidence = 0.95;
    see(&s, "evening", 1000, 2000, 705, 50);
    expect_segments(&s, "0-3000 Thursday evening train leaves platform\n"
                        "1000-2000 train leaves platform\n"
                        "1000-2000 evening");
}

/* Each detection moves up. */
static struct cv_detection *scroll(struct cv_detection *seen, int up)
{
    seen->end_box = seen->box;
    seen->end_box.y -= up;
    return seen;
}

/* Lines of a list are where others were, and their texts are alike; of numbers, others begin or end so. */
static void test_lines_of_a_list_are_no_pieces(void **state)
{
    (void)state;
    SCENE(s);
    scroll(see(&s, "Order 1255 shipped", 0, 10000, 50, 600), 400)->confidence = 0.95;
    scroll(see(&s, "Order 1247", 2000, 8000, 50, 840), 240);
    scroll(see(&s, "Order 1255", 3000, 9000, 50, 600), 240);
    see(&s, "Order 1234 shipped", 0, 10000, 50, 1050)->confidence = 0.95;
    see(&s, "Order 12", 2000, 8000, 50, 1050);
    see(&s, "Order 1247", 2000, 8000, 50, 1050);
    see(&s, "34 shipped", 2000, 8000, 210, 1050);
    see(&s, "Paid 1,200.50 late", 0, 10000, 50, 1150)->confidence = 0.95;
    see(&s, "200.50 late", 2000, 8000, 190, 1150);
    see(&s, "Paid 1,200", 2000, 8000, 50, 1150);
    expect_segments(&s, "0-10000 Order 1255 shipped\n"
                        "0-10000 Order 1234 shipped\n"
                        "0-10000 Paid 1,200.50 late\n"
                        "2000-8000 Order 1247\n"
                        "2000-8000 Order 12\n"
                        "2000-8000 Order 1247\n"
                        "2000-8000 34 shipped\n"
                        "2000-8000 Paid 1,200\n"
                        "2000-8000 200.50 late\n"
                        "3000-9000 Order 1255");
}

static void test_a_line_read_twice_counts_once(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "Keep the receipt, please.", 0, 1000, 50, 50);
    see(&s, "Keep the receipt please", 0, 1000, 52, 51);
    see(&s, "Keep the receipt, please.", 500, 1500, 50, 50);
    expect_segments(&s, "0-1500 Keep the receipt, please.");
}

static void test_a_counter_is_one_segment(void **state)
{
    (void)state;
    static const char *const shown[] = {"Copied 97 of 4,110", "Copied 98 of 4,110",
                                        "Copied 99 of 4,110", "Copied 100 of 4,110",
                                        "Copied 101 of 4,110"};
    SCENE(scene);
    for (int i = 0; i < 5; i++) {
        see(&scene, shown[i], i * 100, i * 100 + (i == 3 ? 110 : 100), 40, 100);
        see(&scene, "beside it", i * 100, i * 100 + 100, 40, 300);
    }
    expect_segments(&scene, "0-500 Copied 100 of 4,110\n0-500 beside it");
}

/* What stands long enough to be read is kept, and so are lines that differ in words. */
static void test_what_can_be_read_is_no_flicker(void **state)
{
    (void)state;
    SCENE(scene);
    see(&scene, "12:00:01", 0, 1000, 40, 100);
    see(&scene, "12:00:02", 1000, 2000, 40, 100);
    see(&scene, "12:00:03", 2000, 3000, 40, 100);
    see(&scene, "12:00:04", 3000, 4000, 40, 100);
    see(&scene, "one", 4000, 4200, 40, 100);
    see(&scene, "word", 4200, 4400, 40, 100);
    see(&scene, "behind", 4400, 4600, 40, 100);
    see(&scene, "another", 4600, 4800, 40, 100);
    expect_segments(&scene, "0-1000 12:00:01\n1000-2000 12:00:02\n2000-3000 12:00:03\n"
                            "3000-4000 12:00:04\n4000-4200 one\n4200-4400 word\n"
                            "4400-4600 behind\n4600-4800 another");
}

/* A letter that is half drawn reads as another one. */
/* A feed of equal posts: as the topmost leaves, another comes in at the foot while the rest moves on.
 * The one that came is not the one that left. */
static void test_equal_posts_that_scroll(void **state)
{
    (void)state;
    SCENE(s);
    see(&s, "pocket ladder basket", 0, 500, 60, 120);
    see(&s, "pocket ladder basket", 0, 2000, 60, 360)->end_box = (struct cv_box){60, 150, 400, 40};
    see(&s, "pocket ladder basket", 0, 3400, 60, 600)->end_box = (struct cv_box){60, 100, 400, 40};
    see(&s, "pocket ladder basket", 530, 3400, 60, 740)->end_box =
        (struct cv_box){60, 340, 400, 40};
    see(&s, "pocket ladder basket", 2030, 3400, 60, 740)->end_box =
        (struct cv_box){60, 580, 400, 40};
    expect_segments(&s, "0-500 pocket ladder basket\n"
                        "0-2000 pocket ladder basket\n"
                        "0-3400 pocket ladder basket\n"
                        "530-3400 pocket ladder basket\n"
                        "2030-3400 pocket ladder basket");
}

static void test_typing_ends_in_its_text(void **state)
{
    (void)state;
    static const char *const typed[] = {"rel", "retu", "return", "return v", "return value"};
    SCENE(scene);
    for (int i = 0; i < 5; i++) {
        see(&scene, typed[i], i * 100, i < 4 ? i * 100 + 100 : 3000, 40, 100);
    }
    see(&scene, "make", 0, 600, 40, 200);
    see(&scene, "make install", 600, 3000, 40, 200); /* the first one could be read */
    expect_segments(&scene, "0-600 make\n400-3000 return value\n600-3000 make install");
}

static void test_order_of_input_does_not_matter(void **state)
{
    (void)state;
    SCENE(s);
    SCENE(reversed);
    static const char *const texts[] = {"Alpha line one", "A1pha line one", "Alpha iine one"};
    for (int i = 0; i < 9; i++) {
        see(&s, texts[i % 3], 100 * i, 100 * i + 100, 50, 50 + i);
    }
    for (int i = 8; i >= 0; i--) {
        see(&reversed, texts[i % 3], 100 * i, 100 * i + 100, 50, 50 + i);
    }
    expect_segments(&s, "0-900 A1pha line one");
    expect_segments(&reversed, "0-900 A1pha line one");
}

/* A hundred thousand detections of a scrolling feed, noise and all: what comes out is the lines. */
static void test_many_detections(void **state)
{
    (void)state;
    enum { FRAMES = 5000, LINES = 20 };
    struct cv_error error;
    cv_auto_free struct cv_detection *many = calloc(FRAMES * LINES, sizeof(*many));
    cv_auto_free char(*texts)[48] = calloc(FRAMES + LINES, sizeof(*texts));
    assert_true(many && texts);
    for (int i = 0; i < FRAMES + LINES; i++) {
        (void)snprintf(texts[i], sizeof(*texts), "post %d says word%d twice", i, i * 7919);
    }
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int row = 0; row < LINES; row++) {
            many[frame * LINES + row] = (struct cv_detection){
                .text = texts[frame + row],
                .normalized = texts[frame + row],
                .confidence = 0.9,
                .t_start_ms = frame * 100,
                .t_end_ms = frame * 100 + 100,
                .box = {50, 60 * row, 400, 40},
            };
        }
    }
    cv_auto_free struct cv_detection *segments = NULL;
    size_t count = 0;
    assert_int_equal(merge(many, FRAMES * LINES, &segments, &count, &error), 0);
    assert_int_equal(count, FRAMES + LINES - 1);
    expect_fixpoint(segments, count);
}

/* All at one instant, place and text: nothing to gain, and no time to lose. */
static void test_hostile_detections(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    struct cv_error error;
    cv_auto_free struct cv_detection *many = calloc(COUNT, sizeof(*many));
    assert_non_null(many);
    for (int i = 0; i < COUNT; i++) {
        many[i] = (struct cv_detection){
            .text = i % 2 ? "same text again" : "some text again",
            .normalized = i % 2 ? "same text again" : "some text again",
            .confidence = 0.5,
            .t_start_ms = i % 3,
            .t_end_ms = 1000000,
            .box = {0, 0, i % 5 ? 100 : INT32_MAX / 4, 40},
        };
    }
    cv_auto_free struct cv_detection *segments = NULL;
    size_t count = 0;
    assert_int_equal(merge(many, COUNT, &segments, &count, &error), 0);
    assert_true(count > 0 && count <= COUNT);
    assert_true(merge(many, CV_MERGE_MAX + 1, &segments, &count, &error) < 0);
    assert_int_equal(error.type, CV_ERROR_LIMIT_EXCEEDED);
}

/* Which segment each detection went into. */
static void test_parts_are_told(void **state)
{
    (void)state;
    SCENE(s);
    struct cv_detection *segments = NULL;
    size_t parts[8], count = 0;
    struct cv_error error;

    see(&s, "Thursday evening train", 0, 500, 60, 100);
    see(&s, "another line of text", 0, 900, 60, 300);
    see(&s, "Thursday evening train", 600, 1000, 60, 100);
    assert_int_equal(cv_text_merge(s.detections, s.count, &segments, &count, parts, NULL, &error),
                     0);
    assert_int_equal(count, 2);
    assert_int_equal(parts[0], parts[2]);
    assert_int_not_equal(parts[0], parts[1]);
    assert_string_equal(segments[parts[1]].text, "another line of text");
    free(segments);
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

struct page {
    struct cv_text_line lines[MOST];
    struct cv_text_position positions[MOST];
    size_t count;
};

/* A line of letters that are ten pixels wide, 20 high; the first word has `first_word` letters. */
static struct cv_text_line *put(struct page *page, int x, int y, int letters, int first_word)
{
    struct cv_text_line *line = &page->lines[page->count++];
    assert_true(page->count <= MOST);
    *line = (struct cv_text_line){
        .t_end_ms = 5000,
        .box = {x, y, 10 * letters, 20},
        .first_word_width = 10 * first_word,
    };
    return line;
}

static void find_paragraphs(struct page *page)
{
    struct cv_error error;
    assert_int_equal(cv_text_paragraphs(page->lines, page->count, page->positions, &error), 0);
}

/* Checks which line each line's paragraph begins with. */
#define ASSERT_FIRSTS(page, ...)                                     \
    do {                                                             \
        const size_t firsts[] = {__VA_ARGS__};                       \
        find_paragraphs(page);                                       \
        assert_int_equal((page)->count, CV_COUNT(firsts));           \
        for (size_t n = 0; n < CV_COUNT(firsts); n++) {              \
            assert_int_equal((page)->positions[n].first, firsts[n]); \
        }                                                            \
    } while (0)

static void test_wrapped_lines_are_one_paragraph(void **state)
{
    (void)state;
    struct page message = {0}, pages = {0}, list = {0}, gap = {0}, sizes = {0};
    put(&message, 100, 0, 38, 5);
    put(&message, 102, 30, 40, 5);
    put(&message, 99, 60, 12, 7);
    ASSERT_FIRSTS(&message, 0, 0, 0);
    assert_int_equal(message.positions[2].number, 2);
    put(&pages, 100, 0, 38, 5); /* two columns side by side */
    put(&pages, 600, 0, 38, 5);
    put(&pages, 100, 30, 20, 5);
    put(&pages, 600, 30, 20, 5);
    ASSERT_FIRSTS(&pages, 0, 1, 0, 1);
    put(&list, 100, 0, 10, 4); /* "milk" would have fitted behind "some bread" */
    put(&list, 100, 30, 40, 4);
    put(&list, 100, 60, 14, 4);
    put(&list, 100, 90, 20, 4);
    ASSERT_FIRSTS(&list, 0, 1, 1, 3);
    put(&gap, 100, 0, 40, 5);
    put(&gap, 100, 30, 40, 5);
    put(&gap, 100, 70, 40, 5);
    ASSERT_FIRSTS(&gap, 0, 0, 2);
    put(&sizes, 100, 0, 40, 5)->box.height = 40; /* a heading */
    put(&sizes, 100, 50, 40, 5);
    put(&sizes, 500, 50, 40, 5)->box.width = 0; /* nobody knows where it is */
    ASSERT_FIRSTS(&sizes, 0, 1, 2);
}

static void test_paragraphs_have_one_time(void **state)
{
    (void)state;
    struct page scrolled = {0}, chat = {0}, subtitle = {0}, away = {0};
    struct cv_text_place first[] = {{0, 100, 500}, {100, 100, 470}, {4000, 100, 0}};
    struct cv_text_place second[] = {{100, 100, 500}, {4000, 100, 30}};
    put(&scrolled, 100, 500, 40, 5)->places = first;
    scrolled.lines[0].place_count = 3;
    put(&scrolled, 100, 500, 10, 5)->places = second;
    scrolled.lines[1].place_count = 2;
    scrolled.lines[1].t_start_ms = 100;
    ASSERT_FIRSTS(&scrolled, 0, 0);
    put(&chat, 100, 0, 40, 5);
    put(&chat, 100, 30, 10, 5)->t_start_ms = 2000;
    ASSERT_FIRSTS(&chat, 0, 1);
    put(&subtitle, 100, 0, 10, 5);
    put(&subtitle, 50, 30, 20, 5);
    put(&subtitle, 100, 60, 10, 5)->t_end_ms = 4000;
    ASSERT_FIRSTS(&subtitle, 0, 0, 2);
    put(&away, 100, 0, 40, 5)->t_end_ms = 500;
    put(&away, 100, 30, 10, 5)->t_start_ms = 500;
    ASSERT_FIRSTS(&away, 0, 1);
}

static void test_long_and_hostile_paragraphs(void **state)
{
    (void)state;
    const int far = INT_MAX / 64;
    struct page longer = {0}, hostile = {0};
    for (int i = 0; i < 20; i++) {
        put(&longer, 100, 30 * i, 40, 5);
    }
    find_paragraphs(&longer);
    for (size_t i = 0; i < longer.count; i++) {
        size_t head = i / CV_PARAGRAPH_MAX * CV_PARAGRAPH_MAX;
        assert_int_equal(longer.positions[i].first, head);
        assert_int_equal(longer.positions[i].number, i - head);
    }
    for (int i = 0; i < MOST; i++) {
        struct cv_text_line *line = put(&hostile, i % 2 ? far : -far, i % 3 ? -far : far, 1, 1);
        line->box.width = line->box.height = i % 5 ? far : 1;
        line->t_end_ms = i % 7 ? INT64_C(1) << 40 : 0;
    }
    find_paragraphs(&hostile);
    for (size_t i = 0; i < hostile.count; i++) {
        assert_true(hostile.positions[i].first < hostile.count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrapped_lines_are_one_paragraph),
        cmocka_unit_test(test_paragraphs_have_one_time),
        cmocka_unit_test(test_long_and_hostile_paragraphs),
        cmocka_unit_test(test_parts_are_told),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_one_text_becomes_one_range),
        cmocka_unit_test(test_a_long_pause_makes_two),
        cmocka_unit_test(test_readings_vote),
        cmocka_unit_test(test_another_word_stays_another_line),
        cmocka_unit_test(test_a_counter_keeps_its_states),
        cmocka_unit_test(test_equal_texts_at_two_places_stay_two),
        cmocka_unit_test(test_scrolling_lines_are_followed),
        cmocka_unit_test(test_what_left_is_not_what_came),
        cmocka_unit_test(test_what_is_replaced_did_not_move),
        cmocka_unit_test(test_followed_lines_keep_their_ends),
        cmocka_unit_test(test_equal_posts_one_after_the_other_stay_two),
        cmocka_unit_test(test_a_label_floats_up),
        cmocka_unit_test(test_remains_at_an_edge_go),
        cmocka_unit_test(test_a_piece_of_a_line_that_stands_goes),
        cmocka_unit_test(test_lines_of_a_list_are_no_pieces),
        cmocka_unit_test(test_a_line_read_twice_counts_once),
        cmocka_unit_test(test_a_counter_is_one_segment),
        cmocka_unit_test(test_what_can_be_read_is_no_flicker),
        cmocka_unit_test(test_equal_posts_that_scroll),
        cmocka_unit_test(test_typing_ends_in_its_text),
        cmocka_unit_test(test_order_of_input_does_not_matter),
        cmocka_unit_test(test_many_detections),
        cmocka_unit_test(test_hostile_detections),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
