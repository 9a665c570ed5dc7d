#include "workers/ocr/pictures/pack.h"

#include <leptonica/allheaders.h>
#include <string.h>

enum { HEADER = 12, SIDE_MAX = CV_FRAME_SIDE_MAX, PLACE_MAX = CV_FRAME_SIDE_MAX * 8 };

struct ocr_unpacking {
    const struct cv_byte_source *source;
    json_t *index;
    uint64_t bank;
    size_t next;    /* picture */
    int64_t offset; /* where it begins */
};

static int damaged(struct cv_error *error, const char *what)
{
    return cv_fail(error, CV_ERROR_DECODE, "the kept lines are damaged: %s", what);
}

static int read_fully(const struct cv_byte_source *source, int64_t offset, void *data, size_t size,
                      struct cv_error *error)
{
    for (size_t done = 0; done < size;) {
        size_t step = 0;
        CV_TRY(source->read(source->opaque, offset + (int64_t)done, (char *)data + done,
                            size - done, &step, error));
        if (step == 0) {
            return damaged(error, "they end too early");
        }
        done += step;
    }
    return 0;
}

/* A whole number of a list within bounds. */
static bool number_at(const json_t *list, size_t index, int64_t low, int64_t high,
                      int64_t *ret_number)
{
    const json_t *value = json_array_get(list, index);

    if (!json_is_integer(value) || json_integer_value(value) < low ||
        json_integer_value(value) > high) {
        return false;
    }
    *ret_number = json_integer_value(value);
    return true;
}

/* Four numbers of a list as a box. */
static bool box_at(const json_t *list, size_t index, int limit, struct cv_box *ret_box)
{
    int64_t x, y, width, height;

    if (!number_at(list, index, -limit, limit, &x) ||
        !number_at(list, index + 1, -limit, limit, &y) ||
        !number_at(list, index + 2, 1, limit, &width) ||
        !number_at(list, index + 3, 1, limit, &height)) {
        return false;
    }
    *ret_box = (struct cv_box){(int)x, (int)y, (int)width, (int)height};
    return true;
}

static bool read_bank(const json_t *index, uint64_t *ret_bank)
{
    const char *text = json_string_value(json_object_get(index, "bank"));
    uint64_t bank = 0;

    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return false;
    }
    for (; *text; text++) {
        bank = bank << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    }
    *ret_bank = bank;
    return true;
}

int ocr_unpack_open(const struct cv_byte_source *source, struct ocr_unpacking **ret_unpacking,
                    struct cv_error *error)
{
    uint8_t header[HEADER];

    CV_TRY(read_fully(source, 0, header, sizeof(header), error));
    size_t length =
        header[8] | (size_t)header[9] << 8 | (size_t)header[10] << 16 | (size_t)header[11] << 24;
    if (memcmp(header, "CVLINES1", 8) != 0 || length > OCR_PACK_INDEX_MAX ||
        (int64_t)length > source->size) {
        return damaged(error, "they do not begin as kept lines do");
    }
    cv_auto_free char *text = malloc(length + 1);
    cv_auto(ocr_unpack_close) struct ocr_unpacking *unpacking = calloc(1, sizeof(*unpacking));
    CV_TRY_MEMORY(text && unpacking, error, "the index of kept text lines");
    CV_TRY(read_fully(source, HEADER, text, length, error));
    unpacking->source = source;
    unpacking->offset = HEADER + (int64_t)length;
    unpacking->index = json_loadb(text, length, 0, NULL);
    if (!unpacking->index || !read_bank(unpacking->index, &unpacking->bank) ||
        !json_is_array(json_object_get(unpacking->index, "pictures")) ||
        !json_is_array(json_object_get(unpacking->index, "rows")) ||
        ocr_unpack_pictures(unpacking) > OCR_PACK_PICTURES_MAX ||
        ocr_unpack_rows(unpacking) > OCR_ROWS_MAX) {
        return damaged(error, "their index");
    }
    *ret_unpacking = cv_take(unpacking);
    return 0;
}

void ocr_unpack_close(struct ocr_unpacking *unpacking)
{
    if (unpacking) {
        json_decref(unpacking->index);
        free(unpacking);
    }
}

size_t ocr_unpack_pictures(const struct ocr_unpacking *unpacking)
{
    return json_array_size(json_object_get(unpacking->index, "pictures"));
}

size_t ocr_unpack_rows(const struct ocr_unpacking *unpacking)
{
    return json_array_size(json_object_get(unpacking->index, "rows"));
}

uint64_t ocr_unpack_bank(const struct ocr_unpacking *unpacking)
{
    return unpacking->bank;
}

/* The next `size` bytes as a picture of just that size; the header is looked at before pixels are
 * given room. */
