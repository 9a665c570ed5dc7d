#include "workers/sample/scroll.h"

#include <string.h>

enum {
    DECIMATION = 4,
    NEAR = 12,              /* pixels around the predicted shift that are searched first */
    CANDIDATES = 3,         /* of the quarter-size search that the full size looks at */
    PROFILE_ROWS_MAX = 256, /* rows summed a band: more adds cost, not certainty */
    ENTRIES_LEAST = 12,     /* differing entries; with fewer, any shift would do */
};

int scroll_profile_init(struct scroll_profile *profile, int length, struct cv_error *error)
{
    profile->length = length;
    profile->value = calloc((size_t)length * SCROLL_BANDS, sizeof(int32_t));
    profile->quarter = calloc((size_t)(length / DECIMATION + 1) * SCROLL_BANDS, sizeof(int32_t));
    if (!profile->value || !profile->quarter) {
        scroll_profile_deinit(profile);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a profile");
    }
    return 0;
}

void scroll_profile_deinit(struct scroll_profile *profile)
{
    free(profile->value);
    free(profile->quarter);
    profile->value = NULL;
    profile->quarter = NULL;
}

/* Sum of |p[i] − q[i]| over a run of bytes. */
static int32_t run_sad(const uint8_t *p, const uint8_t *q, int count)
{
    int i = 0;
    int32_t sum = 0;
    __m128i total = _mm_setzero_si128();
    for (; i + 16 <= count; i += 16) {
        total = _mm_add_epi32(total, _mm_sad_epu8(_mm_loadu_si128((const __m128i *)(p + i)),
                                                  _mm_loadu_si128((const __m128i *)(q + i))));
    }
    sum = _mm_cvtsi128_si32(total) + _mm_cvtsi128_si32(_mm_srli_si128(total, 8));
    return sum + (int32_t)bytes_sum(p + i, q + i, count - i);
}

static void rows_profile(const struct plane *plane, struct scroll_profile *profile)
{
    int band = (plane->width - 1) / SCROLL_BANDS;
    for (int y = 0; y < plane->height; y++) {
        const uint8_t *row = plane_at(plane, 0, y);
        for (int i = 0; i < SCROLL_BANDS; i++) {
            profile->value[(size_t)i * (size_t)profile->length + (size_t)y] =
                run_sad(row + i * band, row + i * band + 1, band);
        }
    }
}

static void columns_profile(const struct plane *plane, struct scroll_profile *profile)
{
    int band = (plane->height - 1) / SCROLL_BANDS;
    int step = 1 + band / PROFILE_ROWS_MAX;
    for (int i = 0; i < SCROLL_BANDS; i++) {
        int32_t *value = profile->value + (size_t)i * (size_t)profile->length;
        memset(value, 0, (size_t)profile->length * sizeof(*value));
        for (int y = i * band; y < (i + 1) * band; y += step) {
            const uint8_t *row = plane_at(plane, 0, y);
            const uint8_t *below = plane_at(plane, 0, y + 1);
            for (int x = 0; x < plane->width; x++) {
                value[x] += abs(row[x] - below[x]);
            }
        }
    }
}

void scroll_profile_of(const struct plane *plane, enum scroll_axis axis,
                       struct scroll_profile *profile)
{
    if (axis == SCROLL_VERTICAL) {
        rows_profile(plane, profile);
    } else {
        columns_profile(plane, profile);
    }
    int quarter = profile->length / DECIMATION;
    for (int i = 0; i < SCROLL_BANDS; i++) {
        const int32_t *value = profile->value + (size_t)i * (size_t)profile->length;
        for (int k = 0; k < quarter; k++, value += DECIMATION) {
            profile->quarter[i * quarter + k] = value[0] + value[1] + value[2] + value[3];
        }
    }
}

/* A span of differing entries in one band; matching looks at these alone. */
struct matching {
    const int32_t *reference, *current;
    int length;
    int first[SCROLL_BANDS], end[SCROLL_BANDS];
    int64_t at_rest[SCROLL_BANDS]; /* Σ |difference| at shift 0, inside the span */
    int differing;
};

