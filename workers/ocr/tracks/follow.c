#include "workers/ocr/tracks/follow.h"

#include "workers/ocr/tracks/new_lines.h"
#include "workers/ocr/tracks/rows.h"

#include <string.h>

enum {
    LOST_MAX = 64,   /* lines asked where they went */
    WAYS_MAX = 16,   /* that they may have gone */
    WIDTH_MIN = 2,   /* letter heights: what is shorter looks like much else */
    WEIGHT_MIN = 8,  /* letter heights of several lines that went the same way */
    AGAIN_MS = 1000, /* in which a line that was lost is looked for */
    ALONE_MIN = 14,  /* of one alone, some 24 letters: shorter texts stand in several places */
};

bool ocr_touches_edge(const struct cv_pane *pane, const struct cv_box *box, int width, int height)
{
    /* A line that ends at the picture's side is read as far as it goes; one that lies beyond is not whole. */
    if (box->y <= 1 || cv_box_bottom(box) >= height - 1 || box->x < 0 ||
        cv_box_right(box) > width) {
        return true;
    }
    int middle = box->x + box->width / 2;
    if (!cv_pane_known(pane) || middle < pane->left || middle >= pane->right) {
        return false;
    }
    bool over_top = pane->top_cuts && box->y <= pane->top + 1 && cv_box_bottom(box) > pane->top + 1;
    bool over_bottom =
        pane->bottom_cuts && cv_box_bottom(box) >= pane->bottom - 1 && box->y < pane->bottom - 1;
    return over_top || over_bottom;
}

void ocr_record_sighting(struct ocr_session *session, struct ocr_track *track)
{
    struct ocr_sighting here = {(int)session->index, track->box.x, track->box.y};
    const struct ocr_sighting *last = &track->stretch.last;

    if (!track->open || last->x != here.x || last->y != here.y) {
        CV_BECAUSE(session->reasons, track->id, 0, &track->box, "seen");
    }
    if (!track->open) {
        track->open = true;
        track->stretch = (struct ocr_stretch){
            .first = here, .width = track->crop.width, .height = track->crop.height};
    }
    track->stretch.last = here;
    track->present = true;
    track->matched = true;
    track->last_frame = (int64_t)session->index;
    track->seen = track->box;
}

/* Records the place at which the line was found, and whether the line moved there with the content. */
static void record_place(struct ocr_session *session, struct ocr_track *track, int x, int y)
{
    int stayed = abs(x - track->box.x) + abs(y - track->box.y);
    int moved =
        abs(x - track->box.x - session->shift.dx) + abs(y - track->box.y - session->shift.dy);
    int pane = cv_panes_at(&session->panes, session->index);

    if (pane >= 0 && stayed != moved && cv_min(stayed, moved) <= 2 * OCR_MATCH_REACH) {
        cv_places_count(&track->places, pane, moved < stayed);
    }
    track->box.x = x;
    track->box.y = y;
}

/* Tries one place: whole sighting, or a piece of a line that goes under an edge. */
static int try_place(struct ocr_session *session, struct ocr_track *track, struct cv_point at,
                     bool parts, struct cv_error *error)
{
    struct ocr_match match;

    CV_TRY(ocr_match(&track->crop, session->frame, at, &match, error));
    track->differs = match.differs;
    if (!match.whole && !(parts && match.part)) {
        return 0;
    }
    record_place(session, track, at.x + match.dx, at.y + match.dy);
    if (match.whole) {
        ocr_record_sighting(session, track);
        return 0;
    }
    struct cv_pane *pane = ocr_session_pane(session);
    if (pane) {
        pane->top_cuts += match.first && cv_pane_near(pane->top, track->box.y + match.first);
        pane->bottom_cuts += !match.first && cv_pane_near(pane->bottom, track->box.y + match.last);
    }
    CV_BECAUSE(session->reasons, track->id, 0, &track->box, "an edge hides a part of it");
    track->matched = true;
    track->seen = (struct cv_box){track->box.x, track->box.y + match.first, track->box.width,
                                  match.last - match.first};
    return ocr_end_stretch(session, track, error);
}

