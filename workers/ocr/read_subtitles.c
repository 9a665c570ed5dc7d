#include "common/media/media.h"
#include "common/said/said.h"
#include "common/screen/screen.h"

#include "workers/ocr/reading/reading.h"
#include "workers/ocr/stage.h"

#include <string.h>

/* A picture of subtitles, and when it is shown. */
struct shown {
    const char *key, *language;
    int64_t start_ms, end_ms;
};

struct subtitles {
    struct cv_stage_context *context;
    struct ocr_engine *engine;
    double min_confidence;
};

/* ---- one picture ----------------------------------------------------------------------------- */

/* A piece of a row: what stands far from the next word is a line of its own to the finder of lines. */
struct piece {
    const struct cv_text_line *line;
    int row;
};

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    int row = (a->row > b->row) - (a->row < b->row);
    return row ? row : (a->line->box.x > b->line->box.x) - (a->line->box.x < b->line->box.x);
}

/* The lines of a picture, which are in the order of their tops, in the order in which they are read. */
static struct piece *order_lines(const struct cv_text_lines *lines)
{
    struct piece *pieces = calloc(lines->count + 1, sizeof(*pieces));
    int row = 0, bottom = 0;
    for (size_t i = 0; pieces && i < lines->count; i++) {
        const struct cv_box *box = &lines->items[i].box;
        if (box->y + box->height / 2 > bottom) {
            row++;
            bottom = cv_box_bottom(box);
        }
        pieces[i] = (struct piece){&lines->items[i], row};
    }
    if (pieces) {
        qsort(pieces, lines->count, sizeof(*pieces), compare_pieces);
    }
    return pieces;
}

/* Appends what a line says, if it is sure enough. */
static int read_line(struct subtitles *subtitles, const struct cv_frame *frame,
                     const struct cv_text_line *line, const struct cv_box *glyphs,
                     struct cv_buffer *text, struct cv_error *error)
{
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {0};
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    int64_t readings = 0;
    int result = ocr_crop_make(frame, line, glyphs, &crop, error);
    if (result != 0) {
        return result < 0 ? result : 0;
    }
    CV_TRY(ocr_read(subtitles->engine, &crop, &reading, &readings, error));
    if (reading.text[0] && reading.confidence >= subtitles->min_confidence) {
        cv_buffer_printf(text, "%s%s", text->length ? " " : "", reading.text);
    }
    return 0;
}

static int read_picture(struct subtitles *subtitles, const char *key, char **ret_text,
                        struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    cv_auto(cv_frame_deinit) struct cv_frame frame = {0};
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = {0};
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    if (cv_cancel_level(cv_stage_cancel(subtitles->context)) == CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped at %s", key);
    }
    int result = cv_store_get(cv_stage_store(subtitles->context), key, CV_FRAME_BYTES_MAX, &data,
                              &size, error);
    if (result == CV_STORE_NOT_FOUND) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is missing in the store", key);
    }
    result = result ? result : cv_frame_decode(data, size, &frame, error);
    if (result < 0) {
        return cv_fail_context(error, result, "%s", key);
    }
    CV_TRY(cv_text_lines_find(&frame, &lines, error));
    cv_auto_free struct piece *pieces = order_lines(&lines);
    CV_TRY_MEMORY(pieces, error, "subtitles");
    for (size_t i = 0; i < lines.count; i++) {
        const struct cv_text_line *line = pieces[i].line;
        CV_TRY(read_line(subtitles, &frame, line, lines.glyphs + line->first_glyph, &text, error));
    }
    return cv_buffer_detach(&text, ret_text, error);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Gives the engine the models of a language; without one it keeps those of the video. */
static int choose_models(struct ocr_engine *engine, const char *language, bool *ret_installed,
                         struct cv_error *error)
{
    const char *names[] = {language, NULL}, *found;
    size_t count = 1;
    bool changed;
    struct cv_error missing;
    *ret_installed = true;
    if (strcmp(language, "zho") == 0) {
        names[0] = "chi_sim";
        names[count++] = "chi_tra";
    } else if (strcmp(language, "nob") == 0 || strcmp(language, "nno") == 0) {
        names[0] = "nor";
    }
    for (size_t i = 0; language[0] && i < count; i++) {
        *ret_installed =
            *ret_installed && ocr_models_find(ocr_models_path(), names[i], &found, &missing) == 0;
    }
    return language[0] && *ret_installed
               ? ocr_engine_set_models(engine, names, count, &changed, error)
               : 0;
}

