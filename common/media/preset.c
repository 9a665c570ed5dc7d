#include "common/media/preset.h"

#include <math.h>

/* One rendition by its short side, whichever way the picture stands. `pixels` is 16:9 and a little
 * (7 %), so that a tall phone screen is bounded by what decoders bear: 8,704 macroblocks are level
 * 4.2 at 60 frames per second. `long_side` is for ribbons. Rates are caps for noise and film; screen
 * content needs a tenth. */
static const struct preset {
    int short_side, long_side;
    int pixels;
    int max_rate;
    bool by_default;
} presets[] = {
    {2160, 3840, 3840 * 2160, 24 * 1000 * 1000, false},
    {1440, 3840, 3960000, 16 * 1000 * 1000, false},
    {1080, 3840, 8704 * 256, 12 * 1000 * 1000, true},
    {720, 2560, 985000, 6500 * 1000, true},
    {480, 1708, 438000, 2500 * 1000, true},
    {360, 1280, 246000, 1200 * 1000, true},
    {240, 854, 110000, 600 * 1000, false},
};

enum {
    SIDE_MIN = 2,
    NEARLY_PERCENT = 85, /* of the pixels of the next larger one: the same, to a viewer */
};

/* The nearest even number that is not larger than the source's side. */
static int even(double side, int source)
{
    int nearest = 2 * (int)lrint(side / 2);
    int whole = nearest > source ? source & ~1 : nearest;
    return whole < SIDE_MIN ? SIDE_MIN : whole;
}

bool cv_ladder_is_rung(int short_side)
{
    for (size_t i = 0; i < CV_COUNT(presets); i++) {
        if (presets[i].short_side == short_side) {
            return true;
        }
    }
    return false;
}

void cv_ladder_shown_size(const struct cv_media_info *source, int *ret_width, int *ret_height)
{
    double aspect = av_q2d(source->sample_aspect);
    bool turned = source->rotation % 180 != 0;
    double width = source->width * (turned ? 1 : aspect);
    double height = source->height / (turned ? aspect : 1);
    *ret_width = (int)fmax(lrint(width), 1);
    *ret_height = (int)fmax(lrint(height), 1);
}

static bool is_wanted(const struct preset *preset, const int *short_sides, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (short_sides[i] == preset->short_side) {
            return true;
        }
    }
    return count == 0 && preset->by_default;
}

static struct cv_rung_size fit(int width, int height, const struct preset *preset)
{
    double short_side = width < height ? width : height;
    double long_side = width < height ? height : width;
    double factor = fmin(1, preset->short_side / short_side);
    factor = fmin(factor, preset->long_side / long_side);
    factor = fmin(factor, sqrt(preset->pixels / (short_side * long_side)));
    return (struct cv_rung_size){even(width * factor, width), even(height * factor, height),
                                 preset->max_rate};
}

size_t cv_ladder_plan(int width, int height, const int *short_sides, size_t count,
                      struct cv_rung_size rungs[CV_LADDER_RUNGS_MAX])
{
    size_t planned = 0;
    for (size_t i = 0; i < CV_COUNT(presets); i++) {
        if (!is_wanted(&presets[i], short_sides, count)) {
            continue;
        }
        struct cv_rung_size size = fit(width, height, &presets[i]);
        const struct cv_rung_size *above = planned > 0 ? &rungs[planned - 1] : NULL;
        if (above && above->width == size.width && above->height == size.height) {
            rungs[planned - 1] = size; /* the source is smaller than both: the lower cap will do */
            continue;
        }
        int64_t pixels = (int64_t)size.width * size.height;
        if (!above || pixels * 100 <= (int64_t)above->width * above->height * NEARLY_PERCENT) {
            rungs[planned++] = size;
        }
    }
    return planned;
}
