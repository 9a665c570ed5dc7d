#include "workers/ocr/pictures/pack.h"

#include <inttypes.h>
#include <leptonica/allheaders.h>
#include <stdio.h>
#include <string.h>

/* Five bits of each colour are enough to tell emoji apart, and take half the room. */
enum { COLOUR = 0xF8 };

static const char magic[8] = "CVLINES1";

/* A picture in the waiting file. */
struct waiting {
    long offset, size;
    json_t *entry;  /* of the index; NULL: already written there */
    int64_t number; /* in the pack; OCR_NO_PICTURE until a row names it */
    int64_t place;  /* of its first byte in the pack, once that is written */
};

struct ocr_pack {
    FILE *file;
    uint64_t bank;
    struct waiting *pictures;
    size_t count;
    json_t *rows;
};

int ocr_pack_new(const char *folder, uint64_t bank, struct ocr_pack **ret_pack,
                 struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    cv_auto(ocr_pack_free) struct ocr_pack *pack = calloc(1, sizeof(*pack));

    CV_TRY(cv_format(&path, error, "%s/lines.waiting", folder));
    CV_TRY_MEMORY(pack && (pack->rows = json_array()), error, "kept text lines");
    pack->bank = bank;
    pack->file = fopen(path, "w+be");
    if (!pack->file) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    *ret_pack = cv_take(pack);
    return 0;
}

void ocr_pack_free(struct ocr_pack *pack)
{
    if (!pack) {
        return;
    }
    for (size_t i = 0; i < pack->count; i++) {
        json_decref(pack->pictures[i].entry);
    }
    if (pack->file) {
        (void)fclose(pack->file);
    }
    free(pack->pictures);
    json_decref(pack->rows);
    free(pack);
}

/* Appends a picture as PNG to the waiting file; takes it over. */
static int append_png(struct ocr_pack *pack, PIX *picture, long *ret_size, struct cv_error *error)
{
    l_uint8 *data = NULL;
    size_t size = 0;
    int failed = picture ? pixWriteMemPng(&data, &size, picture, 0.0F) : 1;

    pixDestroy(&picture);
    CV_TRY_MEMORY(!failed && data, error, "kept text lines");
    size_t written = fwrite(data, 1, size, pack->file);
    lept_free(data);
    if (written != size) {
        return cv_fail_errno(error, errno, "keep a text line");
    }
    *ret_size = (long)size;
    return 0;
}

static PIX *grey_picture(const struct ocr_crop *crop)
{
    PIX *picture = pixCreate(crop->width, crop->height, 4);

    for (int y = 0; picture && y < crop->height; y++) {
        l_uint32 *row = pixGetData(picture) + (size_t)y * (size_t)pixGetWpl(picture);
        const uint8_t *from = crop->grey + (size_t)y * (size_t)crop->width;
        for (int x = 0; x < crop->width; x++) {
            SET_DATA_QBIT(row, x, ocr_level(from[x]));
        }
    }
    return picture;
}

static PIX *patch_picture(const struct ocr_patch *patch)
{
    PIX *picture = pixCreate(patch->box.width, patch->box.height, 32);
    const uint8_t *from = patch->rgb;

    for (int y = 0; picture && y < patch->box.height; y++) {
        l_uint32 *row = pixGetData(picture) + (size_t)y * (size_t)pixGetWpl(picture);
        for (int x = 0; x < patch->box.width; x++) {
            composeRGBPixel(from[0] & COLOUR, from[1] & COLOUR, from[2] & COLOUR, &row[x]);
            from += 3;
        }
    }
    return picture;
}

static int append_emoji(struct ocr_pack *pack, const struct ocr_crop *crop, size_t index,
                        json_t *list, struct cv_error *error)
{
    const struct ocr_emoji *emoji = &crop->emoji[index];
    const struct ocr_patch *patch = &crop->patches[index];
    long size = 0;

    if (patch->rgb) {
        CV_TRY(append_png(pack, patch_picture(patch), &size, error));
    }
    json_t *entry =
        json_pack("[s?, f, i, i, i, i, I, i, i, i, i]", emoji->text, emoji->score, emoji->box.x,
                  emoji->box.y, emoji->box.width, emoji->box.height, (json_int_t)size, patch->box.x,
                  patch->box.y, patch->box.width, patch->box.height);
    CV_TRY_MEMORY(json_array_append_new(list, entry) == 0, error, "kept text lines");
    return 0;
}

