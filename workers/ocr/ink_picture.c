#include "workers/ocr/ink_levels.h"

enum {
    FILL_PERCENT =
        82, /* of the runs of a fill that the outline encloses; in a picture, and of coloured
                          letters, light and dark enclose each other less */
    FILL_MORE = 25,  /* percent by which its outline is enclosed less often */
    STROKES_MIN = 6, /* runs of the fill a row: of corners in a picture there are fewer */
};

/* Extent of the pixels above (or below) a threshold in one of the two channel maps. */
static struct ocr_box extent(const struct ocr_frame *frame, const struct ocr_box *box, bool light,
                             int threshold)
{
    struct ocr_box found = {0};

    for (int y = box->y; y < ocr_bottom(box); y++) {
        for (int x = box->x; x < ocr_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            if (light ? darkest(frame, at) > threshold : lightest(frame, at) <= threshold) {
                struct ocr_box pixel = {x, y, 1, 1};
                found = found.width ? ocr_box_union(&found, &pixel) : pixel;
            }
        }
    }
    return found;
}

static bool within(const struct ocr_box *inner, const struct ocr_box *outer)
{
    return inner->width < outer->width && inner->height < outer->height;
}

enum side { SIDE_NONE, SIDE_LIGHT, SIDE_DARK };

static enum side side_of(const struct ocr_frame *frame, size_t at, int light_threshold,
                         int dark_threshold)
{
    bool light = darkest(frame, at) > light_threshold;
    bool dark = lightest(frame, at) <= dark_threshold;

    return light == dark ? SIDE_NONE : light ? SIDE_LIGHT : SIDE_DARK;
}

/* Which of two inks the other one encloses more often, along the rows, and by how many percent of its
 * runs more; 0 where it encloses too few: the fill of outlined letters, whatever is behind them. */
