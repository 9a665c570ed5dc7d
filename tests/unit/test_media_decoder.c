#include "tests/unit/media_clips.h"

static struct cv_decoder *open_decoder(struct clip *clip, struct cv_decoder_params params)
{
    struct cv_decoder *decoder = NULL;
    struct cv_error error = {0};
    if (cv_decoder_open(&clip->source, &params, &decoder, &error) != 0) {
        print_error("%s\n", error.message);
    }
    assert_non_null(decoder);
    return decoder;
}

static bool next_frame(struct cv_decoder *decoder, struct cv_video_frame *frame)
{
    struct cv_error error = {0};
    int result = cv_decoder_next(decoder, frame, &error);
    if (result < 0) {
        print_error("%s\n", error.message);
    }
    assert_true(result >= 0);
    return result == CV_DECODER_FRAME;
}

/* The first failure of opening and reading to the end. */
static enum cv_error_type failure_of(struct clip *clip, struct cv_error *error)
{
    struct cv_decoder_params params = {.threads = 1};
    struct cv_decoder *decoder = NULL;
    int result = cv_decoder_open(&clip->source, &params, &decoder, error);
    while (result == 0) {
        struct cv_video_frame frame;
        result = cv_decoder_next(decoder, &frame, error);
    }
    cv_decoder_close(decoder);
    assert_true(result < 0);
    return error->type;
}

static void times_are_the_source_s_own(void **state)
{
    (void)state;
    struct clip clip;
    clip_open(&clip, "a.mp4", "-f lavfi -i testsrc=s=320x240:r=30000/1001:d=1 -c:v libx264 -bf 3");
    struct cv_decoder *decoder = open_decoder(&clip, (struct cv_decoder_params){.threads = 2});
    struct cv_video_frame frame;
    int64_t count = 0;
    while (next_frame(decoder, &frame)) {
        int64_t expected = (count * 1001 * 1000000 + 15000) / 30000;
        assert_in_range(frame.pts_us, expected > 0 ? expected - 1 : 0, expected + 1);
        assert_in_range(frame.duration_us, 33365, 33369);
        assert_int_equal(frame.picture->width, 320);
        count++;
    }
    assert_int_equal(count, 30);
    assert_int_equal(cv_decoder_damaged_frames(decoder), 0);
    cv_decoder_close(decoder);
    clip_close(&clip);
}

static void variable_rates_and_the_last_frame_are_exact(void **state)
{
    (void)state;
    struct clip clip;
    /* Frames 0, 1, 10, 11, 20, 30, 31, … of 50 per second. */
    clip_open(&clip, "a.mkv",
              "-f lavfi -i testsrc=s=160x120:r=50:d=2 -vf \"select='lt(mod(n,10),2)'\" "
              "-fps_mode passthrough -c:v libx264");
    struct cv_decoder *decoder = open_decoder(&clip, (struct cv_decoder_params){.threads = 2});
    struct cv_video_frame frame;
    int64_t count = 0;
    while (next_frame(decoder, &frame)) {
        int64_t number = count / 2 * 10 + count % 2;
        assert_int_equal(frame.pts_us, number * 20000);
        if (count < 19) {
            assert_int_equal(frame.duration_us, count % 2 ? 180000 : 20000);
        }
        count++;
    }
    assert_int_equal(count, 20);
    cv_decoder_close(decoder);
    clip_close(&clip);
}

static void presentation_starts_with_the_earliest_stream(void **state)
{
    (void)state;
    struct clip clip;
    clip_open(&clip, "a.mkv",
              "-itsoffset 5.5 -f lavfi -i testsrc=s=160x120:r=20:d=1 "
              "-itsoffset 5 -f lavfi -i sine=d=1 -c:v libx264 -c:a pcm_s16le -copyts");
    struct cv_decoder *decoder =
        open_decoder(&clip, (struct cv_decoder_params){.threads = 1, .sound = true});
    bool seen_picture = false, seen_sound = false;
    for (;;) {
        struct cv_video_frame frame;
        struct cv_sound sound;
        struct cv_error error;
        int result = cv_decoder_next_any(decoder, &frame, &sound, &error);
        assert_true(result >= 0);
        if (result == CV_DECODER_END) {
            break;
        }
        if (result == CV_DECODER_FRAME && !seen_picture) {
            assert_int_equal(frame.pts_us, 500000);
            seen_picture = true;
        }
        if (result == CV_DECODER_SOUND && !seen_sound) {
            assert_int_equal(sound.pts_us, 0);
            seen_sound = true;
        }
    }
    assert_true(seen_picture && seen_sound);
    cv_decoder_close(decoder);
    clip_close(&clip);
}

