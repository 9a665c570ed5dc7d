#include "workers/segment_index/merge/pairs.h"

#include "workers/segment_index/merge/place.h"

enum {
    /* A text this long that is there once before and once after has moved, wherever it went; a shorter one is
     * listed in more than one place. */
    SENTENCE_LETTERS = 24,
    /* Texts that moved alike tell how the picture moved when they have so many letters together. */
    TELLING_LETTERS = 12,
    /* Texts that tell how the picture moved, and pixels by which they may disagree. */
    MAX_SHIFTS = 64,
    SAME_SHIFT = 8,
    /* Heights by which a text moves by itself: a label that floats up. */
    SMALL_JUMP = 3,
    FLOAT_MS = 167,       /* in which it may stand nowhere: what a field's label takes on Android */
    JUMP_LETTERS = 5,     /* shorter texts stand in many places */
    REPLACED_AMONG = 256, /* texts that begin at once; more is a picture made to be slow */
    SAME_LEFT = 4,        /* pixels by which the left edges of one line differ */
};

void cv_pairs_deinit(struct cv_pairs *pairs)
{
    free(pairs->items);
    free(pairs->is_taken);
    *pairs = (struct cv_pairs){0};
}

/* How far a text that is over may have moved to where an equal one begins. */
struct shift {
    int dx, dy;
    size_t weight; /* letters of its skeleton: the longer the text, the surer that it is the same */
};

/* The shift that most of the texts agree on, by weight. One short text alone tells nothing: it may have left,
 * and another like it come. */
static struct cv_motion agree(const struct shift *shifts, size_t count)
{
    struct cv_motion motion = {0};
    size_t most = TELLING_LETTERS - 1;
    for (size_t i = 0; i < count; i++) {
        size_t weight = 0, supporters = 0;
        for (size_t j = 0; j < count; j++) {
            if (abs(shifts[i].dx - shifts[j].dx) + abs(shifts[i].dy - shifts[j].dy) <= SAME_SHIFT) {
                weight += shifts[j].weight;
                supporters++;
            }
        }
        if (weight > most && (supporters > 1 || weight >= SENTENCE_LETTERS)) {
            most = weight;
            motion = (struct cv_motion){.dx = shifts[i].dx, .dy = shifts[i].dy};
        }
    }
    return motion;
}

/* The tracks with a detection's own text that are over as it begins; returns how many shifts it adds. */
static size_t add_shifts(struct cv_tracks *tracks, size_t detection, struct shift *shifts,
                         size_t room)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t count = 0, steps = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = cv_index_first(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), now);
         i != CV_NONE && steps < CV_MAX_CHAIN && count < room;
         i = cv_index_next(tracks, CV_BY_TEXT, i, now), steps++) {
        const struct cv_track *track = &tracks->items[i];
        struct cv_box from = track->end_box, to = next->box;
        if (cv_times_touch(track, next) && !cv_has_paused(track, next) &&
            cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]) ==
                CV_LIKENESS_SAME &&
            cv_is_same_size(from, to) && !cv_is_same_place(from, to)) {
            shifts[count++] =
                (struct shift){to.x - from.x, to.y - from.y, tracks->keys[detection].count};
        }
    }
    return count;
}

struct cv_motion cv_find_motion(struct cv_tracks *tracks, size_t begin, size_t end)
{
    struct shift shifts[MAX_SHIFTS];
    size_t count = 0;
    for (size_t i = begin; i < end && count < MAX_SHIFTS; i++) {
        count += add_shifts(tracks, i, shifts + count, MAX_SHIFTS - count);
    }
    struct cv_motion motion = agree(shifts, count);
    motion.begin = begin;
    motion.end = end;
    return motion;
}

/* Whether another text stands now where the track was. A price or a choice of a list that is replaced has not
 * moved to where the same words stand by chance; a label that leaves its place empty has. */
static bool is_replaced(const struct cv_tracks *tracks, const struct cv_track *track,
                        const struct cv_motion *motion)
{
    struct cv_box was = track->end_box;
    bool taken = motion->end - motion->begin > REPLACED_AMONG;
    for (size_t i = motion->begin; i < motion->end && !taken; i++) {
        struct cv_box box = tracks->detections[i].box;
        taken = box.x < was.x + was.width && was.x < box.x + box.width &&
                abs(2 * box.y + box.height - 2 * was.y - was.height) <= was.height + box.height;
    }
    return taken;
}

