#include "workers/ocr/reading/language.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *const MODELS[] = {"eng", "deu", "fra"};
enum { ENG, DEU, FRA, NONE };

/* Umlauts and accents as the English model reads them. */
static void test_a_misread_line_tells_its_language(void **state)
{
    static const struct {
        const char *text;
        size_t model;
    } lines[] = {
        {"Briicke wir liefen bis zum Sonnenuntergang", DEU},
        {"Mit GriiRen aus K6In niemand erwartete Regen", DEU},
        {"Avec des amis venus de Gen\u00e9ve I'hiver dernier ou", FRA},
        {"Thursday evening train leaves platform nine", ENG},
        {"El tren de la tarde sale a las nueve de la noche", NONE},
    };
    (void)state;
    for (size_t i = 0; i < CV_COUNT(lines); i++) {
        struct ocr_tongue tongue = ocr_language_of(lines[i].text, MODELS, CV_COUNT(MODELS));
        assert_int_equal(tongue.model, lines[i].model);
        assert_true(tongue.letters >= OCR_TONGUE_LETTERS_SURE);
    }
}

static void test_names_and_numbers_have_none(void **state)
{
    static const char *const lines[] = {
        "",
        "@lena_photo #trailrun",
        "oskar_b \u00b7 22h",
        "https://example.org/menu 1,204",
        "9:41 5G 87%",
        "mail@example.net jonas.k",
        "\U0001f622 494",
        "$19.99 \u20ac5,50",
    };
    (void)state;
    for (size_t i = 0; i < CV_COUNT(lines); i++) {
        struct ocr_tongue tongue = ocr_language_of(lines[i], MODELS, CV_COUNT(MODELS));
        assert_int_equal(tongue.model, NONE);
        assert_in_range(tongue.letters, 0, OCR_TONGUE_LETTERS_MIN - 1);
    }
}

static void test_words_beside_names_count(void **state)
{
    (void)state;
    struct ocr_tongue tongue = ocr_language_of(
        "fleurs pr\u00e9s du vieux pont. @jonas_k #vinyl +49 30", MODELS, CV_COUNT(MODELS));
    assert_int_equal(tongue.model, FRA);
    assert_int_equal(tongue.letters, 21);
}

static void test_the_first_tells_among_latin_letters(void **state)
{
    static const char *const japanese[] = {"eng", "jpn"}, *const script[] = {"eng", "script/Latin"};
    (void)state;
    assert_true(ocr_language_first_tells(MODELS, CV_COUNT(MODELS)));
    assert_false(ocr_language_first_tells(MODELS, 1));
    assert_false(ocr_language_first_tells(japanese, 2));
    assert_false(ocr_language_first_tells(script, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_misread_line_tells_its_language),
        cmocka_unit_test(test_names_and_numbers_have_none),
        cmocka_unit_test(test_words_beside_names_count),
        cmocka_unit_test(test_the_first_tells_among_latin_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
