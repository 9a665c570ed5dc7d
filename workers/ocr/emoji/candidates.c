#include "workers/ocr/emoji/candidates.h"

enum {
    INK_AWAY = 40,      /* levels by which a pixel differs from the paper to count as ink */
    SATURATED = 60,     /* levels between the largest and the smallest channel */
    CLUSTERS_MAX = 256, /* glyphs of one line that are looked at */
    LETTERS_MIN = 4,    /* glyphs that make a common colour */
    SAME_COLOUR_OF_FEW = 16,
    SAME_COLOUR = 40, /* levels by which letters of one colour differ when they are blurred */
};

/* Share of its box that a disc or a square fills, and letters seldom. */
static const double SOLID = 0.72;

struct cluster {
    struct cv_box box;
    double fill;     /* ink pixels over area */
    double coloured; /* share of the ink that is saturated */
    double many;     /* share of the ink that has another colour than most of it */
    double mean[3];  /* colour of the ink */
    bool emoji;
};

/* Glyph boxes that lie above each other (pieces of one picture, dots and their letters) become one. */
static size_t make_clusters(const struct cv_box *glyphs, size_t count, struct cluster *clusters)
{
    size_t made = 0;

    for (size_t i = 0; i < count; i++) {
        struct cluster *last = made ? &clusters[made - 1] : NULL;
        if (last && glyphs[i].x < cv_box_right(&last->box)) {
            last->box = cv_box_union(&last->box, &glyphs[i]);
        } else if (made < CLUSTERS_MAX) {
            clusters[made++] = (struct cluster){.box = glyphs[i]};
        }
    }
    return made;
}

/* Which of seven directions from the paper a colour lies in: the signs of its channels' distance,
 * coarse on purpose, so that anti-aliasing and bleeding do not look like another colour. */
static int direction(const int away[3], int reach)
{
    int code = 0;

    for (int c = 0; c < 3; c++) {
        int third = away[c] * 3 / reach; /* -3 … 3 */
        code = code * 3 + (third >= 2 ? 2 : third <= -2 ? 0 : 1);
    }
    return code;
}

static void measure_cluster(const struct cv_frame *frame, const struct cv_ink *ink,
                            struct cluster *cluster)
{
    struct cv_box box = cv_box_clip(&cluster->box, frame->width, frame->height);
    int directions[27] = {0}, ink_pixels = 0, saturated = 0, most = 0;

