#include "common/said/said.h"
#include "common/text/text.h"

#include "workers/ocr/codes/codes.h"
#include "workers/ocr/codes/find_places.h"

#include <stdlib.h>
#include <string.h>
#include <zbar.h>

enum {
    CODES_MAX = 5000,     /* of one payload */
    HERE_MAX = 32,        /* codes of one place */
    UNSEEN_MAX_MS = 1000, /* a blurred frame may hide a code that is still there */
    QUIET_ZONE = 40,      /* pixels on each side of bars that belong to their code: ten modules */
    ROUNDING = 16,        /* to which places are widened, so that noise does not move them */
    CHANGE_MIN = 4,       /* greys by which the pixels of a place that was drawn anew differ */
    BARS_SEEN_MIN = 2,    /* rows with the same content; other patterns look like bars in one */
    LEAST_LETTERS = 4,    /* of a bar code */
};

struct code {
    zbar_symbol_type_t type;
    char *text;
    struct cv_box box, end_box;
    int64_t t_start, t_end;
};

/* What was read in a place of the frame before; the same pixels are not read again. */
struct place {
    struct cv_box box;
    int reduction; /* of its frame */
    uint8_t *pixels;
    size_t codes[HERE_MAX];
    size_t code_count;
};

struct ocr_codes {
    zbar_image_scanner_t *scanner;
    struct cv_entity_extractor *extractor;
    struct code *codes;
    size_t count;
    struct place places[OCR_CODE_PLACES_MAX];
    size_t place_count;
};

static void forget_places(struct place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(places[i].pixels);
    }
}

void ocr_codes_free(struct ocr_codes *codes)
{
    if (!codes) {
        return;
    }
    for (size_t i = 0; i < codes->count; i++) {
        free(codes->codes[i].text);
    }
    free(codes->codes);
    forget_places(codes->places, codes->place_count);
    cv_entity_extractor_free(codes->extractor);
    if (codes->scanner) {
        zbar_image_scanner_destroy(codes->scanner);
    }
    free(codes);
}

int ocr_codes_new(struct ocr_codes **ret_codes, struct cv_error *error)
{
    /* Those with a check digit. The others are found in any pattern. */
    static const zbar_symbol_type_t kinds[] = {ZBAR_QRCODE, ZBAR_EAN13,   ZBAR_EAN8,  ZBAR_UPCA,
                                               ZBAR_UPCE,   ZBAR_CODE128, ZBAR_CODE93};
    cv_auto(ocr_codes_free) struct ocr_codes *codes = calloc(1, sizeof(*codes));

    CV_TRY_MEMORY(codes, error, "codes");
    codes->scanner = zbar_image_scanner_create();
    codes->codes = calloc(CODES_MAX, sizeof(*codes->codes));
    CV_TRY_MEMORY(codes->scanner && codes->codes, error, "codes");
    CV_TRY(cv_entity_extractor_new(&codes->extractor, error));
    (void)zbar_image_scanner_request_dbus(codes->scanner, 0);
    (void)zbar_image_scanner_set_config(codes->scanner, ZBAR_NONE, ZBAR_CFG_ENABLE, 0);
    for (size_t i = 0; i < CV_COUNT(kinds); i++) {
        if (zbar_image_scanner_set_config(codes->scanner, kinds[i], ZBAR_CFG_ENABLE, 1) != 0) {
            return cv_fail(error, CV_ERROR_INTERNAL, "this libzbar does not read %s",
                           zbar_get_symbol_name(kinds[i]));
        }
    }
    *ret_codes = cv_take(codes);
    return 0;
}

/* The content as one line. NULL: it is no text, or out of memory. */
static char *copy_text(const zbar_symbol_t *symbol)
{
    size_t length = zbar_symbol_get_data_length(symbol);
    cv_auto(json_decref) json_t *text =
        json_stringn(zbar_symbol_get_data(symbol), cv_min((int)length, CV_SUBTITLE_BYTES_MAX + 1));
    char *copy = NULL;

    if (!text || length > CV_SUBTITLE_BYTES_MAX || strlen(json_string_value(text)) != length) {
        return NULL;
    }
    copy = strdup(json_string_value(text));
    for (char *at = copy; at && *at; at++) {
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    }
    return copy;
}

