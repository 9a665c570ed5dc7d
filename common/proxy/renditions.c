#include "common/proxy/proxy_internal.h"

#include <math.h>
#include <string.h>

enum {
    TOLERANCE = 90,        /* ticks: 1 ms, of which EXTINF's digits take little */
    SOUND_PACKET = 1920,   /* 1,024 samples */
    SOUND_END = 2 * 1920,  /* the last packet is filled up with silence */
    KEY_TICKS = 2 * 90000, /* the distance of key frames … */
    KEY_LATE = 50000,      /* … and how late one may come when no picture is there */
};

void cv_proxy_rendition_deinit(struct cv_proxy_rendition *rendition)
{
    free(rendition->times);
    free(rendition->keys);
    free(rendition->map.data);
    *rendition = (struct cv_proxy_rendition){0};
}

static int append(int64_t **values, size_t *count, size_t *capacity, int64_t value,
                  struct cv_error *error)
{
    if (*count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 1024;
        int64_t *more = reallocarray(*values, wanted, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for timestamps");
        }
        *values = more;
        *capacity = wanted;
    }
    (*values)[(*count)++] = value;
    return 0;
}

static int ascending(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* ---- one segment ----------------------------------------------------------------------------- */

/* Where a segment begins and what has to hold at its edges; ticks from the presentation's start. */
static void check_edges(struct cv_proxy *proxy, const struct cv_proxy_entry *entry, bool is_video,
                        const struct cv_proxy_packets *packets, double start)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < packets->count; i++) {
        int64_t pts = packets->packets[i].pts;
        first = pts < first ? pts : first;
        last = pts > last ? pts : last;
        if (i > 0 && packets->packets[i].dts <= packets->packets[i - 1].dts) {
            cv_proxy_tell(proxy, entry->name, "decoding times do not grow at packet %zu", i);
        }
    }
    double begin = start * CV_PROXY_CLOCK;
    if (fabs((double)first - begin) > TOLERANCE) {
        cv_proxy_tell(proxy, entry->name, "begins at %.4f s; the playlist says %.4f",
                      (double)first / CV_PROXY_CLOCK, start);
    }
    if ((double)last > begin + entry->duration * CV_PROXY_CLOCK + TOLERANCE) {
        cv_proxy_tell(proxy, entry->name, "reaches to %.4f s; the playlist ends it at %.4f",
                      (double)last / CV_PROXY_CLOCK, start + entry->duration);
    }
    if (is_video && (!packets->packets[0].key || packets->packets[0].pts != first)) {
        cv_proxy_tell(proxy, entry->name, "does not begin with a key frame");
    }
    if (is_video && packets->packets[0].dts != packets->packets[0].pts) {
        cv_proxy_tell(proxy, entry->name, "is decoded %lld ticks before it is shown",
                      (long long)(packets->packets[0].pts - packets->packets[0].dts));
    }
}

static int take_times(struct cv_proxy_rendition *rendition, const struct cv_proxy_packets *packets,
                      struct cv_error *error)
{
    size_t before = rendition->count;
    int result = 0;
    for (size_t i = 0; result == 0 && i < packets->count; i++) {
        int64_t pts = packets->packets[i].pts;
        result = append(&rendition->times, &rendition->count, &rendition->capacity, pts, error);
        if (result == 0 && packets->packets[i].key) {
            result = append(&rendition->keys, &rendition->key_count, &rendition->key_capacity, pts,
                            error);
        }
    }
    qsort(rendition->times + before, rendition->count - before, sizeof(int64_t), ascending);
    return result;
}

static int check_segment(struct cv_proxy *proxy, const struct cv_proxy_entry *entry, bool is_video,
                         struct cv_proxy_rendition *rendition, double *ret_bits, double *ret_frames,
                         struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    int result = cv_proxy_get(proxy, proxy->stream_prefix, entry->name, &data, &size, error);
    if (result != 0 || !data) {
        return result;
    }
    cv_auto(cv_proxy_packets_deinit) struct cv_proxy_packets packets = {0};
    result = cv_proxy_read_packets(&rendition->map, data, size, &packets, error);
    if (result != 0) {
        return result;
    }
    proxy->summary->segments++;
    *ret_bits = 8.0 * (double)size;
    *ret_frames = (double)packets.count;
    if (packets.count == 0 || packets.streams != 1 || packets.is_video != is_video) {
        cv_proxy_tell(proxy, entry->name, "is no segment with one stream of %s",
                      is_video ? "pictures" : "sound");
        return 0;
    }
    const char *box = rendition->map.data ? cv_proxy_check_boxes(data, size, false) : NULL;
    if (box) {
        cv_proxy_tell(proxy, entry->name, "%s", box);
    }
    check_edges(proxy, entry, is_video, &packets, rendition->seconds);
    if (rendition->codec[0] == '\0') {
        (void)snprintf(rendition->codec, sizeof(rendition->codec), "%s", packets.codec);
        rendition->width = packets.width;
        rendition->height = packets.height;
    } else if (strcmp(rendition->codec, packets.codec) != 0 || rendition->width != packets.width ||
               rendition->height != packets.height) {
        cv_proxy_tell(proxy, entry->name, "is %s of %dx%d; those before it are not", packets.codec,
                      packets.width, packets.height);
    }
    return take_times(rendition, &packets, error);
}