static int next_png(struct ocr_unpacking *unpacking, int64_t size, int width, int height,
                    PIX **ret_picture, struct cv_error *error)
{
    l_int32 format = 0, wide = 0, high = 0, bits = 0, samples = 0, mapped = 0;
    cv_auto_free l_uint8 *data = malloc((size_t)size);

    CV_TRY_MEMORY(data, error, "a text line");
    CV_TRY(read_fully(unpacking->source, unpacking->offset, data, (size_t)size, error));
    unpacking->offset += size;
    if (pixReadHeaderMem(data, (size_t)size, &format, &wide, &high, &bits, &samples, &mapped) ||
        format != IFF_PNG || wide != width || high != height) {
        return damaged(error, "a picture");
    }
    PIX *picture = pixReadMemPng(data, (size_t)size);
    if (!picture || pixGetWidth(picture) != width || pixGetHeight(picture) != height) {
        pixDestroy(&picture);
        return damaged(error, "a picture");
    }
    *ret_picture = picture;
    return 0;
}

static int next_grey(struct ocr_unpacking *unpacking, int64_t size, struct ocr_crop *crop,
                     struct cv_error *error)
{
    PIX *picture = NULL;

    CV_TRY(next_png(unpacking, size, crop->width, crop->height, &picture, error));
    crop->grey = malloc((size_t)crop->width * (size_t)crop->height);
    bool is_grey = pixGetDepth(picture) == 4 && !pixGetColormap(picture);
    for (int y = 0; is_grey && crop->grey && y < crop->height; y++) {
        const l_uint32 *row = pixGetData(picture) + (size_t)y * (size_t)pixGetWpl(picture);
        for (int x = 0; x < crop->width; x++) {
            crop->grey[(size_t)y * (size_t)crop->width + (size_t)x] =
                (uint8_t)(GET_DATA_QBIT(row, x) * 17);
        }
    }
    pixDestroy(&picture);
    if (!is_grey) {
        return damaged(error, "a picture is not of sixteen greys");
    }
    CV_TRY_MEMORY(crop->grey, error, "a text line");
    return 0;
}

static int next_patch(struct ocr_unpacking *unpacking, int64_t size, struct ocr_patch *patch,
                      struct cv_error *error)
{
    PIX *picture = NULL;
    int width = patch->box.width, height = patch->box.height;

    CV_TRY(next_png(unpacking, size, width, height, &picture, error));
    patch->rgb = malloc((size_t)width * (size_t)height * 3);
    bool is_colour = pixGetDepth(picture) == 32;
    uint8_t *to = patch->rgb;
    for (int y = 0; is_colour && to && y < height; y++) {
        const l_uint32 *row = pixGetData(picture) + (size_t)y * (size_t)pixGetWpl(picture);
        for (int x = 0; x < width; x++) {
            l_int32 red, green, blue;
            extractRGBValues(row[x], &red, &green, &blue);
            *to++ = (uint8_t)red;
            *to++ = (uint8_t)green;
            *to++ = (uint8_t)blue;
        }
    }
    pixDestroy(&picture);
    if (!is_colour) {
        return damaged(error, "the picture of an emoji has no colours");
    }
    CV_TRY_MEMORY(patch->rgb, error, "an emoji");
    return 0;
}

static int next_emoji(struct ocr_unpacking *unpacking, const json_t *entry, struct ocr_crop *crop,
                      struct cv_error *error)
{
    struct ocr_emoji *emoji = &crop->emoji[crop->emoji_count];
    struct ocr_patch *patch = &crop->patches[crop->emoji_count];
    const json_t *text = json_array_get(entry, 0);
    int64_t size = 0;

    emoji->text = json_string_value(text);
    emoji->score = json_number_value(json_array_get(entry, 1));
    if ((!json_is_null(text) && !json_is_string(text)) ||
        json_string_length(text) >= OCR_EMOJI_TEXT || !(emoji->score >= 0) ||
        !(emoji->score <= 1) || !box_at(entry, 2, SIDE_MAX, &emoji->box) ||
        !number_at(entry, 6, 0, OCR_PACK_PICTURE_MAX, &size)) {
        return damaged(error, "an emoji");
    }
    crop->emoji_count++;
    if (size == 0) {
        return 0;
    }
    if (!box_at(entry, 7, SIDE_MAX, &patch->box) ||
        (int64_t)patch->box.width * patch->box.height > OCR_PACK_AREA_MAX) {
        return damaged(error, "an emoji");
    }
    return next_patch(unpacking, size, patch, error);
}

static int next_emojis(struct ocr_unpacking *unpacking, const json_t *entry, struct ocr_crop *crop,
                       struct cv_error *error)
{
    const json_t *paper = json_array_get(entry, 5), *emoji = json_array_get(entry, 6);

