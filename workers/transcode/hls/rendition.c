#include "workers/transcode/hls/rendition.h"

#include "common/media/media.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- sizes and rates ------------------------------------------------------------------------- */

/* A preset, chosen by its shorter side in either orientation. `pixels` is 16:9 and 7 % more, so
 * that tall phone screens stay within what decoders support: 8,704 macroblocks are level 4.2 at 60
 * frames per second. `long_side` limits very long pictures. Rates are limits for noise and film;
 * screen content needs a tenth. */
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

/* The part of a side by which rounding may change a picture's shape; 2 % is a pixel in 50. */
#define ROUNDED_MOST 0.02

enum {
    SIDE_MIN = 2,
    LONG_SIDE_MAX = 3840, /* of all presets */
    NEARLY_PERCENT =
        85, /* per cent of the next larger rendition's pixels: to a viewer the same size */
};

/* The nearest even number that does not exceed the source's side. */
static int even(double side, int source)
{
    int nearest = 2 * (int)lrint(side / 2);
    int whole = nearest > source ? source & ~1 : nearest;
    return whole < SIDE_MIN ? SIDE_MIN : whole;
}

bool cv_ladder_is_preset(int short_side)
{
    for (size_t i = 0; i < CV_COUNT(presets); i++) {
        if (presets[i].short_side == short_side) {
            return true;
        }
    }
    return false;
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

static struct cv_rendition_size fit(int width, int height, const struct preset *preset)
{
    double short_side = width < height ? width : height;
    double long_side = width < height ? height : width;
    double factor = fmin(1, preset->short_side / short_side);
    factor = fmin(factor, preset->long_side / long_side);
    factor = fmin(factor, sqrt(preset->pixels / (short_side * long_side)));
    struct cv_rendition_size size = {even(width * factor, width), even(height * factor, height),
                                     preset->max_rate};
    /* Of few pixels, rounding one side would change the shape: the other one follows. */
    int *shorter = width < height ? &size.width : &size.height;
    int *longer = width < height ? &size.height : &size.width;
    double fitting = *shorter * long_side / short_side;
    if (fabs(fitting - *longer) > ROUNDED_MOST * *longer) {
        *longer = even(fitting, (int)fmin(long_side, LONG_SIDE_MAX));
    }
    return size;
}

size_t cv_ladder_plan(int width, int height, const int *short_sides, size_t count,
                      struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX])
{
    size_t planned = 0;
    for (size_t i = 0; i < CV_COUNT(presets); i++) {
        if (!is_wanted(&presets[i], short_sides, count)) {
            continue;
        }
        struct cv_rendition_size size = fit(width, height, &presets[i]);
        const struct cv_rendition_size *above = planned > 0 ? &renditions[planned - 1] : NULL;
        if (above && above->width == size.width && above->height == size.height) {
            renditions[planned - 1] =
                size; /* the source is smaller than both: take the lower limit */
            continue;
        }
        int64_t pixels = (int64_t)size.width * size.height;
        if (!above || pixels * 100 <= (int64_t)above->width * above->height * NEARLY_PERCENT) {
            renditions[planned++] = size;
        }
    }
    return planned;
}

size_t cv_ladder_plan_copied(int width, int height, const int *short_sides, size_t count,
                             bool any_size,
                             struct cv_rendition_size renditions[CV_LADDER_RENDITIONS_MAX])
{
    struct cv_rendition_size planned[CV_LADDER_RENDITIONS_MAX];
    size_t all = cv_ladder_plan(width, height, short_sides, count, planned), kept = 0;
    int64_t pixels = (int64_t)width * height;
    bool is_planned = all > 0 && planned[0].width == width && planned[0].height == height;
    const struct preset *own = NULL; /* the smallest preset with at least as many pixels */
    for (size_t i = 0; i < CV_COUNT(presets); i++) {
        own = presets[i].pixels >= pixels ? &presets[i] : own;
    }
    if (!own || (!is_planned && !any_size)) {
        return 0;
    }
    renditions[kept++] = (struct cv_rendition_size){width, height, own->max_rate};
    for (size_t i = 0; i < all && kept < CV_LADDER_RENDITIONS_MAX; i++) {
        if ((int64_t)planned[i].width * planned[i].height * 100 <= pixels * NEARLY_PERCENT) {
            renditions[kept++] = planned[i];
        }
    }
    return kept;
}

