/* Words to lines: blanks as each script has them, emoji at their places, order as the line is read. */
#include "tests/unit/ocr_pictures.h"
#include "workers/ocr/reading/choose_words.h"
#include "workers/ocr/reading/line_text.h"
#include "workers/ocr/reading/word_boxes.h"
#include "workers/ocr/reading/word_corrections.h"

#include <string.h>

enum { TALL = 28, WIDTH = 1000, WORDS = 8 };

static const struct ocr_line_picture plain_picture = {.width = WIDTH, .tall = TALL};

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
        struct ocr_word word = {.text = text + strspn(text, " ?"),
                                .left = given[i].left,
                                .right = given[i].right,
                                .sure = 0.9,
                                .blank = text[0] == ' '   ? OCR_BLANK_READ
                                         : text[0] == '?' ? OCR_BLANK_BY_ROOM
                                                          : OCR_BLANK_NONE};
        (void)snprintf(word.language, sizeof(word.language), "%s",
                       given[i].language ? given[i].language : "eng");
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    }
    struct ocr_line_picture picture = {
        .width = WIDTH, .tall = TALL, .inserts = inserts, .insert_count = insert_count};
    assert_int_equal(ocr_words_join(&words, &picture, reading, &error), 0);
    return reading->text;
}

/* A word begins with a blank if its model has read one before it, and with "?" if the word
 * before it is of another model. */