static struct cv_point corner(const struct cv_box *box)
{
    return (struct cv_point){box->x, box->y};
}

/* Where a line is if it moved with the content. */
static struct cv_point moved_place(const struct ocr_session *session, const struct ocr_track *track)
{
    return (struct cv_point){track->box.x + session->shift.dx, track->box.y + session->shift.dy};
}

/* Searches a line where it would be if it had moved with the content. */
static int follow(struct ocr_session *session, struct ocr_track *track, struct cv_error *error)
{
    return try_place(session, track, moved_place(session, track), false, error);
}

/* Whether another line that was found in this frame stands at a place. A piece of the line itself is not another one. */
static bool is_taken(const struct ocr_session *session, const struct cv_box *box)
{
    bool is = false;

    for (size_t i = 0; i < session->tracks.count && !is; i++) {
        const struct ocr_track *track = session->tracks.items[i];
        is = track->matched &&
             cv_box_overlap(&track->seen, box) * 10 > (int64_t)box->width * box->height * 8;
    }
    return is;
}

/* The same of a line that did not move with the content: at its place, where no line stands now that did, or cut by an
 * edge. */
static int follow_apart(struct ocr_session *session, struct ocr_track *track,
                        struct cv_error *error)
{
    struct cv_point moved = moved_place(session, track);

    if (!is_taken(session, &track->box)) {
        CV_TRY(try_place(session, track, corner(&track->box), false, error));
    }
    if (track->matched) {
        return 0;
    }
    /* A piece alone proves little: it counts only where the line would have moved under an edge. */
    const struct cv_pane *pane = ocr_session_pane(session);
    bool under = moved.y <= (pane ? pane->top : 0) + 1 ||
                 moved.y + track->box.height >= (pane ? pane->bottom : session->frame->height) - 1;
    return under ? try_place(session, track, moved, true, error) : 0;
}

static int follow_jumps(struct ocr_session *session, struct ocr_track *track,
                        struct cv_error *error)
{
    for (int i = 0; i < session->jump_count && !track->matched; i++) {
        struct cv_box place = track->box;
        place.x += session->jumps[i].dx;
        place.y += session->jumps[i].dy;
        CV_TRY(is_taken(session, &place) ? 0
                                         : try_place(session, track, corner(&place), false, error));
    }
    return 0;
}

static bool is_elsewhere(const struct ocr_track *track, const struct cv_box *place)
{
    return place->x != track->box.x || place->y != track->box.y;
}

/* Whether a place shows the picture of a line, changed by a codec, or by a movement by a part of a pixel. What the
 * finder found there is left to be read where the known reading is unsure, where the picture is sharper, and where it is
 * alike in place and levels: another digit may be. */
static int shows(const struct ocr_session *session, const struct ocr_track *track,
                 const struct cv_box *place, bool *ret_is, struct cv_error *error)
{
    enum ocr_likeness likeness;
    bool has_moved = is_elsewhere(track, place);
    struct cv_box line = ocr_track_line(track);

    line.x += place->x - track->box.x;
    line.y += place->y - track->box.y;
    bool is_found = ocr_is_found(session, &line);
    *ret_is = false;
    if (is_found && track->reading.confidence < OCR_SURE) {
        return 0;
    }
    CV_TRY(ocr_match_likeness(&track->crop, session->frame, corner(place), &likeness, error));
    *ret_is = (likeness == OCR_LIKENESS_SAME && (has_moved || !is_found)) ||
              (likeness == OCR_LIKENESS_BLURRED && has_moved);
    return 0;
}

/* Whether a line still stands at a place. Moves `place` to where the line is. */
static int stands(const struct ocr_session *session, const struct ocr_track *track,
                  struct cv_box *place, bool *ret_is, struct cv_error *error)
{
    struct ocr_match match;