static int compare_shown(const void *left, const void *right)
{
    const struct shown *a = left, *b = right;
    int language = strcmp(a->language, b->language);
    return language ? language : strcmp(a->key, b->key);
}

static int read_entry(const json_t *entry, const char *video_id, struct shown *shown,
                      struct cv_error *error)
{
    const json_t *start = json_object_get(entry, "t_start"), *end = json_object_get(entry, "t_end");
    *shown = (struct shown){json_string_value(json_object_get(entry, "path")),
                            json_string_value(json_object_get(entry, "language")),
                            json_integer_value(start), json_integer_value(end)};
    bool is_good = shown->key && cv_object_belongs(CV_OBJECT_FRAMES, shown->key, video_id) &&
                   shown->language && strlen(shown->language) < CV_SUBTITLE_LANGUAGE_SIZE &&
                   !shown->language[strspn(shown->language, "abcdefghijklmnopqrstuvwxyz")] &&
                   shown->start_ms >= 0 && shown->end_ms > shown->start_ms &&
                   shown->end_ms <= OCR_TIME_MAX_MS;
    return is_good ? 0
                   : cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                             "payload: \"subtitles\" must hold pictures of the video's with their "
                             "languages and times");
}

/* Reads each picture once for each language, and adds the lines of all that show it. The events are by language, then by picture. */
static int read_all(struct subtitles *subtitles, const struct shown *items, size_t count,
                    struct cv_subtitle_list *lines, json_t *result, json_int_t *lost,
                    struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    bool is_installed = true;
    json_int_t unread = 0;
    for (size_t i = 0; i < count; i++) {
        const struct shown *shown = &items[i], *before = i ? shown - 1 : NULL;
        bool is_other = !before || strcmp(shown->language, before->language) != 0;
        if (is_other) {
            CV_TRY(choose_models(subtitles->engine, shown->language, &is_installed, error));
        }
        if (is_installed && (is_other || strcmp(shown->key, before->key) != 0)) {
            free(cv_take(text));
            CV_TRY(read_picture(subtitles, shown->key, &text, error));
            cv_stage_progress(subtitles->context, (double)i / (double)count, "read subtitles");
        }
        if (is_installed) {
            struct cv_subtitle line = {
                .start_ms = shown->start_ms, .end_ms = shown->end_ms, .text = text};
            (void)snprintf(line.language, sizeof(line.language), "%s", shown->language);
            *lost += !text[0];
            CV_TRY(cv_subtitle_list_add(lines, &line, error));
            continue;
        }
        unread++;
        if (i + 1 == count || strcmp(items[i + 1].language, shown->language) != 0) {
            char name[sizeof(OCR_PICTURES) + 1 + CV_SUBTITLE_LANGUAGE_SIZE];
            (void)snprintf(name, sizeof(name), "%s_%s", OCR_PICTURES, shown->language);
            CV_TRY(ocr_add_unread(result, name, unread, error));
            unread = 0;
        }
    }
    return 0;
}

int ocr_read_subtitles(struct cv_stage_context *context, const json_t *json,
                       const struct ocr_payload *payload, struct ocr_engine *engine, json_t *result,
                       struct cv_error *error)
{
    const json_t *list = json_object_get(json, "subtitles");
    json_int_t lost = json_integer_value(json_object_get(json, "lost_subtitles"));
    size_t count = cv_min(json_array_size(list), CV_SUBTITLE_LINES_MAX);
    struct subtitles subtitles = {context, engine, payload->min_confidence};
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list lines = {0};
    cv_auto_free struct shown *items = calloc(count + 1, sizeof(*items));
    json_t *described = NULL;
    CV_TRY_MEMORY(items, error, "subtitles");
    for (size_t i = 0; i < count; i++) {
        CV_TRY(read_entry(json_array_get(list, i), payload->video_id, &items[i], error));
    }
    qsort(items, count, sizeof(*items), compare_shown);
    ocr_engine_set_choice(engine, NULL);
    CV_TRY(read_all(&subtitles, items, count, &lines, result, &lost, error));
    CV_TRY(ocr_add_unread(result, OCR_PICTURES, lost, error));
    CV_TRY(cv_subtitles_finish(&lines, error));
    CV_TRY(cv_said_describe(&lines, &described, error));
    CV_TRY_MEMORY(json_object_set_new(result, "subtitles", described) == 0, error, "a result");
    return 0;
}
