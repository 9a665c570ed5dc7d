#include "workers/ocr/tracks/new_lines.h"

#include "workers/ocr/tracks/accept.h"
#include "workers/ocr/tracks/follow.h"
#include "workers/ocr/tracks/rows.h"
#include "workers/ocr/tracks/same_line.h"

#include <string.h>

/* A found line and what is known of the place where it stands. */
struct arrival {
    const struct cv_text_line *line;
    const struct cv_box *glyphs;
    double covered;            /* share of its box that known lines explain */
    struct ocr_track *under;   /* the matched line that explains most of it */
    struct ocr_track *earlier; /* a line that stood here and no longer matches */
};

static double share(const struct cv_box *part, const struct cv_box *whole)
{
    int64_t area = (int64_t)whole->width * whole->height;
    return area ? (double)cv_box_overlap(part, whole) / (double)area : 0;
}

/* Where an unmatched line would stand if it had moved with the content, or had not. */
static bool stood_here(const struct ocr_session *session, const struct ocr_track *track,
                       const struct cv_box *box)
{
    struct cv_box moved = track->box;

    moved.x += session->shift.dx;
    moved.y += session->shift.dy;
    return share(box, &track->box) >= 0.5 ||
           (session->shift.known && (share(box, &moved) >= 0.5 || share(&moved, box) >= 0.8));
}

static void find_neighbours(const struct ocr_session *session, struct arrival *arrival)
{
    int64_t most = 0;

    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        if (track->matched) {
            struct cv_box shown = ocr_track_shown(track);
            int64_t overlap = cv_box_overlap(&shown, &arrival->line->box);
            arrival->covered += share(&shown, &arrival->line->box);
            if (overlap > most) {
                most = overlap;
                arrival->under = track;
            }
        } else if (track->present && !arrival->earlier &&
                   stood_here(session, track, &arrival->line->box)) {
            arrival->earlier = track;
        }
    }
}

/* Whether the line shows clearly more than the known one under it: letters were typed, or a line
 * that was cut by an edge came out. */
static bool is_taller(const struct arrival *arrival)
{
    struct cv_box known = ocr_track_shown(arrival->under), box = arrival->line->box;

    return arrival->under->is_read ? box.height * 4 > known.height * 5 + 8
                                   : box.height > known.height + 2;
}

/* A narrow letter (i, t) adds a quarter of a capital's height. What adds so little and makes the line higher is a caret,
 * and on a picture the ends of lines waver. */
static bool is_wider(const struct arrival *arrival)
{
    struct cv_box known = ocr_track_shown(arrival->under), box = arrival->line->box;
    int more = (box.width - known.width) * 100, tall = arrival->line->tall;

    bool is_letter = box.height <= known.height + 1 && arrival->under->crop.ink.kind == CV_INK_FLAT;
    return more > tall * (is_letter ? 25 : 70);
}

/* `fresh` is the same line as `known`: the stretch of `known` continues, with the surer of the
 * two readings. */
static void continue_line(struct ocr_session *session, struct ocr_track *known,
                          struct ocr_track *fresh)
{
    if (fresh->reading.confidence > known->reading.confidence) {
        struct ocr_reading swap = known->reading;
        known->reading = fresh->reading;
        known->weight = fresh->weight;
        known->picture = fresh->picture;
        fresh->reading = swap;
    }
    session->tracks.bytes -= (size_t)known->crop.width * (size_t)known->crop.height;
    session->tracks.bytes -= (size_t)fresh->crop.width * (size_t)fresh->crop.height;
    struct ocr_crop swap = known->crop;
    known->crop = fresh->crop;
    fresh->crop = swap;
    session->tracks.bytes += (size_t)known->crop.width * (size_t)known->crop.height;
    session->tracks.bytes += (size_t)fresh->crop.width * (size_t)fresh->crop.height;
    known->box = fresh->box;
    ocr_record_sighting(session, known);
    ocr_tracks_remove(&session->tracks, fresh);
}

/* Learns where an edge is: in the frame before, it hid all of the line at `whole` but `piece`. */
static void learn_edge(struct ocr_session *session, const struct ocr_track *piece,
                       const struct cv_box *whole)
{
    struct cv_pane *pane = ocr_session_pane(session);
    int top = piece->seen.y - session->shift.dy, bottom = top + piece->seen.height;

    if (!pane) {
        return;
    }
    pane->top_cuts += whole->y < piece->seen.y - OCR_MATCH_REACH && cv_pane_near(pane->top, top);
    pane->bottom_cuts += cv_box_bottom(whole) > cv_box_bottom(&piece->seen) + OCR_MATCH_REACH &&
                         cv_pane_near(pane->bottom, bottom);
}

/* Ends a known line where a longer or taller one was found: it was only a piece of that line, or
 * ended with this frame. */
