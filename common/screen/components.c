#include "common/screen/components.h"

#include "common/screen/underlines.h"

#include <string.h>

enum {
    SIZE_LEAST = 2,       /* pixels that a component has at least, in width or height */
    LABELS_MAX = 1 << 21, /* of a frame */
    HOLLOW = 8,           /* the share of its box that a frame fills at most is one in so many */
    WIDE_MOST = 60,       /* heights: underlined and touching letters are no wider */
    EDGE_WIDTH = 8,       /* heights; an edge with letters that touch it has about 4 */
    FRAMED_MIN = 14,      /* pixels of height of a frame: letters of 7 and their edges */
    FRAME_GAPS = 12,      /* one pixel in so many may be missing of a frame's side */
    BAR_WIDTH = 36,       /* percent of its height at least: a heavy i has 30 */
    BAR_RIM = 108,        /* percent of its rim's pixels at most: a heavy o of subtitles has 124 */
    /* Percent of a rim's pixels: a / in a stroke of 3 pixels has 58, shores and roads 33 to 50. */
    SINGLE_SIDE = 52,
    PICTURE_MIN = 10,    /* pixels of height of an emoji or icon: smaller ones nobody tells apart */
    PICTURE_MAX = 96,    /* larger ones are photos */
    RUN_MAX = 6,         /* emoji that touch each other */
    COLOURED = 40,       /* levels between the channels of what has a colour */
    COLOURED_SHARE = 20, /* of a picture, one pixel in so many: a grey cup has brown in it */
    PIECES_MIN = 4,      /* components of an emoji: an accented letter has three */
    DOT_HEIGHT = 20,  /* percent of a cluster's height and area: dots and accents of letters are */
    DOT_AREA = 6,     /* smaller in one of them, where there are letters beside them */
    STACKED_MIN = 2,  /* of them that share their columns with others */
    FLAT_MOST = 62,   /* percent of its box that have a side around a disc of one colour */
    CONTACTS_MIN = 3, /* of the four ends of a component that have to lie on the other side */
    LETTER_MIN = 6,   /* pixels of height: what is smaller does not make a background */
    LETTERS_ON = 3,   /* of half the tallest one's height: they make a background of any shape */
    ROW_MOST = 3,     /* letter heights: a background of one row is no higher */
    BACKGROUND_MIN = 60, /* pixels of height: nothing as square as an emoji is a background below */
};

struct run {
    int from, to; /* `to` exclusive */
    int label;
    uint8_t side;
};

struct run_row {
    struct run *runs;
    int count;
};

/* A label under construction; `parent` points to a label that swallowed it, always an earlier one. */
struct label {
    int parent;
    int left, top, right, bottom;         /* inclusive */
    int left_y, top_x, right_y, bottom_x; /* a pixel at each of the four ends */
    int pixels, peak;
    int outer;   /* label of the other side on the left of the first pixel; -1: none */
    int cluster; /* points to a label of the same cluster: what touches, of either side */
    uint8_t side;
};

struct labelling {
    struct label *labels;
    int count;
    const struct cv_frame *frame;
    const struct cv_sides *sides;
};

void cv_components_deinit(struct cv_components *components)
{
    free(components->items);
    *components = (struct cv_components){0};
}

static int find_root(struct labelling *all, int label)
{
    while (all->labels[label].parent != label) {
        all->labels[label].parent = all->labels[all->labels[label].parent].parent;
        label = all->labels[label].parent;
    }
    return label;
}

static void widen(struct label *into, const struct label *from)
{
    if (from->left < into->left) {
        into->left = from->left;
        into->left_y = from->left_y;
    }
    if (from->right > into->right) {
        into->right = from->right;
        into->right_y = from->right_y;
    }
    if (from->top < into->top) {
        into->top = from->top;
        into->top_x = from->top_x;
    }
    if (from->bottom > into->bottom) {
        into->bottom = from->bottom;
        into->bottom_x = from->bottom_x;
    }
    into->pixels += from->pixels;
    into->peak = cv_max(into->peak, from->peak);
}

static int join(struct labelling *all, int a, int b)
{
    a = find_root(all, a);
    b = find_root(all, b);
    if (a == b) {
        return a;
    }
    int first = cv_min(a, b), second = cv_max(a, b);
    all->labels[second].parent = first;
    widen(&all->labels[first], &all->labels[second]);
    return first;
}

