/* Merges the readings of a video's lines into segments. Pure functions, without database or pictures. */
#pragma once

#include "common/base/base.h"

/* One detection, and after merging one segment. Texts are borrowed. */
struct cv_detection {
    const char *text;
    const char *normalized; /* normal_form(text) of SQL */
    double confidence;      /* 0..1 */
    int64_t t_start_ms;
    int64_t t_end_ms;      /* exclusive; not before t_start_ms */
    struct cv_box box;     /* at t_start_ms; pixels of the upright original frame */
    struct cv_box end_box; /* at t_end_ms; all zero: did not move */
    const char *language;  /* may be NULL */
    int64_t source;        /* any number of the caller; a segment has that of its best detection */
    size_t part;           /* used inside cv_text_merge only */
};

/* A text that reappears at its place after a longer pause becomes a second segment. Four frames of
 * the default sampling rate, so that OCR may miss a line in a few frames. */
enum { CV_MERGE_GAP_MS = 400 };

/* The most detections of a video, more than a full screen has in a day; more is
 * CV_ERROR_LIMIT_EXCEEDED. */
enum { CV_MERGE_MAX = 2000000 };

/* Merges detections, in any order, to segments ordered by time, then place. One segment is
 * - one text at one place, or moving with its surroundings, through pauses up to CV_MERGE_GAP_MS;
 * - including misreadings of it: the text is the reading with the most votes (confidence times
 *   duration), the confidence the mean of its readings;
 * - without the pieces of it that were visible just before it, for half a second at most (it was being typed, or came
 *   in at an edge), or only in its place while it stood still, and were read no surer. A number is no piece of a longer one;
 * - for a number that changes faster than people read (four or more states, none longer than 500
 *   ms): all states, under the text that was visible longest.
 *
 * Texts that differ in a word or a number stay separate, and so do equal texts at two places.
 * Merging the result again changes nothing. Deterministic; about n log n. free() the array; its
 * texts are those of `detections`. parts[i] is set to the index of the segment that contains
 * detection i, or SIZE_MAX if that detection was left out; `parts` has room for `count`. Reasons (may be NULL) name
 * detections by their index. */
CV_MUST_CHECK int cv_text_merge(const struct cv_detection *detections, size_t count,
                                struct cv_detection **ret_segments, size_t *ret_count,
                                size_t *parts, struct cv_reasons *reasons, struct cv_error *error);

/* Lines of a paragraph; what is longer is divided. */
enum { CV_PARAGRAPH_MAX = 16 };

/* Where a line was at a time. */
struct cv_text_place {
    int64_t t_ms;
    int x, y;
};

/* One line of a video for cv_text_paragraphs(). */
struct cv_text_line {
    int64_t t_start_ms;
    int64_t t_end_ms;
    struct cv_box box; /* at t_start_ms; width 0: unknown, it belongs to no paragraph */
    struct cv_text_place
        *places; /* ordered by time, straight between them; none: it did not move */
    size_t place_count;
    int first_word_width; /* pixels */
};

/* The line's place in its paragraph: the index of the first line, and 0 for that one, 1 for the next one, …. */
struct cv_text_position {
    size_t first;
    size_t number;
};

/* Finds the paragraphs of a video: lines below each other with one left edge (or, if they come and go together, one
 * centre) and one leading, of which each is as long as it can be: the first word of the next one would not have fitted. So
 * entries of a list are joined only if they fill their column. `lines` are ordered by t_start_ms; `positions` has room for
 * `count`. The time is about count times the number of lines on screen. */
CV_MUST_CHECK int cv_text_paragraphs(const struct cv_text_line *lines, size_t count,
                                     struct cv_text_position *positions, struct cv_error *error);
