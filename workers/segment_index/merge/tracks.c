#include "workers/segment_index/merge/pairs.h"
#include "workers/segment_index/merge/place.h"

#include <string.h>

enum {
    /* Distinct readings of a line that vote. */
    MAX_READINGS = 16,
    /* Height of a bucket of the place index; lines of text are 20 to 80 pixels high. */
    ROW_PIXELS = 64,
};

int cv_tracks_init(struct cv_tracks *tracks, const struct cv_detection *detections,
                   const struct cv_text_key *keys, size_t count, struct cv_error *error)
{
    size_t buckets = 1024;
    while (buckets < count) {
        buckets *= 2;
    }
    *tracks = (struct cv_tracks){.detections = detections, .keys = keys, .mask = buckets - 1};
    tracks->items = calloc(count + 1, sizeof(*tracks->items));
    tracks->readings = calloc(count + 1, sizeof(*tracks->readings));
    tracks->heads[CV_BY_TEXT] = malloc(buckets * sizeof(size_t));
    tracks->heads[CV_BY_ROW] = malloc(buckets * sizeof(size_t));
    CV_TRY_MEMORY(tracks->items && tracks->readings && tracks->heads[CV_BY_TEXT] &&
                      tracks->heads[CV_BY_ROW],
                  error, "merging detections");
    memset(tracks->heads[CV_BY_TEXT], 0xFF, buckets * sizeof(size_t)); /* CV_NONE */
    memset(tracks->heads[CV_BY_ROW], 0xFF, buckets * sizeof(size_t));
    return 0;
}

void cv_tracks_deinit(struct cv_tracks *tracks)
{
    free(tracks->items);
    free(tracks->readings);
    free(tracks->heads[CV_BY_TEXT]);
    free(tracks->heads[CV_BY_ROW]);
    *tracks = (struct cv_tracks){0};
}

static int floor_div(int value, int by)
{
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

size_t cv_row_bucket(const struct cv_tracks *tracks, int row)
{
    return ((size_t)(uint32_t)row * 0x9E3779B1U) & tracks->mask;
}

int cv_row_of(struct cv_box box)
{
    return floor_div(box.y + box.height / 2, ROW_PIXELS);
}

static bool is_over(const struct cv_track *track, int64_t now)
{
    return track->t_end_ms + CV_MERGE_GAP_MS < now;
}

size_t cv_text_bucket(const struct cv_tracks *tracks, size_t detection)
{
    return tracks->keys[detection].hash & tracks->mask;
}

static void enter(struct cv_tracks *tracks, enum cv_index index, size_t bucket, size_t which)
{
    size_t *head = &tracks->heads[index][bucket];
    if (*head != CV_NONE) {
        tracks->items[*head].links[index].previous = which;
    }
    tracks->items[which].links[index] = (struct cv_link){*head, CV_NONE, bucket};
    *head = which;
}

static void leave(struct cv_tracks *tracks, enum cv_index index, size_t which)
{
    struct cv_link *link = &tracks->items[which].links[index];
    if (link->bucket == CV_NONE) {
        return;
    }
    if (link->previous == CV_NONE) {
        tracks->heads[index][link->bucket] = link->next;
    } else {
        tracks->items[link->previous].links[index].next = link->next;
    }
    if (link->next != CV_NONE) {
        tracks->items[link->next].links[index].previous = link->previous;
    }
    link->bucket = CV_NONE;
}

/* The track `which` of a chain, or the first track behind it that is not over. Tracks that are
 * over leave the index. */
static size_t live(struct cv_tracks *tracks, enum cv_index index, size_t which, int64_t now)
{
    while (which != CV_NONE && is_over(&tracks->items[which], now)) {
        size_t next = tracks->items[which].links[index].next;
        if (index == CV_BY_TEXT) {
            CV_BECAUSE(tracks->reasons, cv_given_first(tracks, &tracks->items[which]), -1, NULL,
                       "ends: no text continued it within 400 ms");
        }
        leave(tracks, index, which);
        which = next;
    }
    return which;
}

size_t cv_index_first(struct cv_tracks *tracks, enum cv_index index, size_t bucket, int64_t now)
{
    return live(tracks, index, tracks->heads[index][bucket], now);
}

size_t cv_index_next(struct cv_tracks *tracks, enum cv_index index, size_t which, int64_t now)
{
    return live(tracks, index, tracks->items[which].links[index].next, now);
}

static void vote(struct cv_tracks *tracks, struct cv_track *track, size_t detection)
{
    const struct cv_detection *seen = &tracks->detections[detection];
    double weight = (double)(seen->t_end_ms - seen->t_start_ms) + 1;
    size_t known = 0;
    struct cv_reading *reading = NULL;
    for (size_t i = track->readings; i != CV_NONE && !reading; i = tracks->readings[i].next) {
        if (cv_text_likeness(&tracks->keys[tracks->readings[i].best], &tracks->keys[detection]) ==
            CV_LIKENESS_SAME) {
            reading = &tracks->readings[i];
        }
        known++;
    }
    if (!reading) {
        if (known >= MAX_READINGS) {
            return;
        }
        size_t fresh = tracks->reading_count++;
        tracks->readings[fresh] = (struct cv_reading){.next = track->readings, .best = detection};
        track->readings = fresh;
        reading = &tracks->readings[fresh];
    }
    if (seen->confidence > tracks->detections[reading->best].confidence) {
        reading->best = detection;
    }
    reading->votes += seen->confidence * weight;
    reading->surety += seen->confidence * weight;
    reading->weight += weight;
}

static void begin_track(struct cv_tracks *tracks, size_t detection, size_t group)
{
    const struct cv_detection *seen = &tracks->detections[detection];
    size_t which = tracks->count++;
    struct cv_track *track = &tracks->items[which];
    *track = (struct cv_track){
        .first = detection,
        .key = detection,
        .readings = CV_NONE,
        .t_start_ms = seen->t_start_ms,
        .t_end_ms = seen->t_end_ms,
        .end_box = cv_end_of(seen),
        .group = group,
    };
    vote(tracks, track, detection);
    enter(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), which);
    enter(tracks, CV_BY_ROW, cv_row_bucket(tracks, cv_row_of(track->end_box)), which);
}