    for (int y = box.y; y < cv_box_bottom(&box); y++) {
        for (int x = box.x; x < cv_box_right(&box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            int away[3], reach = 0, low = 255, high = 0;
            for (int c = 0; c < 3; c++) {
                int level = frame->plane[c][at];
                away[c] = level - ink->paper[c];
                reach = cv_max(reach, abs(away[c]));
                low = cv_min(low, level);
                high = cv_max(high, level);
            }
            if (reach < INK_AWAY) {
                continue;
            }
            ink_pixels++;
            for (int c = 0; c < 3; c++) {
                cluster->mean[c] += frame->plane[c][at];
            }
            saturated += high - low >= SATURATED;
            directions[direction(away, reach)]++;
        }
    }
    for (size_t i = 0; i < CV_COUNT(directions); i++) {
        most = cv_max(most, directions[i]);
    }
    if (ink_pixels) {
        cluster->fill = (double)ink_pixels / (box.width * box.height);
        cluster->coloured = (double)saturated / ink_pixels;
        cluster->many = 1 - (double)most / ink_pixels;
        for (int c = 0; c < 3; c++) {
            cluster->mean[c] /= ink_pixels;
        }
    }
}

/* `many_is_normal`: most letters of the line have several colours (sub-pixel rendering), so that it
 * tells nothing. A run of emoji that touch is wide; one alone is about square. Letters are strokes: they leave much
 * of their box free, and have one colour. */
static bool is_picture(const struct cluster *cluster, int tall, bool many_is_normal)
{
    const struct cv_box *box = &cluster->box;
    bool square = box->width * 10 <= box->height * 15;

    /* A grey cup with a little brown in it, its steam too faint to be seen. */
    if (!many_is_normal && cluster->coloured < 0.2 && cluster->many >= 0.08 &&
        cluster->fill >= 0.3 && box->width * 10 >= tall * 8 && box->height * 2 >= tall &&
        box->width * 10 <= box->height * 25) {
        return true;
    }
    if (box->height * 10 < tall * 8 || box->width * 10 < tall * 7 || box->width > 6 * box->height) {
        return false;
    }
    if (cluster->coloured >= 0.35 && cluster->fill >= 0.62 && square) {
        return true;
    }
    /* Small coloured letters bleed into their paper; large ones do not, so that less fill is asked. */
    double fill = !square ? 0.6 : tall < 20 ? 0.45 : 0.2;
    return !many_is_normal && cluster->coloured >= 0.2 && cluster->many >= 0.22 &&
           cluster->fill >= fill;
}

/* A lone coloured shape among uncoloured letters, larger than they are (sparkles, a bolt). */
static bool is_lone_shape(const struct cluster *clusters, size_t count, size_t i, int letters_tall)
{
    const struct cv_box *box = &clusters[i].box;

    if (clusters[i].coloured < 0.5 || box->width * 10 > box->height * 15 ||
        box->width * 10 < box->height * 6 || box->height * 20 < letters_tall * 21) {
        return false;
    }
    bool left = i > 0 && !clusters[i - 1].emoji && clusters[i - 1].coloured >= 0.4;
    bool right = i + 1 < count && !clusters[i + 1].emoji && clusters[i + 1].coloured >= 0.4;
    return !left && !right;
}

/* Clearly larger than the letters beside it, and not quite of one colour: a white cup. */
static bool is_large_shape(const struct cluster *cluster, int letter)
{
    const struct cv_box *box = &cluster->box;

    return letter && cluster->coloured < 0.3 && cluster->many >= 0.03 && cluster->fill >= 0.3 &&
           box->height * 3 >= letter * 4 && box->width * 10 >= letter * 9 &&
           box->width * 10 <= box->height * 15;
}

/* A disc or a square of any colour, larger than the letters beside it: an avatar without a picture, a
 * button. Letters are strokes and leave more of their box free. */
static bool is_solid(const struct cluster *cluster, int letter)
{
    const struct cv_box *box = &cluster->box;

    return letter && cluster->fill >= SOLID && box->height * 10 >= letter * 12 &&
           box->width * 10 >= box->height * 7 && box->width * 10 <= box->height * 14;
}

/* Median height of the clusters that are no emoji so far; 0 with fewer than two of them. Where it is that of a dot or dash, as in
 * "-4.3", below half of the line's capitals of `tall` pixels, these do not count. */
static int median_height(const struct cluster *clusters, size_t count, int tall)
{
    int heights[CLUSTERS_MAX];
    size_t letters = 0, dots = 0;

    for (size_t i = 0; i < count; i++) {
        if (!clusters[i].emoji) {
            heights[letters++] = clusters[i].box.height;
        }
    }
    if (letters < 2) {
        return 0;
    }
    qsort(heights, letters, sizeof(*heights), cv_compare_ints);
    bool is_dot = heights[(letters - 1) / 2] * 2 < tall;
    while (is_dot && dots < letters && heights[dots] * 2 < tall) {
        dots++;
    }
    return letters - dots >= 2 ? heights[dots + (letters - dots - 1) / 2] : 0;
}

static double median_mean(const struct cluster *clusters, size_t count, int channel)
{
    int levels[CLUSTERS_MAX];

    for (size_t i = 0; i < count; i++) {
        levels[i] = (int)clusters[i].mean[channel];
    }
    qsort(levels, count, sizeof(*levels), cv_compare_ints);
    size_t middle = count / 2;
    return levels[middle];
}

/* Bold letters that touch look like a picture, on a coloured paper even like one of several colours.
 * But they have the colour and the height of the others of their line; of a few clusters, the very same
 * colour. */
static void spare_letters(struct cluster *clusters, size_t count, int letter)
{
    double common[3] = {0};
    int allowed = count >= LETTERS_MIN ? SAME_COLOUR : SAME_COLOUR_OF_FEW;

    for (int c = 0; c < 3 && count > 1; c++) {
        common[c] = median_mean(clusters, count, c);
    }
    for (size_t i = 0; i < count && count > 1; i++) {
        /* from a descender to an ascender it is not quite two heights of small letters */
        bool same = clusters[i].box.height * 4 <= letter * 7 ||
                    (clusters[i].box.height <= letter * 2 && clusters[i].fill < SOLID);
        if (count == 2) {
            same = !clusters[1 - i].emoji && clusters[i].box.height <= clusters[1 - i].box.height;
        }
        for (int c = 0; c < 3; c++) {
            double away = clusters[i].mean[c] - common[c];
            same = same && away < allowed && away > -allowed;
        }
        clusters[i].emoji = clusters[i].emoji && !same;
    }
}

/* Whether `next` is a letter of the same word as `letter`, which is one: small coloured letters bleed into their
 * background and look like pictures, but not all letters of a word do. */
static bool continues_word(const struct cluster *letter, const struct cluster *next, int height)
{
    int gap =
        cv_max(next->box.x - cv_box_right(&letter->box), letter->box.x - cv_box_right(&next->box));
    bool is_same = !letter->emoji && gap <= height && next->box.height * 4 <= height * 7;

    for (int c = 0; c < 3; c++) {
        double away = next->mean[c] - letter->mean[c];
        is_same = is_same && away < SAME_COLOUR && away > -SAME_COLOUR;
    }
    return is_same;
}

static void spare_words(struct cluster *clusters, size_t count, int height)
{
    for (size_t i = 1; i < count; i++) {
        clusters[i].emoji =
            clusters[i].emoji && !continues_word(&clusters[i - 1], &clusters[i], height);
    }
    for (size_t i = count; i-- > 1;) {
        clusters[i - 1].emoji =
            clusters[i - 1].emoji && !continues_word(&clusters[i], &clusters[i - 1], height);
    }
}

/* Whether a cluster stands out among the others of its line by its colours. */
static bool is_odd(const struct cluster *clusters, size_t count, size_t i)
{
    double coloured = 0, many = 0;

    for (size_t k = 0; k < count; k++) {
        coloured += k == i ? 0 : clusters[k].coloured;
        many += k == i ? 0 : clusters[k].many;
    }
    size_t others = count > 1 ? count - 1 : 1;
    double away = clusters[i].coloured - coloured / (double)others;
    return away >= 0.12 || away <= -0.5 || clusters[i].many - many / (double)others >= 0.06;
}

/* Larger than the letters and as wide as high, in whatever colour: a black heart, a football. */
static bool is_bulky(const struct cluster *cluster, int letter)
{
    const struct cv_box *box = &cluster->box;

    return letter && cluster->fill >= 0.3 && box->height * 10 >= letter * 11 &&
           box->width * 4 >= box->height * 3 && box->width <= 4 * box->height;
}

/* An icon with a frame, or filled: percent of its height that it is wide at least (W has 135, and CJK letters with a frame
 * 110), and percent of each side of its box that are ink; corners may be round. */
enum { ICON_WIDTH = 140, ICON_SIDE = 75 };
/* Pixels, and percent of the line's strength that such ink has; between letters that blur into each other it has less. */
enum { ICON_HEIGHT_MIN = 10, ICON_STRENGTH = 75 };

/* How many pixels of one side of a box are ink, or are beside ink on the inside. */
static int ink_of_side(const struct cv_frame *frame, const struct cv_ink *ink,
                       const struct cv_box *side, int inside_x, int inside_y)
{
    int found = 0, reach = cv_max(ink->low * ICON_STRENGTH / 100, INK_AWAY);

    for (int y = side->y; y < cv_box_bottom(side); y++) {
        for (int x = side->x; x < cv_box_right(side); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            size_t beside = (size_t)(y + inside_y) * (size_t)frame->width + (size_t)(x + inside_x);
            found += cv_ink_distance(ink, frame, at) >= reach ||
                     cv_ink_distance(ink, frame, beside) >= reach;
        }
    }
    return found;
}

/* Whether a cluster is the symbol of a file or a key between letters: as high as they are (a mark behind words is
 * higher), with four sides of ink. */
static bool is_framed(const struct cv_frame *frame, const struct cv_ink *ink,
                      const struct cv_text_line *line, const struct cluster *cluster)
{
    struct cv_box box = cv_box_clip(&cluster->box, frame->width, frame->height);
    struct cv_box top = {box.x, box.y, box.width, 1}, left = {box.x, box.y, 1, box.height};
    struct cv_box bottom = top, right = left;

    bottom.y = cv_box_bottom(&box) - 1;
    right.x = cv_box_right(&box) - 1;
    if (box.height < ICON_HEIGHT_MIN || box.height * 10 < line->tall * 8 ||
        box.height * 10 > line->tall * 11 || box.width * 100 < box.height * ICON_WIDTH ||
        box.width > 3 * box.height) {
        return false;
    }
    int flat = cv_min(ink_of_side(frame, ink, &top, 0, 1), ink_of_side(frame, ink, &bottom, 0, -1));
    int upright =
        cv_min(ink_of_side(frame, ink, &left, 1, 0), ink_of_side(frame, ink, &right, -1, 0));
    return flat * 100 >= ICON_SIDE * box.width && upright * 100 >= ICON_SIDE * box.height;
}

size_t ocr_emoji_candidates(const struct cv_frame *frame, const struct cv_ink *ink,
                            const struct cv_text_line *line, const struct cv_box *glyphs,
                            struct ocr_emoji_candidate *spots, size_t limit)
{
    struct cluster clusters[CLUSTERS_MAX];
    size_t found = 0, many = 0;
    int letters_tall = 0;

