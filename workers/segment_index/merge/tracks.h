/* Tracks: what stands or moves on the screen, found again from one detection to the next. */
#pragma once

#include "workers/segment_index/merge/merge.h"
#include "workers/segment_index/merge/similar.h"

/* No index; ends chains. */
#define CV_NONE SIZE_MAX

/* The indexes of the tracks: by text, and by the row of the picture that they stand in. */
enum cv_index { CV_BY_TEXT, CV_BY_ROW, CV_INDEX_COUNT };

/* A track's place in one index: doubly linked, newest first. */
struct cv_link {
    size_t next, previous, bucket; /* bucket CV_NONE: not in it */
};

struct cv_reading {
    size_t next;   /* the next reading of the same track */
    size_t best;   /* the detection that is surest of it */
    double votes;  /* sum of confidence × milliseconds */
    double surety; /* sum of confidence × weight, for the mean */
    double weight;
};

struct cv_track {
    size_t first;    /* the detection it began with */
    size_t key;      /* the detection whose text stands for the track; that of its latest reading */
    size_t readings; /* chain */
    int64_t t_start_ms, t_end_ms;
    struct cv_box end_box;
    size_t group; /* the last group in which it was continued */
    struct cv_link links[CV_INDEX_COUNT];
};

struct cv_tracks {
    const struct cv_detection *detections;
    const struct cv_text_key *keys;
    size_t *parts;              /* of all detections: see cv_part_root */
    struct cv_reasons *reasons; /* NULL: not asked for */
    struct cv_track *items;
    size_t count;
    struct cv_reading *readings;
    size_t reading_count;
    size_t *heads[CV_INDEX_COUNT];
    size_t mask;
};

/* Room for `count` detections, each of which may become a track. */
CV_MUST_CHECK int cv_tracks_init(struct cv_tracks *tracks, const struct cv_detection *detections,
                                 const struct cv_text_key *keys, size_t count,
                                 struct cv_error *error);
/* The detection that `part` was merged into, directly or through others; `part` itself when it
 * was not merged. cv_part_join merges `part` into `into`. */
size_t cv_part_root(size_t *parts, size_t part);
void cv_part_join(size_t *parts, size_t part, size_t into);

/* The detection that a track began with, or `detection` of this pass, among those that were given to cv_text_merge. */
static inline int64_t cv_given_first(const struct cv_tracks *tracks, const struct cv_track *track)
{
    return (int64_t)tracks->detections[track->first].part;
}

static inline int64_t cv_given(const struct cv_tracks *tracks, size_t detection)
{
    return (int64_t)tracks->detections[detection].part;
}

void cv_tracks_deinit(struct cv_tracks *tracks);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_tracks, cv_tracks_deinit)

struct cv_pairs;

/* Adds the detections [begin, end), which all start at one instant, after all earlier ones.
 * `group` numbers the calls from 1. `scratch` is the caller's, kept between calls. */
CV_MUST_CHECK int cv_tracks_add(struct cv_tracks *tracks, size_t begin, size_t end, size_t group,
                                struct cv_pairs *scratch, struct cv_error *error);

/* How many tracks of a bucket are looked at. A text stands at a few places at once, and a row
 * holds a few texts; a picture with more was made to be slow, and its lines are not merged. */
enum { CV_MAX_CHAIN = 48 };

/* The bucket of a detection's text, and of a row of the picture, in the two indexes. */
int cv_row_of(struct cv_box box);
size_t cv_row_bucket(const struct cv_tracks *tracks, int row);
size_t cv_text_bucket(const struct cv_tracks *tracks, size_t detection);

/* The tracks of a bucket that are not over at `now`, newest first; CV_NONE at the end. Tracks that are over
 * leave the index. */
size_t cv_index_first(struct cv_tracks *tracks, enum cv_index index, size_t bucket, int64_t now);
size_t cv_index_next(struct cv_tracks *tracks, enum cv_index index, size_t which, int64_t now);
