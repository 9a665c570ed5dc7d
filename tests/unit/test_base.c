#include "common/base/base.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_errors_keep_type_verdict_and_message(void **state)
{
    (void)state;
    struct cv_error error;
    assert_int_equal(cv_fail(&error, CV_ERROR_INVALID_PAYLOAD, "key %s\nis missing\n", "x"), -1);
    assert_int_equal(error.verdict, CV_VERDICT_PERMANENT);
    assert_string_equal(error.message, "key x is missing");
    assert_int_equal(cv_fail_context(&error, -7, "payload"), -7);
    assert_string_equal(error.message, "payload: key x is missing");
    assert_int_equal(cv_fail_errno(&error, ENOSPC, "write"), -1);
    assert_int_equal(error.type, CV_ERROR_DISK_FULL);
    assert_int_equal(error.verdict, CV_VERDICT_RETRY);
    assert_string_equal(error.message, "write: the disk is full");
}

static void test_a_full_disk_is_called_so_whoever_reports_it(void **state)
{
    (void)state;
    static const struct {
        const char *reported, *message;
    } cases[] = {
        {"could not extend file \"base/5/1\": No space left on device",
         "could not extend file \"base/5/1\": the disk is full"},
        {"the object store answers 507 XMinioStorageFull",
         "the disk is full: the object store answers 507 XMinioStorageFull"},
        {"write x: Disk quota exceeded", "write x: Disk quota exceeded"},
        {"the disk is full: y", "the disk is full: y"},
    };
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        assert_int_equal(cv_fail(&error, CV_ERROR_DISK_FULL, "%s", cases[i].reported), -1);
        assert_string_equal(error.message, cases[i].message);
    }
}

/* report_disk() is tested with the same disks: test_job_fleet.py. */
static void test_the_reserve_of_a_disk_is_a_share_and_bounded(void **state)
{
    (void)state;
    const int64_t gib = INT64_C(1) << 30;
    static const struct {
        int64_t total, free;
        enum cv_disk_level level;
    } disks[] = {
        {100, 16, CV_DISK_OK},         {100, 15, CV_DISK_WARNING},   {100, 10, CV_DISK_CRITICAL},
        {100, 5, CV_DISK_EMERGENCY},   {100, 0, CV_DISK_EMERGENCY},  {4000, 49, CV_DISK_OK},
        {4000, 48, CV_DISK_WARNING},   {4000, 32, CV_DISK_CRITICAL}, {4000, 17, CV_DISK_CRITICAL},
        {4000, 16, CV_DISK_EMERGENCY}, {0, 0, CV_DISK_OK},
    };
    for (size_t i = 0; i < CV_COUNT(disks); i++) {
        assert_int_equal(cv_disk_level_of(disks[i].total * gib, disks[i].free * gib),
                         disks[i].level);
    }
    assert_int_equal(cv_disk_reserve(100 * gib), 5 * gib);
    assert_int_equal(cv_disk_reserve(4000 * gib), 16 * gib);
}

static void test_edits_are_counted_up_to_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t limit, edits;
    } pairs[] = {
        {"", "", 0, 0},
        {"abc", "", 9, 3},
        {"", "abc", 9, 3},
        {"kitten", "sitting", 9, 3},
        {"kitten", "sitting", 3, 3},
        {"kitten", "sitting", 2, 3},
        {"kitten", "sitting", 0, 1},
        {"list", "lsit", 2, 2},
        {"abcdef", "bcdefg", 2, 2},
        {"same", "same", 0, 0},
    };
    for (size_t i = 0; i < CV_COUNT(pairs); i++) {
        const char *texts[] = {pairs[i].a, pairs[i].b};
        int32_t letters[2][8] = {{0}};
        for (size_t t = 0; t < 2; t++) {
            for (size_t k = 0; texts[t][k]; k++) {
                letters[t][k] = texts[t][k] << 16; /* a byte of it alone says nothing */
            }
        }
        size_t a = strlen(texts[0]), b = strlen(texts[1]);
        assert_int_equal(cv_edits(texts[0], a, texts[1], b, 1, pairs[i].limit), pairs[i].edits);
        assert_int_equal(cv_edits(letters[0], a, letters[1], b, sizeof(int32_t), pairs[i].limit),
                         pairs[i].edits);
    }
    static const char longer[CV_EDITS_MAX + 1];
    assert_int_equal(cv_edits(longer, sizeof(longer), longer, sizeof(longer), 1, 5), 6);
}