/* ---- one rendition --------------------------------------------------------------------------- */

enum {
    WAITING_MAX = 3,   /* queued pictures between two renditions: enough to keep both busy */
    WAITING_LARGE = 1, /* … if each picture has tens of megabytes */
    LARGE = 2560 * 1440,
};

struct item {
    AVFrame *picture; /* NULL: the end */
    int64_t ticks;
    bool key;
};

struct cv_rendition {
    struct cv_rendition_params params;
    char name[CV_LADDER_NAME_SIZE];
    struct cv_fit *fit;
    AVCodecContext *encoder; /* NULL before the first picture */
    struct cv_segments *_Atomic segments;
    AVPacket *packet;
    AVFrame *taken;  /* the newest incoming picture … */
    AVFrame *fitted; /* … and the same picture scaled */
    int64_t frames;

    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t changed;
    struct item waiting[WAITING_MAX];
    size_t first, count, capacity;
    bool stopped; /* the remaining pictures are not wanted */
    int failed;   /* the result of the thread */
    struct cv_error error;
};

/* ---- encoding -------------------------------------------------------------------------------- */

static int open_encoder(struct cv_rendition *rendition, struct cv_error *error)
{
    const struct cv_rendition_params *params = &rendition->params;
    struct cv_video_encoder_params encoder_params = {
        .width = params->size.width,
        .height = params->size.height,
        .time_base = {1, CV_PLAYLIST_CLOCK},
        .frame_rate = params->frame_rate,
        .threads = params->threads,
        .max_rate = params->size.max_rate,
        .global_header = cv_segments_wants_global_header(params->format),
        .forced_keys = true,
        .first = rendition->fitted,
    };
    CV_TRY(cv_video_encoder_open(&encoder_params, &rendition->encoder, error));
    struct cv_segments_params segments_params = {
        .name = rendition->name,
        .format = params->format,
        .codec = rendition->encoder,
        .files = params->files,
        .goes_on = params->goes_on,
    };
    struct cv_segments *segments = NULL;
    CV_TRY(cv_segments_new(&segments_params, &segments, error));
    atomic_store(&rendition->segments, segments);
    return 0;
}

static int collect(struct cv_rendition *rendition, struct cv_error *error)
{
    for (;;) {
        int result = avcodec_receive_packet(rendition->encoder, rendition->packet);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        CV_TRY(cv_segments_write(rendition->segments, rendition->packet, error));
    }
}

/* Scales an incoming picture to rendition->fitted; takes it over. */
static int scale_picture(struct cv_rendition *rendition, AVFrame *picture, struct cv_error *error)
{
    bool same =
        rendition->fitted && rendition->taken && cv_picture_equals(rendition->taken, picture);
    av_frame_free(&rendition->taken);
    rendition->taken = picture;
    if (same) {
        return 0;
    }
    av_frame_free(&rendition->fitted);
    int result = cv_fit_picture(rendition->fit, picture, &rendition->fitted, error);
    if (rendition->capacity == WAITING_LARGE) {
        av_frame_free(&rendition->taken); /* freed now: memory matters more than saving a scaling */
    }
    if (result == 0) {
        rendition->fitted->sample_aspect_ratio = (AVRational){1, 1};
    }
    return result;
}

