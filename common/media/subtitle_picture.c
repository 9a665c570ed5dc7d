#include "common/media/subtitle_picture.h"

#include "common/media/libav.h"
#include "common/media/scale.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    COLOURS = 256,
    RECTS_MAX = 64,         /* of an event; PGS has 2, DVB a few regions */
    AREA_MAX = 4096 * 2304, /* pixels of a picture, as large as a screen */
    SIDE_MAX = 8192,        /* pixels from a screen's corner */
    MARGIN = 16,            /* pixels of ground around the letters, by which lines are found */
    SEEN = 32,              /* alpha from which a pixel is there at all */
    ALIKE = 64 * 64,        /* squared distance of colours that are shades of one */
    COMMON = 200,           /* a colour of the letters has at least one of so many pixels */
};

/* Of all rects of a part of a video: 1,000 events with two rows of 1080p have a tenth. */
static const int64_t PIXELS_MAX = INT64_C(4000) << 20;

/* Of the distance between the outline's colour and that of the letters: up to which share a pixel is outline, and from
 * which it is letter. Letters of other colours in the event are at least half as far. */
static const double OUTLINE = 0.3, LETTER = 0.8;

/* The part of a rect that is to be seen, and how dark each of its colours becomes. */
struct layer {
    const AVSubtitleRect *rect;
    int left, top, right, bottom; /* of the rect; right and bottom exclusive */
    int64_t count[COLOURS];       /* pixels of a colour that is to be seen, … */
    int64_t edge[COLOURS];        /* … and those that meet what is not */
    uint8_t ink[COLOURS];
};

static uint32_t colour_of(const AVSubtitleRect *rect, int index)
{
    uint32_t colour;
    (void)memcpy(&colour, rect->data[1] + 4 * (size_t)index, sizeof(colour));
    return colour;
}

static bool is_seen(const AVSubtitleRect *rect, int x, int y)
{
    return x >= 0 && y >= 0 && x < rect->w && y < rect->h &&
           colour_of(rect, rect->data[0][(ptrdiff_t)y * rect->linesize[0] + x]) >> 24 >= SEEN;
}

static void count_colours(struct layer *layer)
{
    const AVSubtitleRect *rect = layer->rect;
    layer->left = rect->w;
    layer->top = rect->h;
    for (int y = 0; y < rect->h; y++) {
        for (int x = 0; x < rect->w; x++) {
            if (!is_seen(rect, x, y)) {
                continue;
            }
            int colour = rect->data[0][(ptrdiff_t)y * rect->linesize[0] + x];
            layer->count[colour]++;
            layer->edge[colour] += !is_seen(rect, x - 1, y) || !is_seen(rect, x + 1, y) ||
                                   !is_seen(rect, x, y - 1) || !is_seen(rect, x, y + 1);
            layer->left = cv_min(layer->left, x);
            layer->top = cv_min(layer->top, y);
            layer->right = cv_max(layer->right, x + 1);
            layer->bottom = cv_max(layer->bottom, y + 1);
        }
    }
}

static int distance(uint32_t a, uint32_t b)
{
    int sum = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        int difference = (int)(a >> shift & 255) - (int)(b >> shift & 255);
        sum += difference * difference;
    }
    return sum;
}

/* The colour around the letters: that of which most pixels, with those of its shades, meet what is transparent. */
static uint32_t find_outline(const struct layer *layer)
{
    double most = -1;
    uint32_t outline = 0;
    for (int i = 0; i < COLOURS; i++) {
        double count = 0, edge = 0;
        uint32_t colour = colour_of(layer->rect, i);
        for (int j = 0; layer->count[i] > 0 && j < COLOURS; j++) {
            bool is_shade =
                layer->count[j] > 0 && distance(colour, colour_of(layer->rect, j)) < ALIKE;
            count += is_shade ? (double)layer->count[j] : 0;
            edge += is_shade ? (double)layer->edge[j] : 0;
        }
        if (count > 0 && edge * edge / count > most) {
            most = edge * edge / count;
            outline = colour;
        }
    }
    return outline;
}

