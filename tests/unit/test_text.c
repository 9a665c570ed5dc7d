#include "common/text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct cv_entity_extractor *extractor;

static int make_extractor(void **state)
{
    (void)state;
    struct cv_error error;
    int result = cv_entity_extractor_new(&extractor, &error);
    if (result < 0) {
        print_error("%s\n", error.message);
    }
    return result;
}

static int free_extractor(void **state)
{
    (void)state;
    cv_entity_extractor_free(extractor);
    return 0;
}

/* `expected` lists what is found as "type value=normalized", one a line; "=normalized" is left out
 * where it equals the value. */
static void expect_entities(const char *text, const char *expected)
{
    struct cv_error error;
    cv_auto(cv_entity_list_deinit) struct cv_entity_list list = {0};
    assert_int_equal(cv_entity_extract(extractor, text, &list, &error), 0);
    cv_auto(cv_buffer_deinit) struct cv_buffer found = CV_BUFFER_INIT;
    cv_buffer_text(&found, "");
    for (size_t i = 0; i < list.count; i++) {
        const struct cv_entity *entity = &list.entities[i];
        cv_buffer_printf(&found, "%s%s %s", i ? "\n" : "", entity->type, entity->value);
        if (entity->normalized_value && strcmp(entity->value, entity->normalized_value) != 0) {
            cv_buffer_printf(&found, "=%s", entity->normalized_value);
        }
    }
    if (strcmp(found.data ? found.data : "", expected) != 0) {
        fail_msg("in \"%s\"\nfound:\n%s\nexpected:\n%s", text, found.data, expected);
    }
}

struct entity_case {
    const char *text;
    const char *expected;
};

static void expect_all(const struct entity_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_entities(cases[i].text, cases[i].expected);
    }
}

static void test_mentions_and_hashtags(void **state)
{
    (void)state;
    static const struct entity_case cases[] = {
        {"harbour looks amazing. @dev_marcus", "mention @dev_marcus"},
        {"(@Anna_Weber), @x: @jonas.k!", "mention @Anna_Weber\nmention @x\nmention @jonas"},
        {"anna.weber@example.org a@b @@twice", ""},
        {"ありがとう@oskar_b さん", "mention @oskar_b"},
        {"#BerlinNights!", "hashtag #BerlinNights"},
        {"#48213 #caf\xC3\xA9. #stra\xC3\x9F"
         "e",
         "hashtag #48213\nhashtag #caf\xC3\xA9\nhashtag #stra\xC3\x9F"
         "e"},
        {"#東京タワー、#москва #مرحبا #हिन्दी",
         "hashtag #東京タワー\nhashtag #москва\nhashtag #مرحبا\nhashtag #हिन्दी"},
        {"＃全角", "hashtag ＃全角"},
        {"C# a#b ##x &#39; # alone", ""},
    };
    expect_all(cases, CV_COUNT(cases));
}

static void test_urls(void **state)
{
    (void)state;
    static const struct entity_case cases[] = {
        {"see https://example.org/menu, now", "url https://example.org/menu"},
        {"www.harbour-tickets.com. Next", "url www.harbour-tickets.com"},
        {"(example.net/join)", "url example.net/join"},
        {"https://en.wikipedia.org/wiki/Foo_(bar)) x",
         "url https://en.wikipedia.org/wiki/Foo_(bar)"},
        {"HTTPS://Example.COM/PaTh?Q=1",
         "url HTTPS://Example.COM/PaTh?Q=1=https://example.com/PaTh?Q=1"},
        {"https://news.example.com/2024/05/storm", "url https://news.example.com/2024/05/storm"},
        {"詳細はhttps://example.org/menu、です", "url https://example.org/menu"},
        {"https://example.org/menu😍", "url https://example.org/menu\nemoji 😍"},
        {"https://example.org/@name#tag", "url https://example.org/@name#tag"},
        {"go to github.com today", "url github.com"},
        {"it is done.it ends amazing.in the end", ""},
        {"Node.js report.pdf jonas.k theo.builds etc.", ""},
        {"me@example.org", ""},
        {"www. alone http:// alone", ""},
    };
    expect_all(cases, CV_COUNT(cases));
}

