#include "workers/ocr/emoji/network.h"

#include <emoji_network_stamp.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* The linker's view of the network (EMOJI_NETWORK is its path). */
__asm__(".section .rodata\n"
        ".global ocr_emoji_network\n"
        ".global ocr_emoji_network_end\n"
        ".balign 16\n"
        "ocr_emoji_network:\n"
        ".incbin \"" EMOJI_NETWORK "\"\n"
        "ocr_emoji_network_end:\n"
        ".byte 0\n"
        ".previous\n");
extern const uint8_t ocr_emoji_network[], ocr_emoji_network_end[];

enum {
    SIDE = 32,   /* pixels of what the network sees */
    MARGIN = 1,  /* of them around the emoji */
    WIDEST = 24, /* channels of the first layer; what follows is smaller */
    VALUES_MAX = SIDE * SIDE * WIDEST,
    CHANNELS_MAX = 256,
    OUTPUTS_MAX = 2048,
    HEADER = 20,
};

/* How sure a match has to be. Measured on the vendors that nothing was learnt from, see docs/design/text.md. */
static const double SURE = 0.74;

struct layer {
    size_t outputs, inputs;
    const float *scales, *biases;
    const int8_t *weights;
};

static size_t padded(size_t bytes)
{
    return (bytes + 3) / 4 * 4;
}

