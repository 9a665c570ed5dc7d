#include "workers/clip_generate/cut/group.h"

#include <libavutil/mem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* What x264 wrote for 320×240 in High profile, B-pyramid; identifiers 0 and 0. */
static const uint8_t sps[] = {0x67, 0x64, 0x00, 0x0d, 0xac, 0xd9, 0x41, 0x41,
                              0xfa, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
                              0x00, 0x03, 0x03, 0xc0, 0xf1, 0x42, 0x99, 0x60};
static const uint8_t pps[] = {0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0};
static const uint8_t idr[] = {0x65, 0x88, 0x84, 0x00, 0x33};
static const uint8_t dependent[] = {0x41, 0x9a, 0x24};

static void append_unit(struct cv_buffer *data, const uint8_t *unit, size_t size, int length_size)
{
    static const uint8_t start_code[] = {0, 0, 0, 1};
    if (length_size == 0) {
        cv_buffer_append(data, start_code, sizeof(start_code));
    }
    for (int i = length_size - 1; i >= 0; i--) {
        uint8_t byte = (uint8_t)(size >> (8 * i));
        cv_buffer_append(data, &byte, 1);
    }
    cv_buffer_append(data, unit, size);
}

static struct cv_h264_sets read_sets(void)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer data = CV_BUFFER_INIT;
    append_unit(&data, sps, sizeof(sps), 0);
    append_unit(&data, pps, sizeof(pps), 0);
    struct cv_h264_sets sets;
    assert_true(cv_h264_sets_read(&sets, (const uint8_t *)data.data, data.length));
    assert_int_equal(sets.count, 2);
    return sets;
}

static void parameter_sets_are_read_and_written(void **state)
{
    (void)state;
    struct cv_error error;
    struct cv_h264_sets sets = read_sets();
    struct cv_h264_sps head;
    assert_true(cv_h264_sps_read(&sets.sets[0], &head));
    assert_int_equal(head.profile, 100);
    assert_int_equal(head.level, 13);
    assert_int_equal(head.chroma_format, 1);
    assert_int_equal(head.bit_depth, 8);
    assert_true(head.frames_only);
    assert_int_equal(cv_h264_sets_free_id(&sets), 1);

    uint8_t *record = NULL;
    int size = 0;
    assert_int_equal(cv_h264_sets_write(&sets, &record, &size, &error), 0);
    assert_int_equal(record[0], 1);
    assert_int_equal(record[1], 100);
    assert_int_equal(record[3], 13);
    struct cv_h264_sets again;
    assert_true(cv_h264_sets_read(&again, record, (size_t)size));
    assert_int_equal(again.length_size, 4);
    assert_int_equal(again.count, 2);
    assert_memory_equal(again.sets[0].data, sps, sizeof(sps));
    assert_memory_equal(again.sets[1].data, pps, sizeof(pps));

    av_free(record);
    cv_h264_sets_deinit(&again);
    cv_h264_sets_deinit(&sets);
}

/* Every shorter record, and every record with one byte changed. */
static void damaged_sets_are_read_or_refused(void **state)
{
    (void)state;
    struct cv_error error;
    struct cv_h264_sets sets = read_sets();
    uint8_t *record = NULL;
    int size = 0;
    assert_int_equal(cv_h264_sets_write(&sets, &record, &size, &error), 0);
    for (int length = 0; length < size; length++) {
        struct cv_h264_sets part;
        uint8_t *exact = malloc((size_t)length + 1);
        (void)memcpy(exact, record, (size_t)length);
        if (cv_h264_sets_read(&part, exact, (size_t)length)) {
            cv_h264_sets_deinit(&part);
        }
        free(exact);
    }
    for (int at = 0; at < size; at++) {
        for (int value = 0; value < 256; value += 5) {
            struct cv_h264_sets part;
            uint8_t kept = record[at];
            record[at] = (uint8_t)value;
            if (cv_h264_sets_read(&part, record, (size_t)size)) {
                for (size_t i = 0; i < part.count; i++) {
                    struct cv_h264_sps ignored;
                    (void)!cv_h264_sps_read(&part.sets[i], &ignored);
                }
                cv_h264_sets_deinit(&part);
            }
            record[at] = kept;
        }
    }
    av_free(record);
    cv_h264_sets_deinit(&sets);
}

static void sets_of_one_name_are_refused(void **state)
{
    (void)state;
    struct cv_h264_sets sets = read_sets(), other = {0};
    assert_true(cv_h264_sets_join(&other, &sets));
    assert_true(cv_h264_sets_join(&other, &sets)); /* the same once more changes nothing */
    assert_int_equal(other.count, 2);
    other.sets[1].data[3] ^= 0x10;
    assert_false(cv_h264_sets_join(&other, &sets));
    cv_h264_sets_deinit(&other);
    cv_h264_sets_deinit(&sets);
}

