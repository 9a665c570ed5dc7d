/* What the parts of a session share: following known lines (follow.c), taking new ones in
 * (new_lines.c), ending them (rows.c). */
#pragma once

#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/tracks/budget.h"
#include "workers/ocr/tracks/session.h"
#include "workers/ocr/tracks/standing.h"

/* How the content moved since the frame before. */
struct ocr_shift {
    bool known;
    int dx, dy;
};

enum { OCR_JUMPS_MAX = 4 }; /* in one frame */

struct ocr_session {
    struct ocr_engine *engine;
    struct ocr_pack *pack;      /* NULL: nothing is kept */
    struct cv_reasons *reasons; /* NULL: not asked for */
    const struct ocr_timing *timings;
    size_t timing_count;
    struct ocr_standing_frames around; /* frames that wait to be worked on, and some before them */
    size_t index;                      /* of the frame being worked on */
    const struct cv_frame *frame; /* that frame and its lines; borrowed while it is worked on */
    const struct cv_text_lines *lines;

    struct cv_frame before; /* the previous frame; no planes before the second */
    struct ocr_shift shift;
    /* How the lines moved that did not move with the content; the shift of the most text first. */
    struct ocr_jump jumps[OCR_JUMPS_MAX];
    int jump_count;

    struct cv_panes panes;

    struct ocr_tracks tracks;
    struct ocr_row *rows;
    size_t row_count;

    struct cv_box screen; /* of the largest frame so far */
    int reduction;
    int64_t next_line, next_id;
    struct ocr_budget budget;
    int64_t lines_seen, lines_read, readings;
    int64_t lines_left; /* that were gone before the budget had room for them */
};

/* The pane that moved last, to write into; NULL: none did in this scene. */
static inline struct cv_pane *ocr_session_pane(struct ocr_session *session)
{
    const struct cv_panes *panes = &session->panes;
    return cv_panes_get(panes, panes->current) ? &panes->items[panes->current] : NULL;
}

/* Whether the frame has a line of just this place and size. */
bool ocr_is_found(const struct ocr_session *session, const struct cv_box *box);
