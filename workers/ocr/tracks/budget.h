/* How much may be read: a bound on the work for a second of video, which its text alone does not have (every frame of a
 * minute may be full of new words). Counted in columns of pixels that models read (ocr_engine_columns), not in time, so
 * that the same frames give the same rows on every machine. */
#pragma once

#include "common/base/base.h"

/* Measured on 36 recordings of screens (19 looked at, 7 and 2 not, 8 of our own): with this much a second, the densest needs
 * 680,000 at once (a terminal that shows a long document page by page), the next 280,000, all others less than 140,000. A
 * column takes 20 to 45 us of CPU time, so that a minute of video takes 85 s at most, a part of ten minutes 450 s. */
enum {
    OCR_BUDGET_COLUMNS_A_LINE = 40,   /* what finding a line costs, beside reading it: 1.6 ms */
    OCR_BUDGET_COLUMNS = 1000 * 1000, /* at the start, and at most */
    OCR_BUDGET_COLUMNS_A_SECOND = 15 * 1000, /* that come in */
};

struct ocr_budget {
    int64_t columns; /* that may be read now; the last line may make it negative */
    int64_t at_ms;   /* the time on the video's axis until which it is counted */
};

/* A full budget at the time of the first frame. */
static inline struct ocr_budget ocr_budget_begin(int64_t at_ms)
{
    return (struct ocr_budget){OCR_BUDGET_COLUMNS, at_ms};
}

/* Counts what came in until `at_ms`, which is no earlier than the time before. */
static inline void ocr_budget_advance(struct ocr_budget *budget, int64_t at_ms)
{
    int64_t more = (at_ms - budget->at_ms) * OCR_BUDGET_COLUMNS_A_SECOND / 1000;

    budget->columns = cv_min(budget->columns + more, (int64_t)OCR_BUDGET_COLUMNS);
    budget->at_ms = at_ms;
}