static struct cv_box box_of(const zbar_symbol_t *symbol, const struct place *place,
                            const struct ocr_code_place *found)
{
    struct cv_box box = {0};

    if (found->is_bars) {
        return found->box; /* a symbol of bars has points of its scan lines alone */
    }
    for (unsigned i = 0; i < zbar_symbol_get_loc_size(symbol); i++) {
        const struct cv_box point = {place->box.x + zbar_symbol_get_loc_x(symbol, i),
                                     place->box.y + zbar_symbol_get_loc_y(symbol, i), 1, 1};
        box = i ? cv_box_union(&box, &point) : point;
    }
    return box;
}

static bool is_code(const zbar_symbol_t *symbol, const struct ocr_code_place *found)
{
    bool is_bars = zbar_symbol_get_type(symbol) != ZBAR_QRCODE;

    return is_bars == found->is_bars && zbar_symbol_get_data_length(symbol) > 0 &&
           (!is_bars || (zbar_symbol_get_quality(symbol) >= BARS_SEEN_MIN &&
                         zbar_symbol_get_data_length(symbol) >= LEAST_LETTERS));
}

/* The code of this content that was there a moment ago, or a new one. Takes `text`. */
static size_t add_code(struct ocr_codes *codes, zbar_symbol_type_t type, char *text,
                       int64_t t_start)
{
    for (size_t i = codes->count; i-- > 0;) {
        struct code *code = &codes->codes[i];
        if (code->type == type && code->t_end + UNSEEN_MAX_MS >= t_start &&
            strcmp(code->text, text) == 0) {
            free(text);
            return i;
        }
    }
    codes->codes[codes->count] = (struct code){.type = type, .text = text, .t_start = t_start};
    return codes->count++;
}

static void see_code(struct code *code, struct cv_box box, int reduction, int64_t t_end)
{
    box = (struct cv_box){box.x * reduction, box.y * reduction, box.width * reduction,
                          box.height * reduction};
    code->box = code->t_end ? code->box : box;
    code->end_box = box;
    code->t_end = t_end;
}

static int read_place(struct ocr_codes *codes, const struct ocr_code_place *found,
                      struct place *place, int64_t t_start, int64_t t_end, struct cv_error *error)
{
    zbar_image_t *image = zbar_image_create();

    CV_TRY_MEMORY(image, error, "reading codes");
    zbar_image_set_format(image, zbar_fourcc('Y', '8', '0', '0'));
    zbar_image_set_size(image, (unsigned)place->box.width, (unsigned)place->box.height);
    zbar_image_set_data(image, place->pixels,
                        (unsigned long)place->box.width * (unsigned long)place->box.height, NULL);
    if (zbar_scan_image(codes->scanner, image) < 0) {
        zbar_image_destroy(image);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "libzbar cannot read a picture");
    }
    for (const zbar_symbol_t *symbol = zbar_image_first_symbol(image);
         symbol && codes->count < CODES_MAX && place->code_count < HERE_MAX;
         symbol = zbar_symbol_next(symbol)) {
        char *text = is_code(symbol, found) ? copy_text(symbol) : NULL;
        if (text) {
            size_t code = add_code(codes, zbar_symbol_get_type(symbol), text, t_start);
            see_code(&codes->codes[code], box_of(symbol, place, found), place->reduction, t_end);
            place->codes[place->code_count++] = code;
        }
    }
    zbar_image_destroy(image);
    return 0;
}

/* The pixels of a place, with what belongs to a code around it. */
static int cut_place(const struct cv_frame *frame, const struct ocr_code_place *found,
                     struct place *place, struct cv_error *error)
{
    int margin = found->is_bars ? QUIET_ZONE : 0;
    int left = (cv_max(found->box.x - margin, 0)) / ROUNDING * ROUNDING;
    int top = cv_max(found->box.y, 0) / ROUNDING * ROUNDING;
    const struct cv_box wide = {
        left, top, (cv_box_right(&found->box) + margin - left + ROUNDING - 1) / ROUNDING * ROUNDING,
        (cv_box_bottom(&found->box) - top + ROUNDING - 1) / ROUNDING * ROUNDING};