static int show(struct cv_rendition *rendition, const struct item *item, struct cv_error *error)
{
    const struct cv_rendition_params *params = &rendition->params;
    CV_TRY(scale_picture(rendition, item->picture, error));
    if (params->next) {
        CV_TRY(cv_rendition_show(params->next, rendition->fitted, item->ticks, item->key, error));
    }
    int64_t time_us = av_rescale(item->ticks, AV_TIME_BASE, CV_PLAYLIST_CLOCK);
    if (params->poster) {
        CV_TRY(cv_poster_offer(params->poster, rendition->fitted, time_us, error));
    }
    if (params->sprites) {
        CV_TRY(cv_sprites_show(params->sprites, rendition->fitted, time_us, error));
    }
    if (!rendition->encoder) {
        CV_TRY(open_encoder(rendition, error));
    }
    /* A separate frame, because the picture may be encoded again or be used by a smaller rendition. */
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_clone(rendition->fitted);
    CV_TRY_MEMORY(frame, error, "a picture");
    frame->pts = item->ticks;
    frame->pict_type = item->key ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
    rendition->frames++;
    CV_TRY_AV(avcodec_send_frame(rendition->encoder, frame), error, CV_ERROR_ENCODE,
              "cannot encode a picture");
    return collect(rendition, error);
}

static int finish(struct cv_rendition *rendition, int64_t end, struct cv_error *error)
{
    CV_TRY(rendition->params.next ? cv_rendition_end(rendition->params.next, end, error) : 0);
    if (!rendition->encoder) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the rendition %s received no picture",
                       rendition->name);
    }
    int flushed = avcodec_send_frame(rendition->encoder, NULL);
    if (flushed < 0) {
        return cv_fail_av(error, flushed, CV_ERROR_ENCODE, "cannot end the pictures");
    }
    CV_TRY(collect(rendition, error));
    CV_TRY(cv_segments_finish(rendition->segments, end, error));
    return rendition->params.sprites
               ? cv_sprites_finish(rendition->params.sprites,
                                   av_rescale(end, AV_TIME_BASE, CV_PLAYLIST_CLOCK), error)
               : 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int work(struct cv_rendition *rendition, const struct item *item, struct cv_error *error)
{
    return item->picture ? show(rendition, item, error) : finish(rendition, item->ticks, error);
}

/* Waits for the next item; false if there will be none. */
static bool next_item(struct cv_rendition *rendition, struct item *item)
{
    CV_LOCK(&rendition->lock);
    while (rendition->count == 0 && !rendition->stopped) {
        (void)pthread_cond_wait(&rendition->changed, &rendition->lock);
    }
    bool found = !rendition->stopped;
    if (found) {
        *item = rendition->waiting[rendition->first];
        rendition->first = (rendition->first + 1) % WAITING_MAX;
        rendition->count--;
        (void)pthread_cond_broadcast(&rendition->changed);
    }
    return found;
}

static void fail(struct cv_rendition *rendition, int result, const struct cv_error *error)
{
    CV_LOCK(&rendition->lock);
    rendition->failed = result;
    rendition->error = *error;
    rendition->stopped = true;
    (void)pthread_cond_broadcast(&rendition->changed);
}

static void *run(void *opaque)
{
    struct cv_rendition *rendition = opaque;
    struct item item;
    while (next_item(rendition, &item)) {
        bool is_end = item.picture == NULL;
        struct cv_error error;
        int result = work(rendition, &item, &error);
        if (result != 0) {
            fail(rendition, result, &error);
        }
        if (result != 0 || is_end) {
            break;
        }
    }
    return NULL;
}

/* Queues the item; takes item->picture over. */
static int push(struct cv_rendition *rendition, struct item *item, struct cv_error *error)
{
    if (!rendition->params.own_thread) {
        return work(rendition, item, error);
    }
    CV_LOCK(&rendition->lock);
    while (rendition->count == rendition->capacity && !rendition->stopped) {
        (void)pthread_cond_wait(&rendition->changed, &rendition->lock);
    }
    int result = 0;
    if (rendition->stopped) {
        result = rendition->failed
                     ? rendition->failed
                     : cv_fail(error, CV_ERROR_CANCELED, "rendition %s has ended", rendition->name);
        if (rendition->failed) {
            *error = rendition->error;
        }
        av_frame_free(&item->picture);
    } else {
        rendition->waiting[(rendition->first + rendition->count++) % WAITING_MAX] = *item;
        (void)pthread_cond_broadcast(&rendition->changed);
    }
    return result;
}