static size_t number_at(const uint8_t *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static size_t class_count(void)
{
    return number_at(ocr_emoji_network + 12);
}

static const uint16_t *groups(void)
{
    return (const uint16_t *)(const void *)(ocr_emoji_network + HEADER);
}

static const char *text_of(size_t class)
{
    const char *text =
        (const char *)ocr_emoji_network + HEADER + padded(class_count() * sizeof(uint16_t));

    while (class --) {
        text += strlen(text) + 1;
    }
    return text;
}

/* The layer at a place, which moves behind it; a convolution has `patch` weights of each input for an output. */
static struct layer next_layer(const uint8_t **at, size_t patch)
{
    struct layer layer = {.outputs = number_at(*at), .inputs = number_at(*at + 4)};

    layer.scales = (const float *)(const void *)(*at + 8);
    layer.biases = layer.scales + layer.outputs;
    layer.weights = (const int8_t *)(layer.biases + layer.outputs);
    *at = (const uint8_t *)layer.weights + padded(layer.outputs * layer.inputs * patch);
    return layer;
}

/* Adds what `count` values contribute to each output. */
static void add_products(const struct layer *layer, const float *values, size_t count,
                         const int8_t *weights, float *sums)
{
    for (size_t i = 0; i < count; i++, weights += layer->outputs) {
        float value = values[i];
        for (size_t o = 0; value != 0 && o < layer->outputs; o++) {
            sums[o] += value * (float)weights[o];
        }
    }
}

/* Of each output, the sum in its scale. */
static void finish(const struct layer *layer, const float *sums, float least, float *results)
{
    for (size_t o = 0; o < layer->outputs; o++) {
        float result = sums[o] * layer->scales[o] + layer->biases[o];
        results[o] = result > least ? result : least;
    }
}

/* A convolution of 3 × 3 at every `step`th pixel; returns the side of its result. Channels lie side by side. */
static int convolve(const struct layer *layer, const float *from, int side, int step, float *to)
{
    int results = side / step;

    for (int at = 0; at < results * results; at++) {
        float sums[CHANNELS_MAX] = {0};
        for (int patch = 0; patch < 9; patch++) {
            int x = at % results * step + patch % 3 - 1, y = at / results * step + patch / 3 - 1;
            if (x >= 0 && x < side && y >= 0 && y < side) {
                add_products(layer, from + (size_t)(y * side + x) * layer->inputs, layer->inputs,
                             layer->weights + (size_t)patch * layer->inputs * layer->outputs, sums);
            }
        }
        finish(layer, sums, 0, to + (size_t)at * layer->outputs);
    }
    return results;
}

/* A pixel of the frame, or of paper where the box and its halo end: a neighbour is no part of an emoji. */
static float level_at(const struct cv_frame *frame, int channel, const uint8_t paper[3],
                      const struct cv_box *box, int x, int y)
{
    bool inside = x >= cv_max(box->x - 1, 0) && x < cv_min(cv_box_right(box) + 1, frame->width) &&
                  y >= cv_max(box->y - 1, 0) && y < cv_min(cv_box_bottom(box) + 1, frame->height);

    return inside ? frame->plane[channel][(size_t)y * (size_t)frame->width + (size_t)x]
                  : paper[channel];
}

/* The level between four pixels. */
static float sample(const struct cv_frame *frame, int channel, const uint8_t paper[3],
                    const struct cv_box *box, float x, float y)
{
    int left = (int)floorf(x), top = (int)floorf(y);
    float right = x - (float)left, below = y - (float)top;
    float a = level_at(frame, channel, paper, box, left, top);
    float b = level_at(frame, channel, paper, box, left + 1, top);
    float c = level_at(frame, channel, paper, box, left, top + 1);
    float d = level_at(frame, channel, paper, box, left + 1, top + 1);

    return (a + (b - a) * right) * (1 - below) + (c + (d - c) * right) * below;
}

/* The box in the middle of a square of SIDE × SIDE cells, each the mean of samples: −1 black … 1 white. */
static void show(const struct cv_frame *frame, const uint8_t paper[3], const struct cv_box *box,
                 float *to)
{
    float cell = (float)cv_max(box->width, box->height) * (SIDE + 2 * MARGIN) / SIDE / (float)SIDE;
    float left = (float)box->x + ((float)box->width - cell * SIDE) / 2 - 0.5F;
    float top = (float)box->y + ((float)box->height - cell * SIDE) / 2 - 0.5F;
    int samples = cv_max(2, (int)ceilf(cell));

    for (int at = 0; at < SIDE * SIDE * 3; at++) {
        int x = at / 3 % SIDE, y = at / 3 / SIDE;
        float sum = 0;
        for (int i = 0; i < samples * samples; i++) {
            float right = ((float)(i % samples) + 0.5F) / (float)samples;
            float below = ((float)(i / samples) + 0.5F) / (float)samples;
            sum += sample(frame, at % 3, paper, box, left + ((float)x + right) * cell,
                          top + ((float)y + below) * cell);
        }
        to[at] = sum / (float)(samples * samples) / 127.5F - 1;
    }
}

/* The likelihood of each class, from the picture in `values`, of which the contents are lost. */
static void classify(float *values, float *spare, double *ret_chances)
{
    const uint8_t *at = ocr_emoji_network + HEADER + padded(class_count() * sizeof(uint16_t)) +
                        number_at(ocr_emoji_network + 16);
    size_t layers = number_at(ocr_emoji_network + 8);
    float vector[OUTPUTS_MAX] = {0}, sums[OUTPUTS_MAX] = {0};
    float most = 0;
    double all = 0;
    int side = SIDE;

    for (size_t i = 0; i + 2 < layers; i++) {
        struct layer layer = next_layer(&at, 9);
        side = convolve(&layer, i % 2 ? spare : values, side, i ? 2 : 1, i % 2 ? values : spare);
    }
    struct layer layer = next_layer(&at, 1);
    add_products(&layer, layers % 2 ? spare : values, layer.inputs, layer.weights, sums);
    finish(&layer, sums, 0, vector);
    layer = next_layer(&at, 1);
    memset(sums, 0, sizeof(sums));
    add_products(&layer, vector, layer.inputs, layer.weights, sums);
    finish(&layer, sums, -FLT_MAX, sums);
    for (size_t o = 0; o < layer.outputs; o++) {
        most = sums[o] > most ? sums[o] : most;
    }
    for (size_t o = 0; o < layer.outputs; o++) {
        ret_chances[o] = exp((double)(sums[o] - most));
        all += ret_chances[o];
    }
    for (size_t o = 0; o < layer.outputs; o++) {
        ret_chances[o] /= all;
    }
}

struct ocr_emoji_match ocr_emoji_match(const struct cv_frame *frame, const uint8_t paper[3],
                                       const struct cv_box *box)
{
    float values[VALUES_MAX], spare[VALUES_MAX];
    double chances[OUTPUTS_MAX], of_group[OUTPUTS_MAX] = {0};
    size_t count = class_count(), best = 0, best_class = 0;

    show(frame, paper, box, values);
    classify(values, spare, chances);
    for (size_t i = 0; i < count; i++) {
        of_group[groups()[i]] += chances[i];
    }
    for (size_t i = 0; i < count; i++) {
        best = of_group[i] > of_group[best] ? i : best;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_better = groups()[best_class] != best || chances[i] > chances[best_class];
        best_class = groups()[i] == best && is_better ? i : best_class;
    }
    return (struct ocr_emoji_match){best_class ? text_of(best_class) : NULL, of_group[best]};
}

bool ocr_emoji_is_sure(const struct ocr_emoji_match *match)
{
    return match->text && match->score >= SURE;
}

uint64_t ocr_emoji_network_id(void)
{
    return cv_hash(CV_HASH_BEGIN, ocr_emoji_network,
                   (size_t)(ocr_emoji_network_end - ocr_emoji_network));
}
