/* Pictures that one decoder sends and another one's reader receives: the same as by a decoder of its own, whatever becomes
 * of the sender on the way. */
#include "tests/unit/media_clips.h"

#include <libavutil/imgutils.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { FRAMES_MAX = 256, MEMORY_BYTES = 1 << 20, MESSAGE_MAX = 256 };

static const char moving[] = "-f lavfi -i testsrc=s=320x180:r=25:d=4 -c:v libx264 -g 25 -bf 2";

/* What a reader saw: the times, and a sum of the samples. */
struct seen {
    size_t count;
    int64_t pts_us[FRAMES_MAX], duration_us[FRAMES_MAX];
    uint64_t sum[FRAMES_MAX];
    bool key_frame[FRAMES_MAX];
};

static uint64_t sum_of(const AVFrame *picture)
{
    int bytes = av_image_get_buffer_size(picture->format, picture->width, picture->height, 1);
    assert_true(bytes > 0);
    cv_auto_free uint8_t *samples = malloc((size_t)bytes);
    assert_non_null(samples);
    assert_int_equal(av_image_copy_to_buffer(samples, bytes, (const uint8_t *const *)picture->data,
                                             picture->linesize, picture->format, picture->width,
                                             picture->height, 1),
                     bytes);
    uint64_t sum = (uint64_t)picture->format;
    for (int i = 0; i < bytes; i++) {
        sum = sum * 31 + samples[i];
    }
    return sum;
}

static struct cv_decoder *open_decoder(const struct clip *clip)
{
    struct cv_decoder_params params = {.threads = 1, .whole = true};
    struct cv_decoder *decoder = NULL;
    struct cv_error error;
    assert_int_equal(cv_decoder_open(&clip->source, &params, &decoder, &error), 0);
    return decoder;
}

/* Reads all pictures there are, from `peer` as long as it sends them. */
static void watch(const struct clip *clip, const struct cv_peer *peer, struct seen *seen)
{
    struct cv_decoder *decoder = open_decoder(clip);
    struct cv_picture_source *source = NULL;
    struct cv_video_frame frame;
    struct cv_error error;
    *seen = (struct seen){0};
    assert_int_equal(cv_picture_source_new(decoder, peer, NULL, &source, &error), 0);
    int result = cv_picture_source_start(source, 0, &frame, &error);
    for (; result == 0; result = cv_picture_source_next(source, &frame, &error)) {
        assert_true(seen->count < FRAMES_MAX);
        seen->pts_us[seen->count] = frame.pts_us;
        seen->duration_us[seen->count] = frame.duration_us;
        seen->key_frame[seen->count] = frame.key_frame;
        seen->sum[seen->count++] = sum_of(frame.picture);
    }
    assert_int_equal(result, CV_DECODER_END);
    cv_picture_source_free(source);
    cv_decoder_close(decoder);
}

static void assert_same(const struct seen *one, const struct seen *other)
{
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        assert_int_equal(one->pts_us[i], other->pts_us[i]);
        assert_int_equal(one->duration_us[i], other->duration_us[i]);
        assert_int_equal(one->sum[i], other->sum[i]);
        assert_int_equal(one->key_frame[i], other->key_frame[i]);
    }
}

/* ---- two ends, with somebody between them who may change what is said ------------------------ */

struct line {
    const struct clip *clip;
    struct cv_peer sender, receiver;
    int64_t pictures; /* after so many the sender is gone without a word */
    int64_t decoded;  /* by the sender, in the end */
};

static void line_open(struct line *line, const struct clip *clip, int64_t pictures)
{
    int ends[2];
    void *memory =
        mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    *line = (struct line){
        clip, {ends[0], memory, MEMORY_BYTES}, {ends[1], memory, MEMORY_BYTES}, pictures, 0};
}

static void line_close(struct line *line)
{
    close(line->sender.socket);
    close(line->receiver.socket);
    assert_int_equal(munmap(line->sender.memory, MEMORY_BYTES), 0);
}

static void *send_all(void *opaque)
{
    struct line *line = opaque;
    struct cv_decoder *decoder = open_decoder(line->clip);
    struct cv_picture_sender *sender = NULL;
    struct cv_video_frame frame;
    struct cv_error error;
    assert_int_equal(cv_picture_sender_new(&line->sender, NULL, &sender, &error), 0);
    cv_decoder_set_sender(decoder, sender);
    while (line->decoded != line->pictures && cv_decoder_next(decoder, &frame, &error) == 0) {
        line->decoded++;
    }
    cv_picture_sender_free(sender);
    cv_decoder_close(decoder);
    return NULL;
}

