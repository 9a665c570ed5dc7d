/* What the parts of a session share: following known lines (follow.c), taking new ones in
 * (arrive.c), ending them (rows.c). */
#pragma once

#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/tracks/session.h"

/* How the content moved since the frame before. */
struct ocr_shift {
    bool known;
    int dx, dy;
};

enum { OCR_JUMPS_MAX = 4 }; /* in one frame */

struct ocr_session {
    struct ocr_engine *engine;
    const struct ocr_emoji_banks *banks;
    struct ocr_pack *pack; /* NULL: nothing is kept */
    const struct ocr_timing *timings;
    size_t timing_count;
    size_t index;                  /* of the frame being worked on */
    const struct ocr_frame *frame; /* that frame and its lines; borrowed while it is worked on */
    const struct ocr_lines *lines;

    struct ocr_frame before; /* the previous frame; no planes before the second */
    struct ocr_shift shift;
    /* How the lines moved that did not move with the content; the shift of the most text first. */
    struct ocr_jump jumps[OCR_JUMPS_MAX];
    int jump_count;

    struct ocr_panes panes;

    struct ocr_tracks tracks;
    struct ocr_row *rows;
    size_t row_count;

    struct ocr_box screen; /* of the largest frame so far */
    int reduction;
    int64_t next_line, next_id;
    int64_t lines_seen, lines_read, readings;
};

/* `session->panes` must be settled. */
static inline struct ocr_course ocr_session_course(const struct ocr_session *session)
{
    return (struct ocr_course){session->timings, session->timing_count, &session->panes,
                               session->screen, session->reduction};
}

/* The pane that moved last, to write into; NULL: none did in this scene. */
static inline struct ocr_pane *ocr_session_pane(struct ocr_session *session)
{
    const struct ocr_panes *panes = &session->panes;
    return ocr_panes_get(panes, panes->current) ? &panes->items[panes->current] : NULL;
}

/* Whether a box ends where the pane that it lies in (or the frame) ends, so that the line may go on
 * behind. */
bool ocr_touches_edge(const struct ocr_pane *pane, const struct ocr_box *box, int width,
                      int height);

/* Whether the frame has a line of just this place and size. */
bool ocr_is_found(const struct ocr_session *session, const struct ocr_box *box);

/* Finds shifts that the payload does not name, by which several lines, or a long one, went to
 * other places. The lines of a chat jump when one is added; those of a list jump by two shifts
 * at once when a row between them goes. */
CV_MUST_CHECK int ocr_find_jumps(struct ocr_session *session, struct cv_error *error);

/* Finds every present line in the frame; those found are `matched`. */
CV_MUST_CHECK int ocr_follow(struct ocr_session *session, struct cv_error *error);

/* Takes in the lines of the frame that ocr_follow did not explain. */
CV_MUST_CHECK int ocr_arrive(struct ocr_session *session, struct cv_error *error);

/* Reads a line that was not read yet. */
CV_MUST_CHECK int ocr_read_track(struct ocr_session *session, struct ocr_track *track,
                                 struct cv_error *error);

/* Opens a stretch at the line's box in the current frame, or extends the one that is open. */
void ocr_sight(struct ocr_session *session, struct ocr_track *track);

/* Ends all lines that the one at `track` turns out to contain. */
CV_MUST_CHECK int ocr_end_pieces(struct ocr_session *session, const struct ocr_track *track,
                                 struct cv_error *error);

/* Ends the open stretch of a line, if any, and makes a row of it when it has text. */
CV_MUST_CHECK int ocr_close(struct ocr_session *session, struct ocr_track *track,
                            struct cv_error *error);

/* Whether two tracks are two readings of one line at one place, one of them unsure. */
bool ocr_is_variant(const struct ocr_track *known, const struct ocr_track *fresh);

/* Whether a line that was found stands where a known one should be by now, seen with more of it or
 * with less. */
bool ocr_is_kin(const struct ocr_box *known, const struct ocr_box *fresh);

/* Joins the rows of one line of which something that lies over the content hid a part for a
 * while. Called when the panes are settled. */
CV_MUST_CHECK int ocr_rows_unite(struct ocr_session *session, struct cv_error *error);

/* Joins the rows of one line that was interrupted, or could not be read, for a moment. Called
 * after ocr_rows_unite. `least` is the likelihood from which a row is a line of text (accept.h). */
CV_MUST_CHECK int ocr_rows_bridge(struct ocr_session *session, double least,
                                  struct cv_error *error);