static void test_every_error_type_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int type = 0; type < CV_ERROR_TYPE_COUNT; type++) {
        const char *name = cv_error_type_name((enum cv_error_type)type);
        assert_non_null(name);
        assert_int_equal(cv_error_type_from_name(name), type);
    }
}

static void test_buffer_grows_and_hands_over(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_buffer_deinit) struct cv_buffer buffer = CV_BUFFER_INIT;
    for (int i = 0; i < 1000; i++) {
        cv_buffer_printf(&buffer, "%d,", i);
    }
    cv_auto_free char *text = NULL;
    assert_int_equal(cv_buffer_detach(&buffer, &text, &error), 0);
    assert_int_equal(strlen(text), 3890);
    assert_null(buffer.data);
}

static void test_cancel_only_rises(void **state)
{
    (void)state;
    struct cv_error error;
    cv_auto(cv_cancel_free) struct cv_cancel *cancel = NULL;
    assert_int_equal(cv_cancel_new(&cancel, &error), 0);
    assert_int_equal(cv_cancel_level(cancel), CV_CANCEL_NONE);
    cv_cancel_request(cancel, CV_CANCEL_ABORT);
    cv_cancel_request(cancel, CV_CANCEL_DRAIN);
    assert_int_equal(cv_cancel_level(cancel), CV_CANCEL_ABORT);
    assert_int_equal(cv_cancel_level(NULL), CV_CANCEL_NONE);
}

static void test_numbers_and_uuids_are_read_strictly(void **state)
{
    (void)state;
    int64_t number;
    double real;
    assert_true(cv_parse_int("42", 0, 100, &number));
    assert_int_equal(number, 42);
    assert_false(cv_parse_int("42x", 0, 100, &number));
    assert_false(cv_parse_int("", 0, 100, &number));
    assert_false(cv_parse_int("101", 0, 100, &number));
    assert_false(cv_parse_int("99999999999999999999", 0, INT64_MAX, &number));
    assert_true(cv_parse_double("0.5", 0, 1, &real));
    assert_false(cv_parse_double("nan", 0, 1, &real));
    assert_true(cv_is_uuid("123e4567-e89b-12d3-a456-426614174000"));
    assert_false(cv_is_uuid("123e4567-e89b-12d3-a456-42661417400"));
    assert_false(cv_is_uuid("123e4567-e89b-12d3-a456-42661417400g"));
    assert_false(cv_is_uuid(NULL));
}

static void test_pauses_double_and_never_exceed_their_limit(void **state)
{
    (void)state;
    enum { FIRST = 250, MOST = 5000, DRAWS = 1000 };
    static const int64_t full[] = {250, 500, 1000, 2000, 4000, 5000, 5000};
    for (size_t i = 0; i < CV_COUNT(full); i++) {
        int64_t least = INT64_MAX, most = 0;
        for (int draw = 0; draw < DRAWS; draw++) {
            int64_t pause = cv_pause_ms((int)i, FIRST, MOST);
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        assert_in_range(least, full[i] / 2, full[i] / 2 + full[i] / 10);
        assert_in_range(most, full[i] - full[i] / 10, full[i]);
    }
    assert_in_range(cv_pause_ms(INT_MAX, FIRST, MOST), MOST / 2, MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_keep_type_verdict_and_message),
        cmocka_unit_test(test_a_full_disk_is_called_so_whoever_reports_it),
        cmocka_unit_test(test_the_reserve_of_a_disk_is_a_share_and_bounded),
        cmocka_unit_test(test_edits_are_counted_up_to_a_limit),
        cmocka_unit_test(test_every_error_type_has_a_name_of_its_own),
        cmocka_unit_test(test_buffer_grows_and_hands_over),
        cmocka_unit_test(test_cancel_only_rises),
        cmocka_unit_test(test_numbers_and_uuids_are_read_strictly),
        cmocka_unit_test(test_pauses_double_and_never_exceed_their_limit),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