size_t cv_part_root(size_t *parts, size_t part)
{
    while (parts[part] != part) {
        parts[part] = parts[parts[part]];
        part = parts[part];
    }
    return part;
}

void cv_part_join(size_t *parts, size_t part, size_t into)
{
    parts[cv_part_root(parts, part)] = cv_part_root(parts, into);
}

static void continue_track(struct cv_tracks *tracks, size_t which, size_t detection, size_t group)
{
    struct cv_track *track = &tracks->items[which];
    const struct cv_detection *seen = &tracks->detections[detection];
    vote(tracks, track, detection);
    cv_part_join(tracks->parts, seen->part, tracks->detections[track->first].part);
    track->group = group;
    if (seen->t_end_ms >= track->t_end_ms) {
        track->t_end_ms = seen->t_end_ms;
        track->end_box = cv_end_of(seen);
        leave(tracks, CV_BY_ROW, which);
        enter(tracks, CV_BY_ROW, cv_row_bucket(tracks, cv_row_of(track->end_box)), which);
    }
    if (tracks->keys[track->key].hash != tracks->keys[detection].hash) {
        /* found by its latest reading from now on */
        leave(tracks, CV_BY_TEXT, which);
        track->key = detection;
        enter(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), which);
    }
}

/* A track begun in this very group at the same place with the same text: the line was read twice.
 */
static size_t find_double(struct cv_tracks *tracks, size_t detection, size_t first_fresh)
{
    const struct cv_detection *seen = &tracks->detections[detection];
    size_t steps = 0;
    int64_t now = seen->t_start_ms;
    for (size_t i = cv_index_first(tracks, CV_BY_ROW,
                                   cv_row_bucket(tracks, cv_row_of(cv_end_of(seen))), now);
         i != CV_NONE && steps < CV_MAX_CHAIN;
         i = cv_index_next(tracks, CV_BY_ROW, i, now), steps++) {
        const struct cv_track *track = &tracks->items[i];
        if (i >= first_fresh && cv_is_same_place(tracks->detections[track->first].box, seen->box) &&
            cv_is_same_place(track->end_box, cv_end_of(seen)) &&
            cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]) !=
                CV_LIKENESS_NONE) {
            return i;
        }
    }
    return CV_NONE;
}

static int reserve_taken(struct cv_pairs *pairs, size_t count, struct cv_error *error)
{
    if (count > pairs->taken_capacity) {
        bool *taken = realloc(pairs->is_taken, count * sizeof(*taken));
        CV_TRY_MEMORY(taken, error, "merging detections");
        pairs->is_taken = taken;
        pairs->taken_capacity = count;
    }
    memset(pairs->is_taken, 0, count * sizeof(*pairs->is_taken));
    return 0;
}

int cv_tracks_add(struct cv_tracks *tracks, size_t begin, size_t end, size_t group,
                  struct cv_pairs *pairs, struct cv_error *error)
{
    CV_TRY(reserve_taken(pairs, end - begin, error));
    struct cv_motion motion = cv_find_motion(tracks, begin, end);
    pairs->count = 0;
    for (size_t i = begin; i < end; i++) {
        CV_TRY(cv_find_pairs(tracks, i, &motion, pairs, error));
    }
    if (pairs->count > 1) {
        qsort(pairs->items, pairs->count, sizeof(*pairs->items), cv_compare_pairs);
    }
    for (size_t i = 0; i < pairs->count; i++) {
        const struct cv_pair *pair = &pairs->items[i];
        struct cv_track *track = &tracks->items[pair->track];
        if (!pairs->is_taken[pair->detection - begin] && track->group != group) {
            pairs->is_taken[pair->detection - begin] = true;
            CV_BECAUSE(tracks->reasons, cv_given_first(tracks, track),
                       cv_given(tracks, pair->detection), NULL, "joined: %s",
                       pair->cost < CV_PAIR_READING ? "the same text" : "two readings of one text");
            continue_track(tracks, pair->track, pair->detection, group);
        }
    }
    size_t first_fresh = tracks->count;
    for (size_t i = begin; i < end; i++) {
        size_t other = pairs->is_taken[i - begin] ? CV_NONE : find_double(tracks, i, first_fresh);
        if (other != CV_NONE) {
            CV_BECAUSE(tracks->reasons, cv_given_first(tracks, &tracks->items[other]),
                       cv_given(tracks, i), NULL, "joined: one place was read twice");
            continue_track(tracks, other, i, group);
        } else if (!pairs->is_taken[i - begin]) {
            begin_track(tracks, i, group);
        }
    }
    return 0;
}