/* Luma at a point of the upright picture, as parts of its sides. */
static int luma_at(const AVFrame *picture, double x, double y)
{
    uint8_t *luma = malloc((size_t)picture->width * (size_t)picture->height);
    struct cv_error error;
    assert_int_equal(cv_picture_luma(picture, luma, picture->width, &error), 0);
    int value = luma[(int)(y * picture->height) * picture->width + (int)(x * picture->width)];
    free(luma);
    return value;
}

struct matrix {
    int8_t a, b, c, d;
};

/* Replaces the display matrix in the header of an MP4's track, 40 bytes after its name. */
static void write_matrix(struct clip *clip, struct matrix matrix)
{
    char data[65536];
    ssize_t size = pread(clip->fd, data, sizeof(data), 0);
    const char *header = size > 0 ? memmem(data, (size_t)size, "tkhd", 4) : NULL;
    assert_non_null(header);
    const int8_t values[] = {matrix.a, matrix.b, 0, matrix.c, matrix.d};
    int fd = open(clip->path, O_WRONLY | O_CLOEXEC);
    for (size_t i = 0; i < CV_COUNT(values); i++) {
        uint32_t value = htobe32((uint32_t)values[i] << 16);
        assert_int_equal(pwrite(fd, &value, sizeof(value), header - data + 44 + 4 * (off_t)i),
                         sizeof(value));
    }
    (void)close(fd);
}

/* A white square in the upper left of 320×160, stored turned: it has to come out in the corner that
 * the matrix says, once. */
static void check_rotation(struct matrix matrix, int width, int height, double x, double y)
{
    struct clip clip;
    clip_open(&clip, "a.mp4",
              "-f lavfi -i color=black:s=320x160:r=10:d=0.5 "
              "-vf drawbox=x=0:y=0:w=80:h=40:c=white:t=fill -c:v libx264 -pix_fmt yuv420p");
    write_matrix(&clip, matrix);
    struct cv_decoder *decoder = open_decoder(&clip, (struct cv_decoder_params){.threads = 1});
    struct cv_video_frame frame;
    assert_true(next_frame(decoder, &frame));
    assert_int_equal(frame.picture->width, width);
    assert_int_equal(frame.picture->height, height);
    assert_int_equal(cv_decoder_info(decoder)->width, width);
    assert_int_equal(cv_decoder_info(decoder)->height, height);
    assert_in_range(luma_at(frame.picture, x, y), 240, 255);
    assert_in_range(luma_at(frame.picture, 1 - x, y), 0, 15);
    assert_in_range(luma_at(frame.picture, x, 1 - y), 0, 15);
    cv_decoder_close(decoder);
    clip_close(&clip);
}

static void display_matrix_is_applied_once(void **state)
{
    (void)state;
    check_rotation((struct matrix){1, 0, 0, 1}, 320, 160, 0.1, 0.1);
    check_rotation((struct matrix){0, -1, 1, 0}, 160, 320, 0.1, 0.9);
    check_rotation((struct matrix){-1, 0, 0, -1}, 320, 160, 0.9, 0.9);
    check_rotation((struct matrix){0, 1, -1, 0}, 160, 320, 0.9, 0.1);
}

static void a_change_of_size_in_mid_stream_is_followed(void **state)
{
    (void)state;
    struct clip small, large, joined;
    clip_open(&small, "a.ts", "-f lavfi -i testsrc=s=160x120:r=25:d=0.4 -c:v libx264");
    clip_open(&large, "b.ts",
              "-f lavfi -i testsrc=s=120x160:r=25:d=0.4 -c:v libx264 -output_ts_offset 0.4");
    char arguments[256];
    (void)snprintf(arguments, sizeof(arguments), "-i 'concat:%s|%s' -c copy -copyts", small.path,
                   large.path);
    clip_open(&joined, "c.ts", arguments);
    struct cv_decoder *decoder = open_decoder(&joined, (struct cv_decoder_params){.threads = 1});
    struct cv_video_frame frame;
    int wide = 0, tall = 0;
    int64_t last_us = -1;
    while (next_frame(decoder, &frame)) {
        wide += frame.picture->width == 160;
        tall += frame.picture->width == 120;
        assert_true(frame.pts_us > last_us);
        last_us = frame.pts_us;
    }
    assert_int_equal(wide, 10);
    assert_int_equal(tall, 10);
    cv_decoder_close(decoder);
    clip_close(&small);
    clip_close(&large);
    clip_close(&joined);
}

