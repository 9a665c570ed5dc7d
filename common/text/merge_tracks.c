#include "common/text/merge_tracks.h"

#include <string.h>

enum {
    /* Frames that touch may overlap by the rounding of their times to milliseconds and a frame. */
    OVERLAP_MS = 50,
    /* Pixels by which the boxes of a line that stands still differ. */
    STILL_PIXELS = 4,
    /* Height of a bucket of the place index; lines of text are 20 to 80 pixels high. */
    ROW_PIXELS = 64,
    /* How far chains are walked. A text stands at a few places at once, a row holds a few texts;
     * more is a picture made to be slow, and its lines stay apart. */
    MAX_CHAIN = 48,
    /* Distinct readings of a line that vote. */
    MAX_READINGS = 16,
    /* A text this long that is there once before and once after has moved, wherever it went. */
    TELLING_BONES = 12,
    /* Texts that tell how the picture moved, and pixels by which they may disagree. */
    MAX_WAYS = 64,
    SAME_WAY = 8,
    /* Heights that a text may jump by when nothing else on the screen tells how far it moved. */
    BLIND_JUMP = 8,
    /* Remains of a line at an edge, and misreadings between two good ones, do not last longer. */
    REMAINS_MS = 1000,
};

/* How the picture moved since the frame before. */
struct motion {
    bool known;
    int dx, dy;
};

struct cv_pair {
    size_t detection, track;
    int64_t cost;
    enum cv_likeness likeness;
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
    if (!tracks->items || !tracks->readings || !tracks->heads[CV_BY_TEXT] ||
        !tracks->heads[CV_BY_ROW]) {
        cv_tracks_deinit(tracks);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to merge %zu detections", count);
    }
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

void cv_pairs_deinit(struct cv_pairs *pairs)
{
    free(pairs->items);
    free(pairs->taken);
    *pairs = (struct cv_pairs){0};
}

/* ---- indexes --------------------------------------------------------------------------------- */

static int floor_div(int value, int by)
{
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

static size_t row_bucket(const struct cv_tracks *tracks, int row)
{
    return ((size_t)(uint32_t)row * 0x9E3779B1U) & tracks->mask;
}

static int row_of(struct cv_box box)
{
    return floor_div(box.y + box.height / 2, ROW_PIXELS);
}

static bool is_over(const struct cv_track *track, int64_t now)
{
    return track->t_end_ms + CV_MERGE_GAP_MS < now;
}

static size_t text_bucket(const struct cv_tracks *tracks, size_t detection)
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

/* The track `which` of a chain, or the first behind it that is not over; those that are leave. */
static size_t live(struct cv_tracks *tracks, enum cv_index index, size_t which, int64_t now)
{
    while (which != CV_NONE && is_over(&tracks->items[which], now)) {
        size_t next = tracks->items[which].links[index].next;
        leave(tracks, index, which);
        which = next;
    }
    return which;
}

static size_t first_live(struct cv_tracks *tracks, enum cv_index index, size_t bucket, int64_t now)
{
    return live(tracks, index, tracks->heads[index][bucket], now);
}

static size_t next_live(struct cv_tracks *tracks, enum cv_index index, size_t which, int64_t now)
{
    return live(tracks, index, tracks->items[which].links[index].next, now);
}

/* ---- place and time -------------------------------------------------------------------------- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* How far apart two boxes stand sideways: OCR noise at one end moves that end alone. */
static int apart_x(struct cv_box a, struct cv_box b)
{
    int left = abs(a.x - b.x);
    int right = abs(a.x + a.width - b.x - b.width);
    int centre = abs(2 * a.x + a.width - 2 * b.x - b.width) / 2;
    return least(left, least(right, centre));
}

static bool sizes_fit(struct cv_box a, struct cv_box b)
{
    int low = least(a.height, b.height), high = a.height + b.height - low;
    return high <= 2 * low + 4;
}

static bool is_same_place(struct cv_box a, struct cv_box b)
{
    int height = least(a.height, b.height);
    return sizes_fit(a, b) && abs(a.y - b.y) + abs(a.y + a.height - b.y - b.height) <= height &&
           apart_x(a, b) <= height;
}

static struct cv_box moved(struct cv_box box, int dx, int dy)
{
    box.x += dx;
    box.y += dy;
    return box;
}

/* The part lies within the row and the sides of the whole. */
static bool is_within(struct cv_box whole, struct cv_box part)
{
    int slack = whole.height;
    return part.x >= whole.x - slack && part.x + part.width <= whole.x + whole.width + slack &&
           part.y + part.height / 2 >= whole.y - slack / 4 &&
           part.y + part.height / 2 <= whole.y + whole.height + slack / 4;
}

static bool times_touch(const struct cv_track *track, const struct cv_detection *next)
{
    return track->t_end_ms - next->t_start_ms <= OVERLAP_MS &&
           next->t_start_ms - track->t_end_ms <= CV_MERGE_GAP_MS;
}

/* After a pause the way of the rest of the picture tells nothing, and an equal text elsewhere may be
 * another of the same words. */
static bool has_paused(const struct cv_track *track, const struct cv_detection *next)
{
    return next->t_start_ms > track->t_end_ms + OVERLAP_MS;
}

static struct cv_box end_of(const struct cv_detection *detection)
{
    bool stays = detection->end_box.width == 0 && detection->end_box.height == 0;
    return stays ? detection->box : detection->end_box;
}

static bool is_still(struct cv_box a, struct cv_box b)
{
    return abs(a.x - b.x) <= STILL_PIXELS && abs(a.y - b.y) <= STILL_PIXELS &&
           abs(a.height - b.height) <= STILL_PIXELS;
}

/* Read twice at one place and time. Of two that run side by side for a while only what stands still
 * is one: lines that scroll come in where others came in before. */
static bool is_double(const struct cv_tracks *tracks, const struct cv_track *track,
                      const struct cv_detection *next)
{
    struct cv_box first = tracks->detections[track->first].box;
    return track->t_end_ms > next->t_start_ms + OVERLAP_MS && is_still(first, track->end_box) &&
           is_still(track->end_box, next->box) && is_still(next->box, end_of(next));
}

/* ---- motion ---------------------------------------------------------------------------------- */

/* The one live track with the detection's own text that it could continue, or CV_NONE. */
static size_t only_same(struct cv_tracks *tracks, size_t detection)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t only = CV_NONE, steps = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = first_live(tracks, CV_BY_TEXT, text_bucket(tracks, detection), now);
         i != CV_NONE; i = next_live(tracks, CV_BY_TEXT, i, now)) {
        const struct cv_track *track = &tracks->items[i];
        if (++steps > MAX_CHAIN) {
            return CV_NONE;
        }
        if (!times_touch(track, next) ||
            cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]) !=
                CV_LIKENESS_SAME) {
            continue;
        }
        if (only != CV_NONE) {
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
static struct motion agree(const struct way *ways, size_t count)
{
    struct motion motion = {false, 0, 0};
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
            motion = (struct motion){true, ways[i].dx, ways[i].dy};
        }
    }
    return motion;
}

