#include "common/base/base.h"

static int32_t letter_at(const void *text, size_t at, size_t letter_size)
{
    return letter_size == 1 ? ((const unsigned char *)text)[at] : ((const int32_t *)text)[at];
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t cv_edits(const void *a, size_t a_count, const void *b, size_t b_count, size_t letter_size,
                size_t limit)
{
    size_t apart = a_count > b_count ? a_count - b_count : b_count - a_count;
    if (apart > limit || a_count > CV_EDITS_MAX || b_count > CV_EDITS_MAX) {
        return limit + 1;
    }
    size_t row[CV_EDITS_MAX + 1];
    for (size_t j = 0; j <= b_count; j++) {
        row[j] = least(j, limit + 1);
    }
    for (size_t i = 1; i <= a_count; i++) {
        int32_t letter = letter_at(a, i - 1, letter_size);
        size_t low = i > limit ? i - limit : 1, high = least(i + limit, b_count);
        size_t diagonal = row[low - 1];
        size_t best = row[low - 1] = low == 1 ? least(i, limit + 1) : limit + 1;
        for (size_t j = low; j <= high; j++) {
            size_t replaced = diagonal + (letter != letter_at(b, j - 1, letter_size));
            diagonal = row[j];
            row[j] = least(least(replaced, least(row[j - 1], row[j]) + 1), limit + 1);
            best = least(best, row[j]);
        }
        if (best > limit) {
            return limit + 1;
        }
    }
    return row[b_count];
}
