#include "common/screen/ink_on_picture.h"

#include "common/screen/ink_levels.h"

enum {
    /* Percent of the runs of a fill that the outline encloses. In a picture, and of coloured letters, light and dark
     * enclose each other less. */
    FILL_PERCENT = 82,
    FILL_REST = 70,  /* the same of a pair of levels beside one that shows a fill */
    FILL_MORE = 25,  /* percent by which its outline is enclosed less often */
    SPLITS = 3,      /* of the levels: those of a split's side are split again */
    STROKES_MIN = 6, /* runs of the fill a row: of corners in a picture there are fewer */
};

enum side { SIDE_NONE, SIDE_LIGHT, SIDE_DARK };

/* The two levels in which ink on a picture is looked for, and their groups. */
struct picture {
    struct cv_histogram light_levels, dark_levels;
    struct cv_split light, dark;
    bool by_luma;
    bool has_fill; /* enclosed by an outline */
};

static enum side side_of(const struct cv_frame *frame, size_t at, bool by_luma, int light_threshold,
                         int dark_threshold)
{
    bool light = cv_light_level(frame, at, by_luma) > light_threshold;
    bool dark = cv_dark_level(frame, at, by_luma) <= dark_threshold;

    return light == dark ? SIDE_NONE : light ? SIDE_LIGHT : SIDE_DARK;
}

/* How often an ink is enclosed by the other one along the rows, as the fill of outlined letters is. */
struct enclosure {
    int inside; /* percent of its runs */
    int more;   /* percent by which it is enclosed more often than the other one by it */
};

/* All 0 where it has too few runs for letters. */
static struct enclosure enclosure_of(const struct cv_frame *frame, const struct cv_box *box,
                                     enum side ink, bool by_luma, int light_threshold,
                                     int dark_threshold)
{
    int reach = 2 + box->height / 16; /* the soft edge between fill and outline */
    /* the outlines of the first and of the last letter are beside the box */
    int from = cv_max(box->x - 2 * reach, 0);
    int to = cv_min(cv_box_right(box) + 2 * reach, frame->width);
    int runs[3] = {0}, enclosed[3] = {0};

    for (int y = box->y; y < cv_box_bottom(box); y++) {
        enum side last = SIDE_NONE;
        bool after_other = false; /* the last run follows one of the other ink */
        int end = from;
        for (int x = from; x < to; x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            enum side side = side_of(frame, at, by_luma, light_threshold, dark_threshold);
            if (side == SIDE_NONE) {
                continue;
            }
            bool begins = side != last || x > end + 1;
            if (begins) {
                bool other = last != SIDE_NONE && side != last && x - end <= reach;
                enclosed[last] += other && after_other;
                runs[side]++;
                after_other = other;
            }
            last = side;
            end = x;
        }
    }
    enum side outline = ink == SIDE_LIGHT ? SIDE_DARK : SIDE_LIGHT;
    int inside = enclosed[ink] * 100 / cv_max(runs[ink], 1);
    int outside = enclosed[outline] * 100 / cv_max(runs[outline], 1);
    bool are_letters = runs[ink] >= STROKES_MIN * box->height;
    return are_letters ? (struct enclosure){inside, inside - outside} : (struct enclosure){0, 0};
}

static void measure_levels(const struct cv_frame *frame, const struct cv_box *box, bool by_luma,
                           struct picture *picture)
{
    *picture = (struct picture){.by_luma = by_luma};
    for (int y = box->y; y < cv_box_bottom(box); y++) {
        for (int x = box->x; x < cv_box_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            picture->light_levels.count[cv_light_level(frame, at, by_luma)]++;
            picture->dark_levels.count[cv_dark_level(frame, at, by_luma)]++;
        }
    }
    picture->light_levels.total = (uint32_t)(box->width * box->height);
    picture->dark_levels.total = picture->light_levels.total;
    picture->light = cv_otsu(&picture->light_levels);
    picture->dark = cv_otsu(&picture->dark_levels);
}

/* The split of the levels above (or up to) `threshold` alone: where the picture is as bright as the
 * letters, the first split has it on their side. */
static struct cv_split split_again(const struct cv_histogram *histogram, int threshold, bool above)
{
    struct cv_histogram part = {{0}, 0};