static void find_differing(struct matching *matching, const int32_t *reference,
                           const int32_t *current, int length)
{
    *matching = (struct matching){.reference = reference, .current = current, .length = length};
    for (int i = 0; i < SCROLL_BANDS; i++) {
        const int32_t *r = reference + (ptrdiff_t)i * length;
        const int32_t *c = current + (ptrdiff_t)i * length;
        matching->first[i] = length;
        int32_t peak = 0;
        for (int k = 0; k < length; k++) {
            int32_t difference = abs(r[k] - c[k]);
            peak = difference > peak ? difference : peak;
        }
        int32_t floor = peak / 8 > 160 ? peak / 8 : 160;
        for (int k = 0; k < length; k++) {
            int32_t difference = abs(r[k] - c[k]);
            if (difference > floor) {
                matching->first[i] = k < matching->first[i] ? k : matching->first[i];
                matching->end[i] = k + 1;
                matching->differing++;
            }
            matching->at_rest[i] += difference;
        }
    }
}

/* Mean difference at `shift` as a share of that at rest, over the entries whose origin lies in the
 * moving span; 1 when too little overlaps. */
static double cost_of(const struct matching *matching, int shift)
{
    int64_t moved = 0;
    int64_t rest = 0;
    int used = 0;
    int all = 0;
    for (int i = 0; i < SCROLL_BANDS; i++) {
        int first = matching->first[i];
        int end = matching->end[i];
        if (end <= first) {
            continue;
        }
        all += end - first;
        int from = shift > 0 ? first + shift : first;
        int to = shift < 0 ? end + shift : end;
        if (to <= from) {
            continue;
        }
        const int32_t *r = matching->reference + (ptrdiff_t)i * matching->length;
        const int32_t *c = matching->current + (ptrdiff_t)i * matching->length;
        int32_t sum = 0; /* at most 16,384 entries × 255 × 2,048 / … : stays in range per band */
        int32_t still = 0;
        for (int k = from; k < to; k++) {
            sum += abs(r[k - shift] - c[k]) >> 2;
            still += abs(r[k] - c[k]) >> 2;
        }
        moved += sum;
        rest += still;
        used += to - from;
    }
    if (used * 5 < all || rest == 0) {
        return 1;
    }
    return (double)moved / (double)rest;
}

/* Lowest cost within [low, high]; ties go to the smaller movement. */
static double search(const struct matching *matching, int low, int high, int *ret_shift)
{
    double best = 2;
    int shift = 0;
    for (int s = low; s <= high; s++) {
        if (s == 0) {
            continue;
        }
        double cost = cost_of(matching, s);
        if (cost < best || (cost == best && abs(s) < abs(shift))) {
            best = cost;
            shift = s;
        }
    }
    *ret_shift = shift;
    return best;
}

static const double COST_GOOD = 0.25;  /* near the prediction: no need to look elsewhere */
static const double COST_LIMIT = 0.60; /* the pixels decide below this */

/* On the whole length: repeated content fits in several places, and moved the shortest way. */
static const double FAR_PENALTY = 0.3;

static double search_everywhere(const struct scroll_profile *reference,
                                const struct scroll_profile *current, const struct matching *full,
                                int *ret_shift)
{
    struct matching quarter;
    int length = reference->length / DECIMATION;
    find_differing(&quarter, reference->quarter, current->quarter, length);
    int proposals[CANDIDATES] = {0};
    double costs[CANDIDATES];
    for (int i = 0; i < CANDIDATES; i++) {
        costs[i] = 2;
    }
    int reach = length * 4 / 5;
    for (int s = -reach; s <= reach; s++) {
        double cost = cost_of(&quarter, s);
        cost += FAR_PENALTY * abs(s) / length;
        int place = CANDIDATES;
        while (place > 0 && cost < costs[place - 1]) {
            place--;
        }
        for (int k = CANDIDATES - 1; k > place; k--) {
            costs[k] = costs[k - 1];
            proposals[k] = proposals[k - 1];
        }
        if (place < CANDIDATES) {
            costs[place] = cost;
            proposals[place] = s;
        }
    }
    double best = 2;
    for (int i = 0; i < CANDIDATES; i++) {
        int centre = proposals[i] * DECIMATION;
        int shift;
        double cost = search(full, centre - DECIMATION, centre + DECIMATION, &shift);
        cost += FAR_PENALTY * abs(shift) / full->length;
        if (cost < best) {
            best = cost;
            *ret_shift = shift;
        }
    }
    return best;
}