static void watch_sender(struct line *line, struct seen *seen)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_all, line), 0);
    watch(line->clip, &line->receiver, seen);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void assert_survives(const char *name, const char *arguments, int64_t pictures)
{
    struct clip clip;
    struct line line;
    struct seen alone, shared;
    clip_open(&clip, name, arguments);
    watch(&clip, NULL, &alone);
    line_open(&line, &clip, pictures);
    watch_sender(&line, &shared);
    assert_same(&alone, &shared);
    assert_int_equal(line.decoded, pictures < 0 ? (int64_t)alone.count : pictures);
    line_close(&line);
    clip_close(&clip);
}

static void received_pictures_are_those_of_a_decoder(void **state)
{
    (void)state;
    assert_survives("a.mp4", moving, -1);
    assert_survives("stands.mp4", "-f lavfi -i color=red:s=320x180:r=25:d=4 -c:v libx264", -1);
    assert_survives("deep.mkv",
                    "-f lavfi -i testsrc=s=160x120:r=25:d=1 -c:v libx264 -pix_fmt yuv420p10", -1);
    /* Only one fits into the memory, and none. */
    assert_survives("large.mp4", "-f lavfi -i testsrc=s=960x640:r=25:d=1 -c:v libx264", -1);
    assert_survives("huge.mp4", "-f lavfi -i testsrc=s=1280x720:r=25:d=1 -c:v libx264", -1);
}

static void a_sender_that_is_gone_is_done_without(void **state)
{
    (void)state;
    static const int64_t after[] = {0, 1, 30, 77};
    for (size_t i = 0; i < CV_COUNT(after); i++) {
        assert_survives("a.mp4", moving, after[i]);
    }
    assert_survives("without_index.ts", moving, 40);
    assert_survives("woven.mp4",
                    "-f lavfi -i testsrc=s=320x180:r=50:d=2 -vf interlace -flags +ilme+ildct "
                    "-c:v libx264 -g 12",
                    33);
}

static void what_another_decoder_may_see_otherwise_is_not_sent(void **state)
{
    (void)state;
    struct clip clip;
    struct line line;
    struct seen shared;
    clip_open(&clip, "narrow.mp4",
              "-f lavfi -i testsrc=s=320x180:r=25:d=1 -vf setsar=4/3 -c:v libx264");
    line_open(&line, &clip, -1);
    (void)send_all(&line);
    char message[MESSAGE_MAX];
    assert_int_equal(recv(line.receiver.socket, message, sizeof(message), 0), 0);
    watch(&clip, &line.receiver, &shared);
    assert_int_equal(shared.count, 25);
    line_close(&line);
    clip_close(&clip);
}

static void a_reader_that_is_gone_is_done_without(void **state)
{
    (void)state;
    struct clip clip;
    struct line line;
    clip_open(&clip, "a.mp4", moving);
    line_open(&line, &clip, -1);
    assert_int_equal(shutdown(line.receiver.socket, SHUT_RDWR), 0);
    (void)send_all(&line);
    assert_int_equal(line.decoded, 100);
    line_close(&line);
    clip_close(&clip);
}

static void a_reader_that_answers_too_much_is_given_up(void **state)
{
    (void)state;
    struct clip clip;
    struct line line;
    clip_open(&clip, "a.mp4", moving);
    line_open(&line, &clip, -1);
    assert_int_equal(send(line.receiver.socket, "", 1, 0), 1);
    (void)send_all(&line);
    char message[MESSAGE_MAX];
    assert_int_equal(line.decoded, 100);
    assert_int_equal(recv(line.receiver.socket, message, sizeof(message), 0), 0);
    line_close(&line);
    clip_close(&clip);
}

/* ---- lies ------------------------------------------------------------------------------------ */

/* A message of a true sender, of the first picture. */
static size_t true_message(const struct clip *clip, char message[MESSAGE_MAX])
{
    struct line line;
    line_open(&line, clip, 1);
    (void)send_all(&line);
    ssize_t got = recv(line.receiver.socket, message, MESSAGE_MAX, 0);
    assert_true(got > 16 && got < MESSAGE_MAX);
    line_close(&line);
    return (size_t)got;
}

