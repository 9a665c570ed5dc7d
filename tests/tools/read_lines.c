/* Prints what models make of pictures of lines, for scripts/fit_words: read_lines MODEL+MODEL… < LIST
 *
 * Each line of LIST has the height of a picture's capitals and its file, a PGM without comments. For each, one JSON object a line
 * on standard output: for each model a list of words, [text, features…]. */
#include "workers/ocr/reading/choose_words.h"
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/reader.h"
#include "workers/ocr/reading/tesseract.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { TALL = 28, MODELS_MAX = 4 };

static void check(int result, const struct cv_error *error)
{
    if (result < 0) {
        (void)fprintf(stderr, "read_lines: %s\n", error->message);
        exit(1);
    }
}

static struct ocr_crop load(const char *path, int tall)
{
    struct ocr_crop crop = {.tall = tall, .has_letters = true};
    FILE *file = fopen(path, "rb");
    int most = 0;

    if (file && fscanf(file, "P5 %d %d %d", &crop.width, &crop.height, &most) == 3 && most == 255 &&
        crop.width > 0 && crop.height > 0 && fgetc(file) != EOF) {
        size_t size = (size_t)crop.width * (size_t)crop.height;
        crop.grey = malloc(size);
        if (crop.grey && fread(crop.grey, 1, size, file) == size) {
            (void)fclose(file);
            return crop;
        }
    }
    (void)fprintf(stderr, "read_lines: %s is no picture\n", path);
    exit(1);
}

static json_t *read_line(TessBaseAPI *api, const struct ocr_scaled_line *scaled)
{
    const struct ocr_line_picture line = {
        .grey = scaled->grey, .width = scaled->width, .height = scaled->height, .tall = TALL};
    cv_auto(ocr_words_deinit) struct ocr_words words = {0};
    struct cv_error error;
    json_t *list = json_array();

    check(ocr_tesseract_read(api, &line, &words, &error), &error);
    for (size_t i = 0; i < words.count; i++) {
        double features[OCR_WORD_FEATURE_COUNT];
        json_t *word = json_pack("[s]", words.items[i].text);
        ocr_word_features(&words, i, features);
        for (int k = 0; k < OCR_WORD_FEATURE_COUNT; k++) {
            (void)json_array_append_new(word, json_real(features[k]));
        }
        (void)json_array_append_new(list, word);
    }
    return list;
}

int main(int argc, char **argv)
{
    TessBaseAPI *apis[MODELS_MAX];
    size_t count = 0;
    struct cv_error error;
    char path[1024];
    int tall;

    for (char *name = argc == 2 ? strtok(argv[1], "+") : NULL; name && count < MODELS_MAX;
         name = strtok(NULL, "+")) {
        check(ocr_tesseract_start(ocr_models_path(), name, true, &apis[count++], &error), &error);
    }
    while (scanf("%d %1023s", &tall, path) == 2) {
        struct ocr_crop crop = load(path, tall);
        struct ocr_scaled_line scaled;
        json_t *readings = json_array();
        check(ocr_scale_line(&crop, TALL, &scaled, &error), &error);
        for (size_t i = 0; i < count; i++) {
            (void)json_array_append_new(readings, read_line(apis[i], &scaled));
        }
        (void)json_dumpf(readings, stdout, JSON_COMPACT);
        (void)putchar('\n');
        json_decref(readings);
        free(scaled.grey);
        free(crop.grey);
    }
    for (size_t i = 0; i < count; i++) {
        ocr_tesseract_stop(apis[i]);
    }
    return 0;
}
