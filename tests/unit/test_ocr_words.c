/* Words to lines: blanks as each script has them, emoji at their places, order as the line is read. */
#include "workers/ocr/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TALL = 28, WIDTH = 1000, WORDS = 8 };

struct given {
    const char *text;
    int left, right;
    const char *language;
};

static char *join(const struct given *given, const struct ocr_insert *inserts, size_t insert_count,
                  struct ocr_reading *reading)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct cv_error error;

    for (size_t i = 0; i < WORDS && given[i].text; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s", given[i].text);
        struct ocr_word word = {.text = text,
                                .left = given[i].left,
                                .right = given[i].right,
                                .sure = 0.9,
                                .letters = 0.95};
        (void)snprintf(word.language, sizeof(word.language), "%s",
                       given[i].language ? given[i].language : "eng");
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    }
    assert_int_equal(ocr_words_join(&words, inserts, insert_count, TALL, WIDTH, reading, &error),
                     0);
    return reading->text;
}

static void test_blanks_are_those_of_the_script(void **state)
{
    (void)state;
    static const struct {
        struct given words[WORDS];
        const char *line;
    } cases[] = {
        {{{"two", 0, 50, NULL}, {"words", 51, 99, NULL}}, "two words"},
        {{{"東京", 0, 60, NULL}, {"駅", 75, 100, NULL}, {"か", 115, 130, NULL}}, "東京駅か"},
        {{{"今日", 0, 60, NULL}, {"明日", 100, 160, NULL}}, "今日 明日"},
        {{{"を", 0, 30, NULL}, {"3", 44, 56, NULL}, {"台", 70, 98, NULL}}, "を 3 台"},
        {{{"第", 0, 28, NULL}, {"3", 31, 43, NULL}, {"回", 45, 73, NULL}}, "第3回"},
        {{{"#", 0, 15, NULL}, {"旅", 17, 45, NULL}, {"行", 47, 75, NULL}}, "#旅行"},
        {{{"오", 0, 28, NULL}, {"늘", 32, 60, NULL}, {"날", 70, 98, NULL}}, "오늘 날"},
        {{{"@minji", 0, 90, NULL}, {"님", 100, 128, NULL}, {"이", 134, 160, NULL}}, "@minji 님이"},
        {{{"价格", 0, 56, NULL}, {"，", 58, 66, NULL}, {"好", 90, 118, NULL}}, "价格，好"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
        assert_string_equal(join(cases[i].words, NULL, 0, &reading), cases[i].line);
    }
}

static void test_emoji_stand_where_the_line_has_them(void **state)
{
    (void)state;
    static const struct ocr_insert inserts[] = {{100, 130, "😂"}, {900, 930, "🎉"}};
    static const struct given latin[WORDS] = {{"ab", 0, 90, NULL}, {"cd", 140, 200, NULL}};
    static const struct given hebrew[WORDS] = {{"מזג", 800, 890, "heb"}, {"יפה", 140, 200, "heb"}};
    cv_auto(ocr_reading_deinit) struct ocr_reading left = {0}, right = {0};

    assert_string_equal(join(latin, inserts, 2, &left), "ab 😂 cd 🎉");
    assert_string_equal(join(hebrew, inserts, 2, &right), "🎉 מזג יפה 😂");
    assert_string_equal(right.language, "heb");
}

static void test_marks_of_direction_are_no_text(void **state)
{
    (void)state;
    static const struct given words[WORDS] = {{"השעה", 800, 890, "heb"},
                                              {"\u200e10:30\u200f", 600, 700, "heb"},
                                              {"\u202a", 500, 510, "heb"}};
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};

    assert_string_equal(join(words, NULL, 0, &reading), "השעה 10:30");
}

static void test_a_line_is_as_sure_as_its_words(void **state)
{
    (void)state;
    static const struct given none[WORDS] = {{NULL, 0, 0, NULL}};
    static const struct given words[WORDS] = {
        {"und", 0, 50, "deu"}, {"the", 60, 90, "eng"}, {"Käse", 100, 150, "deu"}};
    static const struct given address[WORDS] = {{"https://example.org/a", 0, 300, "eng"}};
    cv_auto(ocr_reading_deinit) struct ocr_reading empty = {0}, mixed = {0}, url = {0};

    assert_string_equal(join(none, NULL, 0, &empty), "");
    assert_true(empty.confidence == 0 && empty.worst_word == 0);
    (void)join(words, NULL, 0, &mixed);
    assert_string_equal(mixed.language, "deu");
    assert_true(mixed.confidence > 0.899 && mixed.confidence < 0.901);
    (void)join(address, NULL, 0, &url);
    assert_true(url.confidence > 0.949 && url.worst_word == 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blanks_are_those_of_the_script),
        cmocka_unit_test(test_emoji_stand_where_the_line_has_them),
        cmocka_unit_test(test_marks_of_direction_are_no_text),
        cmocka_unit_test(test_a_line_is_as_sure_as_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