static void weigh_colours(struct layer *layer)
{
    int64_t all = 0;
    int farthest = 0;
    uint32_t alpha =
        1; /* of what is clearest: letters that fade in are as dark as those that stay */
    uint32_t outline = find_outline(layer);
    for (int i = 0; i < COLOURS; i++) {
        all += layer->count[i];
        alpha = layer->count[i] > 0 ? FFMAX(alpha, colour_of(layer->rect, i) >> 24) : alpha;
    }
    for (int i = 0; i < COLOURS; i++) {
        int far = distance(outline, colour_of(layer->rect, i));
        farthest = layer->count[i] * COMMON >= all && layer->count[i] > 0 ? cv_max(farthest, far)
                                                                          : farthest;
    }
    for (int i = 0; i < COLOURS; i++) {
        uint32_t colour = colour_of(layer->rect, i);
        double share = 1; /* letters without an outline */
        if (farthest >= ALIKE) {
            share = sqrt((double)distance(outline, colour) / farthest);
            share = FFMIN(FFMAX((share - OUTLINE) / (LETTER - OUTLINE), 0), 1);
        }
        layer->ink[i] = (uint8_t)(share * 255 * FFMIN(colour >> 24, alpha) / alpha);
    }
}

static void paint(const struct layer *layer, int left, int top, AVFrame *picture)
{
    const AVSubtitleRect *rect = layer->rect;
    for (int y = layer->top; y < layer->bottom; y++) {
        uint8_t *to = picture->data[0] + (ptrdiff_t)(rect->y + y - top) * picture->linesize[0] +
                      (rect->x - left);
        const uint8_t *from = rect->data[0] + (ptrdiff_t)y * rect->linesize[0];
        for (int x = layer->left; x < layer->right; x++) {
            to[x] = FFMIN(to[x], 255 - layer->ink[from[x]]);
        }
    }
}

static bool is_picture(const AVSubtitleRect *rect)
{
    return rect->type == SUBTITLE_BITMAP && rect->data[0] && rect->data[1] && rect->w > 0 &&
           rect->h > 0 && rect->w <= rect->linesize[0] && abs(rect->x) <= SIDE_MAX &&
           abs(rect->y) <= SIDE_MAX && rect->w <= SIDE_MAX && rect->h <= SIDE_MAX;
}

/* The layers that are to be seen, at their places; *ret_count is 0 where there is none. */
static int make_layers(const AVSubtitle *event, int64_t *pixels, struct layer *layers,
                       int *ret_count, struct cv_error *error)
{
    bool is_damaged = event->num_rects > 0; /* a decoder leaves rects without pixels then */
    *ret_count = 0;
    for (unsigned i = 0; i < event->num_rects && i < RECTS_MAX; i++) {
        struct layer *layer = &layers[*ret_count];
        *layer = (struct layer){.rect = event->rects[i]};
        if (!is_picture(layer->rect)) {
            continue;
        }
        is_damaged = false;
        *pixels += (int64_t)layer->rect->w * layer->rect->h;
        if (*pixels > PIXELS_MAX) {
            return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the subtitles have too many pixels");
        }
        count_colours(layer);
        if (layer->right > 0) {
            weigh_colours(layer);
            ++*ret_count;
        }
    }
    return is_damaged ? cv_fail(error, CV_ERROR_DECODE, "a subtitle has no pixels") : 0;
}

static int make_ground(int width, int height, AVFrame **ret_picture, struct cv_error *error)
{
    if ((int64_t)width * height > AREA_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a subtitle has %dx%d pixels", width,
                       height);
    }
    CV_TRY(cv_picture_new(width, height, AV_PIX_FMT_GRAY8, ret_picture, error));
    (*ret_picture)->color_range = AVCOL_RANGE_JPEG;
    (void)memset((*ret_picture)->data[0], 255,
                 (size_t)(*ret_picture)->linesize[0] * (size_t)height);
    return 0;
}

int cv_subtitle_compose(const AVSubtitle *event, int64_t *pixels, AVFrame **ret_picture,
                        struct cv_error *error)
{
    int count, left = INT_MAX, top = INT_MAX, right = INT_MIN, bottom = INT_MIN;
    cv_auto_free struct layer *layers = calloc(RECTS_MAX, sizeof(*layers));
    CV_TRY_MEMORY(layers, error, "a subtitle");
    CV_TRY(make_layers(event, pixels, layers, &count, error));
    if (count == 0) {
        return CV_SUBTITLE_IS_EMPTY;
    }
    for (int i = 0; i < count; i++) {
        const struct layer *layer = &layers[i];
        left = cv_min(left, layer->rect->x + layer->left - MARGIN);
        top = cv_min(top, layer->rect->y + layer->top - MARGIN);
        right = cv_max(right, layer->rect->x + layer->right + MARGIN);
        bottom = cv_max(bottom, layer->rect->y + layer->bottom + MARGIN);
    }
    CV_TRY(make_ground(right - left, bottom - top, ret_picture, error));
    for (int i = 0; i < count; i++) {
        paint(&layers[i], left, top, *ret_picture);
    }
    return 0;
}