    CV_TRY(ocr_match(&track->crop, session->frame, corner(place), &match, error));
    *ret_is = match.whole;
    CV_TRY(match.whole ? 0 : shows(session, track, place, ret_is, error));
    if (match.whole || is_elsewhere(track, place)) {
        place->x += match.dx;
        place->y += match.dy;
    }
    return 0;
}

/* A line that was lost, for a moment or just now: blurred while it moved, or with something before it. */
static int find_again(struct ocr_session *session, struct ocr_track *track, struct cv_error *error)
{
    const struct ocr_timing *timings = session->timings;
    int64_t away_ms = timings[session->index].t_start - timings[track->last_frame].t_end;
    bool is_here = track->matched;

    if (!track->is_read || track->weight != OCR_WEIGHT_WORDS || away_ms > AGAIN_MS) {
        return 0;
    }
    struct ocr_jump ways[OCR_JUMPS_MAX + 2] = {{session->shift.dx, session->shift.dy}};
    memcpy(ways + 1, session->jumps, sizeof(session->jumps));
    ways[session->jump_count + 1] = (struct ocr_jump){0, 0};
    for (int i = 0; i < session->jump_count + 2 && !is_here; i++) {
        struct cv_box place = track->box;
        place.x += ways[i].dx;
        place.y += ways[i].dy;
        if (i <= session->jump_count && !is_elsewhere(track, &place)) {
            continue;
        }
        if (!is_taken(session, &place)) {
            CV_TRY(stands(session, track, &place, &is_here, error));
        }
        if (is_here) {
            track->box = place;
            ocr_record_sighting(session, track);
            return ocr_end_pieces(session, track, error);
        }
    }
    return 0;
}

int ocr_follow(struct ocr_session *session, struct cv_error *error)
{
    bool moves = session->shift.dx || session->shift.dy;

    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        CV_TRY(track->present ? follow(session, track, error) : 0);
    }
    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        bool is_apart = moves && track->present && !track->matched;
        CV_TRY(is_apart ? follow_apart(session, track, error) : 0);
    }
    if (session->shift.known && !session->shift.dx && !session->shift.dy) {
        CV_TRY(ocr_find_jumps(session, error));
    }
    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        bool is_lost = track->present && !track->matched;
        CV_TRY(is_lost ? follow_jumps(session, track, error) : 0);
    }
    for (size_t i = 0; i < session->tracks.count; i++) { /* find_again may remove tracks */
        CV_TRY(find_again(session, session->tracks.items[i], error));
    }
    return 0;
}

/* The lines that left their places in this frame, the ways that any of them may have gone, and
 * for each way the lines that stand where it leads. */
struct lost {
    const struct ocr_track *items[LOST_MAX];
    bool is_told[LOST_MAX]; /* by a jump that was found */
    int count;
    struct ocr_jump ways[WAYS_MAX];
    int way_count;
    bool goes[WAYS_MAX][LOST_MAX];
};

/* Lines that jump are blurred at first, so that likeness tells. */
static int is_alike(const struct ocr_session *session, const struct ocr_track *track,
                    const struct ocr_jump *way, bool *ret_is, struct cv_error *error)
{
    struct cv_box place = track->box;
    enum ocr_likeness likeness = OCR_LIKENESS_NONE;

    place.x += way->dx;
    place.y += way->dy;
    if (!is_taken(session, &place)) {
        CV_TRY(ocr_match_likeness(&track->crop, session->frame, corner(&place), &likeness, error));
    }
    *ret_is = likeness != OCR_LIKENESS_NONE;
    return 0;
}

