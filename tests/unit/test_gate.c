/* The block gate against the noise of a real encoder, and against small changes. */
#include "workers/sample/gate.h"
#include "workers/sample/sampler.h"

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 640, HEIGHT = 360, RATE = 30, GLYPH_ROWS = 7, GLYPH_COLUMNS = 5, KEPT_MAX = 64 };
enum {
    FRAMES = 110,
    CHANGE = 87, /* the last digit is another from here on: four groups of noise come before */
    CHANGE_US = CHANGE * 1000000 / RATE,
};

/* Digits of a 5×7 matrix, one row a byte, the leftmost column in bit 4. */
static const uint8_t digits[10][GLYPH_ROWS] = {
    {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},  {14, 17, 1, 2, 4, 8, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14},
    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},   {14, 17, 17, 14, 17, 17, 14},
    {14, 17, 17, 15, 1, 2, 12},
};

struct page {
    int paper, ink;
    int scale; /* pixels of one dot */
};

static AVFrame *new_picture(void)
{
    AVFrame *frame = av_frame_alloc();
    assert_non_null(frame);
    frame->width = WIDTH;
    frame->height = HEIGHT;
    frame->format = AV_PIX_FMT_YUV420P;
    assert_int_equal(av_frame_get_buffer(frame, 0), 0);
    return frame;
}

static void draw_digit(AVFrame *frame, const struct page *page, int x, int y, int digit)
{
    for (int row = 0; row < GLYPH_ROWS * page->scale; row++) {
        for (int column = 0; column < GLYPH_COLUMNS * page->scale; column++) {
            int dot = digits[digit][row / page->scale] >> (4 - column / page->scale) & 1;
            if (dot && x + column < WIDTH && y + row < HEIGHT) {
                frame->data[0][(y + row) * frame->linesize[0] + x + column] = (uint8_t)page->ink;
            }
        }
    }
}

/* A page full of lines of digits; the last digit of the fourth line is `last`. */
static void draw_page(AVFrame *frame, const struct page *page, int last)
{
    assert_int_equal(av_frame_make_writable(frame), 0);
    for (int y = 0; y < HEIGHT; y++) {
        memset(frame->data[0] + y * frame->linesize[0], page->paper, WIDTH);
    }
    for (int plane = 1; plane < 3; plane++) {
        memset(frame->data[plane], 128, (size_t)frame->linesize[plane] * HEIGHT / 2);
    }
    int step = (GLYPH_COLUMNS + 1) * page->scale;
    uint32_t random = 12345;
    for (int line = 0; line < 8; line++) {
        for (int i = 0; i < 20; i++) {
            random = random * 1664525 + 1013904223;
            int digit = line == 3 && i == 19 ? last : (int)(random >> 24) % 10;
            draw_digit(frame, page, 21 + i * step, 15 + line * 12 * page->scale, digit);
        }
    }
}

struct kept {
    int64_t start_us[KEPT_MAX];
    size_t count;
};

static int note(void *opaque, const struct sampler_frame *frame, struct cv_error *error)
{
    (void)error;
    struct kept *kept = opaque;
    assert_true(kept->count < KEPT_MAX);
    kept->start_us[kept->count++] = frame->start_us;
    return 0;
}

struct chain {
    AVCodecContext *encoder, *decoder;
    AVPacket *packet;
    AVFrame *decoded;
    struct sampler *sampler;
    struct kept kept;
};

/* x264's own two ways to the same picture: vector code, and C, whose streams are those of arm64. */
static const char *const codes[] = {"asm=auto", "asm=0"};

struct stream {
    int crf;
    const char *code;
};

static void open_chain(struct chain *chain, const struct stream *stream, double dedupe_threshold)
{
    *chain = (struct chain){0};
    const AVCodec *x264 = avcodec_find_encoder_by_name("libx264");
    assert_non_null(x264);
    chain->encoder = avcodec_alloc_context3(x264);
    chain->encoder->width = WIDTH;
    chain->encoder->height = HEIGHT;
    chain->encoder->pix_fmt = AV_PIX_FMT_YUV420P;
    chain->encoder->time_base = (AVRational){1, RATE};
    chain->encoder->gop_size = 20;
    chain->encoder->thread_count = 1;
    char value[16];
    (void)snprintf(value, sizeof(value), "%d", stream->crf);
    assert_int_equal(av_opt_set(chain->encoder->priv_data, "crf", value, 0), 0);
    assert_int_equal(av_opt_set(chain->encoder->priv_data, "preset", "veryfast", 0), 0);
    assert_int_equal(av_opt_set(chain->encoder->priv_data, "x264-params", stream->code, 0), 0);
    assert_int_equal(avcodec_open2(chain->encoder, x264, NULL), 0);
    const AVCodec *h264 = avcodec_find_decoder(AV_CODEC_ID_H264);
    chain->decoder = avcodec_alloc_context3(h264);
    chain->decoder->thread_count = 1;
    assert_int_equal(avcodec_open2(chain->decoder, h264, NULL), 0);
    chain->packet = av_packet_alloc();
    chain->decoded = av_frame_alloc();
    struct sampler_params params = {.target_fps = 10, .dedupe_threshold = dedupe_threshold};
    struct cv_error error;
    assert_int_equal(sampler_new(&params, note, &chain->kept, &chain->sampler, &error), 0);
}

static void drain_decoder(struct chain *chain)
{
    struct cv_error error;
    while (avcodec_receive_frame(chain->decoder, chain->decoded) == 0) {
        int64_t time = chain->decoded->pts * 1000000 / RATE;
        assert_int_equal(sampler_push(chain->sampler, chain->decoded, time, &error), 0);
    }
}