static int end_piece(struct ocr_session *session, struct ocr_track *piece, bool taller,
                     struct cv_error *error)
{
    piece->matched = false;
    piece->present = false;
    if (taller || (piece->open && piece->stretch.first.frame == (int)session->index)) {
        piece->open = false;
        if (taller) {
            ocr_tracks_remove(&session->tracks, piece);
        }
        return 0;
    }
    if (piece->open) {
        piece->stretch.last.frame = (int)session->index - 1;
        piece->stretch.last.x = piece->box.x - session->shift.dx;
        piece->stretch.last.y = piece->box.y - session->shift.dy;
    }
    return ocr_end_stretch(session, piece, error);
}

int ocr_read_track(struct ocr_session *session, struct ocr_track *track, struct cv_error *error)
{
    int64_t before = ocr_engine_columns(session->engine);

    if (session->reasons) {
        session->reasons->reading = track->id;
    }
    CV_TRY(ocr_read(session->engine, &track->crop, &track->reading, &session->readings, error));
    session->budget.columns -= ocr_engine_columns(session->engine) - before;
    if (session->pack) {
        CV_TRY(ocr_pack_picture(session->pack, &track->crop, &track->picture, error));
    }
    ocr_crop_drop_patches(&track->crop);
    track->is_read = true;
    track->weight = ocr_text_weight(track->reading.text);
    track->number = session->next_line++;
    session->lines_read++;
    CV_BECAUSE(session->reasons, track->id, 0, &track->box,
               "read as “%s”: sure %.2f, worst word %.2f, two ways of reading agree by %.2f",
               track->reading.text, track->reading.confidence, track->reading.worst_word,
               track->reading.agreement);
    return 0;
}

/* Whether a line is no piece of the one around it: its reading is surer, and of another text. What moves behind a line
 * is drawn into it here and there, and then nobody can read it. */
static bool stays(const struct ocr_track *piece, const struct ocr_track *around)
{
    return piece->weight == OCR_WEIGHT_WORDS && around->is_read &&
           piece->reading.confidence > around->reading.confidence &&
           !ocr_shares_text(piece->reading.text, around->reading.text);
}

int ocr_end_pieces(struct ocr_session *session, const struct ocr_track *track,
                   struct cv_error *error)
{
    struct cv_box whole = track->box;

    for (size_t i = 0; i < session->tracks.count;) {
        struct ocr_track *piece = session->tracks.items[i];
        size_t count = session->tracks.count;
        if (piece != track && piece->matched && !stays(piece, track) &&
            share(&whole, &piece->seen) >= 0.8) {
            bool moves = session->shift.dx || session->shift.dy;
            bool taller =
                !piece->is_read || (moves && whole.height * 4 > piece->seen.height * 5 + 8);
            if (session->shift.dy) {
                learn_edge(session, piece, &whole);
            }
            CV_BECAUSE(session->reasons, piece->id, track->id, &piece->seen,
                       "%s: it is a piece of the line around it", taller ? "left out" : "ends");
            CV_TRY(end_piece(session, piece, taller, error));
        }
        i += session->tracks.count == count;
    }
    return 0;
}

static int add_line(struct ocr_session *session, struct ocr_crop *crop,
                    struct ocr_track **ret_track, struct cv_error *error)
{
    struct ocr_track *track = NULL;

    CV_TRY(ocr_tracks_add(&session->tracks, crop, &track, error));
    track->id = session->next_id++;
    track->box = track->crop.box;
    bool is_whole = !ocr_touches_edge(ocr_session_pane(session), &track->box, session->frame->width,
                                      session->frame->height);
    track->waits_for_budget = is_whole && session->budget.columns <= 0;
    if (is_whole && !track->waits_for_budget) {
        CV_TRY(ocr_read_track(session, track, error));
    } else {
        CV_BECAUSE(session->reasons, track->id, 0, &track->box, "waits to be read: %s",
                   is_whole ? "the budget of reading is used up" : "an edge may cut it");
    }
    *ret_track = track;
    return 0;
}

/* Records that the line may be a known one, of which something that does not move with it now
 * hides more or less. */
static void record_related(const struct ocr_session *session, const struct ocr_track *known,
                           struct ocr_track *fresh)
{
    if (!known || (!session->shift.dx && !session->shift.dy)) {
        return;
    }
    struct cv_box place = ocr_track_line(known);
    if (!known->matched) {
        place.x += session->shift.dx;
        place.y += session->shift.dy;
    }
    struct cv_box line = ocr_track_line(fresh);
    if (ocr_shares_place(&place, &line)) {
        fresh->predecessor = known->id;
    }
}

/* ---- the line in the frame before ------------------------------------------------------------ */

