/* Which readings are believed: a sentence always, a letter or two only with more to speak for it. */
#include "workers/ocr/evidence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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

static bool believed(enum ocr_weight weight, bool has_company, enum ocr_ink_kind kind,
                     double clarity, int64_t lasted_ms)
{
    struct ocr_row row = {
        .weight = weight, .has_company = has_company, .ink = {.kind = kind, .clarity = clarity}};
    return ocr_is_credible(&row, lasted_ms);
}

static void test_what_is_believed(void **state)
{
    (void)state;
    assert_false(believed(OCR_WEIGHT_NONE, true, OCR_INK_FLAT, 0.99, 60000));
    assert_true(believed(OCR_WEIGHT_WORDS, false, OCR_INK_DARK, 0.6, 17));
    /* a countdown on a plain page; a corner of a picture that happens to be plain */
    assert_true(believed(OCR_WEIGHT_SHORT, false, OCR_INK_FLAT, 0.95, 100));
    assert_false(believed(OCR_WEIGHT_SHORT, false, OCR_INK_FLAT, 0.80, 100));
    assert_true(believed(OCR_WEIGHT_SHORT, false, OCR_INK_FLAT, 0.80, 1000));
    assert_true(believed(OCR_WEIGHT_SHORT, true, OCR_INK_FLAT, 0.80, 100));
    /* a station's logo over a film; a branch */
    assert_true(believed(OCR_WEIGHT_SHORT, false, OCR_INK_LIGHT, 0.85, 5000));
    assert_false(believed(OCR_WEIGHT_SHORT, false, OCR_INK_LIGHT, 0.85, 300));
    assert_false(believed(OCR_WEIGHT_SHORT, false, OCR_INK_DARK, 0.74, 5000));
}

struct place {
    const char *text;
    int x, y, tall;
    enum ocr_ink_kind kind;
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
        tracks[i].box = (struct ocr_box){places[i].x, places[i].y, 100, places[i].tall};
    }
    ocr_note_company(&all);
    return tracks[0].has_company;
}

static void test_company(void **state)
{
    struct place age = {"5h", 400, 100, 28, OCR_INK_FLAT};
    struct place name = {"dev_marcus", 180, 100, 30, OCR_INK_FLAT};

    (void)state;
    assert_true(in_company(age, name));
    name.y = 900;
    assert_false(in_company(age, name));
    name.y = 100;
    name.tall = 90;
    assert_false(in_company(age, name));
    name.tall = 30;
    name.kind = OCR_INK_DARK;
    assert_false(in_company(age, name));
    name.kind = OCR_INK_FLAT;
    name.text = "12";
    assert_false(in_company(age, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_letters_prove),
        cmocka_unit_test(test_what_is_believed),
        cmocka_unit_test(test_company),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