static void push(struct chain *chain, AVFrame *frame)
{
    assert_int_equal(avcodec_send_frame(chain->encoder, frame), 0);
    while (avcodec_receive_packet(chain->encoder, chain->packet) == 0) {
        assert_int_equal(avcodec_send_packet(chain->decoder, chain->packet), 0);
        av_packet_unref(chain->packet);
        drain_decoder(chain);
    }
}

static void close_chain(struct chain *chain)
{
    struct cv_error error;
    push(chain, NULL);
    assert_int_equal(avcodec_send_packet(chain->decoder, NULL), 0);
    drain_decoder(chain);
    assert_int_equal(sampler_finish(chain->sampler, &error), 0);
    sampler_free(chain->sampler);
    avcodec_free_context(&chain->encoder);
    avcodec_free_context(&chain->decoder);
    av_packet_free(&chain->packet);
    av_frame_free(&chain->decoded);
}

/* Encodes the frames; returns what was kept. */
static struct kept run(const struct page *page, const struct stream *stream,
                       double dedupe_threshold)
{
    struct chain chain;
    open_chain(&chain, stream, dedupe_threshold);
    AVFrame *frame = new_picture();
    for (int i = 0; i < FRAMES; i++) {
        draw_page(frame, page, i >= CHANGE ? 3 : 8);
        frame->pts = i;
        push(&chain, frame);
    }
    close_chain(&chain);
    av_frame_free(&frame);
    return chain.kept;
}

static const struct page pages[] = {{235, 16, 3}, {16, 235, 3}, {235, 16, 2},
                                    {20, 120, 3}, {235, 90, 4}, {250, 140, 3}};
static const int rates[] = {18, 23, 28, 32};
/* From here on x264 may draw one block of a still picture anew by as much as a faint digit of 7
 * pixels differs (550 to 900, on the first page); up to 28 none of its streams did. */
enum { COARSE_CRF = 29, COARSE_KEPT_MAX = 1 };

/* How many frames were kept before the digit changes, the first one aside. */
static size_t kept_of_noise(const struct page *page, const struct stream *stream)
{
    struct kept kept = run(page, stream, 0.95);
    /* at the coarsest, the encoder may draw a block anew before the change, and the digit twice */
    assert_in_range(kept.count, 2, stream->crf < COARSE_CRF ? 2 : 4);
    size_t found = 1;
    while (found < kept.count && kept.start_us[found] < CHANGE_US) {
        found++;
    }
    assert_in_range(found, 1, stream->crf < COARSE_CRF ? 1 : 2);
    assert_true(found < kept.count);
    assert_int_equal(kept.start_us[found], CHANGE_US);
    return found - 1;
}

/* Of each of x264's streams: of its noise nothing is kept, but for one page at the coarsest rate.
 * The C code takes seconds: it makes the two coarse streams alone, whose noise is the strongest. */
static void test_one_digit_is_found_at_its_frame_and_noise_keeps_nothing(void **state)
{
    (void)state;
    for (size_t code = 0; code < CV_COUNT(codes); code++) {
        size_t coarse = 0;
        for (size_t i = 0; i < CV_COUNT(pages); i++) {
            for (size_t k = 2 * code; k < CV_COUNT(rates); k++) {
                struct stream stream = {.crf = rates[k], .code = codes[code]};
                coarse += kept_of_noise(&pages[i], &stream);
            }
        }
        assert_in_range(coarse, 0, COARSE_KEPT_MAX);
    }
}

static void test_a_low_threshold_ignores_a_digit(void **state)
{
    (void)state;
    struct stream stream = {.crf = 23, .code = codes[0]};
    assert_int_equal(run(&pages[0], &stream, 0.5).count, 1);
}

/* How many blocks count as text where a surface of 20 blocks times `rows` has changed its brightness, and strokes came at ten
 * other places, each as many blocks wide. */
static int changed_beside_a_surface(int rows, int wide)
{
    enum { SURFACE = 20 * GATE_BLOCK, TOP = 20 * GATE_BLOCK, PLACES = 10, APART = 5 * GATE_BLOCK };
    static uint8_t before[WIDTH * HEIGHT], after[WIDTH * HEIGHT];
    struct gate_result result;
    struct gate gate;
    struct cv_error error;

    memset(before, 100, sizeof(before));
    memset(after, 100, sizeof(after));
    for (int y = 0; y < rows * GATE_BLOCK; y++) {
        memset(after + (TOP + y) * WIDTH, 140, SURFACE);
    }
    for (int i = 0; i < PLACES * wide; i++) {
        int x = GATE_BLOCK * (10 + i % wide) + APART * (i / wide) + 3;
        for (int y = 5 * GATE_BLOCK; y < 6 * GATE_BLOCK; y++) {
            memset(after + y * WIDTH + x, 220, 3);
        }
    }
    const struct plane planes[] = {{before, WIDTH, WIDTH, HEIGHT}, {after, WIDTH, WIDTH, HEIGHT}};
    assert_int_equal(gate_init(&gate, WIDTH, HEIGHT, 0.95, &error), 0);
    gate_compare(&gate, &planes[0], &planes[1], GATE_FINE, &result);
    gate_deinit(&gate);
    return result.changed;
}

static void test_lone_spots_beside_a_moving_picture_are_no_text(void **state)
{
    (void)state;
    assert_int_equal(changed_beside_a_surface(20, 1), 0);
    assert_int_equal(changed_beside_a_surface(20, 2), 20);
    assert_int_equal(changed_beside_a_surface(4, 1), 10);
}

int main(void)
{
    av_log_set_level(AV_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lone_spots_beside_a_moving_picture_are_no_text),
        cmocka_unit_test(test_one_digit_is_found_at_its_frame_and_noise_keeps_nothing),
        cmocka_unit_test(test_a_low_threshold_ignores_a_digit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
