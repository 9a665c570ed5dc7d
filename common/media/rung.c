#include "common/media/rung.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/fit.h"
#include "common/media/scale.h"
#include "common/media/video_encoder.h"

#include <libavutil/imgutils.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    WAITING_MAX = 3,   /* pictures between two renditions: enough to keep both busy */
    WAITING_LARGE = 1, /* … where each is tens of megabytes */
    LARGE = 2560 * 1440,
};

struct item {
    AVFrame *picture; /* NULL: the end */
    int64_t ticks;
    bool key;
};

struct cv_rung {
    struct cv_rung_params params;
    char name[CV_LADDER_NAME_SIZE];
    struct cv_fit *fit;
    AVCodecContext *encoder; /* NULL before the first picture */
    struct cv_segments *_Atomic segments;
    AVPacket *packet;
    AVFrame *taken;  /* the newest picture that came in … */
    AVFrame *fitted; /* … and what became of it */
    int64_t frames;

    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct item waiting[WAITING_MAX];
    size_t first, count, capacity;
    bool stopped; /* nobody wants the rest */
    int failed;   /* what the thread's work returned */
    struct cv_error error;
};

/* ---- encoding -------------------------------------------------------------------------------- */

static int open_encoder(struct cv_rung *rung, struct cv_error *error)
{
    const struct cv_rung_params *params = &rung->params;
    struct cv_video_encoder_params encoder_params = {
        .width = params->size.width,
        .height = params->size.height,
        .time_base = {1, CV_PLAYLIST_CLOCK},
        .frame_rate = params->frame_rate,
        .threads = params->threads,
        .max_rate = params->size.max_rate,
        .global_header = cv_segments_wants_global_header(params->format),
        .forced_keys = true,
        .first = rung->fitted,
    };
    int result = cv_video_encoder_open(&encoder_params, &rung->encoder, error);
    if (result != 0) {
        return result;
    }
    struct cv_segments_params segments_params = {
        .name = rung->name,
        .format = params->format,
        .codec = rung->encoder,
        .files = params->files,
        .first = params->first,
    };
    struct cv_segments *segments = NULL;
    result = cv_segments_new(&segments_params, &segments, error);
    atomic_store(&rung->segments, segments);
    return result;
}

static int collect(struct cv_rung *rung, struct cv_error *error)
{
    for (;;) {
        int result = avcodec_receive_packet(rung->encoder, rung->packet);
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        result = cv_segments_write(rung->segments, rung->packet, error);
        if (result != 0) {
            return result;
        }
    }
}

/* Whether two pictures are the same to the last bit: a screen that stands still. Comparing costs a
 * tenth of scaling, and ends at the first difference. */
static bool is_same(const AVFrame *one, const AVFrame *other)
{
    if (one->width != other->width || one->height != other->height ||
        one->format != other->format) {
        return false;
    }
    for (int plane = 0; plane < AV_NUM_DATA_POINTERS && one->data[plane]; plane++) {
        if (one->data[plane] == other->data[plane]) {
            continue;
        }
        int bytes = av_image_get_linesize(one->format, one->width, plane);
        bool chroma = plane == 1 || plane == 2;
        int rows = one->height;
        if (chroma && bytes > 0) {
            int vertical = 0, horizontal = 0;
            (void)av_pix_fmt_get_chroma_sub_sample(one->format, &horizontal, &vertical);
            rows = AV_CEIL_RSHIFT(one->height, vertical);
        }
        for (int row = 0; row < rows; row++) {
            if (bytes <= 0 || !other->data[plane] ||
                memcmp(one->data[plane] + (ptrdiff_t)row * one->linesize[plane],
                       other->data[plane] + (ptrdiff_t)row * other->linesize[plane],
                       (size_t)bytes) != 0) {
                return false;
            }
        }
    }
    return true;
}

/* Brings rung->fitted up to date with a picture that has come in; takes it over. */
static int take(struct cv_rung *rung, AVFrame *picture, struct cv_error *error)
{
    bool same = rung->fitted && rung->taken && is_same(rung->taken, picture);
    av_frame_free(&rung->taken);
    rung->taken = picture;
    if (same) {
        return 0;
    }
    av_frame_free(&rung->fitted);
    int result = cv_fit_picture(rung->fit, picture, &rung->fitted, error);
    if (rung->capacity == WAITING_LARGE) {
        av_frame_free(&rung->taken); /* its memory is worth more than a picture not scaled */
    }
    if (result == 0) {
        rung->fitted->sample_aspect_ratio = (AVRational){1, 1};
    }
    return result;
}