    for (int level = 0; level < 256; level++) {
        if ((level > threshold) == above) {
            part.count[level] = histogram->count[level];
            part.total += part.count[level];
        }
    }
    return cv_otsu(&part);
}

static double quality_of(const struct picture *picture, bool is_light)
{
    return is_light ? picture->light.quality : picture->dark.quality;
}

/* Outlined letters: their fill is enclosed by the outline. Tries the splits in all pairs, and takes the one that shows it
 * most clearly: where one pair shows a fill, another one may leave out the picture beside the letters, which is as light
 * as they are, and with it some of the enclosed runs. */
static void find_fill(const struct cv_frame *frame, const struct cv_box *box, bool is_light,
                      struct picture *picture)
{
    struct cv_split lights[SPLITS] = {picture->light}, darks[SPLITS] = {picture->dark};
    double clarity = quality_of(picture, is_light);
    int most = FILL_MORE - 1;

    for (int i = 1; i < SPLITS; i++) {
        lights[i] = split_again(&picture->light_levels, lights[i - 1].threshold, true);
        darks[i] = split_again(&picture->dark_levels, darks[i - 1].threshold, false);
    }
    for (int i = 0; i < SPLITS * SPLITS; i++) {
        const struct cv_split *light = &lights[i % SPLITS], *dark = &darks[i / SPLITS];
        const struct cv_split *fill = is_light ? light : dark;
        struct enclosure found = enclosure_of(frame, box, is_light ? SIDE_LIGHT : SIDE_DARK,
                                              picture->by_luma, light->threshold, dark->threshold);
        if (found.more > most && found.inside >= (picture->has_fill ? FILL_REST : FILL_PERCENT) &&
            fill->high_mean - fill->low_mean >= CV_INK_REACH_MIN) {
            most = found.more;
            picture->light = *light;
            picture->dark = *dark;
            picture->has_fill = true;
        }
    }
    /* the levels are as clearly apart as all of them are, not as what is left of them */
    struct cv_split *chosen = is_light ? &picture->light : &picture->dark;
    chosen->quality = chosen->quality > clarity ? chosen->quality : clarity;
}

/* By so much a channel may part the levels more clearly than luma does where that shows a fill: 23 lines with one, in
 * drawn films and pages (looked at), have between 0.015 more and 0.16 less; dark letters on pale green, which enclose each
 * other, have 0.10 more. */
static const double LUMA_LESS_CLEAR = 0.04;

/* A coloured fill (yellow in black) is neither light nor dark in all channels: luma tells it from its outline. */
static void find_coloured_fill(const struct cv_frame *frame, const struct cv_box *box,
                               bool is_light, struct picture *picture)
{
    struct picture by_luma;

    measure_levels(frame, box, true, &by_luma);
    find_fill(frame, box, is_light, &by_luma);
    if (by_luma.has_fill &&
        quality_of(&by_luma, is_light) + LUMA_LESS_CLEAR > quality_of(picture, is_light)) {
        *picture = by_luma;
    }
}

bool cv_ink_measure_on_picture(const struct cv_frame *frame, const struct cv_box *box,
                               struct cv_ink *ink)
{
    struct picture picture;

    measure_levels(frame, box, false, &picture);
    find_fill(frame, box, ink->light, &picture);
    if (!picture.has_fill) {
        find_coloured_fill(frame, box, ink->light, &picture);
    }
    ink->by_luma = picture.by_luma;
    ink->kind = ink->light ? CV_INK_LIGHT : CV_INK_DARK;
    /* The side of the paper ends shortly before the threshold: the picture behind the letters varies,
     * and what moves there is not to be read, nor to make the line look like another one. */
    const struct cv_split *light = &picture.light, *dark = &picture.dark;
    ink->low = ink->light ? ((int)light->low_mean + 3 * light->threshold) / 4 : (int)dark->low_mean;
    ink->high =
        ink->light ? (int)light->high_mean : ((int)dark->high_mean + 3 * dark->threshold) / 4;
    /* Its outline keeps the picture off a fill, so that it may be as near to it as that. */
    if (picture.has_fill && ink->light) {
        ink->low = cv_min(ink->low, ink->high - CV_INK_REACH_MIN);
    } else if (picture.has_fill) {
        ink->high = cv_max(ink->high, ink->low + CV_INK_REACH_MIN);
    }
    ink->clarity = ink->light ? light->quality : dark->quality;
    return picture.has_fill;
}