bool scroll_match(const struct scroll_profile *reference, const struct scroll_profile *current,
                  int predicted, int *ret_shift)
{
    struct matching full;
    find_differing(&full, reference->value, current->value, reference->length);
    if (full.differing < ENTRIES_LEAST) {
        return false;
    }
    int shift = 0;
    double cost = search(&full, predicted - NEAR, predicted + NEAR, &shift);
    bool at_rim = abs(shift - predicted) == NEAR; /* the best may lie beyond */
    if (cost > COST_GOOD || at_rim) {
        int other = 0;
        double elsewhere = search_everywhere(reference, current, &full, &other);
        if (elsewhere < cost) {
            cost = elsewhere;
            shift = other;
        }
    }
    if (cost > COST_LIMIT || shift == 0) {
        return false;
    }
    *ret_shift = shift;
    return true;
}

/* A block's row at x, y and the one below it. */
static inline __m128i two_rows(const struct plane *plane, int x, int y)
{
    const uint8_t *upper = plane_at(plane, x, y);
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)upper),
                              _mm_loadl_epi64((const __m128i *)(upper + plane->stride)));
}

/* SAD of a block against the better of two origins, pixel by pixel: a pixel that stayed or one that
 * came along with the shift, so that furniture and its rim are explained too. */
static int best_of_two(const struct plane *reference, const struct plane *current, int x, int y,
                       int dx, int dy)
{
    int width = current->width - x < GATE_BLOCK ? current->width - x : GATE_BLOCK;
    int height = current->height - y < GATE_BLOCK ? current->height - y : GATE_BLOCK;
    if (width == GATE_BLOCK && height == GATE_BLOCK) {
        __m128i total = _mm_setzero_si128();
        for (int row = 0; row < GATE_BLOCK; row += 2) {
            __m128i c = two_rows(current, x, y + row);
            __m128i s = two_rows(reference, x, y + row);
            __m128i m = two_rows(reference, x - dx, y - dy + row);
            __m128i stayed = _mm_or_si128(_mm_subs_epu8(c, s), _mm_subs_epu8(s, c));
            __m128i moved = _mm_or_si128(_mm_subs_epu8(c, m), _mm_subs_epu8(m, c));
            __m128i less = _mm_min_epu8(stayed, moved);
            total = _mm_add_epi32(total, _mm_sad_epu8(less, _mm_setzero_si128()));
        }
        return _mm_cvtsi128_si32(total) + _mm_extract_epi16(total, 4);
    }
    int sum = 0;
    for (int row = 0; row < height; row++) {
        const uint8_t *c = plane_at(current, x, y + row);
        const uint8_t *s = plane_at(reference, x, y + row);
        const uint8_t *m = plane_at(reference, x - dx, y - dy + row);
        for (int i = 0; i < width; i++) {
            int stayed = abs(c[i] - s[i]);
            int moved = abs(c[i] - m[i]);
            sum += stayed < moved ? stayed : moved;
        }
    }
    return sum;
}

