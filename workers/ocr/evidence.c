#include "workers/ocr/evidence.h"

#include <string.h>
#include <utf8proc.h>

enum {
    SHORT_LETTERS = 3,
    PICTOGRAPHS = 0x2190, /* below are ©, ®, ° and the like, which borders are read as */
    WORDS_NEAR = 10,      /* letter heights between a short line and its company, up or down */
    WORDS_BESIDE = 30,    /* … and sideways: an age or a count stands at the end of its line */
    FLAT_MS = 500,        /* how long a short line without company stands on plain paper */
    PICTURE_MS = 700,     /* … on a picture, where corners stay for some frames, too */
};

/* Shares of clean ink and paper (struct ocr_ink). Letters on plain paper have 0.85 and more, corners
 * of pictures seldom. */
static const double CLARITY_SURE = 0.92;
static const double CLARITY_FLAT = 0.70;
static const double CLARITY_PICTURE = 0.80;
static const double COMPANY_CONFIDENCE = 0.80;
/* Of a short line without company: folds and faces in films are read as letters below it. */
static const double ALONE_CONFIDENCE = 0.85;

enum ocr_weight ocr_text_weight(const char *text)
{
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    int letters = 0;

    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(at, left, &point);
        if (size <= 0) {
            size = 1;
            point = ' ';
        }
        switch (utf8proc_category(point)) {
        case UTF8PROC_CATEGORY_LO:
            letters += 2;
            break;
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_ND:
            letters++;
            break;
        case UTF8PROC_CATEGORY_SO:
            letters += point >= PICTOGRAPHS ? SHORT_LETTERS + 1 : 0;
            break;
        default:
            break;
        }
        at += size;
        left -= size;
    }
    return letters == 0               ? OCR_WEIGHT_NONE
           : letters <= SHORT_LETTERS ? OCR_WEIGHT_SHORT
                                      : OCR_WEIGHT_WORDS;
}

/* Pixels between two ranges; 0 when they touch. */
static int gap(int a_from, int a_to, int b_from, int b_to)
{
    return ocr_max(0, ocr_max(b_from - a_to, a_from - b_to));
}

static bool is_company(const struct ocr_track *words, const struct ocr_track *line)
{
    const struct ocr_box *a = &words->box, *b = &line->box;
    int tall = ocr_min(words->crop.tall, line->crop.tall);

    return words->present && words->is_read && words->weight == OCR_WEIGHT_WORDS &&
           words->reading.confidence >= COMPANY_CONFIDENCE &&
           words->crop.ink.kind == line->crop.ink.kind &&
           words->crop.tall * 3 >= line->crop.tall * 2 &&
           words->crop.tall * 2 <= line->crop.tall * 3 &&
           gap(a->y, ocr_bottom(a), b->y, ocr_bottom(b)) <= WORDS_NEAR * tall &&
           gap(a->x, ocr_right(a), b->x, ocr_right(b)) <= WORDS_BESIDE * tall;
}

void ocr_note_company(struct ocr_tracks *tracks)
{
    for (size_t i = 0; i < tracks->count; i++) {
        struct ocr_track *line = tracks->items[i];
        if (!line->present || !line->is_read || line->has_company ||
            line->weight != OCR_WEIGHT_SHORT) {
            continue;
        }
        for (size_t k = 0; k < tracks->count && !line->has_company; k++) {
            line->has_company = is_company(tracks->items[k], line);
        }
    }
}

bool ocr_is_credible(const struct ocr_row *row, int64_t lasted_ms)
{
    if (row->weight != OCR_WEIGHT_SHORT) {
        return row->weight == OCR_WEIGHT_WORDS;
    }
    if (row->has_company) {
        return true;
    }
    if (row->confidence > 0 && row->confidence < ALONE_CONFIDENCE) {
        return false;
    }
    if (row->ink.kind == OCR_INK_FLAT) {
        return row->ink.clarity >= CLARITY_SURE ||
               (row->ink.clarity >= CLARITY_FLAT && lasted_ms >= FLAT_MS);
    }
    return row->ink.clarity >= CLARITY_PICTURE && lasted_ms >= PICTURE_MS;
}

bool ocr_may_be_text(const struct ocr_row *row, int64_t lasted_ms)
{
    struct ocr_row unread = *row;

    unread.weight = OCR_WEIGHT_SHORT;
    unread.confidence = 0;
    return ocr_is_credible(&unread, lasted_ms);
}
