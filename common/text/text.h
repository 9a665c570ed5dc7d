/* Text that was on screen: entities, and merging detections into time ranges.
 * Pure functions over UTF-8; no database, no pictures.
 */
#pragma once

#include "common/base/base.h"

/* ---- entities -------------------------------------------------------------------------------- */

struct cv_entity {
    const char *type; /* "mention", "hashtag", "url", "emoji", "number": static */
    char *value;      /* as it stands in the text */
    /* URLs with scheme and host in lower case; numbers as plain decimals with unit or currency:
     * "24.50 USD", "42 %", "+4930901820"; the others as `value`. */
    char *normalized_value;
};

struct cv_entity_list {
    struct cv_entity *entities;
    size_t count;
};

void cv_entity_list_deinit(struct cv_entity_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_entity_list, cv_entity_list_deinit)

/* Compiled patterns (PCRE2, JIT, Unicode). Make one per process. */
struct cv_entity_extractor;
CV_MUST_CHECK int cv_entity_extractor_new(struct cv_entity_extractor **ret_extractor,
                                          struct cv_error *error);
void cv_entity_extractor_free(struct cv_entity_extractor *extractor);
CV_DEFINE_CLEANUP(struct cv_entity_extractor *, cv_entity_extractor_free)

/* Entities in the order in which they stand in the text, apart from one another, at most 500 and
 * none longer than 1024 bytes; the list is initialised here. E-mail addresses, times, dates and
 * version numbers are no entities, nor is anything inside them. An extractor is used by one thread
 * at a time. `text` is any bytes, what is not UTF-8 is read as U+FFFD; CV_ERROR_LIMIT_EXCEEDED
 * beyond 1 MiB. */
CV_MUST_CHECK int cv_entity_extract(struct cv_entity_extractor *extractor, const char *text,
                                    struct cv_entity_list *ret_list, struct cv_error *error);

/* ---- merge ----------------------------------------------------------------------------------- */

struct cv_box {
    int x, y, width, height; /* pixels of the upright original frame */
};

/* One detection, and after merging one segment. Texts are borrowed. */
struct cv_detection {
    const char *text;
    const char *normalized; /* normal_form(text) of SQL */
    double confidence;      /* 0..1 */
    int64_t t_start_ms;
    int64_t t_end_ms;      /* exclusive; not before t_start_ms */
    struct cv_box box;     /* at t_start_ms */
    struct cv_box end_box; /* at t_end_ms; all zero: did not move */
    const char *language;  /* may be NULL */
    int64_t source; /* the caller's own mark; the merged segment keeps its best detection's */
    size_t part;    /* of cv_text_merge alone */
};

/* A longer pause of a text at one place is two segments. Four frames of the default sampling rate,
 * so that OCR may miss a line in a few and still see one. */
enum { CV_MERGE_GAP_MS = 400 };

/* More than a day of a full screen; a video that yields more is refused (CV_ERROR_LIMIT_EXCEEDED). */
enum { CV_MERGE_MAX = 2000000 };

/* Detections, in any order, to segments ordered by time, then place. One segment is
 *   - one text at one place, or moving with what is around it, through pauses up to
 *     CV_MERGE_GAP_MS;
 *   - with the readings of it that OCR noise made: the text is the one with the most votes
 *     (confidence times duration), the confidence the mean of its readings;
 *   - without the remains that an edge of the picture left of it just before or after, and without
 *     its states while it was typed;
 *   - all states of a number that changes faster than anybody reads (four or more, none longer than
 *     500 ms), under the text that stood longest.
 * Texts that differ in a word or in a number stay apart, and so do equal texts at two places.
 * Merging the result again changes nothing. Deterministic; about n log n. free() the array; the
 * texts in it are those of `detections`. parts[i] is the number of the segment that detection i is a part of, SIZE_MAX
 * where it was left out; it has room for `count`. */
CV_MUST_CHECK int cv_text_merge(const struct cv_detection *detections, size_t count,
                                struct cv_detection **ret_segments, size_t *ret_count,
                                size_t *parts, struct cv_error *error);

/* ---- path ------------------------------------------------------------------------------------ */

/* The way of a box over the screen as a few points: straight between two of them, at rest before the
 * first and after the last. */
enum {
    CV_PATH_POINTS_MAX = 64,  /* of a finished path */
    CV_PATH_TAKEN_MAX = 4096, /* while it is made; of a longer one every second point is left out */
};

struct cv_path_point {
    int64_t t_ms;
    int x, y; /* pixels */
};

struct cv_path {
    struct cv_path_point *items; /* in order of time */
    size_t count, capacity;
    int64_t last_ms,
        step_ms; /* when the box was last seen; the shortest time between two sightings */
};

void cv_path_deinit(struct cv_path *path);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_path, cv_path_deinit)

/* The box is seen at x, y; sightings that are not later than the last one are left out. After a longer pause
 * than usual it was at rest until then. */
CV_MUST_CHECK int cv_path_add(struct cv_path *path, int64_t t_ms, int x, int y,
                              struct cv_error *error);

/* The same, and the box came there straight from where it was, however long that took. */
CV_MUST_CHECK int cv_path_go(struct cv_path *path, int64_t t_ms, int x, int y,
                             struct cv_error *error);

/* Leaves out points without which no sighting is off by more than a pixel, or, where more than
 * CV_PATH_POINTS_MAX are left, by as few as possible of 2, 4, 8 … pixels. */
void cv_path_simplify(struct cv_path *path);