static void seeks_land_at_or_before(void **state)
{
    (void)state;
    static const char *const names[] = {"a.mp4", "a.mkv", "a.ts"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        struct clip clip;
        clip_open(&clip, names[i],
                  "-f lavfi -i testsrc=s=160x120:r=25:d=12 -f lavfi -i sine=d=12 "
                  "-c:v libx264 -g 125 -sc_threshold 0 -bf 3 -c:a aac");
        struct cv_decoder *decoder = open_decoder(&clip, (struct cv_decoder_params){.threads = 2});
        static const int64_t targets[] = {11990000, 6000000, 30000, 4999999, 5000000, 60000000};
        for (size_t j = 0; j < CV_COUNT(targets); j++) {
            struct cv_error error = {0};
            if (cv_decoder_seek(decoder, targets[j], &error) != 0) {
                print_error("%s to %lld: %s\n", names[i], (long long)targets[j], error.message);
                fail();
            }
            struct cv_video_frame frame;
            assert_true(next_frame(decoder, &frame));
            if (frame.pts_us > targets[j]) {
                print_error("%s: %lld is after %lld\n", names[i], (long long)frame.pts_us,
                            (long long)targets[j]);
            }
            assert_true(frame.pts_us <= targets[j]);
            int64_t last_us = frame.pts_us;
            while (next_frame(decoder, &frame)) {
                last_us = frame.pts_us;
            }
            assert_in_range(last_us, 11950000, 12000000);
        }
        cv_decoder_close(decoder);
        clip_close(&clip);
    }
}

static void a_single_frame_is_a_video(void **state)
{
    (void)state;
    struct clip clip;
    clip_open(&clip, "a.mp4", "-f lavfi -i testsrc=s=160x120:r=25 -frames:v 1 -c:v libx264");
    struct cv_decoder *decoder = open_decoder(&clip, (struct cv_decoder_params){.threads = 4});
    struct cv_video_frame frame;
    assert_true(next_frame(decoder, &frame));
    assert_int_equal(frame.pts_us, 0);
    assert_in_range(frame.duration_us, 1, 100000);
    assert_false(next_frame(decoder, &frame));
    cv_decoder_close(decoder);
    clip_close(&clip);
}

static void what_is_no_video_is_told_apart(void **state)
{
    (void)state;
    struct cv_error error = {0};
    struct clip clip;
    clip_from_bytes(&clip, "a.mp4", "", 0);
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&clip);

    static const char text[] = "Dear reader,\nthis is a letter and no video.\n";
    clip_from_bytes(&clip, "a.mp4", text, sizeof(text) - 1);
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&clip);

    char garbage[65536];
    unsigned seed = 1;
    for (size_t i = 0; i < sizeof(garbage); i++) {
        seed = seed * 1664525 + 1013904223;
        garbage[i] = (char)(seed >> 24);
    }
    clip_from_bytes(&clip, "a.mp4", garbage, sizeof(garbage));
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&clip);

    clip_open(&clip, "a.m4a", "-f lavfi -i sine=d=1 -c:a aac");
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_NOT_A_VIDEO);
    assert_non_null(strstr(error.message, "only sound"));
    clip_close(&clip);

    clip_open(&clip, "a.png", "-f lavfi -i testsrc=s=64x64 -frames:v 1");
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&clip);
}