static int show(struct cv_rung *rung, const struct item *item, struct cv_error *error)
{
    const struct cv_rung_params *params = &rung->params;
    int result = take(rung, item->picture, error);
    if (result == 0 && params->next) {
        result = cv_rung_show(params->next, rung->fitted, item->ticks, item->key, error);
    }
    int64_t time_us = av_rescale(item->ticks, AV_TIME_BASE, CV_PLAYLIST_CLOCK);
    if (result == 0 && params->poster) {
        result = cv_poster_offer(params->poster, rung->fitted, time_us, error);
    }
    if (result == 0 && params->sprites) {
        result = cv_sprites_show(params->sprites, rung->fitted, time_us, error);
    }
    if (result == 0 && !rung->encoder) {
        result = open_encoder(rung, error);
    }
    if (result != 0) {
        return result;
    }
    /* A frame of its own: the picture may be encoded again, or be in use further down. */
    cv_auto(cv_av_frame_free) AVFrame *frame = av_frame_clone(rung->fitted);
    if (!frame) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    frame->pts = item->ticks;
    frame->pict_type = item->key ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
    rung->frames++;
    result = avcodec_send_frame(rung->encoder, frame);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
    }
    return collect(rung, error);
}

static int finish(struct cv_rung *rung, int64_t end, struct cv_error *error)
{
    int result = rung->params.next ? cv_rung_end(rung->params.next, end, error) : 0;
    if (result == 0 && !rung->encoder) {
        result =
            cv_fail(error, CV_ERROR_INTERNAL, "no picture came to the rendition %s", rung->name);
    }
    int flushed = result == 0 ? avcodec_send_frame(rung->encoder, NULL) : 0;
    if (flushed < 0) {
        result = cv_fail_av(error, flushed, CV_ERROR_ENCODE, "cannot end the pictures");
    }
    result = result ? result : collect(rung, error);
    result = result ? result : cv_segments_finish(rung->segments, end, error);
    if (result == 0 && rung->params.sprites) {
        int64_t end_us = av_rescale(end, AV_TIME_BASE, CV_PLAYLIST_CLOCK);
        result = cv_sprites_finish(rung->params.sprites, end_us, error);
    }
    return result;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int work(struct cv_rung *rung, const struct item *item, struct cv_error *error)
{
    return item->picture ? show(rung, item, error) : finish(rung, item->ticks, error);
}

/* The next item, or false when there will be none. */
static bool next_item(struct cv_rung *rung, struct item *item)
{
    (void)pthread_mutex_lock(&rung->lock);
    while (rung->count == 0 && !rung->stopped) {
        (void)pthread_cond_wait(&rung->changed, &rung->lock);
    }
    bool found = !rung->stopped;
    if (found) {
        *item = rung->waiting[rung->first];
        rung->first = (rung->first + 1) % WAITING_MAX;
        rung->count--;
        (void)pthread_cond_broadcast(&rung->changed);
    }
    (void)pthread_mutex_unlock(&rung->lock);
    return found;
}

static void fail(struct cv_rung *rung, int result, const struct cv_error *error)
{
    (void)pthread_mutex_lock(&rung->lock);
    rung->failed = result;
    rung->error = *error;
    rung->stopped = true;
    (void)pthread_cond_broadcast(&rung->changed);
    (void)pthread_mutex_unlock(&rung->lock);
}

static void *run(void *opaque)
{
    struct cv_rung *rung = opaque;
    struct item item;
    while (next_item(rung, &item)) {
        bool is_end = item.picture == NULL;
        struct cv_error error;
        int result = work(rung, &item, &error);
        if (result != 0) {
            fail(rung, result, &error);
        }
        if (result != 0 || is_end) {
            break;
        }
    }
    return NULL;
}

/* Takes item->picture over. */
static int push(struct cv_rung *rung, struct item *item, struct cv_error *error)
{
    if (!rung->params.own_thread) {
        return work(rung, item, error);
    }
    (void)pthread_mutex_lock(&rung->lock);
    while (rung->count == rung->capacity && !rung->stopped) {
        (void)pthread_cond_wait(&rung->changed, &rung->lock);
    }
    int result = 0;
    if (rung->stopped) {
        result = rung->failed
                     ? rung->failed
                     : cv_fail(error, CV_ERROR_CANCELED, "rendition %s has ended", rung->name);
        if (rung->failed) {
            *error = rung->error;
        }
        av_frame_free(&item->picture);
    } else {
        rung->waiting[(rung->first + rung->count++) % WAITING_MAX] = *item;
        (void)pthread_cond_broadcast(&rung->changed);
    }
    (void)pthread_mutex_unlock(&rung->lock);
    return result;
}

int cv_rung_show(struct cv_rung *rung, const AVFrame *picture, int64_t ticks, bool key,
                 struct cv_error *error)
{
    struct item item = {av_frame_clone(picture), ticks, key};
    if (!item.picture) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    return push(rung, &item, error);
}

int cv_rung_end(struct cv_rung *rung, int64_t end, struct cv_error *error)
{
    struct item item = {NULL, end, false};
    return push(rung, &item, error);
}

static void stop(struct cv_rung *rung)
{
    (void)pthread_mutex_lock(&rung->lock);
    rung->stopped = true;
    (void)pthread_cond_broadcast(&rung->changed);
    (void)pthread_mutex_unlock(&rung->lock);
}

int cv_rung_join(struct cv_rung *rung, struct cv_error *error)
{
    if (rung->is_running) {
        (void)pthread_join(rung->thread, NULL);
        rung->is_running = false;
    }
    if (rung->failed != 0) {
        *error = rung->error;
    }
    return rung->failed;
}

/* ---- life ------------------------------------------------------------------------------------ */

int cv_rung_new(const struct cv_rung_params *params, struct cv_rung **ret_rung,
                struct cv_error *error)
{
    struct cv_rung *rung = calloc(1, sizeof(*rung));
    if (!rung) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a rendition");
    }
    *ret_rung = rung;
    rung->params = *params;
    (void)snprintf(rung->name, sizeof(rung->name), "%dx%d", params->size.width,
                   params->size.height);
    (void)pthread_mutex_init(&rung->lock, NULL);
    (void)pthread_cond_init(&rung->changed, NULL);
    bool is_large = (int64_t)params->source_width * params->source_height > LARGE;
    rung->capacity = is_large ? WAITING_LARGE : WAITING_MAX;
    rung->packet = av_packet_alloc();
    if (!rung->packet) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a rendition");
    }
    struct cv_fit_params fit = {
        .source_width = params->source_width,
        .source_height = params->source_height,
        .aspect = params->aspect,
        .width = params->size.width,
        .height = params->size.height,
    };
    int result = cv_fit_new(&fit, &rung->fit, error);
    if (result != 0 || !params->own_thread) {
        return result;
    }
    int failed = pthread_create(&rung->thread, NULL, run, rung);
    if (failed != 0) {
        return cv_fail_errno(error, failed, "cannot start a thread for a rendition");
    }
    rung->is_running = true;
    return 0;
}

void cv_rung_free(struct cv_rung *rung)
{
    if (!rung) {
        return;
    }
    if (rung->is_running) {
        /* It may wait for the next smaller one, which is told first. */
        for (struct cv_rung *smaller = rung; smaller; smaller = smaller->params.next) {
            stop(smaller);
        }
        (void)pthread_join(rung->thread, NULL);
    }
    for (size_t i = 0; i < rung->count; i++) {
        av_frame_free(&rung->waiting[(rung->first + i) % WAITING_MAX].picture);
    }
    av_frame_free(&rung->taken);
    av_frame_free(&rung->fitted);
    av_packet_free(&rung->packet);
    avcodec_free_context(&rung->encoder);
    cv_segments_free(rung->segments);
    cv_fit_free(rung->fit);
    (void)pthread_mutex_destroy(&rung->lock);
    (void)pthread_cond_destroy(&rung->changed);
    free(rung);
}

struct cv_segments *cv_rung_segments(struct cv_rung *rung)
{
    return atomic_load(&rung->segments);
}

const char *cv_rung_name(const struct cv_rung *rung)
{
    return rung->name;
}

int64_t cv_rung_frames(const struct cv_rung *rung)
{
    return rung->frames;
}