    if (!paper) {
        return 0;
    }
    if (!json_is_array(emoji) || json_array_size(emoji) > OCR_EMOJI_LINE_MAX) {
        return damaged(error, "the emoji of a line");
    }
    for (size_t i = 0; i < CV_COUNT(crop->ink.paper); i++) {
        int64_t level;
        if (!number_at(paper, i, 0, 255, &level)) {
            return damaged(error, "the paper of a line");
        }
        crop->ink.paper[i] = (uint8_t)level;
    }
    for (size_t i = 0; i < json_array_size(emoji); i++) {
        CV_TRY(next_emoji(unpacking, json_array_get(emoji, i), crop, error));
    }
    return 0;
}

int ocr_unpack_picture(struct ocr_unpacking *unpacking, struct ocr_crop *ret_crop,
                       struct cv_error *error)
{
    const json_t *pictures = json_object_get(unpacking->index, "pictures");
    const json_t *entry = json_array_get(pictures, unpacking->next);
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {.grey = NULL};
    int64_t size, width, height, tall, letters;

    if (!number_at(entry, 0, 1, OCR_PACK_PICTURE_MAX, &size) ||
        !number_at(entry, 1, 1, SIDE_MAX, &width) || !number_at(entry, 2, 1, SIDE_MAX, &height) ||
        width * height > OCR_PACK_AREA_MAX ||
        !number_at(entry, 3, CV_GLYPH_HEIGHT_MIN, SIDE_MAX, &tall) ||
        !number_at(entry, 4, 0, 1, &letters)) {
        return damaged(error, "an entry of a picture");
    }
    crop.width = (int)width;
    crop.height = (int)height;
    crop.tall = (int)tall;
    crop.has_letters = letters == 1;
    crop.box = (struct cv_box){0, 0, crop.width, crop.height};
    crop.line = crop.box;
    CV_TRY(next_grey(unpacking, size, &crop, error));
    CV_TRY(next_emojis(unpacking, entry, &crop, error));
    unpacking->next++;
    *ret_crop = crop;
    crop = (struct ocr_crop){.grey = NULL};
    return 0;
}

void ocr_unpack_place(const struct ocr_unpacking *unpacking, int64_t *ret_offset,
                      int64_t *ret_bytes)
{
    const json_t *pictures = json_object_get(unpacking->index, "pictures");
    const json_t *entry = json_array_get(pictures, unpacking->next);

    *ret_offset = unpacking->offset;
    *ret_bytes = json_integer_value(json_array_get(entry, 0));
}

static bool path_at(const json_t *entry, json_t **ret_path)
{
    json_t *path = json_array_get(entry, 13);
    int64_t ignored;

    for (size_t i = 0; i < json_array_size(path); i++) {
        if (!number_at(path, i, -INT32_MAX, INT32_MAX, &ignored)) {
            return false;
        }
    }
    *ret_path = path;
    return !path || (json_is_array(path) && json_array_size(path) % 3 == 0 &&
                     json_array_size(path) <= OCR_PACK_PATH_MAX);
}

int ocr_unpack_row(const struct ocr_unpacking *unpacking, size_t index,
                   struct ocr_kept_row *ret_row, struct cv_error *error)
{
    const json_t *entry = json_array_get(json_object_get(unpacking->index, "rows"), index);
    struct ocr_kept_row row = {.picture = 0};
    int64_t end_x, end_y, flags, pictures = (int64_t)ocr_unpack_pictures(unpacking);

    row.clarity = json_number_value(json_array_get(entry, 11));
    if (!number_at(entry, 0, 0, pictures - 1, &row.picture) ||
        !number_at(entry, 1, 0, INT64_MAX, &row.line) ||
        !number_at(entry, 2, 0, INT32_MAX, &row.t_start) ||
        !number_at(entry, 3, row.t_start, INT32_MAX, &row.t_end) ||
        !box_at(entry, 4, PLACE_MAX, &row.box) ||
        !number_at(entry, 8, -PLACE_MAX, PLACE_MAX, &end_x) ||
        !number_at(entry, 9, -PLACE_MAX, PLACE_MAX, &end_y) ||
        !number_at(entry, 10, 0, OCR_KEPT_FLAGS_MAX, &flags) || !(row.clarity >= 0) ||
        !(row.clarity <= 1) || !path_at(entry, &row.path)) {
        return damaged(error, "a row");
    }
    row.end_x = (int)end_x;
    row.end_y = (int)end_y;
    row.is_cut = flags & OCR_KEPT_CUT;
    row.has_company = flags & OCR_KEPT_COMPANY;
    row.is_faint = flags & OCR_KEPT_FAINT;
    row.kind = (enum cv_ink_kind)(flags >> OCR_KEPT_KIND);
    row.refusal = json_string_value(json_array_get(entry, 12));
    *ret_row = row;
    return 0;
}
