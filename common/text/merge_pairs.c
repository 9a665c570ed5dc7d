#include "common/text/merge_pairs.h"

#include "common/text/place.h"

enum {
    /* A text this long that is there once before and once after has moved, wherever it went. */
    TELLING_BONES = 12,
    /* Texts that tell how the picture moved, and pixels by which they may disagree. */
    MAX_WAYS = 64,
    SAME_WAY = 8,
    /* Heights that a text may jump by when nothing else on the screen tells how far it moved. */
    BLIND_JUMP = 8,
    SAME_LEFT = 4, /* pixels by which the left edges of one line differ */
};

void cv_pairs_deinit(struct cv_pairs *pairs)
{
    free(pairs->items);
    free(pairs->taken);
    *pairs = (struct cv_pairs){0};
}

/* The one live track with the detection's own text, if that is over as the detection begins, so that
 * it could continue it; CV_NONE where another one goes on: the text stands there several times, and
 * which of them came is for their places to tell. */
static size_t only_same(struct cv_tracks *tracks, size_t detection)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t only = CV_NONE, steps = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = cv_index_first(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), now);
         i != CV_NONE; i = cv_index_next(tracks, CV_BY_TEXT, i, now)) {
        const struct cv_track *track = &tracks->items[i];
        if (++steps > CV_MAX_CHAIN) {
            return CV_NONE;
        }
        if (cv_is_double(tracks, track, next) ||
            cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]) !=
                CV_LIKENESS_SAME) {
            continue;
        }
        if (only != CV_NONE || !cv_times_touch(track, next)) {
            return CV_NONE;
        }
        only = i;
    }
    return only;
}

/* How far a text moved that was there once before and is there once now. */
struct way {
    int dx, dy;
    size_t weight; /* its bones: the longer the text, the surer that it is the same */
};

/* Marks how often each track is asked for, so that "once now" is known. */
static void count_asked(struct cv_tracks *tracks, size_t begin, size_t end, size_t group)
{
    for (size_t i = begin; i < end; i++) {
        size_t which = only_same(tracks, i);
        if (which != CV_NONE) {
            struct cv_track *track = &tracks->items[which];
            track->asked = track->group == group ? track->asked + 1 : 1;
            track->group = group;
        }
    }
}

/* The way that most of the moved texts agree on, by weight. One short text alone tells nothing: it
 * may have left, and another like it come. */
static struct cv_motion agree(const struct way *ways, size_t count)
{
    struct cv_motion motion = {false, 0, 0};
    size_t most = TELLING_BONES - 1;
    for (size_t i = 0; i < count; i++) {
        size_t weight = 0, supporters = 0;
        for (size_t j = 0; j < count; j++) {
            if (abs(ways[i].dx - ways[j].dx) + abs(ways[i].dy - ways[j].dy) <= SAME_WAY) {
                weight += ways[j].weight;
                supporters++;
            }
        }
        if (weight > most && (supporters > 1 || ways[i].weight >= TELLING_BONES)) {
            most = weight;
            motion = (struct cv_motion){true, ways[i].dx, ways[i].dy};
        }
    }
    return motion;
}

struct cv_motion cv_find_motion(struct cv_tracks *tracks, size_t begin, size_t end, size_t group)
{
    struct way ways[MAX_WAYS];
    size_t count = 0;
    bool stands = false;
    count_asked(tracks, begin, end, group);
    for (size_t i = begin; i < end && count < MAX_WAYS; i++) {
        size_t which = only_same(tracks, i);
        if (which == CV_NONE || tracks->items[which].asked != 1 ||
            cv_has_paused(&tracks->items[which], &tracks->detections[i])) {
            continue;
        }
        struct cv_box from = tracks->items[which].end_box, to = tracks->detections[i].box;
        if (cv_is_same_place(from, to)) {
            stands = true;
        } else {
            ways[count++] = (struct way){to.x - from.x, to.y - from.y, tracks->keys[i].count};
        }
    }
    struct cv_motion motion = agree(ways, count);
    motion.known = motion.known || stands;
    return motion;
}

/* Pixels between where the track is expected and where the detection stands; -1: another place. */
static int place_error(const struct cv_tracks *tracks, const struct cv_track *track,
                       size_t detection, const struct cv_motion *motion, enum cv_likeness likeness,
                       size_t group)
{
    struct cv_box from = track->end_box, to = tracks->detections[detection].box;
    struct cv_box ways[2] = {from, cv_moved(from, motion->dx, motion->dy)};
    bool paused = cv_has_paused(track, &tracks->detections[detection]);
    int error = -1;
    for (size_t i = 0; i < (paused ? 1 : 2); i++) {
        int apart = cv_apart_x(ways[i], to) + abs(ways[i].y - to.y);
        if (cv_is_same_place(ways[i], to) && (error < 0 || apart < error)) {
            error = apart;
        }
    }
    bool is_only = likeness == CV_LIKENESS_SAME && track->group == group && track->asked == 1;
    if (error < 0 && is_only && !paused && cv_sizes_fit(from, to)) {
        int apart = abs(from.x - to.x) + abs(from.y - to.y);
        bool telling = tracks->keys[detection].count >= TELLING_BONES;
        bool near = !motion->known && apart <= BLIND_JUMP * to.height;
        return telling || near ? apart : -1;
    }
    return error;
}

