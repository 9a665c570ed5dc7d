/* Whether two boxes, and two times, can be those of one text. */
#pragma once

#include "workers/segment_index/merge/tracks.h"

/* Frames that touch may overlap by the rounding of their times to milliseconds and a frame. */
enum { CV_OVERLAP_MS = 50 };

/* How far apart two boxes stand sideways: OCR noise at one end moves that end alone. */
int cv_apart_x(struct cv_box a, struct cv_box b);

/* Whether a text that stood in one box may have moved to the other one. Where the sizes differ, another page
 * shows the same text. */
bool cv_is_same_size(struct cv_box a, struct cv_box b);

/* Whether both are boxes of one line that did not move. */
bool cv_is_still(struct cv_box a, struct cv_box b);

/* Whether the boxes are within a line's height of one another, up and down as well as sideways. */
bool cv_is_same_place(struct cv_box a, struct cv_box b);

/* The box, shifted. */
struct cv_box cv_moved(struct cv_box box, int dx, int dy);

/* Whether `part` lies within the row and the sides of `whole`. */
bool cv_is_within(struct cv_box whole, struct cv_box part);

/* Whether `next` begins when the track ends, give or take a frame, or after a pause up to
 * CV_MERGE_GAP_MS. */
bool cv_times_touch(const struct cv_track *track, const struct cv_detection *next);

/* Whether there is a pause between the track and `next`. After a pause, the movement of the rest
 * of the picture proves nothing, and an equal text elsewhere may be another text of the same
 * words. */
bool cv_has_paused(const struct cv_track *track, const struct cv_detection *next);

/* Where the detection stands at its end. */
struct cv_box cv_end_of(const struct cv_detection *detection);

/* Whether `next` is a second reading of the track's text at the same place and time. When both
 * are visible for a while, they are one text only if they stand still: lines that scroll come in
 * where other lines came in before. */
bool cv_is_double(const struct cv_tracks *tracks, const struct cv_track *track,
                  const struct cv_detection *next);