/* A line that is newly found was often there before: blurred until the codec refined it, joined
 * with what is beside it, or cut by a pointer. Its picture is compared with the frame before to
 * find out. */

/* What an arriving line was in the frame before. */
struct forerunner {
    bool was_there;          /* its picture stood there, perhaps less sharp */
    struct ocr_track *known; /* the line that it was taken for, gone in this frame; NULL: none */
    bool is_whole;           /* `known` is this line, and not something larger around it */
    int x, y;                /* its place then */
};

/* Share of a line's box that another one covers where both are the same line. */
static const double SAME_LINE = 0.70;

/* Whether most of `part` lies in `whole`. */
static bool lies_in(const struct cv_box *part, const struct cv_box *whole)
{
    int64_t area = (int64_t)part->width * part->height;
    return (double)cv_box_overlap(part, whole) >= SAME_LINE * (double)area;
}

/* Of the lines that were on screen until now and of which nothing is left, the one that covers
 * most of `place`. */
static struct ocr_track *find_left(const struct ocr_session *session, const struct cv_box *place)
{
    struct ocr_track *found = NULL;
    int64_t most = 0;

    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        int64_t overlap = cv_box_overlap(&track->box, place);
        if (track->present && !track->matched && track->open && overlap > most &&
            lies_in(place, &track->box)) {
            most = overlap;
            found = track;
        }
    }
    return found;
}

/* Two sure readings of one place whose numbers differ are two texts, however alike their pictures. */
static bool is_another_text(const struct ocr_track *known, const struct ocr_track *fresh)
{
    return known->is_read && known->reading.confidence >= OCR_SURE &&
           fresh->reading.confidence >= OCR_SURE &&
           ocr_digits_differ(known->reading.text, fresh->reading.text);
}

/* Whether what stood at a place in the frame before was a line that stands elsewhere now. The names before the messages
 * of a chat are equal, and one jumps away from where the next one begins. */
static bool has_moved_away(const struct ocr_session *session, const struct ocr_track *fresh,
                           const struct cv_box *place)
{
    bool has = false;

    for (size_t i = 0; i < session->tracks.count && !has; i++) {
        const struct ocr_track *track = session->tracks.items[i];
        has = track->matched && track != fresh && lies_in(&track->was, place) &&
              lies_in(place, &track->was) && !lies_in(&track->box, &fresh->box);
    }
    return has;
}

/* Searches the picture of a line that was just read in the frame before. */
static int find_forerunner(const struct ocr_session *session, const struct ocr_track *fresh,
                           struct forerunner *ret_forerunner, struct cv_error *error)
{
    const struct cv_frame *before = &session->before;
    enum ocr_likeness likeness = OCR_LIKENESS_NONE;
    struct cv_box place = fresh->box;

    *ret_forerunner = (struct forerunner){.known = NULL};
    if (!before->plane[0] || before->width != session->screen.width ||
        before->height != session->screen.height || !session->index) {
        return 0;
    }
    struct ocr_jump ways[2 + OCR_JUMPS_MAX] = {{0, 0}, {session->shift.dx, session->shift.dy}};
    memcpy(ways + 2, session->jumps, sizeof(session->jumps));
    for (int i = 0; i < 2 + session->jump_count && likeness == OCR_LIKENESS_NONE; i++) {
        if (i > 0 && !ways[i].dx && !ways[i].dy) {
            continue;
        }
        place.x = fresh->box.x - ways[i].dx;
        place.y = fresh->box.y - ways[i].dy;
        CV_TRY(has_moved_away(session, fresh, &place)
                   ? 0
                   : ocr_match_likeness(&fresh->crop, before, (struct cv_point){place.x, place.y},
                                        &likeness, error));
    }
    if (likeness == OCR_LIKENESS_NONE) {
        CV_BECAUSE(session->reasons, fresh->id, 0, &fresh->box,
                   "begins here: the frame before does not show its picture");
        return 0;
    }
    struct ocr_track *known = find_left(session, &place);
    if (known && likeness != OCR_LIKENESS_BLURRED && is_another_text(known, fresh)) {
        CV_BECAUSE(
            session->reasons, fresh->id, known->id, &place,
            "not joined by their pictures: both readings are sure, and their numbers differ");
        return 0;
    }
    *ret_forerunner = (struct forerunner){
        .known = known,
        .is_whole = known && lies_in(&known->box, &place),
        .was_there = true,
        .x = place.x,
        .y = place.y,
    };
    return 0;
}

/* The piece in which most of a line was found until now: its picture stood there as a whole. */
static const struct ocr_track *find_piece(const struct ocr_session *session,
                                          const struct ocr_track *track,
                                          const struct forerunner *forerunner)
{
    struct cv_box place = {forerunner->x, forerunner->y, track->box.width, track->box.height};
    const struct ocr_track *found = NULL;

    for (size_t i = 0; i < session->tracks.count && !found; i++) {
        const struct ocr_track *piece = session->tracks.items[i];
        bool counts = piece != track && piece->present && piece->open && piece->is_read &&
                      piece->reading.text[0];
        found = counts && share(&place, &piece->box) >= 0.8 && share(&piece->box, &place) >= 0.5
                    ? piece
                    : NULL;
    }
    return found;
}

