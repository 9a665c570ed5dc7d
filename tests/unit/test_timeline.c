#include "common/media/timeline.h"

#include <libavutil/avutil.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MS = 1000, SECOND = 1000 * 1000, PACKETS_MAX = 4096, WINDOW = 64, PACKET_BYTES = 240 };
#define HOUR (INT64_C(3600) * SECOND)

/* Four seconds of pictures every 40 ms and of sound every 20 ms, interleaved; a test damages them. */
struct file {
    struct cv_moment packets[PACKETS_MAX];
    size_t count;
    struct cv_timeline timeline;
    int64_t end_us[2]; /* where the clocks of pictures and sound come to, as judged */
    int64_t newest_us; /* the latest of all times that were believed */
};

static void add(struct file *file, int stream, int64_t time_us, int64_t duration_us)
{
    file->packets[file->count++] =
        (struct cv_moment){stream, time_us, time_us, duration_us, PACKET_BYTES};
}

static void record(struct file *file, int64_t from_us, int64_t until_us, bool sound)
{
    for (int64_t at_us = from_us; at_us < until_us; at_us += 20 * MS) {
        if ((at_us - from_us) % (40 * MS) == 0) {
            add(file, 0, at_us, 40 * MS);
        }
        if (sound) {
            add(file, 1, at_us, 20 * MS);
        }
    }
}

static void read_file(struct file *file)
{
    cv_timeline_reset(&file->timeline, 0);
    file->timeline.file_bytes = INT64_MAX;
    file->newest_us = INT64_MIN;
    file->end_us[0] = file->end_us[1] = AV_NOPTS_VALUE;
    for (size_t i = 0; i < file->count; i++) {
        const struct cv_moment *first = &file->packets[i];
        size_t window = 1;
        if (cv_timeline_doubts(&file->timeline, first)) {
            window = file->count - i < WINDOW ? file->count - i : WINDOW;
        }
        struct cv_timeline_verdict verdict = cv_timeline_judge(&file->timeline, first, window);
        int64_t pts_us = verdict.keeps_pts ? first->pts_us + verdict.shift_us : AV_NOPTS_VALUE;
        int64_t dts_us = verdict.keeps_dts ? first->dts_us + verdict.shift_us : AV_NOPTS_VALUE;
        int64_t time_us = pts_us != AV_NOPTS_VALUE ? pts_us : dts_us;
        if (time_us != AV_NOPTS_VALUE) {
            file->end_us[first->stream] = time_us;
            file->newest_us = time_us > file->newest_us ? time_us : file->newest_us;
        }
    }
}

static struct file *new_file(int64_t claimed_us, bool sound)
{
    struct file *file = calloc(1, sizeof(*file));
    assert_non_null(file);
    file->timeline.claimed_us = claimed_us;
    record(file, 0, 4 * SECOND, sound);
    return file;
}

static void assert_four_seconds(struct file *file)
{
    read_file(file);
    assert_in_range(file->newest_us, 3900 * MS, 4100 * MS);
    assert_in_range(file->end_us[0], 3900 * MS, 4100 * MS);
    free(file);
}

static void one_packet_is_wrong(void **state)
{
    (void)state;
    static const int64_t errors_us[] = {11 * SECOND, 599 * SECOND, 5 * HOUR,
                                        1192 * HOUR, -11 * SECOND, -26 * HOUR};
    for (size_t error = 0; error < sizeof(errors_us) / sizeof(errors_us[0]); error++) {
        for (size_t at = 0; at < 150; at += 7) {
            for (int which = 1; which <= 3; which++) {
                struct file *file = new_file(0, true);
                file->packets[at].pts_us += which & 1 ? errors_us[error] : 0;
                file->packets[at].dts_us += which & 2 ? errors_us[error] : 0;
                assert_four_seconds(file);
            }
        }
    }
}

/* A cluster or a fragment with a wrong time: everything in it is moved, then all is well again. */
static void a_stretch_is_wrong(void **state)
{
    (void)state;
    static const int64_t errors_us[] = {60 * SECOND, 5 * HOUR, 1000 * HOUR};
    for (size_t error = 0; error < sizeof(errors_us) / sizeof(errors_us[0]); error++) {
        for (int streams = 1; streams <= 3; streams++) {
            struct file *file = new_file(4 * SECOND, true);
            for (size_t i = 100; i < 250; i++) {
                if (streams & (1 << file->packets[i].stream)) {
                    file->packets[i].pts_us += errors_us[error];
                    file->packets[i].dts_us += errors_us[error];
                }
            }
            assert_four_seconds(file);
        }
    }
}

static void a_stream_starts_late(void **state)
{
    (void)state;
    struct file *file = new_file(4 * SECOND, true);
    for (size_t i = 0; i < file->count; i++) {
        file->packets[i].pts_us += file->packets[i].stream == 1 ? 7 * HOUR : 0;
        file->packets[i].dts_us += file->packets[i].stream == 1 ? 7 * HOUR : 0;
    }
    assert_four_seconds(file);
}