static int append_pictures(struct ocr_pack *pack, const struct ocr_crop *crop, json_t **ret_entry,
                           struct cv_error *error)
{
    cv_auto(json_decref) json_t *emoji = json_array();
    long size = 0;

    CV_TRY(append_png(pack, grey_picture(crop), &size, error));
    for (size_t i = 0; i < crop->emoji_count; i++) {
        CV_TRY(append_emoji(pack, crop, i, emoji, error));
    }
    cv_auto(json_decref) json_t *entry =
        json_pack("[I, i, i, i, i]", (json_int_t)size, crop->width, crop->height, crop->tall,
                  crop->has_letters ? 1 : 0);
    CV_TRY_MEMORY(entry, error, "kept text lines");
    if (crop->emoji_count) {
        const uint8_t *paper = crop->ink.paper;
        json_t *colour = json_pack("[i, i, i]", paper[0], paper[1], paper[2]);
        CV_TRY_MEMORY(json_array_append_new(entry, colour) == 0 &&
                          json_array_append(entry, emoji) == 0,
                      error, "kept text lines");
    }
    *ret_entry = cv_take(entry);
    return 0;
}

int ocr_pack_picture(struct ocr_pack *pack, const struct ocr_crop *crop, int64_t *ret_number,
                     struct cv_error *error)
{
    struct waiting picture = {.number = OCR_NO_PICTURE};

    if (pack->count == OCR_PACK_PICTURES_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video has more than %d text lines",
                       OCR_PACK_PICTURES_MAX);
    }
    CV_TRY_MEMORY(CV_MAKE_ROOM(pack->pictures, pack->count), error, "kept text lines");
    picture.offset = ftell(pack->file);
    CV_TRY(append_pictures(pack, crop, &picture.entry, error));
    picture.size = ftell(pack->file) - picture.offset;
    *ret_number = (int64_t)pack->count;
    pack->pictures[pack->count++] = picture;
    return 0;
}

int ocr_pack_row(struct ocr_pack *pack, const struct ocr_kept_row *row, struct cv_error *error)
{
    int flags = (row->is_cut ? OCR_KEPT_CUT : 0) | (row->has_company ? OCR_KEPT_COMPANY : 0) |
                (row->is_faint ? OCR_KEPT_FAINT : 0) | (int)row->kind << OCR_KEPT_KIND;

    if (row->picture < 0 || (size_t)row->picture >= pack->count) {
        return cv_fail(error, CV_ERROR_INTERNAL, "a row without a picture");
    }
    pack->pictures[row->picture].number = 0; /* wanted; numbered when all is written */
    json_t *entry = json_pack("[I, I, I, I, i, i, i, i, i, i, i, f, s?]", (json_int_t)row->picture,
                              (json_int_t)row->line, (json_int_t)row->t_start,
                              (json_int_t)row->t_end, row->box.x, row->box.y, row->box.width,
                              row->box.height, row->end_x, row->end_y, flags,
                              row->clarity > 1   ? 1.0
                              : row->clarity > 0 ? row->clarity
                                                 : 0.0,
                              row->refusal);
    if (entry && row->path && json_array_append(entry, row->path)) {
        json_decref(cv_take(entry));
    }
    CV_TRY_MEMORY(json_array_append_new(pack->rows, entry) == 0, error, "kept text lines");
    return 0;
}

