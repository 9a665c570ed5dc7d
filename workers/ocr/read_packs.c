#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/reading/reading.h"
#include "workers/ocr/stage.h"
#include "workers/ocr/tracks/tracks.h"

#include <string.h>

/* The packs of a payload, read one after the other. */
struct packs {
    struct cv_stage_context *context;
    const struct ocr_payload *payload;
    struct ocr_engine *engine;
    uint64_t network; /* that reads emoji */
    size_t current;   /* index of the one that is read */
    json_t *detections, *unread;
    int64_t lines_read, readings;
};

/* The text of a picture of the pack, and where in the pack the picture lies. */
struct text {
    struct ocr_reading reading;
    json_t *words; /* owned */
    int64_t offset, bytes;
    int tall, width; /* of the picture, in its pixels */
};

struct texts {
    const char *key;
    struct text *items;
    bool *is_text; /* whether a row of the picture is */
    size_t count;
};

static void texts_deinit(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        ocr_reading_deinit(&texts->items[i].reading);
        json_decref(texts->items[i].words);
    }
    free(texts->items);
    free(texts->is_text);
}
CV_DEFINE_CLEANUP_ADDRESS(struct texts, texts_deinit)

static int patch_frame(const struct ocr_patch *patch, struct cv_frame *frame,
                       struct cv_error *error)
{
    size_t area = (size_t)patch->box.width * (size_t)patch->box.height;

    CV_TRY(cv_frame_init(frame, patch->box.width, patch->box.height, error));
    for (size_t i = 0; i < area; i++) {
        frame->plane[CV_RED][i] = patch->rgb[3 * i];
        frame->plane[CV_GREEN][i] = patch->rgb[3 * i + 1];
        frame->plane[CV_BLUE][i] = patch->rgb[3 * i + 2];
    }
    return 0;
}

/* Reads an emoji again by another network than the one that it was first read with. It keeps its text
 * unless this one is surer of another. */
static int read_emoji_again(struct ocr_crop *crop, size_t index, struct cv_error *error)
{
    cv_auto(cv_frame_deinit) struct cv_frame frame = {0};
    struct ocr_emoji *emoji = &crop->emoji[index];
    const struct ocr_patch *patch = &crop->patches[index];
    struct cv_box box = emoji->box;

    if (!patch->rgb) {
        return 0;
    }
    CV_TRY(patch_frame(patch, &frame, error));
    box.x -= patch->box.x;
    box.y -= patch->box.y;
    struct ocr_emoji_match match = ocr_emoji_match(&frame, crop->ink.paper, &box);
    if (ocr_emoji_is_sure(&match) && match.score > emoji->score) {
        emoji->text = match.text;
        emoji->score = match.score;
    }
    return 0;
}

static int read_picture(struct packs *packs, struct ocr_unpacking *unpacking, struct text *ret_text,
                        struct cv_error *error)
{
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {.grey = NULL};
    struct text text = {.words = NULL};

    ocr_unpack_place(unpacking, &text.offset, &text.bytes);
    CV_TRY(ocr_unpack_picture(unpacking, &crop, error));
    for (size_t i = 0; i < crop.emoji_count; i++) {
        if (ocr_unpack_bank(unpacking) != packs->network) {
            CV_TRY(read_emoji_again(&crop, i, error));
        }
    }
    CV_TRY(ocr_read(packs->engine, &crop, &text.reading, &packs->readings, error));
    packs->lines_read++;
    text.words = ocr_word_boxes(&crop, text.reading.text);
    if (!text.words) {
        ocr_reading_deinit(&text.reading);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the words of a line");
    }
    text.tall = crop.tall;
    text.width = crop.width;
    *ret_text = text;
    return 0;
}

static int read_pictures(struct packs *packs, struct ocr_unpacking *unpacking, struct texts *texts,
                         struct cv_error *error)
{
    size_t count = ocr_unpack_pictures(unpacking);
    double pack_count = (double)packs->payload->line_key_count;