static AVPacket *packet_of(const struct cv_buffer *data)
{
    AVPacket *packet = av_packet_alloc();
    assert_non_null(packet);
    assert_int_equal(av_new_packet(packet, (int)data->length), 0);
    (void)memcpy(packet->data, data->data, data->length);
    return packet;
}

static void packets_are_told_apart_and_repacked(void **state)
{
    (void)state;
    static const uint8_t delimiter[] = {0x09, 0xf0};
    struct cv_error error;
    struct cv_h264_sets sets = read_sets();
    for (int length_size = 0; length_size <= 4; length_size++) {
        if (length_size == 3) {
            continue;
        }
        sets.length_size = length_size;
        cv_auto(cv_buffer_deinit) struct cv_buffer data = CV_BUFFER_INIT;
        append_unit(&data, delimiter, sizeof(delimiter), length_size);
        append_unit(&data, sps, sizeof(sps), length_size);
        append_unit(&data, pps, sizeof(pps), length_size);
        append_unit(&data, idr, sizeof(idr), length_size);
        AVPacket *packet = packet_of(&data);
        assert_int_equal(cv_h264_look(&sets, packet), CV_H264_PICTURE_IDR);
        assert_int_equal(cv_h264_repack(&sets, packet, &error), 0);
        assert_int_equal(packet->size, 4 + sizeof(idr));
        assert_int_equal(packet->data[3], sizeof(idr));
        assert_memory_equal(packet->data + 4, idr, sizeof(idr));
        av_packet_free(&packet);

        cv_buffer_clear(&data);
        append_unit(&data, dependent, sizeof(dependent), length_size);
        packet = packet_of(&data);
        assert_int_equal(cv_h264_look(&sets, packet), CV_H264_PICTURE_DEPENDENT);
        av_packet_free(&packet);

        cv_buffer_clear(&data);
        uint8_t other[sizeof(pps)];
        (void)memcpy(other, pps, sizeof(pps));
        other[3] ^= 0x10;
        append_unit(&data, other, sizeof(other), length_size);
        append_unit(&data, idr, sizeof(idr), length_size);
        packet = packet_of(&data);
        assert_int_equal(cv_h264_look(&sets, packet), CV_H264_PICTURE_CHANGED);
        if (length_size > 0) { /* a unit that is longer than the packet */
            packet->data[length_size - 1] = 200;
            assert_int_equal(cv_h264_look(&sets, packet), CV_H264_PICTURE_BROKEN);
        }
        av_packet_free(&packet);
    }
    cv_h264_sets_deinit(&sets);
}

/* Pictures in decoding order by the time at which they show; how many may be kept before `end`. */
static size_t prefix(const int *times, size_t count, int end)
{
    struct cv_error error;
    cv_auto(cv_cut_group_deinit) struct cv_cut_group group = {0};
    for (size_t i = 0; i < count; i++) {
        AVPacket *packet = av_packet_alloc();
        assert_int_equal(cv_cut_group_push(&group, packet, times[i], &error), 0);
        av_packet_free(&packet);
    }
    return cv_cut_group_prefix(&group, end);
}

static void the_front_that_is_kept_has_no_holes(void **state)
{
    (void)state;
    const int plain[] = {0, 1, 2, 3, 4};
    assert_int_equal(prefix(plain, 5, 3), 3);
    assert_int_equal(prefix(plain, 5, 9), 5);
    assert_int_equal(prefix(plain, 5, 0), 0);
    /* I P B B P B B: picture 3 is needed by 1 and 2, so a cut before 3 keeps the key frame alone. */
    const int reordered[] = {0, 3, 1, 2, 6, 4, 5};
    assert_int_equal(prefix(reordered, 7, 7), 7);
    assert_int_equal(prefix(reordered, 7, 6), 4);
    assert_int_equal(prefix(reordered, 7, 5), 4);
    assert_int_equal(prefix(reordered, 7, 4), 4);
    assert_int_equal(prefix(reordered, 7, 3), 1);
    assert_int_equal(prefix(reordered, 7, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_sets_are_read_and_written),
        cmocka_unit_test(damaged_sets_are_read_or_refused),
        cmocka_unit_test(sets_of_one_name_are_refused),
        cmocka_unit_test(packets_are_told_apart_and_repacked),
        cmocka_unit_test(the_front_that_is_kept_has_no_holes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