/* A playlist or a list of files must not make us open what it names. */
static void lists_of_files_open_nothing(void **state)
{
    (void)state;
    struct clip target, list;
    clip_open(&target, "secret.ts", "-f lavfi -i testsrc=s=64x64:d=1 -c:v libx264");
    char text[512];
    struct cv_error error = {0};
    (void)snprintf(text, sizeof(text),
                   "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n%s\n#EXT-X-ENDLIST\n",
                   target.path);
    clip_from_bytes(&list, "a.mp4", text, strlen(text));
    assert_int_equal(failure_of(&list, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&list);
    (void)snprintf(text, sizeof(text), "ffconcat version 1.0\nfile %s\n", target.path);
    clip_from_bytes(&list, "a.mp4", text, strlen(text));
    assert_int_equal(failure_of(&list, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&list);
    clip_close(&target);
}

static void truncated_files_give_what_they_have(void **state)
{
    (void)state;
    struct clip whole, cut;
    clip_open(&whole, "a.mkv", "-f lavfi -i testsrc=s=320x240:r=25:d=4 -c:v libx264");
    char *data = malloc((size_t)whole.source.size);
    size_t got = 0;
    struct cv_error error = {0};
    assert_int_equal(clip_read(&whole, 0, data, (size_t)whole.source.size, &got, &error), 0);
    clip_from_bytes(&cut, "b.mkv", data, got / 2);
    struct cv_decoder *decoder = open_decoder(&cut, (struct cv_decoder_params){.threads = 1});
    struct cv_video_frame frame;
    int count = 0;
    while (next_frame(decoder, &frame)) {
        count++;
    }
    assert_in_range(count, 10, 90);
    cv_decoder_close(decoder);
    clip_close(&cut);

    clip_open(&cut, "c.mp4", "-f lavfi -i testsrc=s=320x240:r=25:d=1 -c:v libx264");
    got = 0;
    assert_int_equal(clip_read(&cut, 0, data, (size_t)cut.source.size / 2, &got, &error), 0);
    cut.source.size = (int64_t)got; /* the index at the end is missing */
    assert_int_equal(failure_of(&cut, &error), CV_ERROR_NOT_A_VIDEO);
    clip_close(&cut);
    free(data);
    clip_close(&whole);
}

static void pictures_too_large_are_refused_before_decoding(void **state)
{
    (void)state;
    struct clip clip;
    struct cv_error error = {0};
    clip_open(&clip, "a.avi",
              "-f lavfi -i color=s=16400x64:r=1:d=1 -frames:v 1 -c:v mjpeg -pix_fmt yuvj420p");
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_LIMIT_EXCEEDED);
    clip_close(&clip);
}

static int failing_read(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                        struct cv_error *error)
{
    struct clip *clip = opaque;
    if (offset > clip->source.size / 2) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the store went away");
    }
    return clip_read(opaque, offset, data, length, ret_read, error);
}

static void a_failing_store_is_not_the_end_of_the_file(void **state)
{
    (void)state;
    struct clip clip;
    struct cv_error error = {0};
    clip_open(&clip, "a.ts", "-f lavfi -i testsrc=s=320x240:r=25:d=20 -c:v libx264 -b:v 2M");
    clip.source.read = failing_read;
    assert_int_equal(failure_of(&clip, &error), CV_ERROR_CONNECTION);
    assert_int_equal(error.verdict, CV_VERDICT_RETRY);
    clip_close(&clip);
}

static void an_abort_ends_reading(void **state)
{
    (void)state;
    struct clip clip;
    struct cv_error error = {0};
    clip_open(&clip, "a.mp4", "-f lavfi -i testsrc=s=160x120:r=25:d=2 -c:v libx264");
    struct cv_cancel *cancel = NULL;
    assert_int_equal(cv_cancel_new(&cancel, &error), 0);
    struct cv_decoder *decoder =
        open_decoder(&clip, (struct cv_decoder_params){.threads = 1, .cancel = cancel});
    struct cv_video_frame frame;
    assert_true(next_frame(decoder, &frame));
    cv_cancel_request(cancel, CV_CANCEL_ABORT);
    int result;
    do {
        result = cv_decoder_next(decoder, &frame, &error);
    } while (result == CV_DECODER_FRAME);
    assert_true(result < 0);
    assert_int_equal(error.type, CV_ERROR_CANCELED);
    cv_decoder_close(decoder);
    cv_cancel_free(cancel);
    clip_close(&clip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_the_source_s_own),
        cmocka_unit_test(variable_rates_and_the_last_frame_are_exact),
        cmocka_unit_test(presentation_starts_with_the_earliest_stream),
        cmocka_unit_test(display_matrix_is_applied_once),
        cmocka_unit_test(a_change_of_size_in_mid_stream_is_followed),
        cmocka_unit_test(seeks_land_at_or_before),
        cmocka_unit_test(a_single_frame_is_a_video),
        cmocka_unit_test(what_is_no_video_is_told_apart),
        cmocka_unit_test(lists_of_files_open_nothing),
        cmocka_unit_test(truncated_files_give_what_they_have),
        cmocka_unit_test(pictures_too_large_are_refused_before_decoding),
        cmocka_unit_test(a_failing_store_is_not_the_end_of_the_file),
        cmocka_unit_test(an_abort_ends_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