static int add_pair(struct cv_pairs *pairs, struct cv_pair pair, struct cv_error *error)
{
    if (pairs->count == pairs->capacity) {
        size_t capacity = pairs->capacity ? 2 * pairs->capacity : 256;
        struct cv_pair *items = realloc(pairs->items, capacity * sizeof(*items));
        if (!items) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to merge detections");
        }
        pairs->items = items;
        pairs->capacity = capacity;
    }
    pairs->items[pairs->count++] = pair;
    return 0;
}

/* Readings of one line are as wide as one another. A line that begins where it began and is wider or
 * narrower by more than a letter has got one, or lost one. */
static enum cv_likeness by_width(const struct cv_tracks *tracks, const struct cv_track *track,
                                 size_t detection, enum cv_likeness likeness)
{
    struct cv_box from = track->end_box, to = tracks->detections[detection].box;
    size_t before = tracks->keys[track->key].count, after = tracks->keys[detection].count;
    bool typed = abs(from.x - to.x) <= SAME_LEFT && from.height > 0 &&
                 (int64_t)abs(from.width - to.width) * 5 > 3 * (int64_t)from.height;

    if (likeness != CV_LIKENESS_READING || !typed || before == after) {
        return likeness;
    }
    bool grown = to.width > from.width;
    return grown != (after > before) ? likeness : grown ? CV_LIKENESS_WHOLE : CV_LIKENESS_PART;
}

/* Adds the pair of one track and one detection, if the one may be or concern the other. */
static int consider(struct cv_tracks *tracks, size_t which, size_t detection,
                    const struct cv_motion *motion, size_t group, struct cv_pairs *pairs,
                    struct cv_error *error)
{
    const struct cv_track *track = &tracks->items[which];
    const struct cv_detection *next = &tracks->detections[detection];
    bool is_repeat = cv_is_double(tracks, track, next);
    if (!is_repeat && !cv_times_touch(track, next)) {
        return 0;
    }
    enum cv_likeness likeness =
        cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]);
    likeness = by_width(tracks, track, detection, likeness);
    if (likeness == CV_LIKENESS_NONE) {
        return 0;
    }
    int64_t place = place_error(tracks, track, detection, motion, likeness, group);
    if (place < 0 && (likeness == CV_LIKENESS_PART || likeness == CV_LIKENESS_WHOLE)) {
        struct cv_box from = track->end_box, way = cv_moved(from, motion->dx, motion->dy);
        struct cv_box to = next->box;
        bool part = likeness == CV_LIKENESS_PART;
        bool fits = part ? cv_is_within(from, to) || cv_is_within(way, to)
                         : cv_is_within(to, from) || cv_is_within(to, way);
        place = fits ? 0 : -1;
    }
    if (place < 0) {
        return 0;
    }
    int64_t rank = CV_LIKENESS_SAME - likeness;
    return add_pair(pairs, (struct cv_pair){detection, which, rank * 1000000 + place, likeness},
                    error);
}

static int consider_row(struct cv_tracks *tracks, int row, size_t detection,
                        const struct cv_motion *motion, size_t group, struct cv_pairs *pairs,
                        struct cv_error *error)
{
    int64_t now = tracks->detections[detection].t_start_ms;
    size_t steps = 0;
    for (size_t i = cv_index_first(tracks, CV_BY_ROW, cv_row_bucket(tracks, row), now);
         i != CV_NONE && steps < CV_MAX_CHAIN;
         i = cv_index_next(tracks, CV_BY_ROW, i, now), steps++) {
        const struct cv_track *track = &tracks->items[i];
        bool has_own_text = tracks->keys[track->key].hash == tracks->keys[detection].hash;
        if (has_own_text) {
            continue; /* its own text was looked up by text */
        }
        int result = consider(tracks, i, detection, motion, group, pairs, error);
        if (result < 0) {
            return result;
        }
    }
    return 0;
}

int cv_find_pairs(struct cv_tracks *tracks, size_t detection, const struct cv_motion *motion,
                  size_t group, struct cv_pairs *pairs, struct cv_error *error)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t steps = 0;
    int result = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = cv_index_first(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), now);
         result == 0 && i != CV_NONE && steps < CV_MAX_CHAIN;
         i = cv_index_next(tracks, CV_BY_TEXT, i, now), steps++) {
        if (tracks->keys[tracks->items[i].key].hash == tracks->keys[detection].hash) {
            result = consider(tracks, i, detection, motion, group, pairs, error);
        }
    }
    int row = cv_row_of(next->box);
    int row_before = cv_row_of(cv_moved(next->box, -motion->dx, -motion->dy));
    for (int around = -1; around <= 1 && result == 0; around++) {
        result = consider_row(tracks, row + around, detection, motion, group, pairs, error);
        if (result == 0 && abs(row_before + around - row) > 1) {
            result =
                consider_row(tracks, row_before + around, detection, motion, group, pairs, error);
        }
    }
    return result;
}

int cv_compare_pairs(const void *left, const void *right)
{
    const struct cv_pair *a = left, *b = right;
    if (a->cost != b->cost) {
        return a->cost < b->cost ? -1 : 1;
    }
    if (a->detection != b->detection) {
        return a->detection < b->detection ? -1 : 1;
    }
    return (a->track > b->track) - (a->track < b->track);
}
