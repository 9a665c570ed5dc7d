/* Which parts of the screen scroll, each by shifts of its own: the page between a status bar and a
 * tab bar, a panel within that page, the other half of a split screen. A pane is learned from what
 * its shifts explain and what they do not: writing that stays where it is while the rest moves is
 * outside of it, or lies over it (a floating button). */
#pragma once

#include "common/screen/frame.h"

enum {
    CV_PANES_LIVE = 4,    /* of one scene; the one that moved longest ago makes room */
    CV_COVERS_MAX = 64,   /* rectangles of what lies over a pane; a round button has a dozen */
    CV_NO_PANE = -1,      /* of a step: nothing moved */
    CV_SCENE_BEGINS = -2, /* of a step: nothing is known of the frame before */
    CV_PLACES_MAX = 4,    /* panes that one line was seen in; the oldest makes room */
};

/* What was seen of a line while panes moved: did it move along with each, or stay? */
struct cv_places {
    struct {
        int pane;
        bool moves;
    } notes[CV_PLACES_MAX];
    int count;
};

/* Coordinates of the frame; bottom and right exclusive. Edges that content was not seen to pass may
 * lie further out. */
struct cv_pane {
    int top, bottom, left, right; /* bottom <= top: nothing was seen to move yet */
    int top_cuts, bottom_cuts;    /* lines seen going under that edge or coming out from under it */
    struct cv_box *covers; /* what stands still over it; known when the scene is over; owned */
    size_t cover_count;
};

/* Of cells of 8 × 1 pixels: how many pixels, over all steps, prove that content moved there, or that
 * something stayed although content moved. */
struct cv_pane_cells {
    uint8_t *moved, *stayed; /* one allocation, owned by `moved` */
};

/* What is known of a pane while its scene lasts. */
struct cv_pane_evidence {
    int pane; /* CV_NO_PANE: unused */
    int64_t last_step;
    struct cv_pane_cells cells; /* none: never used */
};

struct cv_panes {
    struct cv_pane *items;
    int count;
    int *steps; /* per frame: the pane that moved since the frame before, or CV_NO_PANE … */
    int *near;  /* per frame of a settled scene: see cv_panes_near */
    size_t step_count, scene_first;
    int current; /* of this scene, the one that moved last; CV_NO_PANE: none has */

    struct cv_pane_evidence live[CV_PANES_LIVE];
    struct cv_pane_cells step; /* of one step */
    int width, height;         /* of the frames that all of it is about */
};

void cv_panes_deinit(struct cv_panes *panes);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_panes, cv_panes_deinit)

/* Records the next frame, which shows nothing of the one before: what was learned of the panes is
 * settled. */
CV_MUST_CHECK int cv_panes_scene(struct cv_panes *panes, struct cv_error *error);

/* Records the next frame, in which content moved by `shift` (0, 0: it did not) since the one before,
 * and learns which pane that was. Frames of different sizes teach nothing. */
CV_MUST_CHECK int cv_panes_step(struct cv_panes *panes, const struct cv_frame *before,
                                const struct cv_frame *after, struct cv_point shift,
                                struct cv_error *error);

/* Settles the last scene. */
CV_MUST_CHECK int cv_panes_finish(struct cv_panes *panes, struct cv_error *error);

/* The pane that moved in the step to `frame`; negative: none (CV_NO_PANE, CV_SCENE_BEGINS). */
int cv_panes_at(const struct cv_panes *panes, size_t frame);

/* The pane that moved last up to `frame` in its scene, or first after it; CV_NO_PANE: none did. Of
 * settled scenes alone. */
int cv_panes_near(const struct cv_panes *panes, size_t frame);

/* NULL for a negative number and for a pane of which nothing is known. */
const struct cv_pane *cv_panes_get(const struct cv_panes *panes, int pane);

static inline bool cv_pane_known(const struct cv_pane *pane)
{
    return pane && pane->bottom > pane->top;
}

/* Whether something that stands still over the pane hides a part of the box. */
bool cv_pane_covers(const struct cv_pane *pane, const struct cv_box *box);

/* Counts that a line moved with the pane, or stayed while the pane moved. */
void cv_places_count(struct cv_places *places, int pane, bool moves);

/* Whether a line at `box` moves when that pane does: as the line was seen to do before, else by where it lies. `pane` is
 * negative where no pane moves. */
bool cv_panes_move(const struct cv_panes *panes, int pane, const struct cv_places *places,
                   const struct cv_box *box);

/* An edge is only sure when it was seen to cut lines: the last line of a chat moves, too, and ends
 * where no edge is. */
enum { CV_PANE_SURE = 2 };

/* Whether content ends at that edge within a few pixels. */
static inline bool cv_pane_near(int edge, int y)
{
    return y - edge <= 3 && edge - y <= 3;
}