    if (ink->kind != CV_INK_FLAT) {
        return 0;
    }
    size_t count = make_clusters(glyphs, line->glyph_count, clusters);
    for (size_t i = 0; i < count; i++) {
        measure_cluster(frame, ink, &clusters[i]);
        many += clusters[i].many >= 0.1;
    }
    for (size_t i = 0; i < count; i++) {
        clusters[i].emoji =
            is_picture(&clusters[i], cv_min(line->tall, 60), count >= 4 && many * 2 > count);
        if (!clusters[i].emoji && clusters[i].coloured < 0.3) {
            letters_tall = cv_max(letters_tall, clusters[i].box.height);
        }
    }
    int letter = median_height(clusters, count, line->tall);
    for (size_t i = 0; i < count; i++) {
        clusters[i].emoji = clusters[i].emoji || is_large_shape(&clusters[i], letter) ||
                            is_solid(&clusters[i], letter) ||
                            (letters_tall && is_lone_shape(clusters, count, i, letters_tall));
    }
    spare_letters(clusters, count, letter ? letter : line->tall);
    spare_words(clusters, count, letter ? letter : line->tall);
    /* Those at the ends of a line are left out by its crop. */
    for (size_t i = 1; i + 1 < count; i++) {
        clusters[i].emoji = clusters[i].emoji || is_framed(frame, ink, line, &clusters[i]);
    }
    for (size_t i = 0; i < count && found < limit; i++) {
        if (clusters[i].emoji || is_odd(clusters, count, i) || is_bulky(&clusters[i], letter)) {
            int left = i ? cv_box_right(&clusters[i - 1].box) : 0;
            int right = i + 1 < count ? clusters[i + 1].box.x : frame->width;
            spots[found++] =
                (struct ocr_emoji_candidate){clusters[i].box, left, right, clusters[i].emoji};
        }
    }
    return found;
}