/* Numbers the pictures that rows name, and makes the index. */
static int make_index(struct ocr_pack *pack, char **ret_index, struct cv_error *error)
{
    cv_auto(json_decref) json_t *pictures = json_array();
    char bank[17];
    int64_t number = 0;

    for (size_t i = 0; i < pack->count; i++) {
        struct waiting *picture = &pack->pictures[i];
        if (picture->number == OCR_NO_PICTURE) {
            continue;
        }
        picture->number = number++;
        CV_TRY_MEMORY(json_array_append(pictures, picture->entry) == 0, error, "kept text lines");
    }
    for (size_t i = 0; i < json_array_size(pack->rows); i++) {
        json_t *row = json_array_get(pack->rows, i);
        int64_t waiting = json_integer_value(json_array_get(row, 0));
        json_t *place = json_integer(pack->pictures[waiting].number);
        CV_TRY_MEMORY(json_array_set_new(row, 0, place) == 0, error, "kept text lines");
    }
    (void)snprintf(bank, sizeof(bank), "%016" PRIx64, pack->bank);
    cv_auto(json_decref) json_t *index =
        json_pack("{s:s, s:O, s:O}", "bank", bank, "pictures", pictures, "rows", pack->rows);
    *ret_index = index ? json_dumps(index, JSON_COMPACT) : NULL;
    CV_TRY_MEMORY(*ret_index, error, "kept text lines");
    return 0;
}

static int copy_picture(struct ocr_pack *pack, const struct waiting *picture, FILE *to,
                        struct cv_error *error)
{
    char data[1 << 14];

    if (fseek(pack->file, picture->offset, SEEK_SET) != 0) {
        return cv_fail_errno(error, errno, "read kept text lines");
    }
    for (long left = picture->size; left > 0;) {
        size_t step = left < (long)sizeof(data) ? (size_t)left : sizeof(data);
        if (fread(data, 1, step, pack->file) != step || fwrite(data, 1, step, to) != step) {
            return cv_fail_errno(error, errno, "copy kept text lines");
        }
        left -= (long)step;
    }
    return 0;
}

static int write_all(struct ocr_pack *pack, const char *index, FILE *to, struct cv_error *error)
{
    size_t length = strlen(index);
    int64_t place = (int64_t)(sizeof(magic) + 4 + length);
    const uint8_t size[4] = {(uint8_t)length, (uint8_t)(length >> 8), (uint8_t)(length >> 16),
                             (uint8_t)(length >> 24)};

    if (length > OCR_PACK_INDEX_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video has too many text lines");
    }
    if (fwrite(magic, 1, sizeof(magic), to) != sizeof(magic) ||
        fwrite(size, 1, sizeof(size), to) != sizeof(size) ||
        fwrite(index, 1, length, to) != length) {
        return cv_fail_errno(error, errno, "keep text lines");
    }
    for (size_t i = 0; i < pack->count; i++) {
        if (pack->pictures[i].number != OCR_NO_PICTURE) {
            pack->pictures[i].place = place;
            place += pack->pictures[i].size;
            CV_TRY(copy_picture(pack, &pack->pictures[i], to, error));
        }
    }
    return 0;
}

int ocr_pack_write(struct ocr_pack *pack, const char *path, struct cv_error *error)
{
    cv_auto_free char *index = NULL;

    CV_TRY(make_index(pack, &index, error));
    FILE *to = fopen(path, "wbe");
    if (!to) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    int result = write_all(pack, index, to, error);
    if (fclose(to) != 0 && result == 0) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    return result;
}

int ocr_detection_place(json_t *detection, const char *key, int64_t offset, int64_t bytes,
                        struct cv_error *error)
{
    CV_TRY_MEMORY(json_object_set_new(detection, "crop_pack", json_string(key)) == 0 &&
                      json_object_set_new(detection, "crop_offset", json_integer(offset)) == 0 &&
                      json_object_set_new(detection, "crop_bytes", json_integer(bytes)) == 0,
                  error, "a row");
    return 0;
}

int ocr_pack_place(const struct ocr_pack *pack, const char *key, json_t *detections,
                   struct cv_error *error)
{
    for (size_t i = 0; i < json_array_size(detections); i++) {
        json_t *detection = json_array_get(detections, i);
        const json_t *number = json_object_get(detection, "picture");
        if (!number) {
            continue;
        }
        const struct waiting *picture = &pack->pictures[json_integer_value(number)];
        int64_t bytes = json_integer_value(json_array_get(picture->entry, 0));
        CV_TRY(ocr_detection_place(detection, key, picture->place, bytes, error));
        (void)json_object_del(detection, "picture");
    }
    return 0;
}
