/* Which readings are believed: a sentence always, a letter or two only with more to speak for it. */
#include "workers/ocr/tracks/accept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_what_letters_prove(void **state)
{
    static const struct {
        const char *text;
        enum ocr_weight weight;
    } cases[] = {
        {"", OCR_WEIGHT_NONE},
        {"— =", OCR_WEIGHT_NONE},
        {"§ © °", OCR_WEIGHT_NONE},
        {"N", OCR_WEIGHT_SHORT},
        {"‘ i", OCR_WEIGHT_SHORT},
        {"9:41", OCR_WEIGHT_SHORT},
        {"€5,50", OCR_WEIGHT_SHORT},
        {"wiki", OCR_WEIGHT_WORDS},
        {"1,204", OCR_WEIGHT_WORDS},
        {"\xe6\x9d\xb1", OCR_WEIGHT_SHORT},
        {"\xe6\x9d\xb1\xe4\xba\xac", OCR_WEIGHT_WORDS},
        {"\xf0\x9f\x98\x82", OCR_WEIGHT_WORDS},
        {"\xff\xfe", OCR_WEIGHT_NONE},
        {"N \xff", OCR_WEIGHT_SHORT},
    };

    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        assert_int_equal(ocr_text_weight(cases[i].text), cases[i].weight);
    }
}

enum { WIDTH_OF_WORD = 130, TALL_OF_WORD = 20 };

/* A word that is clearly one, on a page. */
static const struct ocr_row word = {.text = (char *)"Settings",
                                    .confidence = 0.95,
                                    .worst_word = 0.95,
                                    .agreement = 1,
                                    .tall = TALL_OF_WORD,
                                    .weight = OCR_WEIGHT_WORDS,
                                    .has_company = true,
                                    .ink = {.kind = CV_INK_FLAT, .clarity = 0.95}};
static const struct ocr_standing long_there = {.lasted_ms = 5000, .width = WIDTH_OF_WORD};

static double likely(const char *text, double confidence, double clarity, int width)
{
    struct ocr_row row = word;
    struct ocr_standing standing = long_there;

    row.text = (char *)text;
    row.weight = ocr_text_weight(text);
    row.confidence = row.worst_word = confidence;
    row.ink.clarity = clarity;
    standing.width = width;
    return ocr_acceptance(&row, &standing);
}

static void test_what_is_believed(void **state)
{
    (void)state;
    assert_true(ocr_acceptance(&word, &long_there) > 0.9);
    assert_true(likely("Settings", 0.95, 0.95, WIDTH_OF_WORD) > 0.9);
    assert_true(likely("\xe6\x9d\xb1\xe4\xba\xac", 0.9, 0.9, 60) > 0.6);
    assert_true(likely("\xf0\x9f\x98\x82", 0.92, 0.8, 30) > 0.6);
    assert_true(likely("— =", 0.95, 0.95, 60) == 0);
    /* a guess; letters strewn over a picture's width; lone letters that two readings saw as others */
    assert_true(likely("Settings", 0.3, 0.8, WIDTH_OF_WORD) < 0.6);
    assert_true(likely("Jp", 0.7, 0.8, 600) < 0.6);
    assert_true(likely("i l | ~", 0.6, 0.7, 200) < 0.6);
}

static void test_more_evidence_is_never_against_a_reading(void **state)
{
    struct ocr_row alone = word, guess = word, differs = word;
    struct ocr_standing moment = long_there;

    (void)state;
    alone.has_company = false;
    guess.confidence = 0.5;
    differs.agreement = 0.4;
    moment.lasted_ms = 50;
    double best = ocr_acceptance(&word, &long_there);
    assert_true(ocr_acceptance(&alone, &long_there) <= best);
    assert_true(ocr_acceptance(&guess, &long_there) < best);
    assert_true(ocr_acceptance(&differs, &long_there) < best);
    assert_true(ocr_acceptance(&word, &moment) < best);
}

static void test_a_refusal_has_a_reason(void **state)
{
    struct ocr_row guess = word, empty = word;

    (void)state;
    guess.confidence = guess.worst_word = 0.2;
    empty.weight = OCR_WEIGHT_NONE;
    assert_string_equal(ocr_refusal(&empty, &long_there), "no letter");
    assert_non_null(strstr(ocr_refusal(&guess, &long_there), "unsure"));
}

struct place {
    const char *text;
    int x, y, tall;
    enum cv_ink_kind kind;
};

/* Whether the first of two lines on one frame has company in the other. */
static bool in_company(struct place line, struct place other)
{
    const struct place places[2] = {line, other};
    struct ocr_track tracks[2] = {0}, *items[2] = {&tracks[0], &tracks[1]};
    struct ocr_tracks all = {.items = items, .count = 2};

    for (int i = 0; i < 2; i++) {
        tracks[i].present = tracks[i].is_read = true;
        tracks[i].weight = ocr_text_weight(places[i].text);
        tracks[i].reading.confidence = 0.9;
        tracks[i].crop.tall = places[i].tall;
        tracks[i].crop.ink.kind = places[i].kind;
        tracks[i].box = (struct cv_box){places[i].x, places[i].y, 100, places[i].tall};
    }
    ocr_mark_company(&all);
    return tracks[0].has_company;
}

static void test_company(void **state)
{
    struct place age = {"5h", 400, 100, 28, CV_INK_FLAT};
    struct place name = {"dev_marcus", 180, 100, 30, CV_INK_FLAT};

    (void)state;
    assert_true(in_company(age, name));
    name.y = 900;
    assert_false(in_company(age, name));
    name.y = 100;
    name.tall = 90;
    assert_false(in_company(age, name));
    name.tall = 30;
    name.kind = CV_INK_DARK;
    assert_false(in_company(age, name));
    name.kind = CV_INK_FLAT;
    name.text = "12";
    assert_false(in_company(age, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_letters_prove),
        cmocka_unit_test(test_what_is_believed),
        cmocka_unit_test(test_more_evidence_is_never_against_a_reading),
        cmocka_unit_test(test_a_refusal_has_a_reason),
        cmocka_unit_test(test_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