/* Begins the stretch of a line in the frame before, because its picture stood there already. */
static void begin_earlier(const struct ocr_session *session, struct ocr_track *track,
                          const struct forerunner *forerunner)
{
    const struct ocr_track *around =
        forerunner->known ? forerunner->known : find_piece(session, track, forerunner);

    track->stretch.first =
        (struct ocr_sighting){(int)session->index - 1, forerunner->x, forerunner->y};
    if (around) {
        track->stretch.first.frame = around->stretch.first.frame;
        track->stretch.first.x += around->stretch.first.x - around->box.x;
        track->stretch.first.y += around->stretch.first.y - around->box.y;
    }
}

/* Opens the stretch of a line that is new or has come back, unless the line continues another
 * one. */
static int begin_line(struct ocr_session *session, struct ocr_track *track, bool is_new,
                      struct cv_error *error)
{
    struct forerunner forerunner = {.known = NULL};

    CV_TRY(track->is_read ? find_forerunner(session, track, &forerunner, error) : 0);
    if (forerunner.known && forerunner.is_whole && forerunner.known->is_read) {
        CV_BECAUSE(session->reasons, forerunner.known->id, track->id, &track->box,
                   "joined: the frame before shows its picture where this line stood");
        continue_line(session, forerunner.known, track);
        return ocr_end_pieces(session, forerunner.known, error);
    }
    ocr_record_sighting(session, track);
    if (forerunner.was_there && is_new) {
        CV_BECAUSE(session->reasons, track->id, forerunner.known ? forerunner.known->id : 0,
                   &track->box, "begins earlier: the frame before shows its picture");
        begin_earlier(session, track, &forerunner);
    }
    return ocr_end_pieces(session, track, error);
}

/* Handles a line that has the same pixels as a known one: the known line has come back. */
static int resume_line(struct ocr_session *session, struct ocr_track *track,
                       const struct cv_box *box, struct cv_error *error)
{
    CV_TRY(ocr_end_stretch(session, track, error));
    track->box.x = box->x;
    track->box.y = box->y;
    track->present = false;
    return begin_line(session, track, false, error);
}

static int add_new_line(struct ocr_session *session, const struct arrival *arrival,
                        struct cv_error *error)
{
    cv_auto(ocr_crop_deinit) struct ocr_crop crop = {0};
    bool grown = arrival->under && arrival->covered > 0.15;
    struct ocr_track *known = grown ? arrival->under : arrival->earlier;

    int result = ocr_crop_make(session->frame, arrival->line, arrival->glyphs, &crop, error);
    if (result != 0) {
        CV_BECAUSE(session->reasons, 0, 0, &arrival->line->box, "not read: it has no clear ink");
        return result < 0 ? result : 0;
    }
    session->lines_seen++;
    session->budget.columns -= OCR_BUDGET_COLUMNS_A_LINE;
    struct cv_box place = crop.box;
    struct ocr_track *track = ocr_tracks_recall(&session->tracks, &crop, &place);
    if (track) {
        CV_BECAUSE(session->reasons, track->id, 0, &place, "came back: it has the same pixels");
        return resume_line(session, track, &place, error);
    }
    CV_TRY(add_line(session, &crop, &track, error));
    record_related(session, known, track);
    bool is_compared = track->is_read && known && known->is_read && known->open;
    const char *parts = is_compared ? ocr_parts_lines(known, track) : NULL;
    if (is_compared && !parts) {
        CV_BECAUSE(session->reasons, known->id, track->id, &track->box,
                   "joined: two readings of the line at this place");
        continue_line(session, known, track);
        return 0;
    }
    if (parts) {
        CV_BECAUSE(session->reasons, track->id, known->id, &track->box,
                   "not joined by their readings: %s", parts);
    }
    return begin_line(session, track, true, error);
}

int ocr_add_new_lines(struct ocr_session *session, struct cv_error *error)
{
    for (size_t i = 0; i < session->lines->count; i++) {
        struct arrival arrival = {.line = &session->lines->items[i],
                                  .glyphs = session->lines->glyphs +
                                            session->lines->items[i].first_glyph};
        find_neighbours(session, &arrival);
        if (arrival.under && arrival.covered >= 0.6 && !is_taller(&arrival) &&
            !is_wider(&arrival)) {
            session->lines_seen++;
            continue;
        }
        CV_TRY(add_new_line(session, &arrival, error));
    }
    return 0;
}