static void test_blanks_are_those_of_the_model(void **state)
{
    (void)state;
    static const struct {
        struct given words[WORDS];
        const char *line;
    } cases[] = {
        {{{"two", 0, 50, NULL}, {"words", 51, 99, NULL}}, "two words"},
        {{{"東京", 0, 60, NULL}, {"駅", 75, 100, NULL}, {"か", 115, 130, NULL}}, "東京駅か"},
        {{{"今日", 0, 60, NULL}, {"明日", 100, 160, NULL}}, "今日 明日"},
        {{{"を", 0, 30, NULL}, {" 3", 32, 44, NULL}, {" 台", 46, 74, NULL}}, "を 3 台"},
        {{{"包", 0, 28, NULL}, {":", 40, 44, NULL}}, "包:"},
        {{{"오", 0, 28, NULL}, {"늘", 38, 66, NULL}, {" 날", 70, 98, NULL}}, "오늘 날"},
        {{{"를", 0, 28, NULL}, {"?pass", 40, 99, NULL}}, "를 pass"},
        {{{"를", 0, 28, NULL}, {"?pass", 31, 90, NULL}}, "를pass"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
        assert_string_equal(join(cases[i].words, NULL, 0, &reading), cases[i].line);
    }
}

struct read_word {
    const char *text, *language;
    int left, right;
    double sure;
    bool is_listed;
};

static void add_read(const struct read_word *given, struct ocr_words *words)
{
    struct cv_error error;

    for (; given->text; given++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s", given->text);
        struct ocr_word word = {.text = text,
                                .left = given->left,
                                .right = given->right,
                                .sure = given->sure,
                                .blank = OCR_BLANK_NONE,
                                .is_listed = given->is_listed};
        (void)snprintf(word.language, sizeof(word.language), "%s", given->language);
        assert_int_equal(ocr_words_add(words, &word, &error), 0);
    }
}

/* As the models read the lines "Открыть Main Scenario", "pass 처리", "模拟器 2000", "מחיר USB Hub"
 * and 无法启动; the boxes of the last one's characters change places. */
static void test_each_word_is_of_the_model_that_reads_it_best(void **state)
{
    (void)state;
    static const struct {
        struct read_word first[WORDS], second[WORDS];
        const char *line;
    } cases[] = {
        {{{"Открыть", "rus", 0, 170, 0.96, true},
          {"Мат", "rus", 190, 275, 0.73, true},
          {"5$сепайо", "rus", 290, 455, 0.44, false}},
         {{"OTKpbITb", "eng", 0, 170, 0.52, false},
          {"Main", "eng", 190, 275, 0.96, true},
          {"Scenario", "eng", 290, 455, 0.96, true}},
         "Открыть Main Scenario"},
        {{{"0855", "kor", 0, 80, 0.85, false}, {"처리", "kor", 100, 160, 0.96, true}},
         {{"pass", "eng", 0, 80, 0.93, true}, {"X2|", "eng", 100, 160, 0.2, false}},
         "pass 처리"},
        {{{"模拟", "chi_sim", 0, 60, 0.96, true},
          {"器", "chi_sim", 62, 90, 0.93, false},
          {"2008", "chi_sim", 110, 190, 0.88, false}},
         {{"Bus", "eng", 0, 90, 0.52, false}, {"2000", "eng", 110, 190, 0.96, false}},
         "模拟器 2000"},
        {{{"מחיר", "heb", 300, 400, 0.93, true}, {"₪1", "heb", 100, 280, 0.1, false}},
         {{"USB", "eng", 100, 180, 0.96, true},
          {"Hub", "eng", 200, 280, 0.96, true},
          {"vnn", "eng", 300, 400, 0.1, false}},
         "מחיר USB Hub"},
        {{{"无", "chi_sim", 0, 28, 0.95, false},
          {"法", "chi_sim", 40, 60, 0.95, false},
          {"启动", "chi_sim", 20, 90, 0.95, true}},
         {{"Aikiaa", "eng", 0, 90, 0.1, false}},
         "无法启动"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words first = {0}, second = {0};
        cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
        struct cv_error error;
        add_read(cases[i].first, &first);
        add_read(cases[i].second, &second);
        assert_true(i == CV_COUNT(cases) - 1 || ocr_words_are_doubtful(&first));
        assert_int_equal(ocr_words_choose(&first, &second, TALL, &error), 0);
        assert_int_equal(ocr_words_join(&first, &plain_picture, &reading, &error), 0);
        assert_string_equal(reading.text, cases[i].line);
    }
}

static void test_a_line_that_is_read_surely_is_read_by_one_model(void **state)
{
    (void)state;
    static const struct read_word sure[][WORDS] = {
        {{"Сценарий", "rus", 0, 200, 0.96, true}},
        {{"서", "kor", 0, 28, 0.93, false}, {"울", "kor", 30, 58, 0.93, false}},
        {{"Settings", "eng", 0, 200, 0.96, true}, {"12:30", "eng", 220, 330, 0.95, false}},
    };
    for (size_t i = 0; i < CV_COUNT(sure); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        add_read(sure[i], &words);
        assert_false(ocr_words_are_doubtful(&words));
    }
}

/* A dash is read as a numeral, an icon as a short word, a terminal's line with a Thai letter here and there; where Latin
 * letters are most, or are unsure, nothing is proven. */
static void test_words_prove_a_script(void **state)
{
    static const struct {
        const char *model;
        struct read_word words[4];
        double least, most; /* letters */
    } cases[] = {
        {"chi_sim",
         {{"一", "chi_sim", 0, 20, 0.9, true}, {"一", "chi_sim", 24, 44, 0.9, true}},
         0,
         0},
        {"chi_sim",
         {{"无法", "chi_sim", 0, 44, 0.97, true}, {"一", "chi_sim", 48, 68, 0.9, true}},
         3.5,
         4},
        {"rus", {{"Статус", "rus", 0, 100, 0.96, true}, {"OK", "eng", 110, 140, 0.9, true}}, 5, 6},
        {"rus", {{"Мат", "rus", 0, 50, 0.9, true}, {"Scenario", "eng", 60, 160, 0.9, true}}, 0, 0},
        {"rus", {{"Зсепапо", "rus", 0, 100, 0.6, false}}, 0, 0},
        {"ukr", {{"Статус", "rus", 0, 100, 0.96, true}}, 0, 0},
        {"vie", {{"thông", "vie", 0, 100, 0.96, true}}, 3.5, 5},
        {"tha", {{"ก", "tha", 0, 20, 0.9, false}, {"None", "eng", 30, 80, 0.9, true}}, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        add_read(cases[i].words, &words);
        double letters = ocr_words_letters_by(&words, cases[i].model, &text);
        assert_true(letters >= cases[i].least && letters <= cases[i].most);
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
    cv_auto(ocr_reading_deinit) struct ocr_reading empty = {0}, mixed = {0};

    assert_string_equal(join(none, NULL, 0, &empty), "");
    assert_true(empty.confidence == 0 && empty.worst_word == 0);
    (void)join(words, NULL, 0, &mixed);
    assert_string_equal(mixed.language, "deu");
    assert_true(mixed.confidence > 0.899 && mixed.confidence < 0.901);
}

/* A line of ink without smoothing: the boxes of its words, as drawn one by one, to the pixel. */
static void test_each_word_has_its_box(void **state)
{
    (void)state;
    static const char *const words[] = {"will", "MW", "see:", "you", "at", "12.30", "tomorrow"};
    struct cv_frame frame = new_frame(900, 60, white);
    struct cv_box boxes[CV_COUNT(words)];
    char text[64] = "";
    int x = 10;

    for (size_t i = 0; i < CV_COUNT(words); i++) {
        boxes[i] = draw_text(&frame, words[i], x, 10, 24, black);
        x = cv_box_right(&boxes[i]) + 9;
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
                       words[i]);
    }
    struct ocr_crop crop = {.width = cv_box_right(&boxes[CV_COUNT(words) - 1]) - 10, .height = 60};
    crop.grey = malloc((size_t)crop.width * 60);
    assert_non_null(crop.grey);
    for (int y = 0; y < 60; y++) {
        memcpy(crop.grey + (size_t)y * (size_t)crop.width,
               frame.plane[CV_GREEN] + (size_t)y * 900 + 10, (size_t)crop.width);
    }
    json_t *places = ocr_word_boxes(&crop, text);
    assert_int_equal(json_array_size(places), 2 * CV_COUNT(words));
    for (size_t i = 0; i < CV_COUNT(words); i++) {
        int left = (int)json_integer_value(json_array_get(places, 2 * i)) * crop.width / 1000;
        int width = (int)json_integer_value(json_array_get(places, 2 * i + 1)) * crop.width / 1000;
        assert_in_range(left + 3 - (boxes[i].x - 10), 0, 6);
        assert_in_range(width + 3 - boxes[i].width, 0, 6);
    }
    json_decref(places);
    places = ocr_word_boxes(&crop, "");
    assert_int_equal(json_array_size(places), 0);
    json_decref(places);
    ocr_crop_deinit(&crop);
    cv_frame_deinit(&frame);
}

/* More words than runs of ink, more than there is room for, and none at all. */
static void test_words_without_ink_are_laid_out_by_length(void **state)
{
    (void)state;
    uint8_t levels[100];
    struct ocr_crop crop = {.width = 100, .height = 1, .grey = levels};
    char many[1024];

    memset(levels, 0, sizeof(levels));
    json_t *places = ocr_word_boxes(&crop, "aaaa bb אב");
    assert_int_equal(json_array_size(places), 6);
    assert_int_equal(json_integer_value(json_array_get(places, 0)), 0);
    assert_in_range(json_integer_value(json_array_get(places, 1)), 400, 500);
    json_decref(places);
    places = ocr_word_boxes(&crop, "אבגד ab");
    assert_true(json_integer_value(json_array_get(places, 0)) > 300);
    assert_int_equal(json_integer_value(json_array_get(places, 2)), 0);
    json_decref(places);
    for (size_t i = 0; i < sizeof(many); i++) {
        many[i] = i % 2 ? ' ' : 'a';
    }
    many[sizeof(many) - 1] = '\0';
    places = ocr_word_boxes(&crop, many);
    assert_int_equal(json_array_size(places), 0);
    json_decref(places);
}

static char *without_icons(const struct given *given, double sure, struct ocr_reading *reading)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct cv_error error;

    for (size_t i = 0; i < WORDS && given[i].text; i++) {
        struct ocr_word word = {.text = (char *)given[i].text,
                                .left = given[i].left,
                                .right = given[i].right,
                                .sure = i ? 0.95 : sure};
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    }
    ocr_words_drop_icons(&words, &(struct ocr_line_picture){.tall = TALL});
    assert_int_equal(ocr_words_join(&words, &plain_picture, reading, &error), 0);
    return reading->text;
}

static void test_icons_beside_a_line_are_no_words(void **state)
{
    (void)state;
    static const struct {
        struct given words[WORDS];
        double sure; /* of the first word */
        const char *line;
    } cases[] = {
        {{{"&", 0, 30, NULL}, {"Inbox", 50, 140, NULL}}, 0.95, "Inbox"},
        {{{"GB", 0, 36, NULL}, {"2024--tools.md", 48, 300, NULL}}, 0.3, "2024--tools.md"},
        {{{"Q", 0, 30, NULL}, {"Search", 62, 180, NULL}, {"mail", 192, 240, NULL}},
         0.9,
         "Search mail"},
        {{{"Hits", 0, 60, NULL}, {"«", 90, 110, NULL}}, 0.9, "Hits"},
        {{{"a", 0, 15, NULL}, {"all", 40, 70, NULL}}, 0.8, "a all"},
        {{{"27", 0, 40, NULL}, {"ms", 58, 110, NULL}}, 0.1, "27 ms"},
        {{{"I", 0, 8, NULL}, {"am", 18, 60, NULL}, {"here", 70, 140, NULL}}, 0.9, "I am here"},
        {{{"в", 0, 15, NULL}, {"доме", 25, 90, NULL}}, 0.4, "в доме"},
        {{{"&", 0, 30, NULL}}, 0.9, "&"},
        {{{"Carrier", 0, 100, NULL}, {">", 112, 112 + 2 * TALL, NULL}}, 0.9, "Carrier"},
        {{{"Home", 0, 80, NULL}, {">", 92, 92 + TALL / 2, NULL}}, 0.9, "Home >"},
        {{{">", 0, TALL, NULL}, {"14.95", 42, 110, NULL}}, 0.9, "> 14.95"},
        {{{">", 0, TALL, NULL}, {"Reply", 42, 110, NULL}}, 0.9, "Reply"},
        {{{"-", 0, 10, NULL}, {"4.6", 24, 80, NULL}}, 0.3, "- 4.6"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
        assert_string_equal(without_icons(cases[i].words, cases[i].sure, &reading), cases[i].line);
    }
}

enum { CELL = 24 };

/* How wide a letter is, and what it advances, where widths are the letters' own. */
static int width_of(char letter)
{
    return strchr("il.:|' ", letter) ? 6 : strchr("mwMW@", letter) ? 24 : 14;
}

/* Reads a line as words that end where `marked` has a bar, and looks at what its cells make of them. `^` says that the
 * letter behind it stands in the cell of the one before; it is less sure. */
static void expect_joined(const char *marked, bool proportional, const char *wanted)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    struct cv_error error;
    int x = 20;

    for (const char *from = marked; *from;) {
        size_t length = strcspn(from, "|");
        char text[64] = "";
        struct ocr_word word = {.text = text, .first_symbol = words.symbol_count, .sure = 0.9};
        for (size_t i = 0; i < length; i++) {
            bool is_twice = from[i] == '^';
            i += is_twice;
            int width = proportional ? width_of(from[i]) : is_twice ? 10 : 14;
            int left = is_twice ? x - 14 : x + 4;
            struct ocr_symbol symbol = {.text = {from[i], '\0'},
                                        .left = left,
                                        .right = left + width,
                                        .bottom = 20,
                                        .sure = is_twice ? 0.8 : 0.9};
            if (from[i] != ' ') {
                assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
                strcat(text, symbol.text);
                word.left = word.left ? word.left : symbol.left;
                word.right = symbol.right;
            }
            x += is_twice ? 0 : proportional ? width + 2 : CELL;
        }
        word.symbol_count = words.symbol_count - word.first_symbol;
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
        from += length + (from[length] == '|');
    }
    assert_int_equal(ocr_words_join_cells(&words, &error), 0);
    assert_int_equal(ocr_words_join(&words, &plain_picture, &reading, &error), 0);
    assert_string_equal(reading.text, wanted);
}

static void test_letters_in_cells_have_blanks_where_a_cell_is_empty(void **state)
{
    (void)state;
    expect_joined("src/cache.|json: |the |list |of |lines", false,
                  "src/cache.json: the list of lines");
    expect_joined("see |https://|example.|org/a/path-2", false, "see https://example.org/a/path-2");
    expect_joined("src/cache.|json: |the |list |of |lines", true,
                  "src/cache. json: the list of lines");
    expect_joined("of |two", false, "of two");
}

static void test_a_cell_has_one_letter(void **state)
{
    (void)state;
    expect_joined("blob/5dcee1^l0e7104786b", false, "blob/5dcee10e7104786b");
    expect_joined("20231227^7T155938.md", false, "20231227T155938.md");
    expect_joined("tools/2022^T155938.md", false, "tools/202T155938.md");
    expect_joined("say |'^'quoted-word|'^' |now", false, "say \"quoted-word\" now");
}

static void test_numbers_have_no_letters_in_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a309ff8b426b58ecOe2a45fOf869", "a309ff8b426b58ec0e2a45f0f869"},
        {"blob/b5d41d4eld5dceealOe710/x", "blob/b5d41d4e1d5dceea10e710/x"},
        {"b426b58ec@e2a45f", "b426b58ec0e2a45f"},
        {"ge.json#L4@)", "ge.json#L40)"},
        {"(@-39):", "(0-39):"},
        {"v@.14.2", "v0.14.2"},
        {"blob/86b73624c18a190T/packa", "blob/86b73624c18a190f/packa"},
        {"https://git.example/setup—python", "https://git.example/setup-python"},
        {"fceSdce1-3e43-52c9-a0b1-0123456789ab", "fce5dce1-3e43-52c9-a0b1-0123456789ab"},
        {"load-2024-11-28", "load-2024-11-28"},
        {"2024-11-28-decode", "2024-11-28-decode"},
        {"lollipopolis", "lollipopolis"},
        {"deadbeefcafe", "deadbeefcafe"},
        {"anna2@example.org", "anna2@example.org"},
        {"@actions/cache2", "@actions/cache2"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        char text[64];
        struct cv_error error;
        (void)snprintf(text, sizeof(text), "%s", cases[i][0]);
        struct ocr_word word = {.text = text, .sure = 0.9};
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
        ocr_words_mend_codes(&words, &plain_picture);
        assert_string_equal(words.items[0].text, cases[i][1]);
    }
}

/* One digit as it was read, and the picture of it. */
static void expect_digit(const char *read, const char *const rows[12], const char *wanted)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct cv_error error;
    char text[2];
    uint8_t pixels[8 * 12];
    struct ocr_line_picture line = {.grey = pixels, .width = 8, .height = 12, .tall = 12};

    for (int i = 0; i < 8 * 12; i++) {
        pixels[i] = rows[i / 8][i % 8] == '#' ? 0 : 255;
    }
    (void)snprintf(text, sizeof(text), "%s", read);
    struct ocr_symbol symbol = {.text = {read[0], '\0'}, .right = 8, .bottom = 12};
    assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
    struct ocr_word word = {.text = text, .symbol_count = 1};
    assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    ocr_words_mend_codes(&words, &line);
    assert_string_equal(words.items[0].text, wanted);
}

