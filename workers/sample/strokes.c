#include "workers/sample/strokes.h"

#include "workers/sample/gate.h"

enum {
    STROKE_PIXELS = 5,       /* of a block that are a stroke in one picture alone */
    STROKE_PIXELS_FAINT = 8, /* the same where the difference is within reach of an encoder */
    FAINT_SAD = 900,
};

/* A pixel is of a stroke: brighter than both neighbours at one of two distances, or darker
 * than both. An edge between two surfaces is neither, however sharp. */
enum { STROKE_THIN = 3, STROKE_WIDE = 8, STROKE_CONTRAST = 20 };

/* 8 pixels of one picture, and beside them the 8 at the same place of the other. */
static __m128i load_both(const uint8_t *a, const uint8_t *b)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)a),
                              _mm_loadl_epi64((const __m128i *)b));
}

/* In how many of the 8 pixels the one picture has a stroke that the other has not. */
static int strokes_differing(const uint8_t *a, const uint8_t *b)
{
    __m128i here = load_both(a, b);
    __m128i ridge = _mm_setzero_si128();
    __m128i valley = ridge;
    static const int distances[] = {STROKE_THIN, STROKE_WIDE};
    for (size_t i = 0; i < CV_COUNT(distances); i++) {
        __m128i left = load_both(a - distances[i], b - distances[i]);
        __m128i right = load_both(a + distances[i], b + distances[i]);
        __m128i above = _mm_min_epu8(_mm_subs_epu8(here, left), _mm_subs_epu8(here, right));
        __m128i below = _mm_min_epu8(_mm_subs_epu8(left, here), _mm_subs_epu8(right, here));
        ridge = _mm_max_epu8(ridge, above);
        valley = _mm_max_epu8(valley, below);
    }
    __m128i contrast = _mm_set1_epi8(STROKE_CONTRAST);
    __m128i zero = _mm_setzero_si128();
    __m128i no_ridge = _mm_cmpeq_epi8(_mm_subs_epu8(ridge, contrast), zero);
    __m128i no_valley = _mm_cmpeq_epi8(_mm_subs_epu8(valley, contrast), zero);
    __m128i of_a = _mm_unpacklo_epi64(no_ridge, no_valley);
    __m128i of_b = _mm_unpackhi_epi64(no_ridge, no_valley);
    /* a byte that differs is 255 in one and 0 in the other */
    __m128i ones = _mm_and_si128(_mm_xor_si128(of_a, of_b), _mm_set1_epi8(1));
    __m128i sum = _mm_sad_epu8(ones, zero);
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi16(sum, 4);
}

bool strokes_differ(const struct plane *a, const struct plane *b, int x, int y, int sad)
{
    int height = a->height - y < GATE_BLOCK ? a->height - y : GATE_BLOCK;
    /* at the rim, look at the nearest pixels that have neighbours */
    int low = STROKE_WIDE;
    int high = a->width - GATE_BLOCK - STROKE_WIDE;
    if (high < low) {
        return true;
    }
    x = x < low ? low : x > high ? high : x;
    int enough = sad < FAINT_SAD ? STROKE_PIXELS_FAINT : STROKE_PIXELS;
    int differing = 0;
    for (int row = 0; row < height && differing < enough; row++) {
        differing += strokes_differing(plane_at(a, x, y + row), plane_at(b, x, y + row));
    }
    return differing >= enough;
}