static int find_cluster(struct labelling *all, int label)
{
    while (all->labels[label].cluster != label) {
        all->labels[label].cluster = all->labels[all->labels[label].cluster].cluster;
        label = all->labels[label].cluster;
    }
    return label;
}

static void join_clusters(struct labelling *all, int a, int b)
{
    if (a >= 0 && b >= 0) {
        a = find_cluster(all, a);
        b = find_cluster(all, b);
        all->labels[cv_max(a, b)].cluster = cv_min(a, b);
    }
}

/* -1 when the limit is reached: the run is then left out. */
static int new_label(struct labelling *all, struct label label)
{
    if (all->count == LABELS_MAX || !CV_MAKE_ROOM(all->labels, (size_t)all->count)) {
        return -1;
    }
    label.parent = label.cluster = all->count;
    all->labels[all->count] = label;
    return all->count++;
}

/* Runs of one side in a row. */
static void find_runs(const uint8_t *sides, int width, struct run_row *row)
{
    int x = 0;

    row->count = 0;
    while (x < width) {
        uint64_t eight;
        if (x + 8 <= width) {
            memcpy(&eight, sides + x, sizeof(eight));
            if (!eight) {
                x += 8;
                continue;
            }
        }
        if (sides[x] == CV_SIDE_NONE) {
            x++;
            continue;
        }
        int from = x;
        while (x < width && sides[x] == sides[from]) {
            x++;
        }
        row->runs[row->count++] = (struct run){from, x, -1, sides[from]};
    }
}

static void label_runs(struct labelling *all, struct run_row *row, const struct run_row *above,
                       const uint8_t *ranges, int y)
{
    int next = 0;

    for (int i = 0; i < row->count; i++) {
        struct run *run = &row->runs[i];
        int middle = (run->from + run->to) / 2;
        struct label label = {.left = run->from,
                              .top = y,
                              .right = run->to - 1,
                              .bottom = y,
                              .left_y = y,
                              .top_x = middle,
                              .right_y = y,
                              .bottom_x = middle,
                              .pixels = run->to - run->from,
                              .outer = -1,
                              .side = run->side};
        for (int x = run->from; x < run->to; x++) {
            label.peak = cv_max(label.peak, ranges[x]);
        }
        while (next < above->count && above->runs[next].to < run->from) {
            next++;
        }
        for (int k = next; k < above->count && above->runs[k].from <= run->to; k++) {
            const struct run *other = &above->runs[k];
            if (other->label >= 0 && other->side == run->side) {
                run->label = run->label < 0 ? find_root(all, other->label)
                                            : join(all, run->label, other->label);
            }
        }
        bool touches = i && row->runs[i - 1].to == run->from;
        if (run->label >= 0) {
            widen(&all->labels[run->label], &label);
        } else {
            label.outer = touches ? row->runs[i - 1].label : -1;
            run->label = new_label(all, label);
        }
        if (touches) {
            join_clusters(all, run->label, row->runs[i - 1].label);
        }
        for (int k = next; k < above->count && above->runs[k].from <= run->to; k++) {
            if (above->runs[k].side != run->side) {
                join_clusters(all, run->label, above->runs[k].label);
            }
        }
    }
}

static uint8_t side_at(const struct labelling *all, int x, int y)
{
    if (x < 0 || y < 0 || x >= all->sides->width || y >= all->sides->height) {
        return CV_SIDE_NONE;
    }
    return all->sides->side[(size_t)y * (size_t)all->sides->width + (size_t)x];
}

/* Whether the other side surrounds a component: then the component is ink. The paper near
 * letters is surrounded by more paper, which has no side. At the picture's rim, a component
 * counts as surrounded. */
static bool is_ink(const struct labelling *all, const struct label *label)
{
    uint8_t other = label->side == CV_SIDE_DARK ? CV_SIDE_LIGHT : CV_SIDE_DARK;
    int contacts = (label->top == 0 || side_at(all, label->top_x, label->top - 1) == other) +
                   (label->bottom == all->sides->height - 1 ||
                    side_at(all, label->bottom_x, label->bottom + 1) == other) +
                   (label->left == 0 || side_at(all, label->left - 1, label->left_y) == other) +
                   (label->right == all->sides->width - 1 ||
                    side_at(all, label->right + 1, label->right_y) == other);

    return contacts >= CONTACTS_MIN;
}