static void test_a_slashed_or_dotted_zero_is_known_by_its_ink(void **state)
{
    (void)state;
    static const char *const slashed[] = {"  ####  ", " ##  ## ", "##    ##", "##   ###",
                                          "##   ###", "##  # ##", "## #  ##", "###   ##",
                                          "###   ##", "##    ##", " ##  ## ", "  ####  "};
    static const char *const dotted[] = {"  ####  ", " ##  ## ", "##    ##", "##    ##",
                                         "##    ##", "## ## ##", "## ## ##", "##    ##",
                                         "##    ##", "##    ##", " ##  ## ", "  ####  "};
    static const char *const eight[] = {"  ####  ", " ##  ## ", "##    ##", "##    ##",
                                        " ##  ## ", "  ####  ", "  ####  ", " ##  ## ",
                                        "##    ##", "##    ##", " ##  ## ", "  ####  "};
    static const char *const six[] = {"  ####  ", " ##  ## ", "##      ", "##      ",
                                      "## ###  ", "###  ## ", "##    ##", "##    ##",
                                      "##    ##", "##    ##", " ##  ## ", "  ####  "};

    expect_digit("8", slashed, "0");
    expect_digit("6", slashed, "0");
    expect_digit("8", dotted, "0");
    expect_digit("6", dotted, "0");
    expect_digit("9", dotted, "0");
    expect_digit("8", eight, "8");
    expect_digit("6", six, "6");
    expect_digit("7", slashed, "7");
}