static void test_emoji(void **state)
{
    (void)state;
    static const struct entity_case cases[] = {
        {"☕ 762", "emoji ☕\nnumber 762"},
        {"😭✨", "emoji 😭\nemoji ✨"},
        {"👩‍💻 👨‍👩‍👧‍👦",
         "emoji 👩‍💻\nemoji 👨‍👩‍👧‍👦"},
        {"👍🏽🇩🇪🇫🇷", "emoji 👍🏽\nemoji 🇩🇪\nemoji 🇫🇷"},
        {"1️⃣ #️⃣", "emoji 1️⃣\nemoji #️⃣"},
        {"🏴󠁧󠁢󠁥󠁮󠁧󠁿", "emoji 🏴󠁧󠁢󠁥󠁮󠁧󠁿"},
        {"❤️ ❤", "emoji ❤️\nemoji ❤"},
        {"© ® ™ # * → ▶ ✓", ""},
        {"©️ ™️", "emoji ©️\nemoji ™️"},
        {"☎︎", ""},
    };
    expect_all(cases, CV_COUNT(cases));
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct entity_case cases[] = {
        {"Tickets from $24.50 at the door", "number $24.50=24.50 USD"},
        {"€5,50", "number €5,50=5.50 EUR"},
        {"1.204,50 €", "number 1.204,50 €=1204.50 EUR"},
        {"1,204.50 USD", "number 1,204.50 USD=1204.50 USD"},
        {"CHF 1'204.50", "number CHF 1'204.50=1204.50 CHF"},
        {"12 300 €", "number 12 300 €=12300 EUR"},
        {"1\xE2\x80\xAF"
         "204 vues",
         "number 1\xE2\x80\xAF"
         "204=1204"},
        {"価格は¥1,200です", "number ¥1,200=1200 JPY"},
        {"1.2K 3,4 Mio 2 Mrd. 10万",
         "number 1.2K=1200\nnumber 3,4 Mio=3400000\nnumber 2 Mrd.=2000000000\nnumber "
         "10万=100000"},
        {"€1.2M $1.5bn 0.5k",
         "number €1.2M=1200000 EUR\nnumber $1.5bn=1500000000 USD\nnumber 0.5k=500"},
        {"42% 3.5 % -5 °C", "number 42%=42 %\nnumber 3.5 %\nnumber -5 °C"},
        {"1,204 1.204 1.204.567 0.123",
         "number 1,204=1204\nnumber 1.204=1204\nnumber 1.204.567=1204567\nnumber 0.123"},
        {"+49 30 901820 😭", "number +49 30 901820=+4930901820\nemoji 😭"},
        {"0171-1234567, (555) 123-4567", "number 0171-1234567=01711234567\nnumber (555) "
                                         "123-4567=5551234567"},
        {"06 12 34 56 78", "number 06 12 34 56 78=0612345678"},
        {"+49 30 901820 42%", "number +49 30 901820=+4930901820\nnumber 42%=42 %"},
        {"61 comments 6h", "number 61\nnumber 6h=6 h"},
        {"١٢٣٫٥ ۱۲۳ १२३", "number ١٢٣٫٥=123.5\nnumber ۱۲۳=123\nnumber १२३=123"},
        {"9:41 12.03.1994 2024-05-03 5/3/24 18h30 9.30 Uhr 24/7", ""},
        {"1.12.3 192.168.0.1 1920x1080 v2.0", ""},
        {"5G mp4 B2B COVID-19 IMG_1234.jpg 42.pdf 1st rideout_23", ""},
        {"2-1 5\xE2\x80\x93"
         "10",
         "number 2\nnumber 1\nnumber 5\nnumber 10"},
    };
    expect_all(cases, CV_COUNT(cases));
}

/* No text makes extraction slow or large; the limits that see to it are counted in steps, not in
 * time. */
static void test_hostile_text(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "a",      "1",   "1.",      "1,",  "@",    "#",    "a.",       "a-",      "(",
        ")",      "+1 ", "👩‍", "a@",  "a.b@", "\xFF", "\xC2\xA0", "http://", "https://a.b/(",
        "1 234 ", "🇩",   "www.a.",  "-1-", "$1",   "1:",   "١"};
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(seeds); i++) {
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        while (text.length + strlen(seeds[i]) <= 1000000) {
            cv_buffer_text(&text, seeds[i]);
        }
        assert_false(text.failed);
        cv_auto(cv_entity_list_deinit) struct cv_entity_list list = {0};
        assert_int_equal(cv_entity_extract(extractor, text.data, &list, &error), 0);
        assert_true(list.count <= 500);
    }
    cv_auto_free char *endless = malloc((2 << 20) + 1);
    assert_non_null(endless);
    memset(endless, 'x', 2 << 20);
    endless[2 << 20] = '\0';
    struct cv_entity_list list = {0};
    assert_true(cv_entity_extract(extractor, endless, &list, &error) < 0);
    assert_int_equal(error.type, CV_ERROR_LIMIT_EXCEEDED);
}

static void test_a_path_keeps_what_moves_and_what_rests(void **state)
{
    (void)state;
    struct cv_path path = {0};
    struct cv_error error;

    /* At rest to 1000 ms, then 7 pixels a frame, then at rest again. */
    assert_int_equal(cv_path_add(&path, 0, 5, 900, &error), 0);
    for (int i = 1; i <= 50; i++) {
        assert_int_equal(cv_path_add(&path, 1000 + i * 33, 5, 900 - 7 * i, &error), 0);
    }
    assert_int_equal(cv_path_add(&path, 2000, 5, 0, &error), 0); /* not later: left out */
    cv_path_simplify(&path);
    assert_in_range(path.count, 3, 4);
    assert_int_equal(path.items[1].y, 900);
    assert_in_range(path.items[1].t_ms, 1010, 1020);
    assert_int_equal(path.items[path.count - 1].t_ms, 2650);
    assert_int_equal(path.items[path.count - 1].y, 550);
    cv_path_deinit(&path);

    /* To and fro without end: few points, and none of them later than the last sighting. */
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(cv_path_add(&path, i * 33, 0, i % 2 * 100, &error), 0);
    }
    cv_path_simplify(&path);
    assert_in_range(path.count, 1, CV_PATH_POINTS_MAX);
    cv_path_deinit(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_path_keeps_what_moves_and_what_rests),
        cmocka_unit_test(test_mentions_and_hashtags),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_emoji),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_hostile_text),
    };
    return cmocka_run_group_tests_name("text", tests, make_extractor, free_extractor);
}