static void joined_recordings_go_on(void **state)
{
    (void)state;
    struct file *file = new_file(0, true);
    record(file, 0, 4 * SECOND, true);
    read_file(file);
    assert_in_range(file->end_us[0], 7900 * MS, 8050 * MS);
    assert_in_range(file->end_us[1], 7900 * MS, 8050 * MS);
    free(file);
}

/* A screen that stands still: no picture for minutes, as the file itself says. */
static void recorded_pauses_stay(void **state)
{
    (void)state;
    static const struct {
        int64_t pause_us, claimed_us, duration_us;
        bool sound;
    } pauses[] = {
        {9 * SECOND, 0, 0, false},
        {590 * SECOND, 0, 0, false},
        {1190 * SECOND, 1198 * SECOND, 0, false},
        {1190 * SECOND, 0, 1190 * SECOND, false},
        {3 * HOUR, 0, 0, true},
    };
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        struct file *file = new_file(pauses[i].claimed_us, false);
        int64_t from_us = 4 * SECOND + pauses[i].pause_us;
        if (pauses[i].duration_us > 0) {
            file->packets[file->count - 1].duration_us = pauses[i].duration_us;
        }
        if (pauses[i].sound) {
            for (int64_t at_us = 4 * SECOND; at_us < from_us; at_us += 5 * SECOND) {
                add(file, 1, at_us, 5 * SECOND);
                file->packets[file->count - 1].bytes = 1250;
            }
        }
        record(file, from_us, from_us + 4 * SECOND, false);
        read_file(file);
        assert_in_range(file->end_us[0], from_us + 3900 * MS, from_us + 4 * SECOND);
        free(file);
    }
}

/* Reordered pictures around a pause: their presentation times are far ahead, and right. */
static void reordering_over_a_pause_stays(void **state)
{
    (void)state;
    struct file *file = calloc(1, sizeof(*file));
    assert_non_null(file);
    file->timeline.claimed_us = 120 * SECOND;
    static const int64_t pts_ms[] = {80,    40,    60160, 60080, 60040,
                                     60120, 60320, 60240, 60200, 60280};
    static const int64_t dts_ms[] = {-80, -40, 0, 40, 80, 60040, 60080, 60120, 60160, 60200};
    for (size_t i = 0; i < 10; i++) {
        add(file, 0, dts_ms[i] * MS, 40 * MS);
        file->packets[i].pts_us = pts_ms[i] * MS;
    }
    cv_timeline_reset(&file->timeline, 0);
    for (size_t i = 0; i < 10; i++) {
        struct cv_timeline_verdict verdict =
            cv_timeline_judge(&file->timeline, &file->packets[i], 10 - i);
        assert_true(verdict.keeps_pts);
        assert_int_equal(verdict.shift_us, 0);
    }
    free(file);
}

/* Packets that are all as far apart, with nothing between them, in a file whose header agrees. */
static int64_t length_of(int packets, int64_t step_us, int bytes, bool sound)
{
    struct file *file = calloc(1, sizeof(*file));
    assert_non_null(file);
    file->timeline.claimed_us = packets * step_us;
    for (int i = 0; i < packets; i++) {
        add(file, sound && i % 2, i * step_us, step_us);
        file->packets[i].bytes = bytes;
    }
    read_file(file);
    int64_t newest_us = file->newest_us;
    free(file);
    return newest_us;
}

/* Whatever header and packets agree on, the length is bounded by the packets and their bytes. */
static void few_packets_are_no_days(void **state)
{
    (void)state;
    static const int64_t steps_us[] = {1500 * MS, 9 * SECOND, 11 * SECOND, 60 * SECOND, 2 * HOUR};
    for (size_t i = 0; i < sizeof(steps_us) / sizeof(steps_us[0]); i++) {
        for (int sound = 0; sound <= 1; sound++) {
            int64_t bounds_us =
                CV_TIMELINE_STILL_US + PACKETS_MAX * (SECOND + 3 * (int64_t)CV_TIMELINE_BYTE_US);
            int64_t whole_us = PACKETS_MAX * steps_us[i];
            int64_t length_us = length_of(PACKETS_MAX, steps_us[i], 3, sound);
            assert_true(length_us <= bounds_us && length_us < whole_us);
        }
    }
}

static void a_slide_a_minute_stays(void **state)
{
    (void)state;
    assert_int_equal(length_of(600, 60 * SECOND, 20 * 1000, false), 599 * 60 * (int64_t)SECOND);
    assert_int_equal(length_of(40, 1190 * SECOND, 300 * 1000, false), 39 * 1190 * (int64_t)SECOND);
    assert_int_equal(length_of(600, 5 * SECOND, 2000, false), 599 * 5 * (int64_t)SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_packet_is_wrong),     cmocka_unit_test(a_stretch_is_wrong),
        cmocka_unit_test(a_stream_starts_late),    cmocka_unit_test(joined_recordings_go_on),
        cmocka_unit_test(recorded_pauses_stay),    cmocka_unit_test(reordering_over_a_pause_stays),
        cmocka_unit_test(few_packets_are_no_days), cmocka_unit_test(a_slide_a_minute_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