static void test_signs_in_addresses_are_letters(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"alex®example.com", "alex@example.com"},
        {"®alena580", "@alena580"},
        {"©example.com", "©example.com"},
        {"Linux®", "Linux®"},
        {"€7104786b73624c18a190f/src", "e7104786b73624c18a190f/src"},
        {"€7104786", "€7104786"},
        {"https://Itgrail.example.org/QI71", "https://ltgrail.example.org/QI71"},
        {"https://ITGRAIL.EXAMPLE.ORG", "https://ITGRAIL.EXAMPLE.ORG"},
        {"Itgrail.example.org", "Itgrail.example.org"},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        char text[64];
        struct cv_error error;
        (void)snprintf(text, sizeof(text), "%s", cases[i][0]);
        struct ocr_word word = {.text = text, .sure = 0.9};
        assert_int_equal(ocr_words_add(&words, &word, &error), 0);
        assert_int_equal(ocr_words_mend_names(&words, &plain_picture, &error), 0);
        assert_string_equal(words.items[0].text, cases[i][1]);
    }
}

enum { LETTER_WIDTH = 8, LETTER_HEIGHT = 12 };

/* What was read from the picture of one letter, before a 9. */
static void expect_before_nine(const char *read, const char *const rows[LETTER_HEIGHT],
                               const char *wanted)
{
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct cv_error error;
    char text[8];
    uint8_t pixels[3 * LETTER_WIDTH * LETTER_HEIGHT];
    struct ocr_line_picture line = {
        .grey = pixels, .width = 3 * LETTER_WIDTH, .height = LETTER_HEIGHT, .tall = LETTER_HEIGHT};

    memset(pixels, 255, sizeof(pixels));
    for (int i = 0; i < LETTER_WIDTH * LETTER_HEIGHT; i++) {
        int x = i % LETTER_WIDTH, y = i / LETTER_WIDTH;
        pixels[y * line.width + x] = rows[y][x] == '#' ? 0 : 255;
    }
    (void)snprintf(text, sizeof(text), "%s9", read);
    for (size_t i = 0; text[i]; i++) {
        int left = text[i + 1] ? 0 : 2 * LETTER_WIDTH;
        struct ocr_symbol symbol = {.text = {text[i], '\0'},
                                    .left = left,
                                    .right = left + LETTER_WIDTH,
                                    .bottom = LETTER_HEIGHT};
        assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
    }
    struct ocr_word word = {.text = text, .symbol_count = strlen(text)};
    assert_int_equal(ocr_words_add(&words, &word, &error), 0);
    assert_int_equal(ocr_words_mend_names(&words, &line, &error), 0);
    assert_string_equal(words.items[0].text, wanted);
}