    texts->items = calloc(count + 1, sizeof(*texts->items));
    texts->is_text = calloc(count + 1, sizeof(*texts->is_text));
    CV_TRY_MEMORY(texts->items && texts->is_text, error, "text lines");
    while (texts->count < count) {
        if (cv_cancel_level(cv_stage_cancel(packs->context)) == CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped at line %zu of %zu", texts->count,
                           count);
        }
        CV_TRY(read_picture(packs, unpacking, &texts->items[texts->count], error));
        texts->count++;
        cv_stage_progress(packs->context,
                          ((double)packs->current + (double)texts->count / (double)count) /
                              pack_count,
                          "read lines again");
        bool is_end = packs->current + 1 == packs->payload->line_key_count && texts->count == count;
        CV_TRY(ocr_choose_models(packs->engine, is_end, error));
    }
    return 0;
}

static int add_row(const struct packs *packs, const struct texts *texts, struct ocr_kept_row *kept,
                   struct cv_error *error)
{
    const struct text *text = &texts->items[kept->picture];
    const struct ocr_reading *reading = &text->reading;
    struct ocr_row row = {
        .text = reading->text,
        .confidence = reading->confidence,
        .worst_word = reading->worst_word,
        .agreement = reading->agreement,
        .line = kept->line,
        .words = text->words,
        .tall = text->tall,
        .ink = {.kind = kept->kind, .clarity = kept->clarity, .is_faint = kept->is_faint},
        .weight = ocr_text_weight(reading->text),
        .has_company = kept->has_company,
    };

    memcpy(row.language, reading->language, sizeof(row.language));
    (void)ocr_row_judge(&row, text->width, packs->payload->min_confidence, kept);
    if (kept->refusal) {
        return 0;
    }
    texts->is_text[kept->picture] = true;
    if (json_array_size(packs->detections) == OCR_ROWS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video has more than %d text lines",
                       OCR_ROWS_MAX);
    }
    json_t *detection = ocr_detection_json(&row, kept);
    CV_TRY_MEMORY(json_array_append_new(packs->detections, detection) == 0, error, "a row");
    return ocr_detection_place(detection, texts->key, text->offset, text->bytes, error);
}

static int read_rows(struct packs *packs, const char *key, const struct cv_byte_source *source,
                     struct cv_error *error)
{
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = NULL;
    cv_auto(texts_deinit) struct texts texts = {.key = key};

    CV_TRY(ocr_unpack_open(source, &unpacking, error));
    CV_TRY(read_pictures(packs, unpacking, &texts, error));
    for (size_t i = 0; i < ocr_unpack_rows(unpacking); i++) {
        struct ocr_kept_row kept;
        CV_TRY(ocr_unpack_row(unpacking, i, &kept, error));
        CV_TRY(add_row(packs, &texts, &kept, error));
    }
    return ocr_missing_scripts(ocr_engine_languages(packs->engine), source, texts.is_text,
                               packs->unread, error);
}

static int read_pack(struct packs *packs, const char *key, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;

    CV_TRY(cv_stage_open_input(packs->context, key, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    ocr_engine_turn_page(packs->engine);
    int result = read_rows(packs, key, &source, error);
    return result < 0 ? cv_fail_context(error, result, "%s", key) : result;
}

int ocr_read_packs(struct cv_stage_context *context, const struct ocr_payload *payload,
                   struct ocr_engine *engine, json_t **ret_result, struct cv_error *error)
{
    cv_auto(json_decref) json_t *detections = json_array();
    cv_auto(json_decref) json_t *unread = json_array();
    struct packs packs = {.context = context,
                          .payload = payload,
                          .engine = engine,
                          .network = ocr_emoji_network_id(),
                          .detections = detections,
                          .unread = unread};

    for (; packs.current < payload->line_key_count; packs.current++) {
        CV_TRY(read_pack(&packs, payload->line_keys[packs.current], error));
    }
    json_t *result =
        json_pack("{s:O, s:O, s:I, s:I}", "detections", detections, "unread", unread, "lines_read",
                  (json_int_t)packs.lines_read, "readings", (json_int_t)packs.readings);
    CV_TRY_MEMORY(result, error, "a result");
    *ret_result = result;
    return 0;
}
