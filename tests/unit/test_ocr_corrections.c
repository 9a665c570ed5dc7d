/* Corrections of what was read: numbers and addresses, by the ink of their line. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/reading/word_corrections.h"

#include <string.h>

enum { TALL = 28, WIDTH = 1000 };

/* Reads a word whose letters are 16 pixels wide, and stand apart by `rooms`; a point that was not read stands before the
 * letter at `lost`. */
static void expect_number(const char *read, const int *rooms, int lost, const char *wanted)
{
    enum { LETTER = 16, POINT = 5 };
    static uint8_t pixels[TALL * WIDTH];
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct ocr_line_picture line = {.grey = pixels, .width = WIDTH, .height = TALL, .tall = TALL};
    struct cv_error error;
    char text[16];
    int left = 4;

    memset(pixels, 255, sizeof(pixels));
    (void)snprintf(text, sizeof(text), "%s", read);
    for (int i = 0; text[i]; i++) {
        bool is_point = text[i] == '.';
        int ink = left + (i == lost ? POINT + 6 : 0), right = ink + (is_point ? POINT : LETTER);
        for (int y = 0; y < TALL; y++) {
            memset(pixels + y * WIDTH + ink, is_point && y < TALL - POINT ? 255 : 0,
                   (size_t)(right - ink));
            if (i == lost && y >= TALL - POINT) {
                memset(pixels + y * WIDTH + left, 0, POINT);
            }
        }
        struct ocr_symbol symbol = {
            .text = {text[i], '\0'}, .left = left, .right = right, .bottom = TALL};
        assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
        left = right + rooms[i];
    }
    struct ocr_word word = {.text = text, .symbol_count = strlen(text)};
    assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    assert_int_equal(ocr_words_mend_numbers(&words, &line, &error), 0);
    assert_string_equal(words.items[0].text, wanted);
}

static void test_numbers_have_the_blanks_and_points_of_their_ink(void **state)
{
    enum { NEAR = 5, BLANK = 13, APART = 18, NOT = -1 };

    (void)state;
    expect_number("12ms", (int[]){NEAR, APART, NEAR, 0}, NOT, "12 ms");
    expect_number("12ms", (int[]){NEAR, BLANK, NEAR, 0}, NOT, "12ms");
    expect_number("+4.2", (int[]){BLANK, NEAR, NEAR, 0}, NOT, "+ 4.2");
    expect_number("+4.2", (int[]){NEAR, NEAR, NEAR, 0}, NOT, "+4.2");
    expect_number("71.4%", (int[]){NEAR, NEAR, NEAR, BLANK, 0}, NOT, "71.4 %");
    /* a hyphen and a one leave room free themselves; letters are no signs, and brackets none of a number */
    expect_number("5-28", (int[]){10, 10, NEAR, 0}, NOT, "5-28");
    expect_number("+1", (int[]){10, 0}, NOT, "+1");
    expect_number("x=(2", (int[]){BLANK, BLANK, BLANK, 0}, NOT, "x=(2");
    expect_number("+75", (int[]){BLANK, NEAR, 0}, 2, "+ 7.5");
    expect_number("v75", (int[]){NEAR, NEAR, 0}, 2, "v7.5");
    expect_number("x5", (int[]){NEAR, 0}, 1, "x5");
}

/* An address that was read in pieces, so many pixels apart; the letter at `low` is half as high as the others. */
static void expect_address(const char *read, int apart, int low, const char *wanted)
{
    enum { LETTER = 4, ROOM = 2, LONGEST = 64 };
    static uint8_t pixels[TALL * WIDTH];
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct ocr_line_picture line = {.grey = pixels, .width = WIDTH, .height = TALL, .tall = TALL};
    struct cv_error error;
    int left = 0;

    memset(pixels, 255, sizeof(pixels));
    for (const char *piece = read; *piece; piece += strcspn(piece, " "), piece += *piece == ' ') {
        char text[LONGEST];
        (void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(piece, " "), piece);
        struct ocr_word word = {
            .text = text, .first_symbol = words.symbol_count, .symbol_count = strlen(text)};
        for (size_t i = 0; text[i]; i++, left += LETTER + ROOM) {
            for (int y = piece + i == read + low ? TALL / 2 : 0; y < TALL; y++) {
                memset(pixels + y * WIDTH + left, 0, LETTER);
            }
            struct ocr_symbol symbol = {
                .text = {text[i], '\0'}, .left = left, .right = left + LETTER, .bottom = TALL};
            assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
        }
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
        left += apart - ROOM;
    }
    assert_int_equal(ocr_words_mend_addresses(&words, &line, &error), 0);
    assert_string_equal(words.items[0].text, wanted);
}

static void test_an_address_is_one_word_with_its_own_marks(void **state)
{
    enum {
        NEAR = TALL * 3 / 10,
        ONE = TALL * 37 / 100,
        MARK = TALL * 2 / 5,
        BLANK = TALL / 2,
        NOT = -1
    };

    (void)state;
    expect_address("youtu. be/status", NEAR, NOT, "youtu.be/status");
    expect_address("youtu. be/status", BLANK, NOT, "youtu.");
    expect_address("https:// www. old.com /a", MARK, NOT, "https://www.old.com/a");
    expect_address("localhost :80/a", MARK, NOT, "localhost:80/a");
    expect_address("x.de/?id=5 1", ONE, NOT, "x.de/?id=51");
    expect_address("x.de/?id=5 2", ONE, NOT, "x.de/?id=5");
    expect_address("x.de/a is", NEAR, NOT, "x.de/a");
    expect_address("x.de/a. Then", NEAR, NOT, "x.de/a.");
    expect_address("x.de/a #tag", NEAR, NOT, "x.de/a");
    expect_address("4.5/5 =", NEAR, NOT, "4.5/5");
    expect_address("12", NEAR, NOT, "12");
    expect_address("10,20,30,40", NEAR, NOT, "10,20,30,40");
    expect_address("1.2,3,4,5", NEAR, NOT, "1.2,3,4,5");
    expect_address("http.get(a,b);//x", NEAR, NOT, "http.get(a,b);//x");
    expect_address("The end. and/or", NEAR, NOT, "The");
    expect_address("https;//old,de/a,b", NEAR, NOT, "https://old.de/a,b");
    expect_address("192.168.7,224:80/", NEAR, NOT, "192.168.7.224:80/");
    expect_address("192.168.7,924:80/", NEAR, NOT, "192.168.7,924:80/");
    expect_address("x.de/?q=oldtbat", NEAR, 11, "x.de/?q=old+bat");
    expect_address("x.de/?q=oldtbat", NEAR, NOT, "x.de/?q=oldtbat");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_have_the_blanks_and_points_of_their_ink),
        cmocka_unit_test(test_an_address_is_one_word_with_its_own_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
