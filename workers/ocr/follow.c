#include "workers/ocr/session_internal.h"

enum {
    VOTERS_MAX = 24, /* lines asked where they went when nobody knows the shift */
};

bool ocr_touches_edge(const struct ocr_pane *pane, const struct ocr_box *box, int width, int height)
{
    /* A line that ends at the picture's side is read as far as it goes; one that lies beyond is not whole. */
    if (box->y <= 1 || ocr_bottom(box) >= height - 1 || box->x < 0 || ocr_right(box) > width) {
        return true;
    }
    int middle = box->x + box->width / 2;
    if (!ocr_pane_known(pane) || middle < pane->left || middle >= pane->right) {
        return false;
    }
    bool over_top = pane->top_cuts && box->y <= pane->top + 1 && ocr_bottom(box) > pane->top + 1;
    bool over_bottom =
        pane->bottom_cuts && ocr_bottom(box) >= pane->bottom - 1 && box->y < pane->bottom - 1;
    return over_top || over_bottom;
}

/* Faces leave about 0.2 em above capitals and 0.24 em below the baseline; capitals are 0.72 em. */
static void leave_space(const struct ocr_crop *crop, struct ocr_stretch *stretch)
{
    int descender = crop->tall / 3;

    stretch->above = crop->tall * 2 / 7;
    stretch->below = ocr_max(crop->tall + descender - crop->height, 0);
}

void ocr_sight(struct ocr_session *session, struct ocr_track *track)
{
    struct ocr_sighting here = {(int)session->index, track->box.x, track->box.y};

    if (!track->open) {
        track->open = true;
        track->stretch = (struct ocr_stretch){
            .first = here, .width = track->crop.width, .height = track->crop.height};
        leave_space(&track->crop, &track->stretch);
    }
    track->stretch.last = here;
    track->present = true;
    track->matched = true;
    track->last_frame = (int64_t)session->index;
    track->seen = track->box;
}

/* Notes the place at which the line was found, and whether it moved there with the content. */
static void take_match(struct ocr_session *session, struct ocr_track *track, int x, int y)
{
    int stayed = abs(x - track->box.x) + abs(y - track->box.y);
    int moved =
        abs(x - track->box.x - session->shift.dx) + abs(y - track->box.y - session->shift.dy);
    int pane = ocr_panes_at(&session->panes, session->index);

    if (pane >= 0 && stayed != moved) {
        ocr_places_note(&track->places, pane, moved < stayed);
    }
    track->box.x = x;
    track->box.y = y;
}

/* Tries one place: whole sighting, or a piece of a line that goes under an edge. */
static int try_place(struct ocr_session *session, struct ocr_track *track,
                     const struct ocr_frame *frame, int x, int y, bool parts,
                     struct cv_error *error)
{
    struct ocr_match match;

    int result = ocr_match(&track->crop, frame, x, y, &match, error);
    if (result < 0 || (!match.whole && !(parts && match.part))) {
        return result;
    }
    take_match(session, track, x + match.dx, y + match.dy);
    if (match.whole) {
        ocr_panes_saw(&session->panes, &track->places, &track->box);
        ocr_sight(session, track);
        return 0;
    }
    struct ocr_pane *pane = ocr_session_pane(session);
    if (pane) {
        pane->top_cuts += match.first && ocr_pane_near(pane->top, track->box.y + match.first);
        pane->bottom_cuts += !match.first && ocr_pane_near(pane->bottom, track->box.y + match.last);
    }
    track->matched = true;
    track->seen = (struct ocr_box){track->box.x, track->box.y + match.first, track->box.width,
                                   match.last - match.first};
    return ocr_close(session, track, error);
}

static int follow(struct ocr_session *session, struct ocr_track *track,
                  const struct ocr_frame *frame, struct cv_error *error)
{
    struct {
        int x, y;
    } places[2] = {{track->box.x, track->box.y}, {track->box.x, track->box.y}};
    int count = 1;

    enum ocr_place place =
        ocr_places_in(&track->places, ocr_panes_at(&session->panes, session->index));

    if (session->shift.known && (session->shift.dx || session->shift.dy)) {
        int moving = place == OCR_PLACE_FIXED ? 1 : 0;
        places[moving].x += session->shift.dx;
        places[moving].y += session->shift.dy;
        count = 2;
    }
    for (int i = 0; i < count && !track->matched; i++) {
        int result = try_place(session, track, frame, places[i].x, places[i].y, false, error);
        if (result < 0) {
            return result;
        }
    }
    /* A piece alone tells little: only where the line would have moved under an edge. */
    int x = track->box.x + session->shift.dx, y = track->box.y + session->shift.dy;
    const struct ocr_pane *pane = ocr_session_pane(session);
    bool under = y <= (pane ? pane->top : 0) + 1 ||
                 y + track->box.height >= (pane ? pane->bottom : frame->height) - 1;
    if (!track->matched && count > 1 && place != OCR_PLACE_FIXED && under) {
        return try_place(session, track, frame, x, y, true, error);
    }
    return 0;
}

int ocr_follow(struct ocr_session *session, const struct ocr_frame *frame, struct cv_error *error)
{
    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        track->matched = false;
        if (!track->present) {
            continue;
        }
        int result = follow(session, track, frame, error);
        if (result < 0) {
            return result;
        }
    }
    return 0;
}

struct vote {
    int dx, dy, count;
};

static void cast(struct vote *votes, size_t limit, int dx, int dy)
{
    for (size_t i = 0; i < limit; i++) {
        if (votes[i].count && abs(votes[i].dx - dx) <= 1 && abs(votes[i].dy - dy) <= 1) {
            votes[i].count++;
            return;
        }
        if (!votes[i].count) {
            votes[i] = (struct vote){dx, dy, 1};
            return;
        }
    }
}

int ocr_estimate_shift(struct ocr_session *session, const struct ocr_frame *frame,
                       const struct ocr_lines *lines, struct ocr_shift *ret_shift,
                       struct cv_error *error)
{
    struct vote votes[VOTERS_MAX] = {{0}};
    struct vote best = {0, 0, 0};
    int voters = 0;

    for (size_t i = 0; i < session->tracks.count && voters < VOTERS_MAX; i++) {
        const struct ocr_track *track = session->tracks.items[i];
        if (!track->present || !track->open || track->crop.width < 4 * track->crop.tall) {
            continue;
        }
        bool voted = false;
        for (size_t k = 0; k < lines->count && !voted; k++) {
            const struct ocr_box *box = &lines->items[k].box;
            struct ocr_match match = {0};
            if (abs(box->width - track->crop.width) > 4 ||
                abs(box->height - track->crop.height) > 3) {
                continue;
            }
            int result = ocr_match(&track->crop, frame, box->x, box->y, &match, error);
            if (result < 0) {
                return result;
            }
            voted = match.whole;
            if (voted) {
                cast(votes, CV_COUNT(votes), box->x + match.dx - track->box.x,
                     box->y + match.dy - track->box.y);
            }
        }
        voters += voted;
    }
    for (size_t i = 0; i < CV_COUNT(votes); i++) {
        bool moved = votes[i].dx || votes[i].dy;
        if (moved && votes[i].count > best.count) {
            best = votes[i];
        }
    }
    *ret_shift = (struct ocr_shift){best.count >= 2, best.dx, best.dy};
    return 0;
}