/* Pixels of a thin rectangle: CV_EDGE_REACH pixels on each of its four sides. */
static int rim_of(int width, int height)
{
    return 2 * CV_EDGE_REACH * (width + height);
}

/* Whether so many pixels are nothing but a thin rectangle of that size: those near to an edge on each of its four sides. */
static bool is_rim(int width, int height, int pixels)
{
    int rim = rim_of(width, height);
    return pixels * 100 >= rim * 92 && pixels * 10 <= rim * 13;
}

/* Whether a component is at nearly all pixels of one side of its box, or at the ones inside of them. */
static bool is_straight(const struct labelling *all, const struct label *label, struct cv_box side,
                        int inside_x, int inside_y)
{
    int missing = 0;

    for (int y = side.y; y < cv_box_bottom(&side); y++) {
        for (int x = side.x; x < cv_box_right(&side); x++) {
            missing += side_at(all, x, y) != label->side &&
                       side_at(all, x + inside_x, y + inside_y) != label->side;
        }
    }
    return missing * FRAME_GAPS <= side.width * side.height;
}

/* Whether a component is a rectangle, though there are things in it: a cell of a table, a button's outline, a mark. In a
 * tight cell the edges of the letters are of one component with those of the cell. No letter is wide and has four
 * straight sides. The corners may be round. */
static bool is_frame(const struct labelling *all, const struct label *label)
{
    int width = label->right - label->left + 1, height = label->bottom - label->top + 1;
    int wide = width / 8, high = height / 4;
    struct cv_box top = {label->left + wide, label->top, width - 2 * wide, 1}, bottom = top;
    struct cv_box left = {label->left, label->top + high, 1, height - 2 * high}, right = left;

    bottom.y = label->bottom;
    right.x = label->right;
    return height >= FRAMED_MIN && width * 4 >= height * 5 && is_straight(all, label, top, 0, 1) &&
           is_straight(all, label, bottom, 0, -1) && is_straight(all, label, left, 1, 0) &&
           is_straight(all, label, right, -1, 0);
}

/* Whether a component is a filled or framed rectangle larger than the strokes of letters: a bar of a chart, an empty
 * field, a card. What is as wide as high may be an emoji. The rim of an O leaves its box's sides an eighth from their ends. */
static bool is_bar(const struct labelling *all, const struct label *label)
{
    int width = label->right - label->left + 1, height = label->bottom - label->top + 1;
    int wide = width / 8, high = height / 8;
    bool is_long = width * 4 >= height * 5 || height * 4 >= width * 5;

    if (width * 100 < height * BAR_WIDTH || height < CV_FRAME_MIN || !is_long ||
        !is_rim(width, height, label->pixels) ||
        label->pixels * 100 > rim_of(width, height) * BAR_RIM) {
        return false;
    }
    for (int corner = 0; corner < 4; corner++) {
        int x = corner & 1 ? label->right - 1 : label->left + 1;
        int y = corner & 2 ? label->bottom - 1 : label->top + 1;
        int to_x = corner & 1 ? -wide : wide, to_y = corner & 2 ? -high : high;
        if (side_at(all, x + to_x, y) != label->side || side_at(all, x, y + to_y) != label->side) {
            return false;
        }
    }
    return true;
}

static struct cv_box box_of(const struct label *label)
{
    return (struct cv_box){label->left, label->top, label->right - label->left + 1,
                           label->bottom - label->top + 1};
}

/* Whether a component is the upper or lower edge of a mark, above or below the letters on it. */
static bool is_edge_of_mark(const struct labelling *all, const struct label *label)
{
    struct cv_box box = box_of(label);

    return box.width >= EDGE_WIDTH * box.height &&
           cv_is_filling(all->frame, all->sides, &box, label->side);
}

static bool is_candidate(const struct labelling *all, const struct label *label)
{
    int width = label->right - label->left + 1, height = label->bottom - label->top + 1;

    if (label->peak < CV_EDGE_FAINT || height > CV_GLYPH_HEIGHT_MAX ||
        (height < SIZE_LEAST && width < SIZE_LEAST) || width > cv_max(WIDE_MOST * height, 240)) {
        return false;
    }
    /* Wide and hollow: the frame of a card, a button or a picture. Touching letters fill more. */
    if (width > 3 * height && (int64_t)label->pixels * HOLLOW < (int64_t)width * height) {
        return false;
    }
    /* One side of a road, a shore, a card's shadow. The strokes of large letters have two sides. */
    if (cv_min(width, height) >= CV_FRAME_MIN &&
        label->pixels * 100 < rim_of(width, height) * SINGLE_SIDE) {
        return false;
    }
    return is_ink(all, label) && !is_bar(all, label) && !is_frame(all, label);
}

