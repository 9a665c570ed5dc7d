#include "common/store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ID "0198c0de-0000-7000-8000-00000000000a"
#define TEAM "0198c0de-0000-7000-8000-00000000000b"

static void test_whose_key(void **state)
{
    (void)state;
    char id[CV_OBJECT_ID_SIZE] = "";
    for (int place = 0; place < CV_OBJECT_PLACE_COUNT; place++) {
        char key[200];
        (void)snprintf(key, sizeof(key), "%s" ID "/x/y.jpg",
                       cv_object_prefix((enum cv_object_place)place));
        assert_true(cv_object_video((enum cv_object_place)place, key, id));
        assert_string_equal(id, ID);
        key[0] ^= 1;
        assert_false(cv_object_video((enum cv_object_place)place, key, id));
    }
    static const char *const strays[] = {
        "frames/",
        "frames/" ID,
        "frames/" ID "x/1.jpg",
        "frames/x/1.jpg",
        "frames/" ID "0/1",
        "frames/0198C0DE-0000-7000-8000-00000000000A/1.jpg",
        "thumbs/" ID "/1.jpg",
        "",
    };
    for (size_t i = 0; i < CV_COUNT(strays); i++) {
        assert_false(cv_object_video(CV_OBJECT_FRAMES, strays[i], id));
    }
}

static void test_the_type_follows_from_the_key(void **state)
{
    (void)state;
    static const char *const types[][2] = {
        {"v/a.mp4", "video/mp4"},
        {"x.M3U8", "application/vnd.apple.mpegurl"},
        {"poster.webp", "image/webp"},
        {"poster.jpg", "image/jpeg"},
        {"mp4", CV_MEDIA_TYPE_UNKNOWN},
        {"a.mp4/b", CV_MEDIA_TYPE_UNKNOWN},
        {"a.mp4.html", CV_MEDIA_TYPE_UNKNOWN},
        {"a.html", CV_MEDIA_TYPE_UNKNOWN},
        {"a.xhtml", CV_MEDIA_TYPE_UNKNOWN},
        {"a.svg", CV_MEDIA_TYPE_UNKNOWN},
        {"a.xml", CV_MEDIA_TYPE_UNKNOWN},
        {"a.js", CV_MEDIA_TYPE_UNKNOWN},
        {"a.pdf", CV_MEDIA_TYPE_UNKNOWN},
    };
    for (size_t i = 0; i < CV_COUNT(types); i++) {
        assert_string_equal(cv_media_type(types[i][0]), types[i][1]);
    }
}

static void test_what_is_an_original(void **state)
{
    (void)state;
    char id[CV_OBJECT_ID_SIZE] = "";
    assert_true(cv_object_is_original("videos/original/" ID "/master.mp4", id));
    assert_string_equal(id, ID);
    static const char *const others[] = {
        "videos/original/" ID "/master.",      "videos/original/" ID "/master",
        "videos/original/" ID "/masterx.mp4",  "videos/original/" ID "/a/master.mp4",
        "videos/original/" ID "/master.mp4/x", "videos/proxy/" ID "/master.mp4",
        "videos/original/master.mp4",
    };
    for (size_t i = 0; i < CV_COUNT(others); i++) {
        assert_false(cv_object_is_original(others[i], id));
    }
}

static void test_inbox(void **state)
{
    (void)state;
    static const struct {
        const char *key, *owner, *team, *extension, *name;
        enum cv_inbox_verdict verdict;
    } cases[] = {
        {"inbox/a.mp4", "", "", "mp4", "a.mp4", CV_INBOX_VIDEO},
        {"inbox/a.b.MKV", "", "", "mkv", "a.b.MKV", CV_INBOX_VIDEO},
        {"inbox/" ID "/a.webm", ID, "", "webm", "a.webm", CV_INBOX_VIDEO},
        {"inbox/0198C0DE-0000-7000-8000-00000000000A/a.ts", ID, "", "ts", "a.ts", CV_INBOX_VIDEO},
        {"inbox/" ID "/" TEAM "/a.mov", ID, TEAM, "mov", "a.mov", CV_INBOX_VIDEO},
        {"inbox/" ID "/" TEAM "/x/a.mov", ID, TEAM, "mov", "a.mov", CV_INBOX_VIDEO},
        {"inbox/" ID "/x/" TEAM "/a.mov", ID, "", "mov", "a.mov", CV_INBOX_VIDEO},
        {"inbox/" ID ".mp4", "", "", "mp4", ID ".mp4", CV_INBOX_VIDEO},
        {"inbox/bob/a.mp4", NULL, NULL, NULL, NULL, CV_INBOX_NO_OWNER},
        {"inbox/" ID "x/a.mp4", NULL, NULL, NULL, NULL, CV_INBOX_NO_OWNER},
        {"inbox/a.txt", NULL, NULL, NULL, NULL, CV_INBOX_OTHER},
        {"inbox/mp4", NULL, NULL, NULL, NULL, CV_INBOX_OTHER},
        {"inbox/.mp4", NULL, NULL, NULL, NULL, CV_INBOX_OTHER},
        {"inbox/a.mp4.part", NULL, NULL, NULL, NULL, CV_INBOX_OTHER},
        {"inbox/a.", NULL, NULL, NULL, NULL, CV_INBOX_OTHER},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_inbox_key key;
        assert_int_equal(cv_inbox_read(cases[i].key, &key), cases[i].verdict);
        if (cases[i].verdict == CV_INBOX_VIDEO) {
            assert_string_equal(key.owner_id, cases[i].owner);
            assert_string_equal(key.team_id, cases[i].team);
            assert_string_equal(key.extension, cases[i].extension);
            assert_string_equal(key.name, cases[i].name);
        }
    }
}

static void test_people_see_no_keys(void **state)
{
    static const struct {
        const char *message, *shown;
    } cases[] = {
        {"frames/" ID "/120.jpg is missing in the store",
         "a kept frame of the video is missing in the store"},
        {"HEAD s3://bucket/some/prefix/videos/original/" ID "/master.mp4: it answers 403 (lines/" ID
         "/1.pack)",
         "HEAD the original of the video: it answers 403 (the kept lines of the video)"},
        {"dir:/srv/store/thumbs/" ID "/poster.webp, \"videos/clips/" ID "/" TEAM ".mp4\".",
         "a picture for the seek bar, \"the clip\"."},
        {"240 frames/s of frames/ and lines/x stay: a.mp4 (1:2)",
         "240 frames/s of frames/ and lines/x stay: a.mp4 (1:2)"},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_error error;
        (void)snprintf(error.message, sizeof(error.message), "%s", cases[i].message);
        cv_hide_keys(error.message);
        assert_string_equal(error.message, cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whose_key),
        cmocka_unit_test(test_what_is_an_original),
        cmocka_unit_test(test_the_type_follows_from_the_key),
        cmocka_unit_test(test_inbox),
        cmocka_unit_test(test_people_see_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
