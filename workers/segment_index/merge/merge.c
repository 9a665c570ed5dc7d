#include "workers/segment_index/merge/flicker.h"
#include "workers/segment_index/merge/pairs.h"

#include <string.h>

/* Each pass that changes anything leaves fewer segments, and the second seldom changes anything. */
enum { MAX_PASSES = 16 };

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_detections(const void *left, const void *right)
{
    const struct cv_detection *a = left, *b = right;
    int order = compare_numbers(a->t_start_ms, b->t_start_ms);
    order = order ? order : compare_numbers(a->box.y, b->box.y);
    order = order ? order : compare_numbers(a->box.x, b->box.x);
    order = order ? order : strcmp(a->normalized, b->normalized);
    order = order ? order : compare_numbers(a->t_end_ms, b->t_end_ms);
    order = order ? order : compare_numbers(a->box.width, b->box.width);
    order = order ? order : compare_numbers(a->box.height, b->box.height);
    order = order ? order : strcmp(a->text, b->text);
    order = order ? order : (a->confidence < b->confidence) - (a->confidence > b->confidence);
    return order ? order : compare_numbers(a->source, b->source);
}

struct keys {
    struct cv_text_key *items;
    size_t count;
};

static void keys_deinit(struct keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) {
        cv_text_key_deinit(&keys->items[i]);
    }
    free(keys->items);
}
CV_DEFINE_CLEANUP_ADDRESS(struct keys, keys_deinit)

/* What the track's readings agree on. */
static struct cv_detection segment_of(const struct cv_tracks *tracks, const struct cv_track *track)
{
    const struct cv_reading *winner = &tracks->readings[track->readings];
    double surety = 0, weight = 0;
    for (size_t i = track->readings; i != CV_NONE; i = tracks->readings[i].next) {
        const struct cv_reading *reading = &tracks->readings[i];
        surety += reading->surety;
        weight += reading->weight;
        if (reading->votes > winner->votes ||
            (reading->votes == winner->votes &&
             strcmp(tracks->detections[reading->best].normalized,
                    tracks->detections[winner->best].normalized) < 0)) {
            winner = reading;
        }
    }
    struct cv_detection segment = tracks->detections[winner->best];
    const struct cv_detection *first = &tracks->detections[track->first];
    bool is_one = track->t_start_ms == segment.t_start_ms && track->t_end_ms == segment.t_end_ms;
    if (!is_one) {
        segment.confidence = surety / weight;
    }
    segment.t_start_ms = track->t_start_ms;
    segment.t_end_ms = track->t_end_ms;
    segment.box = first->box;
    segment.end_box = track->end_box;
    segment.part = first->part;
    return segment;
}

/* One pass over detections in order; the segments replace them. */
static int merge_once(struct cv_detection *detections, size_t *count, size_t *parts,
                      struct cv_reasons *reasons, struct cv_error *error)
{
    cv_auto(keys_deinit) struct keys keys = {calloc(*count + 1, sizeof(*keys.items)), 0};
    CV_TRY_MEMORY(keys.items, error, "merging detections");
    for (; keys.count < *count; keys.count++) {
        CV_TRY(cv_text_key_init(&keys.items[keys.count], detections[keys.count].normalized, error));
    }
    cv_auto(cv_tracks_deinit) struct cv_tracks tracks;
    CV_TRY(cv_tracks_init(&tracks, detections, keys.items, *count, error));
    tracks.parts = parts;
    tracks.reasons = reasons;
    cv_auto(cv_pairs_deinit) struct cv_pairs pairs = {0};
    size_t group = 0;
    for (size_t begin = 0, end; begin < *count; begin = end) {
        end = begin + 1;
        while (end < *count && detections[end].t_start_ms == detections[begin].t_start_ms) {
            end++;
        }
        CV_TRY(cv_tracks_add(&tracks, begin, end, ++group, &pairs, error));
    }
    cv_auto_free struct cv_detection *segments = malloc((tracks.count + 1) * sizeof(*segments));
    CV_TRY_MEMORY(segments, error, "merging detections");
    for (size_t i = 0; i < tracks.count; i++) {
        segments[i] = segment_of(&tracks, &tracks.items[i]);
    }
    memcpy(detections, segments, tracks.count * sizeof(*segments));
    *count = tracks.count;
    return 0;
}

/* From roots to numbers of segments. */
static int number_parts(const struct cv_detection *segments, size_t segment_count, size_t *parts,
                        size_t count, struct cv_error *error)
{
    cv_auto_free size_t *numbers = malloc((count + 1) * sizeof(*numbers));

    CV_TRY_MEMORY(numbers, error, "merging detections");
    for (size_t i = 0; i < count; i++) {
        numbers[i] = CV_NONE;
    }
    for (size_t i = 0; i < segment_count; i++) {
        numbers[cv_part_root(parts, segments[i].part)] = i;
    }
    for (size_t i = 0; i < count; i++) {
        size_t root = cv_part_root(parts, i);
        numbers[i] = root == i ? numbers[i] : numbers[root];
    }
    memcpy(parts, numbers, count * sizeof(*parts));
    return 0;
}

int cv_text_merge(const struct cv_detection *detections, size_t count,
                  struct cv_detection **ret_segments, size_t *ret_count, size_t *parts,
                  struct cv_reasons *reasons, struct cv_error *error)
{
    if (count > CV_MERGE_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "%zu detections are more than the %d of a "
                       "video that can be merged",
                       count, CV_MERGE_MAX);
    }
    cv_auto_free struct cv_detection *segments = malloc((count + 1) * sizeof(*segments));
    CV_TRY_MEMORY(segments, error, "merging detections");
    if (count > 0) {
        memcpy(segments, detections, count * sizeof(*segments));
    }
    size_t before = count + 1, given = count;
    for (size_t i = 0; i < count; i++) {
        segments[i].part = parts[i] = i;
    }
    for (int pass = 0; pass < MAX_PASSES && count < before; pass++) {
        before = count;
        qsort(segments, count, sizeof(*segments), compare_detections);
        CV_TRY(merge_once(segments, &count, parts, reasons, error));
    }
    qsort(segments, count, sizeof(*segments), compare_detections);
    CV_TRY(cv_join_flicker(segments, &count, parts, reasons, error));
    CV_TRY(number_parts(segments, count, parts, given, error));
    *ret_segments = cv_take(segments);
    *ret_count = count;
    return 0;
}
