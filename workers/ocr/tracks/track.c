#include "workers/ocr/tracks/track.h"

#include <string.h>

enum {
    TRACKS_MAX = 4096,                   /* lines remembered, present or not */
    TRACKS_BYTES_MAX = 40 * 1024 * 1024, /* of their pixels */
};

static size_t crop_bytes(const struct ocr_crop *crop)
{
    return (size_t)crop->width * (size_t)crop->height;
}

static void track_free(struct ocr_track *track)
{
    if (track) {
        ocr_crop_deinit(&track->crop);
        ocr_reading_deinit(&track->reading);
        free(track);
    }
}

void ocr_tracks_deinit(struct ocr_tracks *tracks)
{
    for (size_t i = 0; i < tracks->count; i++) {
        track_free(tracks->items[i]);
    }
    free(tracks->items);
    *tracks = (struct ocr_tracks){0};
}

void ocr_tracks_remove(struct ocr_tracks *tracks, struct ocr_track *track)
{
    for (size_t i = 0; i < tracks->count; i++) {
        if (tracks->items[i] == track) {
            tracks->bytes -= crop_bytes(&track->crop);
            tracks->count--;
            memmove(&tracks->items[i], &tracks->items[i + 1],
                    (tracks->count - i) * sizeof(*tracks->items));
            track_free(track);
            return;
        }
    }
}

/* The line that was not seen for the longest time and is not on screen. */
static struct ocr_track *find_oldest(const struct ocr_tracks *tracks)
{
    struct ocr_track *oldest = NULL;

    for (size_t i = 0; i < tracks->count; i++) {
        struct ocr_track *track = tracks->items[i];
        if (!track->present && !track->open &&
            (!oldest || track->last_frame < oldest->last_frame)) {
            oldest = track;
        }
    }
    return oldest;
}

int ocr_tracks_add(struct ocr_tracks *tracks, struct ocr_crop *crop, struct ocr_track **ret_track,
                   struct cv_error *error)
{
    while (tracks->count >= TRACKS_MAX ||
           (tracks->count && tracks->bytes + crop_bytes(crop) > TRACKS_BYTES_MAX)) {
        struct ocr_track *oldest = find_oldest(tracks);
        if (!oldest) {
            return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                           "more than %d text lines are on screen at once", TRACKS_MAX);
        }
        ocr_tracks_remove(tracks, oldest);
    }
    if (!tracks->items) {
        tracks->items = calloc(TRACKS_MAX, sizeof(struct ocr_track *));
    }
    struct ocr_track *track = tracks->items ? calloc(1, sizeof(*track)) : NULL;
    CV_TRY_MEMORY(track, error, "a text line");
    track->picture = -1;
    track->crop = *crop;
    *crop = (struct ocr_crop){0};
    tracks->bytes += crop_bytes(&track->crop);
    tracks->items[tracks->count++] = track;
    *ret_track = track;
    return 0;
}

struct ocr_track *ocr_tracks_recall(const struct ocr_tracks *tracks, const struct ocr_crop *crop,
                                    const struct cv_box *box)
{
    struct ocr_track *found = NULL;
    int nearest = 0;

    for (size_t i = tracks->count; i-- > 0;) {
        struct ocr_track *track = tracks->items[i];
        int distance = abs(track->box.x - box->x) + abs(track->box.y - box->y);
        if (track->matched || !track->is_read || (found && found->present && !track->present) ||
            (found && found->present == track->present && distance >= nearest)) {
            continue;
        }
        if (ocr_match_crops(&track->crop, crop)) {
            found = track;
            nearest = distance;
        }
    }
    return found;
}