/* A reader is told this, and then nothing more. Whatever it makes of the first picture, it sees all others. */
static void tell(const struct clip *clip, const struct seen *alone, const char *message,
                 size_t size)
{
    struct line line;
    struct seen seen;
    line_open(&line, clip, 0);
    assert_int_equal(send(line.sender.socket, message, size, 0), (ssize_t)size);
    assert_int_equal(shutdown(line.sender.socket, SHUT_WR), 0);
    watch(clip, &line.receiver, &seen);
    assert_true(seen.count > 0 && seen.count <= alone->count + 1);
    assert_int_equal(seen.sum[seen.count - 1], alone->sum[alone->count - 1]);
    for (size_t i = 1; i < seen.count; i++) {
        assert_true(seen.pts_us[i] > seen.pts_us[i - 1]);
    }
    line_close(&line);
}

static void lies_are_not_believed(void **state)
{
    (void)state;
    static const int64_t values[] = {-1, 0, 1, 1000, INT32_MAX, INT64_MAX, INT64_MIN};
    struct clip clip;
    struct seen alone;
    char message[MESSAGE_MAX], lie[MESSAGE_MAX];
    clip_open(&clip, "short.mp4", "-f lavfi -i testsrc=s=64x48:r=25:d=0.4 -c:v libx264");
    watch(&clip, NULL, &alone);
    size_t size = true_message(&clip, message);
    tell(&clip, &alone, message, size);
    tell(&clip, &alone, message, size - 1);
    tell(&clip, &alone, message, 1);
    for (size_t at = 0; at + 4 <= size; at += 4) {
        for (size_t i = 0; i < CV_COUNT(values); i++) {
            size_t width = at % 8 == 0 && at + 8 <= size ? 8 : 4;
            memcpy(lie, message, size);
            memcpy(lie + at, &values[i], width);
            tell(&clip, &alone, lie, size);
            memcpy(lie, message, size);
            memcpy(lie + at, &values[i], 4);
            tell(&clip, &alone, lie, size);
        }
    }
    clip_close(&clip);
}

static void an_end_that_comes_too_early_is_not_believed(void **state)
{
    (void)state;
    struct clip clip;
    struct line line;
    struct seen alone, shared;
    struct cv_picture_sender *sender = NULL;
    struct cv_error error;
    clip_open(&clip, "long.mp4", "-f lavfi -i testsrc=s=64x48:r=5:d=20 -c:v libx264");
    watch(&clip, NULL, &alone);
    line_open(&line, &clip, 0);
    assert_int_equal(cv_picture_sender_new(&line.sender, NULL, &sender, &error), 0);
    cv_picture_send_end(sender);
    cv_picture_sender_free(sender);
    watch(&clip, &line.receiver, &shared);
    assert_same(&alone, &shared);
    line_close(&line);
    clip_close(&clip);
}

static void a_stopped_job_does_not_wait(void **state)
{
    (void)state;
    struct clip clip;
    struct line line;
    struct cv_cancel *cancel = NULL;
    struct cv_picture_receiver *receiver = NULL;
    struct cv_video_frame frame;
    struct cv_error error;
    clip_open(&clip, "a.mp4", moving);
    line_open(&line, &clip, 0);
    assert_int_equal(cv_cancel_new(&cancel, &error), 0);
    cv_cancel_request(cancel, CV_CANCEL_ABORT);
    assert_int_equal(cv_picture_receiver_new(&line.receiver, cancel, &receiver, &error), 0);
    assert_true(cv_picture_receive(receiver, &frame, &error) < 0);
    assert_int_equal(error.type, CV_ERROR_CANCELED);
    cv_picture_receiver_free(receiver);
    cv_cancel_free(cancel);
    line_close(&line);
    clip_close(&clip);
}

int main(void)
{
    assert_int_equal(setenv("LOG_LEVEL", "error", 1), 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(received_pictures_are_those_of_a_decoder),
        cmocka_unit_test(a_sender_that_is_gone_is_done_without),
        cmocka_unit_test(what_another_decoder_may_see_otherwise_is_not_sent),
        cmocka_unit_test(a_reader_that_is_gone_is_done_without),
        cmocka_unit_test(a_reader_that_answers_too_much_is_given_up),
        cmocka_unit_test(lies_are_not_believed),
        cmocka_unit_test(an_end_that_comes_too_early_is_not_believed),
        cmocka_unit_test(a_stopped_job_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