static int compare_components(const void *left, const void *right)
{
    const struct cv_box *a = &((const struct cv_component *)left)->box;
    const struct cv_box *b = &((const struct cv_component *)right)->box;

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

void cv_components_sort(struct cv_components *components)
{
    qsort(components->items, components->count, sizeof(*components->items), compare_components);
}

/* What the labels of one cluster make up. */
struct cluster {
    int left, top, right, bottom; /* inclusive */
    int pieces;                   /* components of either side */
    int stacked;                  /* of those above, below or across others, but not within them */
    int pixels;                   /* that have a side: of the components and around them */
    bool is_taken;                /* one component stands for all of them */
};

/* The clusters, at the index of their first label. */
static void find_clusters(struct labelling *all, struct cluster *clusters)
{
    for (int i = 0; i < all->count; i++) {
        const struct label *label = &all->labels[i];
        struct cluster *cluster = &clusters[find_cluster(all, i)];
        if (label->parent != i) {
            continue;
        }
        if (!cluster->right) {
            *cluster = (struct cluster){label->left, label->top, label->right, label->bottom, 0,
                                        0,           0,          false};
        }
        cluster->pixels += label->pixels;
        cluster->left = cv_min(cluster->left, label->left);
        cluster->top = cv_min(cluster->top, label->top);
        cluster->right = cv_max(cluster->right, label->right);
        cluster->bottom = cv_max(cluster->bottom, label->bottom);
    }
}

/* Whether two components share columns, and neither lies in the other: letters stand side by side. */
static bool is_stacked(const struct cv_box *a, const struct cv_box *b)
{
    int columns = cv_min(cv_box_right(a), cv_box_right(b)) - cv_max(a->x, b->x);
    return columns * 2 >= cv_min(a->width, b->width) && !cv_box_lies_in(a, b) &&
           !cv_box_lies_in(b, a);
}

/* Whether a component is too large a part of its cluster for the dot or the accent of a letter. */
static bool is_large_piece(const struct cv_component *item, const struct cluster *cluster)
{
    int width = cluster->right - cluster->left + 1 - 2 * CV_EDGE_REACH;
    int height = cluster->bottom - cluster->top + 1 - 2 * CV_EDGE_REACH;

    return item->box.height * 100 >= height * DOT_HEIGHT &&
           item->box.width * item->box.height * 100 >= width * height * DOT_AREA;
}

/* Counts the pieces of each cluster. `items` are in order of x. */
static void count_pieces(const struct cv_component *items, size_t count, struct cluster *clusters)
{
    for (size_t i = 0; i < count; i++) {
        const struct cv_component *item = &items[i];
        struct cluster *cluster = &clusters[item->cluster];
        bool is_counted = !is_large_piece(item, cluster);
        cluster->pieces++;
        cluster->stacked -= is_counted;
        for (size_t k = i; k-- > 0 && item->box.x - items[k].box.x <= PICTURE_MAX && !is_counted;) {
            is_counted = items[k].cluster == item->cluster && is_large_piece(&items[k], cluster) &&
                         is_stacked(&items[k].box, &item->box);
        }
        cluster->stacked += is_counted;
    }
}

/* Whether a box has colour in it; two short rows of letters have none. */
static bool has_colour(const struct cv_frame *frame, const struct cv_box *box)
{
    int coloured = 0;

    for (int y = box->y; y < cv_box_bottom(box); y++) {
        for (int x = box->x; x < cv_box_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            uint8_t red = frame->plane[CV_RED][at], green = frame->plane[CV_GREEN][at];
            uint8_t blue = frame->plane[CV_BLUE][at];
            coloured +=
                cv_max(cv_max(red, green), blue) - cv_min(cv_min(red, green), blue) >= COLOURED;
        }
    }
    return coloured * COLOURED_SHARE >= box->width * box->height;
}

/* Whether a cluster is an emoji or an icon of several parts, or some side by side, as large as letters
 * are. */
static bool is_picture(const struct cv_frame *frame, const struct cluster *cluster)
{
    struct cv_box box = {cluster->left + CV_EDGE_REACH, cluster->top + CV_EDGE_REACH,
                         cluster->right - cluster->left + 1 - 2 * CV_EDGE_REACH,
                         cluster->bottom - cluster->top + 1 - 2 * CV_EDGE_REACH};
    int many = cv_max((box.width + box.height / 2) / cv_max(box.height, 1), 1);

    return box.height >= PICTURE_MIN && box.height <= PICTURE_MAX &&
           box.width * 10 >= box.height * 6 && many <= RUN_MAX &&
           cluster->pieces >= PIECES_MIN * many && cluster->stacked >= STACKED_MIN * many &&
           has_colour(frame, &box);
}

/* Replaces all components of a picture, of both sides, by one. */
static void unite_pictures(const struct cv_frame *frame, struct cv_components *components,
                           struct cluster *clusters)
{
    size_t kept = 0;

    for (size_t i = 0; i < components->count; i++) {
        struct cv_component item = components->items[i];
        struct cluster *cluster = &clusters[item.cluster];
        if (cluster->is_taken) {
            continue;
        }
        item.has_parts = cluster->pixels * 100 >= item.box.width * item.box.height * FLAT_MOST;
        if (!is_picture(frame, cluster)) {
            components->items[kept++] = item;
        } else {
            item.box = (struct cv_box){cluster->left + CV_EDGE_REACH, cluster->top + CV_EDGE_REACH,
                                       cluster->right - cluster->left + 1 - 2 * CV_EDGE_REACH,
                                       cluster->bottom - cluster->top + 1 - 2 * CV_EDGE_REACH};
            item.is_picture = item.has_parts = true;
            item.is_inner = false;
            item.peak = UINT8_MAX;
            item.pixels = item.box.width * item.box.height;
            components->items[kept++] = item;
            cluster->is_taken = true;
        }
    }
    components->count = kept;
}

/* Whether `item` stands on `background` and is no hole in it. */
static bool is_on(const struct cv_component *item, const struct cv_component *background)
{
    const struct cv_box *box = &item->box, *around = &background->box;
    bool is_hole = item->is_inner && item->is_light != background->is_light;

    return !is_hole && !item->is_picture && box->height >= LETTER_MIN && box->x > around->x &&
           box->y > around->y && cv_box_right(box) < cv_box_right(around) &&
           cv_box_bottom(box) < cv_box_bottom(around);
}

/* Whether a component is what letters stand on: a button, a mark, a cell of a table. `next` come behind
 * it in order. */
static bool is_background(const struct cv_component *background, const struct cv_component *next,
                          const struct cv_component *end)
{
    int tallest = 0, letters = 0;
    bool is_wide = background->box.width >= 2 * background->box.height;
    bool is_frame = background->box.height >= CV_FRAME_MIN &&
                    is_rim(background->box.width, background->box.height, background->pixels);

    if (!is_wide && !is_frame && background->box.height < BACKGROUND_MIN) {
        return false;
    }
    for (const struct cv_component *item = next;
         item < end && item->box.x < cv_box_right(&background->box); item++) {
        tallest = is_on(item, background) ? cv_max(tallest, item->box.height) : tallest;
    }
    const struct cv_component *last = NULL;
    for (const struct cv_component *item = next;
         item < end && item->box.x < cv_box_right(&background->box); item++) {
        if (!is_on(item, background) || item->box.height * 2 < tallest) {
            continue;
        }
        /* In one row letters stand side by side, eyes above mouths. */
        if (last && background->box.height <= ROW_MOST * tallest &&
            is_stacked(&last->box, &item->box)) {
            return false;
        }
        last = item;
        letters++;
    }
    bool is_bar = is_wide && tallest * 5 >= background->box.height * 2;
    return letters >= LETTERS_ON || (letters && (is_bar || is_frame));
}

/* Whether there were any. */
static bool remove_some_backgrounds(struct cv_components *components)
{
    struct cv_component *items = components->items, *end = items + components->count;
    size_t kept = 0;

    for (size_t i = 0; i < components->count; i++) {
        struct cv_component item = items[i]; /* the ones behind are still in their places */
        if (!is_background(&item, items + i + 1, end)) {
            items[kept++] = item;
        }
    }
    bool found = kept < components->count;
    components->count = kept;
    return found;
}

/* Removes what letters stand on (buttons, marks, cards, cells of tables), from the innermost on: a card is known by the
 * letters on it when the button between them is gone. The letters are components of their own already. */
static void remove_backgrounds(struct cv_components *components)
{
    while (remove_some_backgrounds(components)) {
    }
}

static int make_items(struct labelling *all, struct cv_components *ret_components,
                      struct cv_error *error)
{
    size_t count = 0;

    for (int i = 0; i < all->count; i++) {
        struct label *label = &all->labels[i];
        bool is_item = label->parent == i && is_candidate(all, label);
        label->pixels = is_item ? label->pixels : 0;
        count += is_item;
    }
    struct cv_component *items = calloc(count + 1, sizeof(*items));
    CV_TRY_MEMORY(items, error, "components");
    count = 0;
    for (int i = 0; i < all->count; i++) {
        const struct label *label = &all->labels[i];
        if (!label->pixels) {
            continue;
        }
        int outer = label->outer < 0 ? -1 : find_root(all, label->outer);
        items[count++] = (struct cv_component){
            .box = box_of(label),
            .pixels = label->pixels,
            .peak = label->peak,
            .cluster = find_cluster(all, i),
            .is_light = label->side == CV_SIDE_LIGHT,
            .is_edge = is_edge_of_mark(all, label),
            .is_inner = outer >= 0 && all->labels[outer].pixels > 0,
        };
    }
    *ret_components = (struct cv_components){items, count};
    cv_components_sort(ret_components);
    return 0;
}

static int collect(struct labelling *all, struct cv_components *ret_components,
                   struct cv_error *error)
{
    cv_auto_free struct cluster *clusters = calloc((size_t)all->count + 1, sizeof(*clusters));

    CV_TRY_MEMORY(clusters, error, "components");
    find_clusters(all, clusters);
    CV_TRY(make_items(all, ret_components, error));
    count_pieces(ret_components->items, ret_components->count, clusters);
    unite_pictures(all->frame, ret_components, clusters);
    cv_components_sort(ret_components);
    return 0;
}

/* Removes what lies in an emoji that is a component of its own: the eyes of a face are no letters; and edges of marks. */
static int remove_parts(const struct cv_frame *frame, struct cv_components *components,
                        struct cv_error *error)
{
    cv_auto_free bool *gone = calloc(components->count + 1, sizeof(*gone));
    size_t kept = 0;

    CV_TRY_MEMORY(gone, error, "components");
    for (size_t i = 0; i < components->count; i++) {
        const struct cv_component *outer = &components->items[i];
        bool has_size = outer->box.height >= PICTURE_MIN && outer->box.height <= PICTURE_MAX &&
                        outer->box.width <= RUN_MAX * outer->box.height;
        for (size_t k = i + 1; has_size && k < components->count; k++) {
            const struct cv_component *part = &components->items[k];
            if (part->box.x >= cv_box_right(&outer->box)) {
                break;
            }
            if (part->is_light == outer->is_light && cv_box_lies_in(&part->box, &outer->box)) {
                gone[k] = has_size = has_colour(frame, &outer->box);
            }
        }
    }
    for (size_t i = 0; i < components->count; i++) {
        if (!gone[i] && !components->items[i].is_edge) {
            components->items[kept++] = components->items[i];
        }
    }
    components->count = kept;
    return 0;
}

int cv_components_find(struct cv_frame *frame, struct cv_components *ret_components,
                       struct cv_error *error)
{
    size_t width = (size_t)frame->width;
    cv_auto(cv_sides_deinit) struct cv_sides sides = {0};
    cv_auto_free struct run *runs = malloc(2 * (width + 1) * sizeof(*runs));

    CV_TRY_MEMORY(runs, error, "finding text lines");
    CV_TRY(cv_sides_find(frame, &sides, error));
    CV_TRY(cv_underlines_remove(frame, &sides, error));
    struct labelling all = {.frame = frame, .sides = &sides};
    struct run_row above = {runs, 0}, here = {runs + width + 1, 0};
    for (int y = 0; y < frame->height; y++) {
        size_t row = (size_t)y * width;
        find_runs(sides.side + row, frame->width, &here);
        label_runs(&all, &here, &above, sides.range + row, y);
        struct run_row swap = above;
        above = here;
        here = swap;
    }
    int result = collect(&all, ret_components, error);
    if (result == 0) {
        remove_backgrounds(ret_components);
        result = remove_parts(frame, ret_components, error);
    }
    free(all.labels);
    return result;
}