/* ---- one rendition --------------------------------------------------------------------------- */

/* The highest rate of a run of segments that lasts between half and one and a half targets. */
static double peak_rate(const struct cv_proxy_media *media, const double *bits)
{
    double peak = 0;
    for (size_t first = 0; first < media->count; first++) {
        double sum = 0, seconds = 0;
        for (size_t i = first; i < media->count && seconds <= 1.5 * media->target; i++) {
            sum += bits[i];
            seconds += media->entries[i].duration;
            if (seconds >= 0.5 * media->target && seconds <= 1.5 * media->target) {
                peak = fmax(peak, sum / seconds);
            }
        }
    }
    return peak;
}

static void check_times(struct cv_proxy *proxy, const struct cv_proxy_rendition *rendition,
                        bool is_video)
{
    for (size_t i = 1; i < rendition->count; i++) {
        int64_t step = rendition->times[i] - rendition->times[i - 1];
        if (step <= 0 || (!is_video && llabs(step - SOUND_PACKET) > 1)) {
            cv_proxy_tell(proxy, rendition->name, "%s at %.4f s",
                          step <= 0  ? "two packets of one time"
                          : is_video ? "no picture"
                                     : "a gap in the sound",
                          (double)rendition->times[i] / CV_PROXY_CLOCK);
            return;
        }
    }
    if (!is_video && rendition->count > 0) {
        double end = (double)(rendition->times[rendition->count - 1] + SOUND_PACKET);
        if (fabs(end - rendition->seconds * CV_PROXY_CLOCK) > SOUND_END) {
            cv_proxy_tell(proxy, rendition->name, "the sound ends at %.3f s of %.3f",
                          end / CV_PROXY_CLOCK, rendition->seconds);
        }
    }
    for (size_t i = 1; is_video && i < rendition->key_count; i++) {
        int64_t step = rendition->keys[i] - rendition->keys[i - 1];
        if (step > KEY_TICKS + KEY_LATE) {
            cv_proxy_tell(proxy, rendition->name, "no key frame for %.3f s before %.3f s",
                          (double)step / CV_PROXY_CLOCK,
                          (double)rendition->keys[i] / CV_PROXY_CLOCK);
        }
    }
}

static void add_up(struct cv_proxy_rendition *rendition, const struct cv_proxy_media *media,
                   const double *bits, const double *frames)
{
    double all_frames = 0;
    rendition->seconds = 0;
    for (size_t i = 0; i < media->count; i++) {
        double duration = media->entries[i].duration;
        rendition->seconds += duration;
        rendition->bits += bits[i];
        all_frames += frames[i];
        if (duration >= 1) {
            rendition->most_frames = fmax(rendition->most_frames, frames[i] / duration);
        }
    }
    if (rendition->most_frames <= 0 && rendition->seconds > 0) {
        rendition->most_frames = all_frames / rendition->seconds;
    }
    rendition->target = media->target;
    rendition->peak = fmax(peak_rate(media, bits),
                           rendition->seconds > 0 ? rendition->bits / rendition->seconds : 0);
}

static int read_map(struct cv_proxy *proxy, const char *name, const struct cv_proxy_media *media,
                    struct cv_proxy_rendition *rendition, struct cv_error *error)
{
    if (media->map[0] == '\0') {
        return 0;
    }
    struct cv_proxy_map *map = &rendition->map;
    int result =
        cv_proxy_get(proxy, proxy->stream_prefix, media->map, &map->data, &map->size, error);
    const char *box =
        result == 0 && map->data ? cv_proxy_check_boxes(map->data, map->size, true) : NULL;
    if (box) {
        cv_proxy_tell(proxy, name, "%s: %s", media->map, box);
    }
    return result;
}

