#include "workers/ocr/ground.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

struct run {
    int from, to; /* `to` exclusive */
    int label;
};

struct run_row {
    struct run *runs;
    int count;
};

/* A label under construction; `parent` points to a label that swallowed it. */
struct label {
    int parent;
    int left, top, right, bottom; /* inclusive */
    int pixels, peak;
};

struct labelling {
    struct label *labels;
    int count, capacity;
};

void ocr_components_deinit(struct ocr_components *components)
{
    free(components->items);
    *components = (struct ocr_components){0};
}

static inline uint8_t difference(uint8_t a, uint8_t b)
{
    return a > b ? (uint8_t)(a - b) : (uint8_t)(b - a);
}

/* The larger one of the central differences across and down at a pixel of one plane. */
static inline uint8_t gradient(const uint8_t *here, size_t width)
{
    uint8_t across = difference(here[1], here[-1]);
    uint8_t down = difference(here[width], here[-(ptrdiff_t)width]);
    return across > down ? across : down;
}

#if defined(__SSE2__)
static inline __m128i sixteen(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline __m128i differences(__m128i a, __m128i b)
{
    return _mm_or_si128(_mm_subs_epu8(a, b), _mm_subs_epu8(b, a));
}

/* The same of sixteen pixels. */
static inline __m128i gradients(const uint8_t *here, size_t width)
{
    return _mm_max_epu8(differences(sixteen(here + 1), sixteen(here - 1)),
                        differences(sixteen(here + width), sixteen(here - width)));
}
#endif

void ocr_gradient_row(const struct ocr_frame *frame, int y, uint8_t *edges)
{
    size_t width = (size_t)frame->width, x = 1;

    if (y < 1 || y >= frame->height - 1 || width < 3) {
        memset(edges, 0, width);
        return;
    }
    const uint8_t *red = frame->plane[OCR_RED] + (size_t)y * width;
    const uint8_t *green = frame->plane[OCR_GREEN] + (size_t)y * width;
    const uint8_t *blue = frame->plane[OCR_BLUE] + (size_t)y * width;
#if defined(__SSE2__)
    for (; x + 16 < width; x += 16) {
        __m128i most = _mm_max_epu8(gradients(red + x, width), gradients(green + x, width));
        most = _mm_max_epu8(most, gradients(blue + x, width));
        _mm_storeu_si128((__m128i *)(void *)(edges + x), most);
    }
#endif
    for (; x < width - 1; x++) {
        uint8_t r = gradient(red + x, width), g = gradient(green + x, width);
        uint8_t b = gradient(blue + x, width);
        uint8_t most = r > g ? r : g;
        edges[x] = most > b ? most : b;
    }
    edges[0] = edges[width - 1] = 0;
}

static int find_root(struct labelling *all, int label)
{
    while (all->labels[label].parent != label) {
        all->labels[label].parent = all->labels[all->labels[label].parent].parent;
        label = all->labels[label].parent;
    }
    return label;
}

static int join(struct labelling *all, int a, int b)
{
    a = find_root(all, a);
    b = find_root(all, b);
    if (a == b) {
        return a;
    }
    if (b < a) {
        int swap = a;
        a = b;
        b = swap;
    }
    struct label *into = &all->labels[a], *from = &all->labels[b];
    from->parent = a;
    into->left = ocr_min(into->left, from->left);
    into->right = ocr_max(into->right, from->right);
    into->top = ocr_min(into->top, from->top);
    into->bottom = ocr_max(into->bottom, from->bottom);
    into->pixels += from->pixels;
    into->peak = ocr_max(into->peak, from->peak);
    return a;
}

/* -1 when the limit is reached: the run is then left out. */
static int new_label(struct labelling *all, struct label label)
{
    if (all->count == all->capacity) {
        int capacity = all->capacity ? all->capacity * 2 : 4096;
        if (capacity > OCR_COMPONENTS_MAX * 2) {
            return -1;
        }
        void *grown = realloc(all->labels, (size_t)capacity * sizeof(*all->labels));
        if (!grown) {
            return -1;
        }
        all->labels = grown;
        all->capacity = capacity;
    }
    label.parent = all->count;
    all->labels[all->count] = label;
    return all->count++;
}

/* Runs of edge pixels of one row; the widest row cannot hold more than (width + 1) / 2. */
static void find_runs(const uint8_t *edges, int width, struct run_row *row)
{
    int x = 0;

    row->count = 0;
    while (x < width) {
        int stop = ocr_min(x + 8, width);
        uint64_t eight = UINT64_MAX;
        if (x + 8 <= width) {
            memcpy(&eight, edges + x, sizeof(eight));
        }
        /* No byte reaches 16, so none reaches OCR_EDGE_WEAK. */
        if (!(eight & 0xf0f0f0f0f0f0f0f0ull)) {
            x += 8;
            continue;
        }
        while (x < stop && edges[x] < OCR_EDGE_WEAK) {
            x++;
        }
        if (x == stop) {
            continue;
        }
        int from = x;
        while (x < width && edges[x] >= OCR_EDGE_WEAK) {
            x++;
        }
        row->runs[row->count++] = (struct run){from, x, -1};
    }
}

static void label_runs(struct labelling *all, struct run_row *row, const struct run_row *above,
                       const uint8_t *edges, int y)
{
    int next = 0;

    for (int i = 0; i < row->count; i++) {
        struct run *run = &row->runs[i];
        struct label label = {0, run->from, y, run->to - 1, y, run->to - run->from, 0};
        for (int x = run->from; x < run->to; x++) {
            label.peak = ocr_max(label.peak, edges[x]);
        }
        while (next < above->count && above->runs[next].to < run->from) {
            next++;
        }
        for (int k = next; k < above->count && above->runs[k].from <= run->to; k++) {
            if (above->runs[k].label >= 0) {
                run->label = run->label < 0 ? find_root(all, above->runs[k].label)
                                            : join(all, run->label, above->runs[k].label);
            }
        }
        if (run->label < 0) {
            run->label = new_label(all, label);
            continue;
        }
        struct label *root = &all->labels[run->label];
        root->left = ocr_min(root->left, label.left);
        root->right = ocr_max(root->right, label.right);
        root->bottom = y;
        root->pixels += label.pixels;
        root->peak = ocr_max(root->peak, label.peak);
    }
}

static bool is_candidate(const struct label *label)
{
    int width = label->right - label->left + 1, height = label->bottom - label->top + 1;

    /* Wide and hollow: the frame of a card, a button or a picture. Touching letters fill more. */
    if (width > 3 * height && (int64_t)label->pixels * 8 < (int64_t)width * height) {
        return false;
    }
    /* Words of touching letters and underlined lines are wide; nothing is wider than 60 heights. */
    return label->peak >= OCR_EDGE_STRONG && height <= OCR_GLYPH_HEIGHT_MAX + 2 &&
           width <= ocr_max(60 * height, 240) && (height >= 3 || width >= 3);
}

static int compare_components(const void *left, const void *right)
{
    const struct ocr_box *a = &((const struct ocr_component *)left)->box;
    const struct ocr_box *b = &((const struct ocr_component *)right)->box;

    if (a->x != b->x) {
        return a->x < b->x ? -1 : 1;
    }
    if (a->y != b->y) {
        return a->y < b->y ? -1 : 1;
    }
    if (a->width != b->width) {
        return a->width < b->width ? -1 : 1;
    }
    return (a->height > b->height) - (a->height < b->height);
}

/* The central difference answers one pixel outside of the ink on each side: takes that off. */
static struct ocr_component make_component(const struct label *label)
{
    struct ocr_component component = {
        .box = {label->left, label->top, label->right - label->left + 1,
                label->bottom - label->top + 1},
        .pixels = label->pixels,
        .peak = label->peak,
    };

    if (component.box.width > 2) {
        component.box.x++;
        component.box.width -= 2;
    }
    if (component.box.height > 2) {
        component.box.y++;
        component.box.height -= 2;
    }
    return component;
}

static int collect(const struct labelling *all, struct ocr_components *ret_components,
                   struct cv_error *error)
{
    size_t count = 0;

    for (int i = 0; i < all->count; i++) {
        count += all->labels[i].parent == i && is_candidate(&all->labels[i]);
    }
    struct ocr_component *items = calloc(count ? count : 1, sizeof(*items));
    if (!items) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu components", count);
    }
    count = 0;
    for (int i = 0; i < all->count; i++) {
        if (all->labels[i].parent == i && is_candidate(&all->labels[i])) {
            items[count++] = make_component(&all->labels[i]);
        }
    }
    qsort(items, count, sizeof(*items), compare_components);
    *ret_components = (struct ocr_components){items, count};
    return 0;
}