int cv_rendition_show(struct cv_rendition *rendition, const AVFrame *picture, int64_t ticks,
                      bool key, struct cv_error *error)
{
    struct item item = {av_frame_clone(picture), ticks, key};
    CV_TRY_MEMORY(item.picture, error, "a picture");
    return push(rendition, &item, error);
}

int cv_rendition_end(struct cv_rendition *rendition, int64_t end, struct cv_error *error)
{
    struct item item = {NULL, end, false};
    return push(rendition, &item, error);
}

static void stop(struct cv_rendition *rendition)
{
    CV_LOCK(&rendition->lock);
    rendition->stopped = true;
    (void)pthread_cond_broadcast(&rendition->changed);
}

int cv_rendition_join(struct cv_rendition *rendition, struct cv_error *error)
{
    if (rendition->is_running) {
        (void)pthread_join(rendition->thread, NULL);
        rendition->is_running = false;
    }
    if (rendition->failed != 0) {
        *error = rendition->error;
    }
    return rendition->failed;
}

/* ---- life ------------------------------------------------------------------------------------ */

int cv_rendition_new(const struct cv_rendition_params *params, struct cv_rendition **ret_rung,
                     struct cv_error *error)
{
    struct cv_rendition *rendition = calloc(1, sizeof(*rendition));
    CV_TRY_MEMORY(rendition, error, "a rendition");
    *ret_rung = rendition;
    rendition->params = *params;
    (void)snprintf(rendition->name, sizeof(rendition->name), "%dx%d", params->size.width,
                   params->size.height);
    CV_TRY(cv_thread_locks(&rendition->lock, &rendition->changed, error));
    bool is_large = (int64_t)params->source_width * params->source_height > LARGE;
    rendition->capacity = is_large ? WAITING_LARGE : WAITING_MAX;
    rendition->packet = av_packet_alloc();
    CV_TRY_MEMORY(rendition->packet, error, "a rendition");
    struct cv_fit_params fit = {
        .source_width = params->source_width,
        .source_height = params->source_height,
        .aspect = params->aspect,
        .width = params->size.width,
        .height = params->size.height,
    };
    CV_TRY(cv_fit_new(&fit, &rendition->fit, error));
    if (!params->own_thread) {
        return 0;
    }
    CV_TRY(cv_thread_start(&rendition->thread, run, rendition, error));
    rendition->is_running = true;
    return 0;
}

void cv_rendition_free(struct cv_rendition *rendition)
{
    if (!rendition) {
        return;
    }
    if (rendition->is_running) {
        /* A thread may be waiting for the next smaller rendition, so all are told to stop first. */
        for (struct cv_rendition *smaller = rendition; smaller; smaller = smaller->params.next) {
            stop(smaller);
        }
        (void)pthread_join(rendition->thread, NULL);
    }
    for (size_t i = 0; i < rendition->count; i++) {
        av_frame_free(&rendition->waiting[(rendition->first + i) % WAITING_MAX].picture);
    }
    av_frame_free(&rendition->taken);
    av_frame_free(&rendition->fitted);
    av_packet_free(&rendition->packet);
    avcodec_free_context(&rendition->encoder);
    cv_segments_free(rendition->segments);
    cv_fit_free(rendition->fit);
    cv_thread_locks_deinit(&rendition->lock, &rendition->changed);
    free(rendition);
}

struct cv_segments *cv_rendition_segments(struct cv_rendition *rendition)
{
    return atomic_load(&rendition->segments);
}

int64_t cv_rendition_frames(const struct cv_rendition *rendition)
{
    return rendition->frames;
}