    place->reduction = frame->reduction;
    place->box = cv_box_clip(&wide, frame->width, frame->height);
    place->pixels = malloc((size_t)place->box.width * (size_t)place->box.height + 1);
    CV_TRY_MEMORY(place->pixels, error, "a picture of a code");
    for (int y = 0; y < place->box.height; y++) {
        memcpy(place->pixels + (size_t)y * (size_t)place->box.width,
               frame->plane[CV_LUMA] + (size_t)(place->box.y + y) * (size_t)frame->width +
                   place->box.x,
               (size_t)place->box.width);
    }
    return 0;
}

static bool is_unchanged(const struct place *a, const struct place *b)
{
    size_t size = (size_t)a->box.width * (size_t)a->box.height;
    uint64_t difference = 0;

    if (memcmp(&a->box, &b->box, sizeof(a->box)) != 0) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        difference += (uint64_t)abs(a->pixels[i] - b->pixels[i]);
    }
    return difference < size * CHANGE_MIN;
}

/* Whether the place was read in the frame before; then its codes are still there. */
static bool see_again(struct ocr_codes *codes, struct place *place, int64_t t_end)
{
    for (size_t i = 0; i < codes->place_count; i++) {
        const struct place *before = &codes->places[i];
        if (is_unchanged(before, place)) {
            for (size_t k = 0; k < before->code_count; k++) {
                codes->codes[before->codes[k]].t_end = t_end;
            }
            memcpy(place->codes, before->codes, sizeof(place->codes));
            place->code_count = before->code_count;
            return true;
        }
    }
    return false;
}

int ocr_codes_frame(struct ocr_codes *codes, const struct cv_frame *frame, int64_t t_start,
                    int64_t t_end, struct cv_error *error)
{
    struct ocr_code_place found[OCR_CODE_PLACES_MAX];
    struct place places[OCR_CODE_PLACES_MAX] = {0};
    size_t count = 0;

    CV_TRY(ocr_find_code_places(frame, found, &count, error));
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = cut_place(frame, &found[i], &places[i], error);
        if (result == 0 && !see_again(codes, &places[i], t_end)) {
            result = read_place(codes, &found[i], &places[i], t_start, t_end, error);
        }
    }
    forget_places(codes->places, codes->place_count);
    memcpy(codes->places, places, sizeof(places));
    codes->place_count = count;
    return result;
}

/* A URL in a code is found as a link, too; the digits of bars are no number. */
static int describe_code(const struct ocr_codes *codes, const struct code *code, json_t *lines,
                         struct cv_error *error)
{
    bool is_qr = code->type == ZBAR_QRCODE;
    json_t *line = NULL;

    CV_TRY(cv_said_line(is_qr ? codes->extractor : NULL, code->text, code->t_start, code->t_end,
                        &line, error));
    CV_TRY_MEMORY(json_array_append_new(lines, line) == 0, error, "codes");
    json_t *entity = json_pack("{s:s, s:s}", "type", "code", "value", code->text);
    CV_TRY_MEMORY(json_array_insert_new(json_object_get(line, "entities"), 0, entity) == 0 &&
                      json_object_set_new(line, "bounding_box", cv_box_json(&code->box)) == 0,
                  error, "codes");
    bool has_moved = memcmp(&code->box, &code->end_box, sizeof(code->box)) != 0;
    CV_TRY_MEMORY(!has_moved ||
                      json_object_set_new(line, "end_box", cv_box_json(&code->end_box)) == 0,
                  error, "codes");
    return 0;
}

int ocr_codes_finish(struct ocr_codes *codes, json_t **ret_lines, struct cv_error *error)
{
    cv_auto(json_decref) json_t *lines = json_array();

    CV_TRY_MEMORY(lines, error, "codes");
    for (size_t i = 0; i < codes->count; i++) {
        CV_TRY(describe_code(codes, &codes->codes[i], lines, error));
    }
    *ret_lines = cv_take(lines);
    return 0;
}
