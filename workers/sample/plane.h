/* An 8-bit plane of a picture, and what can be asked of two of them cheaply. */
#pragma once

#include <simde/x86/sse2.h>
#include <stdint.h>
#include <stdlib.h>

struct plane {
    const uint8_t *data; /* borrowed */
    int stride;          /* bytes a row */
    int width, height;   /* pixels */
};

static inline const uint8_t *plane_at(const struct plane *plane, int x, int y)
{
    return plane->data + (ptrdiff_t)y * plane->stride + x;
}

static inline uint32_t bytes_sum(const uint8_t *a, const uint8_t *b, int count)
{
    uint32_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += (uint32_t)abs(a[i] - b[i]);
    }
    return sum;
}
