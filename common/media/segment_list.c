#include "common/media/playlist.h"

#include <math.h>

enum { FIRST_CAPACITY = 64 };

void cv_segment_list_deinit(struct cv_segment_list *list)
{
    free(list->segments);
    free(list->keys);
    *list = (struct cv_segment_list){0};
}

int cv_segment_list_add(struct cv_segment_list *list, const struct cv_segment *segment,
                        struct cv_error *error)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
        struct cv_segment *more = reallocarray(list->segments, capacity, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a playlist");
        }
        list->segments = more;
        list->capacity = capacity;
    }
    list->segments[list->count++] = *segment;
    return 0;
}

int cv_segment_list_add_key(struct cv_segment_list *list, const struct cv_key *key,
                            struct cv_error *error)
{
    if (list->key_count == list->key_capacity) {
        size_t capacity = list->key_capacity ? 2 * list->key_capacity : FIRST_CAPACITY;
        struct cv_key *more = reallocarray(list->keys, capacity, sizeof(*more));
        if (!more) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a playlist");
        }
        list->keys = more;
        list->key_capacity = capacity;
    }
    list->keys[list->key_count++] = *key;
    return 0;
}

int64_t cv_segment_list_end(const struct cv_segment_list *list)
{
    const struct cv_segment *last = list->count > 0 ? &list->segments[list->count - 1] : NULL;
    return last ? last->start + last->duration : 0;
}

int cv_segment_list_target(const struct cv_segment_list *list)
{
    int64_t target = 1;
    for (size_t i = 0; i < list->count; i++) {
        int64_t rounded = (list->segments[i].duration + CV_PLAYLIST_CLOCK / 2) / CV_PLAYLIST_CLOCK;
        target = rounded > target ? rounded : target;
    }
    return (int)target;
}

static double bit_rate(int64_t bytes, int64_t ticks)
{
    return ticks > 0 ? 8.0 * (double)bytes * CV_PLAYLIST_CLOCK / (double)ticks : 0;
}

int64_t cv_segment_list_average(const struct cv_segment_list *list)
{
    int64_t bytes = 0, ticks = 0;
    for (size_t i = 0; i < list->count; i++) {
        bytes += list->segments[i].bytes;
        ticks += list->segments[i].duration;
    }
    return (int64_t)ceil(bit_rate(bytes, ticks));
}

int64_t cv_segment_list_peak(const struct cv_segment_list *list, int target)
{
    int64_t least = (int64_t)target * CV_PLAYLIST_CLOCK / 2;
    double peak = 0;
    for (size_t i = 0; i < list->count; i++) {
        int64_t bytes = 0, ticks = 0;
        for (size_t j = i; j < list->count; j++) {
            bytes += list->segments[j].bytes;
            ticks += list->segments[j].duration;
            if (ticks > 3 * least) {
                break;
            }
            if (ticks >= least) {
                peak = fmax(peak, bit_rate(bytes, ticks));
            }
        }
    }
    int64_t average = cv_segment_list_average(list);
    return peak > (double)average ? (int64_t)ceil(peak) : average;
}

double cv_segment_list_frame_rate(const struct cv_segment_list *list)
{
    double most = 0, frames = 0;
    int64_t ticks = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_segment *segment = &list->segments[i];
        if (segment->duration >= CV_PLAYLIST_CLOCK) {
            most =
                fmax(most, (double)segment->frames * CV_PLAYLIST_CLOCK / (double)segment->duration);
        }
        frames += (double)segment->frames;
        ticks += segment->duration;
    }
    if (frames < 2 || ticks == 0) {
        return 0;
    }
    return most > 0 ? most : frames * CV_PLAYLIST_CLOCK / (double)ticks;
}
