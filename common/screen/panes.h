/* Which parts of the screen scroll, each by shifts of its own: the page between a status bar and a
 * tab bar, a panel within that page, the other half of a split screen. A pane is learned from what
 * its shifts explain and what they do not: writing that stays where it is while the rest moves is
 * outside of it, or lies over it (a floating button). */
#pragma once

#include "common/screen/frame.h"

enum {
    OCR_PANES_LIVE = 4,    /* of one scene; the one that moved longest ago makes room */
    OCR_COVERS_MAX = 64,   /* rectangles of what lies over a pane; a round button has a dozen */
    OCR_NO_PANE = -1,      /* of a step: nothing moved */
    OCR_SCENE_BEGINS = -2, /* of a step: nothing is known of the frame before */
    OCR_PLACES_MAX = 4,    /* panes that one line was seen in; the oldest makes room */
};

/* What was seen of a line while panes moved: did it move along with each, or stay? */
struct ocr_places {
    struct {
        int pane;
        bool moves;
    } notes[OCR_PLACES_MAX];
    int count;
};

/* Coordinates of the frame; bottom and right exclusive. Edges that content was not seen to pass may
 * lie further out. */
struct ocr_pane {
    int top, bottom, left, right; /* bottom <= top: nothing was seen to move yet */
    int top_cuts, bottom_cuts;    /* lines seen going under that edge or coming out from under it */
    struct cv_box *covers; /* what stands still over it; known when the scene is over; owned */
    size_t cover_count;
};

/* Of cells of 8 × 1 pixels: how many pixels, over all steps, prove that content moved there, or that
 * something stayed although content moved. */
struct ocr_cells {
    uint8_t *moved, *stayed; /* one allocation, owned by `moved` */
};

/* What is known of a pane while its scene lasts. */
struct ocr_pane_evidence {
    int pane; /* OCR_NO_PANE: unused */
    int64_t last_step;
    struct ocr_cells cells; /* none: never used */
};

struct ocr_panes {
    struct ocr_pane *items;
    int count;
    int *steps; /* per frame: the pane that moved since the frame before, or OCR_NO_PANE … */
    int *near;  /* per frame of a settled scene: see ocr_panes_near */
    size_t step_count, scene_first;
    int current; /* of this scene, the one that moved last; OCR_NO_PANE: none has */

    struct ocr_pane_evidence live[OCR_PANES_LIVE];
    struct ocr_cells step; /* of one step */
    int width, height;     /* of the frames that all of it is about */
};

void ocr_panes_deinit(struct ocr_panes *panes);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_panes, ocr_panes_deinit)

/* Notes the next frame, which shows nothing of the one before: what was learned of the panes is
 * settled. */
CV_MUST_CHECK int ocr_panes_scene(struct ocr_panes *panes, struct cv_error *error);

/* Notes the next frame, in which content moved by `shift` (0, 0: it did not) since the one before,
 * and learns which pane that was. Frames of different sizes teach nothing. */
CV_MUST_CHECK int ocr_panes_step(struct ocr_panes *panes, const struct ocr_frame *before,
                                 const struct ocr_frame *after, struct cv_point shift,
                                 struct cv_error *error);

/* Settles the last scene. */
CV_MUST_CHECK int ocr_panes_finish(struct ocr_panes *panes, struct cv_error *error);

/* The pane that moved in the step to `frame`; negative: none (OCR_NO_PANE, OCR_SCENE_BEGINS). */
int ocr_panes_at(const struct ocr_panes *panes, size_t frame);

/* The pane that moved last up to `frame` in its scene, or first after it; OCR_NO_PANE: none did. Of
 * settled scenes alone. */
int ocr_panes_near(const struct ocr_panes *panes, size_t frame);

/* NULL for a negative number and for a pane of which nothing is known. */
const struct ocr_pane *ocr_panes_get(const struct ocr_panes *panes, int pane);

static inline bool ocr_pane_known(const struct ocr_pane *pane)
{
    return pane && pane->bottom > pane->top;
}

/* Whether something that stands still over the pane hides a part of the box. */
bool ocr_pane_covers(const struct ocr_pane *pane, const struct cv_box *box);

/* Notes that a line moved with the pane, or stayed while the pane moved. */
void ocr_places_note(struct ocr_places *places, int pane, bool moves);

/* Whether a line at `box` moves when that pane does: as the line was seen to do before, else by where it lies. `pane` is
 * negative where no pane moves. */
bool ocr_panes_move(const struct ocr_panes *panes, int pane, const struct ocr_places *places,
                    const struct cv_box *box);

/* An edge is only sure when it was seen to cut lines: the last line of a chat moves, too, and ends
 * where no edge is. */
enum { OCR_PANE_SURE = 2 };

/* Whether content ends at that edge within a few pixels. */
static inline bool ocr_pane_near(int edge, int y)
{
    return y - edge <= 3 && edge - y <= 3;
}