static int enclosed_side(const struct ocr_frame *frame, const struct ocr_box *box,
                         int light_threshold, int dark_threshold, enum side *ret_side)
{
    int reach = 2 + box->height / 16; /* the soft edge between fill and outline */
    int runs[3] = {0}, enclosed[3] = {0};

    for (int y = box->y; y < ocr_bottom(box); y++) {
        enum side last = SIDE_NONE;
        bool after_other = false; /* the last run follows one of the other ink */
        int end = box->x;
        for (int x = box->x; x < ocr_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            enum side side = side_of(frame, at, light_threshold, dark_threshold);
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
    int light = enclosed[SIDE_LIGHT] * 100 / ocr_max(runs[SIDE_LIGHT], 1);
    int dark = enclosed[SIDE_DARK] * 100 / ocr_max(runs[SIDE_DARK], 1);
    *ret_side = light >= dark ? SIDE_LIGHT : SIDE_DARK;
    bool is_fill =
        runs[*ret_side] >= STROKES_MIN * box->height && ocr_max(light, dark) >= FILL_PERCENT;
    return is_fill ? abs(light - dark) : 0;
}

/* The two channels in which ink on a picture is looked for, and their groups. */
struct picture {
    struct histogram dark_channel, light_channel;
    struct split light, dark;
    bool has_fill; /* enclosed by an outline */
};

static void look_at_channels(const struct ocr_frame *frame, const struct ocr_box *box,
                             struct picture *picture)
{
    *picture = (struct picture){.light = {0}};
    for (int y = box->y; y < ocr_bottom(box); y++) {
        for (int x = box->x; x < ocr_right(box); x++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            picture->dark_channel.count[darkest(frame, at)]++;
            picture->light_channel.count[lightest(frame, at)]++;
        }
    }
    picture->dark_channel.total = (uint32_t)(box->width * box->height);
    picture->light_channel.total = picture->dark_channel.total;
    picture->light = ocr_otsu(&picture->dark_channel);
    picture->dark = ocr_otsu(&picture->light_channel);
}

/* The split of the levels above (or up to) `threshold` alone: where the picture is as bright as the
 * letters, the first split has it on their side. */
static struct split split_again(const struct histogram *histogram, int threshold, bool above)
{
    struct histogram part = {{0}, 0};

    for (int level = 0; level < 256; level++) {
        if ((level > threshold) == above) {
            part.count[level] = histogram->count[level];
            part.total += part.count[level];
        }
    }
    return ocr_otsu(&part);
}

/* Outlined letters: their fill is enclosed by the outline. Tries the first splits and the second ones;
 * whether that was clear, with the side of the fill and the splits that showed it. */
static bool find_fill(const struct ocr_frame *frame, const struct ocr_box *box,
                      struct picture *picture, enum side *ret_side)
{
    const struct split lights[] = {
        picture->light, split_again(&picture->dark_channel, picture->light.threshold, true)};
    const struct split darks[] = {
        picture->dark, split_again(&picture->light_channel, picture->dark.threshold, false)};
    int most = 0;

    for (size_t i = 0; i < CV_COUNT(lights) * CV_COUNT(darks); i++) {
        const struct split *light = &lights[i % 2], *dark = &darks[i / 2];
        enum side side;
        int margin = enclosed_side(frame, box, light->threshold, dark->threshold, &side);
        const struct split *fill = side == SIDE_LIGHT ? light : dark;
        if (margin > most && fill->high_mean - fill->low_mean >= OCR_REACH_MIN) {
            most = margin;
            picture->light = *light;
            picture->dark = *dark;
            *ret_side = side;
        }
    }
    picture->has_fill = most >= FILL_MORE;
    return picture->has_fill;
}

/* On a picture only ink has one colour. Outlined letters have two: the one inside is the ink. */
static bool is_light(const struct ocr_frame *frame, const struct ocr_box *box,
                     struct picture *picture)
{
    const struct split light = picture->light, dark = picture->dark;
    bool light_ink = light.high_share < 0.6 && light.high_mean - light.low_mean >= OCR_REACH_MIN;
    bool dark_ink = 1 - dark.high_share < 0.6 && dark.high_mean - dark.low_mean >= OCR_REACH_MIN;
    enum side fill;

    if (find_fill(frame, box, picture, &fill)) {
        return fill == SIDE_LIGHT;
    }
    picture->light = light;
    picture->dark = dark;
    if (light_ink && dark_ink) {
        struct ocr_box light_box = extent(frame, box, true, light.threshold);
        struct ocr_box dark_box = extent(frame, box, false, dark.threshold);
        return within(&light_box, &dark_box) ||
               (!within(&dark_box, &light_box) && light.quality >= dark.quality);
    }
    return light_ink;
}

void ocr_ink_on_picture(const struct ocr_frame *frame, const struct ocr_box *box,
                        struct ocr_ink *ink)
{
    struct picture picture;

    look_at_channels(frame, box, &picture);
    ink->light = is_light(frame, box, &picture);
    ink->kind = ink->light ? OCR_INK_LIGHT : OCR_INK_DARK;
    /* The side of the paper ends shortly before the threshold: the picture behind the letters varies,
     * and what moves there is not to be read, nor to make the line look like another one. */
    const struct split *light = &picture.light, *dark = &picture.dark;
    ink->low = ink->light ? ((int)light->low_mean + 3 * light->threshold) / 4 : (int)dark->low_mean;
    ink->high =
        ink->light ? (int)light->high_mean : ((int)dark->high_mean + 3 * dark->threshold) / 4;
    /* Its outline keeps the picture off a fill, so that it may be as near to it as that. */
    if (picture.has_fill && ink->light) {
        ink->low = ocr_min(ink->low, ink->high - OCR_REACH_MIN);
    } else if (picture.has_fill) {
        ink->high = ocr_max(ink->high, ink->low + OCR_REACH_MIN);
    }
    ink->clarity = ink->light ? light->quality : dark->quality;
}