static struct motion find_motion(struct cv_tracks *tracks, size_t begin, size_t end, size_t group)
{
    struct way ways[MAX_WAYS];
    size_t count = 0;
    bool stands = false;
    count_asked(tracks, begin, end, group);
    for (size_t i = begin; i < end && count < MAX_WAYS; i++) {
        size_t which = only_same(tracks, i);
        if (which == CV_NONE || tracks->items[which].asked != 1 ||
            has_paused(&tracks->items[which], &tracks->detections[i])) {
            continue;
        }
        struct cv_box from = tracks->items[which].end_box, to = tracks->detections[i].box;
        if (is_same_place(from, to)) {
            stands = true;
        } else {
            ways[count++] = (struct way){to.x - from.x, to.y - from.y, tracks->keys[i].count};
        }
    }
    struct motion motion = agree(ways, count);
    motion.known = motion.known || stands;
    return motion;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Pixels between where the track is expected and where the detection stands; -1: another place. */
static int place_error(const struct cv_tracks *tracks, const struct cv_track *track,
                       size_t detection, const struct motion *motion, enum cv_likeness likeness,
                       size_t group)
{
    struct cv_box from = track->end_box, to = tracks->detections[detection].box;
    struct cv_box ways[2] = {from, moved(from, motion->dx, motion->dy)};
    bool paused = has_paused(track, &tracks->detections[detection]);
    int error = -1;
    for (size_t i = 0; i < (paused ? 1 : 2); i++) {
        int apart = apart_x(ways[i], to) + abs(ways[i].y - to.y);
        if (is_same_place(ways[i], to) && (error < 0 || apart < error)) {
            error = apart;
        }
    }
    bool is_only = likeness == CV_LIKENESS_SAME && track->group == group && track->asked == 1;
    if (error < 0 && is_only && !paused && sizes_fit(from, to)) {
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

/* Adds the pair of one track and one detection, if the one may be or concern the other. */
static int consider(struct cv_tracks *tracks, size_t which, size_t detection,
                    const struct motion *motion, size_t group, struct cv_pairs *pairs,
                    struct cv_error *error)
{
    const struct cv_track *track = &tracks->items[which];
    const struct cv_detection *next = &tracks->detections[detection];
    bool is_repeat = is_double(tracks, track, next);
    if (!is_repeat && !times_touch(track, next)) {
        return 0;
    }
    enum cv_likeness likeness =
        cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]);
    if (likeness == CV_LIKENESS_NONE) {
        return 0;
    }
    int64_t place = place_error(tracks, track, detection, motion, likeness, group);
    if (place < 0 && (likeness == CV_LIKENESS_PART || likeness == CV_LIKENESS_WHOLE)) {
        struct cv_box from = track->end_box, way = moved(from, motion->dx, motion->dy);
        struct cv_box to = next->box;
        bool part = likeness == CV_LIKENESS_PART;
        bool fits = part ? is_within(from, to) || is_within(way, to)
                         : is_within(to, from) || is_within(to, way);
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
                        const struct motion *motion, size_t group, struct cv_pairs *pairs,
                        struct cv_error *error)
{
    int64_t now = tracks->detections[detection].t_start_ms;
    size_t steps = 0;
    for (size_t i = first_live(tracks, CV_BY_ROW, row_bucket(tracks, row), now);
         i != CV_NONE && steps < MAX_CHAIN; i = next_live(tracks, CV_BY_ROW, i, now), steps++) {
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

static int find_pairs(struct cv_tracks *tracks, size_t detection, const struct motion *motion,
                      size_t group, struct cv_pairs *pairs, struct cv_error *error)
{
    const struct cv_detection *next = &tracks->detections[detection];
    size_t steps = 0;
    int result = 0;
    int64_t now = next->t_start_ms;
    for (size_t i = first_live(tracks, CV_BY_TEXT, text_bucket(tracks, detection), now);
         result == 0 && i != CV_NONE && steps < MAX_CHAIN;
         i = next_live(tracks, CV_BY_TEXT, i, now), steps++) {
        if (tracks->keys[tracks->items[i].key].hash == tracks->keys[detection].hash) {
            result = consider(tracks, i, detection, motion, group, pairs, error);
        }
    }
    int row = row_of(next->box);
    int row_before = row_of(moved(next->box, -motion->dx, -motion->dy));
    for (int around = -1; around <= 1 && result == 0; around++) {
        result = consider_row(tracks, row + around, detection, motion, group, pairs, error);
        if (result == 0 && abs(row_before + around - row) > 1) {
            result =
                consider_row(tracks, row_before + around, detection, motion, group, pairs, error);
        }
    }
    return result;
}

static int compare_pairs(const void *left, const void *right)
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

/* ---- tracks ---------------------------------------------------------------------------------- */

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

static size_t begin_track(struct cv_tracks *tracks, size_t detection, size_t group)
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
        .end_box = end_of(seen),
        .rival = CV_NONE,
        .group = group,
    };
    vote(tracks, track, detection);
    enter(tracks, CV_BY_TEXT, text_bucket(tracks, detection), which);
    enter(tracks, CV_BY_ROW, row_bucket(tracks, row_of(track->end_box)), which);
    return which;
}

static void continue_track(struct cv_tracks *tracks, size_t which, size_t detection, size_t group)
{
    struct cv_track *track = &tracks->items[which];
    const struct cv_detection *seen = &tracks->detections[detection];
    vote(tracks, track, detection);
    track->group = group;
    if (seen->t_end_ms >= track->t_end_ms) {
        track->t_end_ms = seen->t_end_ms;
        track->end_box = end_of(seen);
        leave(tracks, CV_BY_ROW, which);
        enter(tracks, CV_BY_ROW, row_bucket(tracks, row_of(track->end_box)), which);
    }
    if (tracks->keys[track->key].hash != tracks->keys[detection].hash) {
        /* found by its latest reading from now on */
        leave(tracks, CV_BY_TEXT, which);
        track->key = detection;
        enter(tracks, CV_BY_TEXT, text_bucket(tracks, detection), which);
    }
}

/* Continued in this group. */
static bool is_taken(const struct cv_track *track, size_t group)
{
    return track->group == group && track->asked == CV_NONE;
}

/* Notes of a fresh track what it may be the remains or a misreading of, or the other way round. */
static void note_rival(struct cv_tracks *tracks, size_t fresh, const struct cv_pair *pair)
{
    struct cv_track *older = &tracks->items[pair->track];
    if (pair->likeness == CV_LIKENESS_WHOLE && older->rival == CV_NONE) {
        older->rival = fresh;
        older->is_part = true;
    } else if (tracks->items[fresh].rival == CV_NONE && pair->likeness != CV_LIKENESS_WHOLE) {
        tracks->items[fresh].rival = pair->track;
        tracks->items[fresh].is_part = pair->likeness == CV_LIKENESS_PART;
    }
}

/* A track begun in this very group at the same place with the same text: the line was read twice.
 */
static size_t find_double(struct cv_tracks *tracks, size_t detection, size_t first_fresh)
{
    const struct cv_detection *seen = &tracks->detections[detection];
    size_t steps = 0;
    int64_t now = seen->t_start_ms;
    for (size_t i = first_live(tracks, CV_BY_ROW, row_bucket(tracks, row_of(end_of(seen))), now);
         i != CV_NONE && steps < MAX_CHAIN; i = next_live(tracks, CV_BY_ROW, i, now), steps++) {
        const struct cv_track *track = &tracks->items[i];
        if (i >= first_fresh && is_same_place(tracks->detections[track->first].box, seen->box) &&
            is_same_place(track->end_box, end_of(seen)) &&
            cv_text_likeness(&tracks->keys[track->key], &tracks->keys[detection]) >=
                CV_LIKENESS_READING) {
            return i;
        }
    }
    return CV_NONE;
}

static int reserve_taken(struct cv_pairs *pairs, size_t count, struct cv_error *error)
{
    if (count > pairs->taken_capacity) {
        size_t *taken = realloc(pairs->taken, count * sizeof(*taken));
        if (!taken) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to merge detections");
        }
        pairs->taken = taken;
        pairs->taken_capacity = count;
    }
    memset(pairs->taken, 0xFF, count * sizeof(*pairs->taken)); /* CV_NONE */
    return 0;
}

int cv_tracks_take(struct cv_tracks *tracks, size_t begin, size_t end, size_t group,
                   struct cv_pairs *pairs, struct cv_error *error)
{
    int result = reserve_taken(pairs, end - begin, error);
    struct motion motion = find_motion(tracks, begin, end, group);
    pairs->count = 0;
    for (size_t i = begin; i < end && result == 0; i++) {
        result = find_pairs(tracks, i, &motion, group, pairs, error);
    }
    if (result < 0) {
        return result;
    }
    if (pairs->count > 1) {
        qsort(pairs->items, pairs->count, sizeof(*pairs->items), compare_pairs);
    }
    size_t first_fresh = tracks->count;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct cv_pair *pair = &pairs->items[i];
        struct cv_track *track = &tracks->items[pair->track];
        if (pair->likeness >= CV_LIKENESS_READING &&
            pairs->taken[pair->detection - begin] == CV_NONE && !is_taken(track, group)) {
            pairs->taken[pair->detection - begin] = pair->track;
            continue_track(tracks, pair->track, pair->detection, group);
            track->asked = CV_NONE;
        }
    }
    for (size_t i = begin; i < end; i++) {
        if (pairs->taken[i - begin] != CV_NONE) {
            continue;
        }
        size_t other = find_double(tracks, i, first_fresh);
        if (other != CV_NONE) {
            continue_track(tracks, other, i, group);
            pairs->taken[i - begin] = other;
        } else {
            pairs->taken[i - begin] = begin_track(tracks, i, group);
        }
    }
    for (size_t i = 0; i < pairs->count; i++) {
        const struct cv_pair *pair = &pairs->items[i];
        size_t fresh = pairs->taken[pair->detection - begin];
        bool is_gone = !is_taken(&tracks->items[pair->track], group);
        if (pair->likeness < CV_LIKENESS_READING && fresh >= first_fresh && is_gone) {
            note_rival(tracks, fresh, pair);
        }
    }
    return 0;
}

void cv_tracks_drop_remains(struct cv_tracks *tracks)
{
    for (size_t i = 0; i < tracks->count; i++) {
        struct cv_track *track = &tracks->items[i];
        if (track->rival == CV_NONE) {
            continue;
        }
        const struct cv_track *rival = &tracks->items[track->rival];
        int64_t lasted = track->t_end_ms - track->t_start_ms;
        bool is_shorter = lasted < rival->t_end_ms - rival->t_start_ms;
        bool is_between = track->t_start_ms > rival->t_start_ms &&
                          track->t_end_ms <= rival->t_end_ms && lasted <= CV_MERGE_GAP_MS;
        track->is_dropped = is_shorter && !rival->is_dropped &&
                            (track->is_part ? lasted <= REMAINS_MS : is_between);
    }
}