/* A flat block looks the same wherever it comes from, and proves nothing. */
static bool is_flat(const struct plane *plane, int x, int y, int threshold)
{
    int width = plane->width - x < GATE_BLOCK ? plane->width - x : GATE_BLOCK;
    int height = plane->height - y < GATE_BLOCK ? plane->height - y : GATE_BLOCK;
    uint32_t variation = 0;
    if (width == GATE_BLOCK && height == GATE_BLOCK) {
        const __m128i all_but_last = _mm_set_epi32(0x00ffffff, -1, 0x00ffffff, -1);
        __m128i total = _mm_setzero_si128();
        for (int row = 0; row < GATE_BLOCK; row += 2) {
            __m128i here = two_rows(plane, x, y + row);
            __m128i right = _mm_srli_epi64(here, 8);
            total = _mm_add_epi32(total, _mm_sad_epu8(_mm_and_si128(here, all_but_last), right));
        }
        return _mm_cvtsi128_si32(total) + _mm_extract_epi16(total, 4) < threshold / 2;
    }
    for (int row = 0; row < height; row++) {
        const uint8_t *p = plane_at(plane, x, y + row);
        variation += bytes_sum(p, p + 1, width - 1);
    }
    return variation < (uint32_t)threshold / 2;
}

void scroll_verify(const struct gate *gate, const struct gate_result *difference,
                   const struct plane *reference, const struct plane *current, int dx, int dy,
                   struct scroll_check *ret_check)
{
    int left = difference->left * GATE_BLOCK;
    int right = difference->right * GATE_BLOCK;
    int top = difference->top * GATE_BLOCK;
    int bottom = difference->bottom * GATE_BLOCK;
    right = right > current->width ? current->width : right;
    bottom = bottom > current->height ? current->height : bottom;
    struct scroll_check check = {.viewport = dy != 0 ? bottom - top : right - left};
    for (int row = difference->top; row < difference->bottom; row++) {
        for (int column = difference->left; column < difference->right; column++) {
            if (gate->changed[(size_t)row * (size_t)gate->columns + (size_t)column] != 1) {
                continue;
            }
            int x = column * GATE_BLOCK;
            int y = row * GATE_BLOCK;
            /* one block of grace: the rim of the viewport need not lie on the grid */
            if (x - dx < left + GATE_BLOCK * (dx > 0) || y - dy < top + GATE_BLOCK * (dy > 0) ||
                x - dx + GATE_BLOCK > right - GATE_BLOCK * (dx < 0) ||
                y - dy + GATE_BLOCK > bottom - GATE_BLOCK * (dy < 0)) {
                check.revealed++;
                continue;
            }
            int sad = best_of_two(reference, current, x, y, dx, dy);
            if (sad > difference->threshold) {
                check.unexplained++;
            } else if (!is_flat(current, x, y, difference->threshold)) {
                check.matched++;
            }
        }
    }
    *ret_check = check;
}

enum { REPEATED_LEAST = 64 };              /* blocks with something in them */
static const double REPEATED_SHARE = 0.75; /* of those; the rest is furniture */

bool scroll_repeats(const struct plane *reference, const struct plane *current, int threshold,
                    int dx, int dy)
{
    int matched = 0;
    int all = 0;
    int right = current->width - GATE_BLOCK;
    int bottom = current->height - GATE_BLOCK;
    for (int y = dy > 0 ? dy : 0; y <= bottom + (dy < 0 ? dy : 0); y += GATE_BLOCK) {
        for (int x = dx > 0 ? dx : 0; x <= right + (dx < 0 ? dx : 0); x += GATE_BLOCK) {
            if (is_flat(current, x, y, threshold)) {
                continue;
            }
            uint32_t sad = 0;
            for (int row = 0; row < GATE_BLOCK; row++) {
                sad += bytes_sum(plane_at(current, x, y + row),
                                 plane_at(reference, x - dx, y - dy + row), GATE_BLOCK);
            }
            matched += sad <= (uint32_t)threshold;
            all++;
        }
        if (all >= 4 * REPEATED_LEAST && 2 * matched < all) {
            return false;
        }
    }
    return matched >= REPEATED_LEAST && matched >= REPEATED_SHARE * all;
}
