/* Connected areas of ink: letters, their parts, and pictures of the size of letters. */
#pragma once

#include "common/screen/frame.h"

enum {
    /* Levels between ink and paper: ghosts that a codec leaves of what was there before stay below. */
    CV_EDGE_FAINT = 22,
    CV_EDGE_STRONG = 52, /* codec noise stays below; fainter lines have to prove more */
    CV_GLYPH_HEIGHT_MIN = 4,
    CV_FRAME_MIN = 24,         /* pixels of height: of a field or a cell around one letter */
    CV_GLYPH_HEIGHT_MAX = 160, /* of letters; larger things are pictures, cards, borders */
};

/* A connected area of ink: a glyph, a part of one, or several that touch. */
struct cv_component {
    struct cv_box box;
    int pixels;
    int peak;        /* levels between it and what is around it, where that is most */
    bool is_light;   /* lighter than what is around it */
    int cluster;     /* the same for all that touch, of either side: a word, an emoji in pieces */
    bool is_edge;    /* of a mark behind letters: of what is filled, and no stroke */
    bool is_inner;   /* lies in another one: the hole of an o, or a letter on a button */
    bool has_parts;  /* there are edges within it, too: no disc of one colour */
    bool is_picture; /* a cluster that is no letters: of both sides */
};

struct cv_components {
    struct cv_component *items;
    size_t count;
};

void cv_components_deinit(struct cv_components *components);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_components, cv_components_deinit)

/* Ink of a frame, dark and light, of a possible size only, ordered by left edge, then top. */
CV_MUST_CHECK int cv_components_find(struct cv_frame *frame, struct cv_components *ret_components,
                                     struct cv_error *error);

/* By left edge, then top. */
void cv_components_sort(struct cv_components *components);