static void test_a_one_is_known_by_its_ink(void **state)
{
    (void)state;
    static const char *const one[] = {"   ##   ", "  ###   ", " ####   ", "   ##   ",
                                      "   ##   ", "   ##   ", "   ##   ", "   ##   ",
                                      "   ##   ", "   ##   ", "   ##   ", " ###### "};
    static const char *const ell[] = {"   ##   ", "   ##   ", "   ##   ", "   ##   ",
                                      "   ##   ", "   ##   ", "   ##   ", "   ##   ",
                                      "   ##   ", "   ##   ", "   ##   ", "   ##   "};
    static const char *const seven[] = {"########", "########", "########", "     ###",
                                        "     ## ", "    ### ", "    ##  ", "   ###  ",
                                        "   ##   ", "  ###   ", "  ##    ", " ###    "};

    expect_before_nine("1", one, "19");
    expect_before_nine("l", one, "19");
    expect_before_nine("I", one, "19");
    expect_before_nine("7", one, "19");
    expect_before_nine("l1", one, "19");
    expect_before_nine("1l", one, "19");
    expect_before_nine("l", ell, "l9");
    expect_before_nine("I", ell, "I9");
    expect_before_nine("7", seven, "79");
    expect_before_nine("s", seven, "59");
}

static void test_digits_belong_to_the_name_that_they_touch(void **state)
{
    (void)state;
    for (int gap = 7; gap <= 12; gap += 5) {
        cv_auto(ocr_words_deinit) struct ocr_words words = {0};
        struct cv_error error;
        char name[] = "@amira2", digits[] = "27";
        const char *const texts[] = {name, digits};
        for (int i = 0, x = 0; i < 2; i++) {
            size_t first = words.symbol_count;
            int left = x;
            for (const char *at = texts[i]; *at; at++, x += 20) {
                struct ocr_symbol symbol = {.text = {*at, '\0'}, .left = x, .right = x + 20};
                assert_int_equal(ocr_words_add_symbol(&words, &symbol, &error), 0);
            }
            struct ocr_word word = {.text = i ? digits : name,
                                    .left = left,
                                    .right = x,
                                    .first_symbol = first,
                                    .symbol_count = strlen(texts[i])};
            assert_int_equal(ocr_words_add(&words, &word, &error), 0);
            x += gap;
        }
        assert_int_equal(ocr_words_mend_names(&words, &plain_picture, &error), 0);
        assert_string_equal(words.items[0].text, gap == 7 ? "@amira227" : "@amira2");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blanks_are_those_of_the_model),
        cmocka_unit_test(test_each_word_is_of_the_model_that_reads_it_best),
        cmocka_unit_test(test_a_line_that_is_read_surely_is_read_by_one_model),
        cmocka_unit_test(test_words_prove_a_script),
        cmocka_unit_test(test_emoji_stand_where_the_line_has_them),
        cmocka_unit_test(test_each_word_has_its_box),
        cmocka_unit_test(test_words_without_ink_are_laid_out_by_length),
        cmocka_unit_test(test_marks_of_direction_are_no_text),
        cmocka_unit_test(test_a_line_is_as_sure_as_its_words),
        cmocka_unit_test(test_icons_beside_a_line_are_no_words),
        cmocka_unit_test(test_letters_in_cells_have_blanks_where_a_cell_is_empty),
        cmocka_unit_test(test_a_cell_has_one_letter),
        cmocka_unit_test(test_numbers_have_no_letters_in_them),
        cmocka_unit_test(test_a_slashed_or_dotted_zero_is_known_by_its_ink),
        cmocka_unit_test(test_signs_in_addresses_are_letters),
        cmocka_unit_test(test_a_one_is_known_by_its_ink),
        cmocka_unit_test(test_digits_belong_to_the_name_that_they_touch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
