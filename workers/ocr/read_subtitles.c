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

/* The finder of lines tells where the rows are and how tall their letters; what it leaves out of one, a dash before it or a capital
 * that looks like an icon, belongs to it all the same: in these pictures nothing but letters is dark. */
struct row {
    int top, bottom, tall, widest;
};

/* *ret_rows has one entry more than *ret_count; free() it. */
static int find_rows(struct cv_frame *frame, struct row **ret_rows, size_t *ret_count,
                     struct cv_error *error)
{
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = {0};
    CV_TRY(cv_text_lines_find(frame, &lines, error)); /* in the order of their tops */
    struct row *rows = calloc(lines.count + 1, sizeof(*rows));
    size_t count = 0;
    CV_TRY_MEMORY(rows, error, "subtitles");
    for (size_t i = 0; i < lines.count; i++) {
        const struct cv_box *box = &lines.items[i].box;
        struct row *row = count > 0 ? &rows[count - 1] : NULL;
        if (!row || box->y + box->height / 2 > row->bottom) {
            row = &rows[count++];
            row->top = box->y;
        }
        row->bottom = cv_max(row->bottom, cv_box_bottom(box));
        row->tall = box->width > row->widest ? lines.items[i].tall : row->tall;
        row->widest = cv_max(row->widest, box->width);
    }
    rows[count].top = frame->height;
    *ret_rows = rows;
    *ret_count = count;
    return 0;
}

/* The box of all that is dark between two rows of pixels. */
static struct cv_box find_ink(const struct cv_frame *frame, int top, int bottom)
{
    struct cv_box ink = {0};
    for (int y = top; y < bottom; y++) {
        for (int x = 0; x < frame->width; x++) {
            struct cv_box pixel = {x, y, 1, 1};
            if (frame->plane[CV_LUMA][(size_t)y * (size_t)frame->width + (size_t)x] < 128) {
                ink = ink.width > 0 ? cv_box_union(&ink, &pixel) : pixel;
            }
        }
    }
    return ink;
}

/* Appends what a row says, if it is sure enough. Marks above and below letters may be nearer to the rows beside it than the
 * line that was found. */
static int read_row(struct subtitles *subtitles, const struct cv_frame *frame,
                    const struct row *rows, size_t index, struct cv_buffer *text,
                    struct cv_error *error)
{
    const struct row *row = &rows[index];
    int before = index > 0 ? row[-1].bottom : 0, room = row->tall / 2;
    cv_auto(ocr_reading_deinit) struct ocr_reading reading = {0};
    int64_t readings = 0;
    struct cv_box box = find_ink(frame, cv_max(row->top - room, (before + row->top) / 2),
                                 cv_min(row->bottom + room, (row->bottom + row[1].top) / 2));
    struct ocr_crop crop = {.width = box.width,
                            .height = box.height,
                            .tall = row->tall,
                            .has_letters = true,
                            .has_no_bars = true};
    if (box.width == 0) {
        return 0;
    }
    cv_auto_free uint8_t *grey = malloc((size_t)box.width * (size_t)box.height);
    CV_TRY_MEMORY(grey, error, "subtitles");
    for (int y = 0; y < box.height; y++) {
        (void)memcpy(grey + (size_t)y * (size_t)box.width,
                     frame->plane[CV_LUMA] + (size_t)(box.y + y) * (size_t)frame->width + box.x,
                     (size_t)box.width);
    }
    crop.grey = grey;
    CV_TRY(ocr_read(subtitles->engine, &crop, &reading, &readings, error));
    if (reading.text[0] && reading.confidence >= subtitles->min_confidence) {
        cv_buffer_printf(text, "%s%s", text->length ? "\n" : "", reading.text);
    }
    return 0;
}

static int read_picture(struct subtitles *subtitles, const char *key, char **ret_text,
                        struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0, count = 0;
    cv_auto_free struct row *rows = NULL;
    cv_auto(cv_frame_deinit) struct cv_frame frame = {0};
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
    CV_TRY(find_rows(&frame, &rows, &count, error));
    for (size_t i = 0; i < count; i++) {
        CV_TRY(read_row(subtitles, &frame, rows, i, &text, error));
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