/* Pixels between where the track is expected and where the detection stands; -1: another place. */
static int place_error(const struct cv_tracks *tracks, const struct cv_track *track,
                       size_t detection, const struct cv_motion *motion, enum cv_likeness likeness)
{
    struct cv_box from = track->end_box, to = tracks->detections[detection].box;
    struct cv_box expected[2] = {from, cv_moved(from, motion->dx, motion->dy)};
    bool paused = cv_has_paused(track, &tracks->detections[detection]);
    int error = -1;
    for (size_t i = 0; i < (paused ? 1 : 2); i++) {
        int apart = cv_apart_x(expected[i], to) + abs(expected[i].y - to.y);
        if (cv_is_same_place(expected[i], to) && (error < 0 || apart < error)) {
            error = apart;
        }
    }
    bool may_jump = likeness == CV_LIKENESS_SAME && !motion->dx && !motion->dy &&
                    cv_is_still(to, cv_end_of(&tracks->detections[detection]));
    if (error < 0 && may_jump) {
        int apart = abs(from.x - to.x) + abs(from.y - to.y);
        int64_t pause = tracks->detections[detection].t_start_ms - track->t_end_ms;
        bool near = apart <= SMALL_JUMP * to.height && pause <= FLOAT_MS;
        bool far = !paused && cv_is_same_size(from, to) &&
                   tracks->keys[detection].count >= JUMP_LETTERS &&
                   !is_replaced(tracks, track, motion);
        return near || far ? apart : -1;
    }
    return error;
}

static int add_pair(struct cv_pairs *pairs, struct cv_pair pair, struct cv_error *error)
{
    if (pairs->count == pairs->capacity) {
        size_t capacity = pairs->capacity ? 2 * pairs->capacity : 256;
        struct cv_pair *items = realloc(pairs->items, capacity * sizeof(*items));
        CV_TRY_MEMORY(items, error, "merging detections");
        pairs->items = items;
        pairs->capacity = capacity;
    }
    pairs->items[pairs->count++] = pair;
    return 0;
}

/* Whether letters came or went: the line begins where it began, and is wider or narrower by more than a letter. */
static bool has_grown(const struct cv_tracks *tracks, const struct cv_track *track,
                      size_t detection)
{
    struct cv_box from = track->end_box, to = tracks->detections[detection].box;
    size_t before = tracks->keys[track->key].count, after = tracks->keys[detection].count;
    int wider = to.width - from.width;

    return abs(from.x - to.x) <= SAME_LEFT && before != after &&
           (int64_t)abs(wider) * 5 > 3 * (int64_t)from.height && (wider > 0) == (after > before);
}

/* Adds the pair of one track and one detection, if the one may continue the other. */
static int consider(struct cv_tracks *tracks, size_t which, size_t detection,
                    const struct cv_motion *motion, struct cv_pairs *pairs, struct cv_error *error)
{
    const struct cv_track *track = &tracks->items[which];
    const struct cv_detection *next = &tracks->detections[detection];
    if (!cv_times_touch(track, next) && !cv_is_double(tracks, track, next)) {
        return 0;
    }
    enum cv_likeness likeness =
        cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]);
    const char *parts = likeness == CV_LIKENESS_NONE ? cv_text_difference(&tracks->keys[track->key],
                                                                          &tracks->keys[detection])
                        : likeness == CV_LIKENESS_READING && has_grown(tracks, track, detection)
                            ? "letters came or went"
                            : NULL;
    int64_t place = parts ? -1 : place_error(tracks, track, detection, motion, likeness);
    if (place < 0) {
        if (!parts || cv_is_same_place(track->end_box, next->box)) {
            CV_BECAUSE(tracks->reasons, cv_given(tracks, detection), cv_given_first(tracks, track),
                       NULL, "not joined: %s",
                       parts ? parts
                             : "it stands elsewhere, and nothing tells that it moved there");
        }
        return 0;
    }
    int64_t rank = CV_LIKENESS_SAME - likeness;
    return add_pair(pairs, (struct cv_pair){detection, which, rank * CV_PAIR_READING + place},
                    error);
}

static int consider_row(struct cv_tracks *tracks, int row, size_t detection,
                        const struct cv_motion *motion, struct cv_pairs *pairs,
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
        CV_TRY(consider(tracks, i, detection, motion, pairs, error));
    }
    return 0;
}

int cv_find_pairs(struct cv_tracks *tracks, size_t detection, const struct cv_motion *motion,
                  struct cv_pairs *pairs, struct cv_error *error)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t steps = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = cv_index_first(tracks, CV_BY_TEXT, cv_text_bucket(tracks, detection), now);
         i != CV_NONE && steps < CV_MAX_CHAIN;
         i = cv_index_next(tracks, CV_BY_TEXT, i, now), steps++) {
        if (tracks->keys[tracks->items[i].key].hash == tracks->keys[detection].hash) {
            CV_TRY(consider(tracks, i, detection, motion, pairs, error));
        }
    }
    int row = cv_row_of(next->box);
    int row_before = cv_row_of(cv_moved(next->box, -motion->dx, -motion->dy));
    for (int around = -1; around <= 1; around++) {
        CV_TRY(consider_row(tracks, row + around, detection, motion, pairs, error));
        if (abs(row_before + around - row) > 1) {
            CV_TRY(consider_row(tracks, row_before + around, detection, motion, pairs, error));
        }
    }
    return 0;
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
