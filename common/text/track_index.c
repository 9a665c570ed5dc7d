#include "common/text/merge_tracks.h"

#include <string.h>

enum {
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

void cv_index_enter(struct cv_tracks *tracks, enum cv_index index, size_t bucket, size_t which)
{
    size_t *head = &tracks->heads[index][bucket];
    if (*head != CV_NONE) {
        tracks->items[*head].links[index].previous = which;
    }
    tracks->items[which].links[index] = (struct cv_link){*head, CV_NONE, bucket};
    *head = which;
}

void cv_index_leave(struct cv_tracks *tracks, enum cv_index index, size_t which)
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
        cv_index_leave(tracks, index, which);
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
