/* The lines of a video: what each looks like, what it reads, and where it is. A line that leaves and
 * comes back is known by its pixels and is not read again. */
#pragma once

#include "workers/ocr/tracks/match.h"
#include "workers/ocr/tracks/timing.h"

#include <jansson.h>

/* Confidence below which a reading may be wrong in a digit. */
#define OCR_SURE 0.90

/* What the letters of a reading prove by themselves. */
enum ocr_weight {
    OCR_WEIGHT_NONE,  /* no letter, no digit, no emoji: a border, a corner, a dash */
    OCR_WEIGHT_SHORT, /* up to three letters or digits */
    OCR_WEIGHT_WORDS, /* more, or emoji */
};

struct ocr_track {
    int64_t number; /* "line" of the rows: 1, 2, … in the order in which lines were first read */
    struct ocr_crop crop;
    struct ocr_reading reading;
    int64_t picture;        /* of the reading, in the pack; -1 where none is kept */
    int64_t id;             /* 1, 2, … in the order in which lines were found */
    int64_t predecessor;    /* the id of the line whose place in the content it took; 0: none */
    bool is_read;           /* else it waits to be seen whole, or */
    bool waits_for_budget;  /* was seen whole when the budget of reading was used up */
    enum ocr_weight weight; /* of the reading */
    bool has_company;       /* was seen beside a line of words */

    bool present;       /* somewhere in the last frame, whole or cut */
    bool matched;       /* found in the frame being worked on */
    struct cv_box box;  /* of the whole line in the last frame in which it was present */
    struct cv_box seen; /* the part of it that was visible */
    struct cv_box was;  /* `box` of the frame before; of width 0 where it was not present */
    bool open;          /* a stretch of whole sightings runs */
    struct ocr_stretch stretch;
    struct cv_places places;
    int64_t last_frame;  /* for eviction */
    const char *differs; /* in what the last place that was looked at differs from it; static */
};

/* Whether the line was whole and is not read only because the budget was used up. */
static inline bool ocr_track_is_left(const struct ocr_track *track)
{
    return track->waits_for_budget && !track->is_read;
}

/* Where the line is now, without the emoji beside it. */
static inline struct cv_box ocr_track_line(const struct ocr_track *track)
{
    const struct ocr_crop *crop = &track->crop;

    return (struct cv_box){track->box.x + crop->line.x - crop->box.x,
                           track->box.y + crop->line.y - crop->box.y, crop->line.width,
                           crop->line.height};
}

/* What is found of it now: with an avatar beside the text where it is whole. */
static inline struct cv_box ocr_track_shown(const struct ocr_track *track)
{
    struct cv_box line = ocr_track_line(track);
    bool is_whole =
        track->seen.width == track->box.width && track->seen.height == track->box.height;

    return is_whole ? cv_box_union(&track->seen, &line) : track->seen;
}

/* A finished stretch. */
struct ocr_row {
    char *text;
    char language[OCR_LANGUAGE_NAME_MAX];
    double confidence, worst_word, agreement; /* of the reading */
    int64_t line;
    int64_t id, predecessor; /* of the track */
    int64_t picture;         /* in the pack; -1 where none is kept */
    json_t *words;           /* ocr_word_boxes of the text; owned */
    bool is_gone;            /* part of another row */
    int tall;
    struct cv_ink ink;
    enum ocr_weight weight;
    bool has_company;
    struct ocr_stretch stretch;
};

struct ocr_tracks {
    struct ocr_track **items;
    size_t count;
    size_t bytes;
};

void ocr_tracks_deinit(struct ocr_tracks *tracks);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_tracks, ocr_tracks_deinit)

/* Takes the crop over; the longest unseen lines are forgotten when there are too many. */
CV_MUST_CHECK int ocr_tracks_add(struct ocr_tracks *tracks, struct ocr_crop *crop,
                                 struct ocr_track **ret_track, struct cv_error *error);

/* Forgets one. */
void ocr_tracks_remove(struct ocr_tracks *tracks, struct ocr_track *track);

/* A line that looks the same and was not found in this frame: first one that was on screen until
 * now (it jumped), then one of earlier; the nearest to `box` of several. NULL when there is none. */
struct ocr_track *ocr_tracks_recall(const struct ocr_tracks *tracks, const struct ocr_crop *crop,
                                    const struct cv_box *box);