/* Labels the edges of a frame; `learned`: the faint ones of the places that were learned, else the
 * others, of which `noted`, unless NULL, takes note. */
static int label_frame(const struct ocr_frame *frame, struct ocr_ground *noted,
                       const struct ocr_ground *learned, struct ocr_components *ret_components,
                       struct cv_error *error)
{
    size_t runs_max = (size_t)frame->width / 2 + 1;
    cv_auto_free uint8_t *edges = malloc((size_t)frame->width + 8);
    cv_auto_free struct run *runs = malloc(2 * runs_max * sizeof(*runs));
    struct labelling all = {0};

    if (!edges || !runs) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to find text lines");
    }
    struct run_row above = {runs, 0}, here = {runs + runs_max, 0};
    for (int y = 0; y < frame->height; y++) {
        here.count = 0;
        if (!learned || ocr_ground_any(learned, y)) {
            ocr_gradient_row(frame, y, edges);
            if (noted) {
                ocr_ground_note(noted, edges, frame->width, y);
            }
            if (learned) {
                ocr_ground_lift(learned, edges, frame->width, y);
            }
            find_runs(edges, frame->width, &here);
            label_runs(&all, &here, &above, edges, y);
        }
        struct run_row swap = above;
        above = here;
        here = swap;
    }
    int result = collect(&all, ret_components, error);
    free(all.labels);
    return result;
}

int ocr_components_find(const struct ocr_frame *frame, struct ocr_ground *ground,
                        struct ocr_components *ret_components, struct cv_error *error)
{
    return label_frame(frame, ground, NULL, ret_components, error);
}

int ocr_components_faint(const struct ocr_frame *frame, const struct ocr_ground *ground,
                         struct ocr_components *ret_components, struct cv_error *error)
{
    return label_frame(frame, NULL, ground, ret_components, error);
}