/* Adds a way that is not in the list yet, if the line may have gone it. */
static int try_way(const struct ocr_session *session, const struct ocr_track *track,
                   const struct ocr_jump *way, struct lost *lost, struct cv_error *error)
{
    bool is = lost->way_count == WAYS_MAX;

    for (int i = 0; i < lost->way_count && !is; i++) {
        is = abs(lost->ways[i].dx - way->dx) <= 1 && abs(lost->ways[i].dy - way->dy) <= 1;
    }
    if (is) {
        return 0;
    }
    CV_TRY(is_alike(session, track, way, &is, error));
    if (is) {
        lost->ways[lost->way_count++] = *way;
    }
    return 0;
}

/* Tries the ways to each line of the same size that was found, and to both ends of longer ones. */
static int find_ways(const struct ocr_session *session, const struct ocr_track *track,
                     struct lost *lost, struct cv_error *error)
{
    struct cv_box place = ocr_track_line(track);

    for (size_t i = 0; i < session->lines->count; i++) {
        const struct cv_box *box = &session->lines->items[i].box;
        int wider = box->width - place.width;
        if (wider < -4 || abs(box->height - place.height) > 3) {
            continue;
        }
        struct ocr_jump way = {box->x - place.x, box->y - place.y};
        CV_TRY(try_way(session, track, &way, lost, error));
        if (wider > 4) {
            way.dx += wider;
            CV_TRY(try_way(session, track, &way, lost, error));
        }
    }
    return 0;
}

/* A line that nobody reads tells nothing: where every frame is full of new ones, asking each after all others took longer
 * than reading. */
static int find_lost(const struct ocr_session *session, struct lost *lost, struct cv_error *error)
{
    const struct ocr_jump here = {0, 0};

    for (size_t i = 0; i < session->tracks.count && lost->count < LOST_MAX; i++) {
        const struct ocr_track *track = session->tracks.items[i];
        struct cv_box place = ocr_track_line(track);
        bool is = true;
        if (!track->present || track->matched || !track->open || ocr_track_is_left(track) ||
            track->crop.width < WIDTH_MIN * track->crop.tall ||
            (session->shift.known && ocr_is_found(session, &place))) {
            continue;
        }
        CV_TRY(is_alike(session, track, &here, &is, error));
        if (!is) {
            lost->items[lost->count++] = track;
        }
    }
    return 0;
}

/* The way that explains most of the lines that no other way explains yet; false: there is none. */
static bool find_heaviest(const struct lost *lost, int *ret_path)
{
    int most = WEIGHT_MIN - 1;
    bool found = false;

    for (int i = 0; i < lost->way_count; i++) {
        int weight = 0, lines = 0;
        for (int k = 0; k < lost->count; k++) {
            const struct ocr_crop *crop = &lost->items[k]->crop;
            bool counts = lost->goes[i][k] && !lost->is_told[k];
            weight += counts ? crop->width / cv_max(crop->tall, 1) : 0;
            lines += counts;
        }
        if (weight > most && (lines > 1 || weight >= ALONE_MIN)) {
            most = weight;
            *ret_path = i;
            found = true;
        }
    }
    return found;
}

int ocr_find_jumps(struct ocr_session *session, struct cv_error *error)
{
    struct lost lost = {.count = 0};
    int way;

    session->jump_count = 0;
    CV_TRY(find_lost(session, &lost, error));
    for (int i = 0; i < lost.count; i++) {
        CV_TRY(find_ways(session, lost.items[i], &lost, error));
    }
    for (int i = 0; i < lost.way_count * lost.count; i++) {
        int of = i / lost.count, k = i % lost.count;
        CV_TRY(is_alike(session, lost.items[k], &lost.ways[of], &lost.goes[of][k], error));
    }
    while (session->jump_count < OCR_JUMPS_MAX && find_heaviest(&lost, &way)) {
        session->jumps[session->jump_count++] = lost.ways[way];
        for (int k = 0; k < lost.count; k++) {
            lost.is_told[k] = lost.is_told[k] || lost.goes[way][k];
        }
    }
    return 0;
}