int cv_proxy_check_media(struct cv_proxy *proxy, const char *name, bool is_video,
                         struct cv_proxy_rendition *rendition, struct cv_error *error)
{
    (void)snprintf(rendition->name, sizeof(rendition->name), "%s", name);
    cv_auto_free void *text = NULL;
    size_t size = 0;
    int result = cv_proxy_get(proxy, proxy->stream_prefix, name, &text, &size, error);
    if (result != 0 || !text) {
        return result;
    }
    cv_auto(cv_proxy_media_deinit) struct cv_proxy_media media = {0};
    result = cv_proxy_read_media(proxy, name, text, &media, error);
    if (result != 0 || media.count == 0) {
        return result;
    }
    if (!media.independent || media.key_frames_only) {
        cv_proxy_tell(proxy, name, "does not say that its segments are independent");
    }
    result = read_map(proxy, name, &media, rendition, error);
    if (result != 0) {
        return result;
    }
    cv_auto_free double *bits = calloc(media.count, sizeof(double));
    cv_auto_free double *frames = calloc(media.count, sizeof(double));
    if (!bits || !frames) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a playlist");
    }
    for (size_t i = 0; i < media.count; i++) {
        result = check_segment(proxy, &media.entries[i], is_video, rendition, &bits[i], &frames[i],
                               error);
        if (result != 0) {
            return result;
        }
        rendition->seconds += media.entries[i].duration;
    }
    add_up(rendition, &media, bits, frames);
    check_times(proxy, rendition, is_video);
    return 0;
}

/* ---- key frames alone ------------------------------------------------------------------------ */

static int check_range(struct cv_proxy *proxy, const struct cv_proxy_entry *entry, const char *name,
                       const struct cv_proxy_rendition *rendition, int64_t key,
                       struct cv_error *error)
{
    enum { RANGE_MAX = 64 << 20 }; /* a key frame of any picture that is let in */
    if (entry->size <= 0 || entry->size > RANGE_MAX || entry->offset < 0) {
        cv_proxy_tell(proxy, name, "an entry for %s without a usable range", entry->name);
        return 0;
    }
    cv_auto_free char *object = NULL;
    cv_auto_free void *data = malloc((size_t)entry->size);
    int result = cv_format(&object, error, "%s%s", proxy->stream_prefix, entry->name);
    if (result != 0 || !data) {
        return result ? result
                      : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a range");
    }
    size_t got = 0;
    result = cv_store_get_range(proxy->store, object, entry->offset, data, (size_t)entry->size,
                                &got, error);
    if (result != 0 || got != (size_t)entry->size) {
        cv_proxy_tell(proxy, name, "%s does not have the bytes %lld+%lld", entry->name,
                      (long long)entry->offset, (long long)entry->size);
        return result < 0 ? result : 0;
    }
    cv_auto(cv_proxy_packets_deinit) struct cv_proxy_packets packets = {0};
    result = cv_proxy_read_packets(&rendition->map, data, got, &packets, error);
    if (result == 0 && (packets.count != 1 || !packets.packets[0].key ||
                        packets.packets[0].pts != key || packets.codec[0] == '\0')) {
        cv_proxy_tell(proxy, name, "%lld+%lld of %s is not the key frame of %.3f s alone",
                      (long long)entry->offset, (long long)entry->size, entry->name,
                      (double)key / CV_PROXY_CLOCK);
    }
    return result;
}

int cv_proxy_check_keys(struct cv_proxy *proxy, const char *name,
                        const struct cv_proxy_rendition *rendition, struct cv_error *error)
{
    cv_auto_free void *text = NULL;
    size_t size = 0;
    int result = cv_proxy_get(proxy, proxy->stream_prefix, name, &text, &size, error);
    if (result != 0 || !text) {
        return result;
    }
    cv_auto(cv_proxy_media_deinit) struct cv_proxy_media media = {0};
    result = cv_proxy_read_media(proxy, name, text, &media, error);
    if (result != 0) {
        return result;
    }
    if ((media.map[0] != '\0') != (rendition->map.data != NULL)) {
        cv_proxy_tell(proxy, name, "names another head than %s", rendition->name);
    }
    if (!media.key_frames_only || media.count != rendition->key_count) {
        cv_proxy_tell(proxy, name, "has %zu key frames of %zu", media.count, rendition->key_count);
        return 0;
    }
    for (size_t i = 0; result == 0 && i < media.count; i++) {
        result = check_range(proxy, &media.entries[i], name, rendition, rendition->keys[i], error);
    }
    return result;
}
