#include "workers/ocr/tracks/accept.h"
#include "workers/ocr/tracks/follow.h"
#include "workers/ocr/tracks/new_lines.h"
#include "workers/ocr/tracks/rows.h"
#include "workers/ocr/tracks/session_internal.h"

/* Pixels by which the box of a line may differ from one frame to the next. */
enum { SAME_PLACE = 3 };

int ocr_session_new(struct ocr_engine *engine, const struct ocr_timing *timings, size_t count,
                    struct ocr_session **ret_session, struct cv_error *error)
{
    struct ocr_session *session = calloc(1, sizeof(*session));

    CV_TRY_MEMORY(session, error, "following text lines");
    session->engine = engine;
    session->timings = timings;
    session->timing_count = count;
    session->around = (struct ocr_standing_frames){.timings = timings, .timing_count = count};
    session->next_line = session->next_id = 1;
    session->reduction = 1;
    session->budget = ocr_budget_begin(count ? timings[0].t_start : 0);
    *ret_session = session;
    return 0;
}

void ocr_session_keep(struct ocr_session *session, struct ocr_pack *pack)
{
    session->pack = pack;
}

void ocr_session_explain(struct ocr_session *session, struct cv_reasons *reasons)
{
    session->reasons = reasons;
}

void ocr_session_free(struct ocr_session *session)
{
    if (!session) {
        return;
    }
    for (size_t i = 0; i < session->row_count; i++) {
        free(session->rows[i].text);
        json_decref(session->rows[i].words);
    }
    free(session->rows);
    ocr_standing_deinit(&session->around);
    cv_panes_deinit(&session->panes);
    ocr_tracks_deinit(&session->tracks);
    cv_frame_deinit(&session->before);
    free(session);
}

/* Learns how the content moved since the frame before; where that is not known, a new scene
 * begins. */
static int learn_shift(struct ocr_session *session, struct cv_error *error)
{
    const struct cv_frame *frame = session->frame;
    const struct ocr_timing *timing = &session->timings[session->index];
    const struct cv_frame *before = &session->before;
    bool comparable =
        before->plane[0] && before->width == frame->width && before->height == frame->height;

    session->shift = (struct ocr_shift){timing->shift_known && comparable, timing->dx, timing->dy};
    session->jump_count = 0;
    for (size_t i = 0; i < session->tracks.count; i++) {
        struct ocr_track *track = session->tracks.items[i];
        track->matched = false;
        track->was = track->present ? track->box : (struct cv_box){0};
    }
    if (comparable && !session->shift.known) {
        CV_TRY(ocr_find_jumps(session, error));
    }
    if (!session->shift.known && session->jump_count) {
        session->shift = (struct ocr_shift){true, session->jumps[0].dx, session->jumps[0].dy};
    }
    if (!session->shift.known) {
        session->shift.dx = session->shift.dy = 0;
        return cv_panes_scene(&session->panes, error);
    }
    return cv_panes_step(&session->panes, before, frame,
                         (struct cv_point){session->shift.dx, session->shift.dy}, error);
}

bool ocr_is_found(const struct ocr_session *session, const struct cv_box *box)
{
    for (size_t i = 0; i < session->lines->count; i++) {
        const struct cv_box *found = &session->lines->items[i].box;
        if (abs(found->x - box->x) <= SAME_PLACE && abs(found->y - box->y) <= SAME_PLACE &&
            abs(found->width - box->width) <= 2 * SAME_PLACE &&
            abs(found->height - box->height) <= SAME_PLACE) {
            return true;
        }
    }
    return false;
}

/* A line that waited at an edge and has left it: read when it was whole, forgotten when what was
 * seen of it was a piece that is now part of other lines. */
static int settle_waiting(struct ocr_session *session, struct ocr_track *track,
                          struct cv_error *error)
{
    struct cv_box line = ocr_track_line(track);

    if (ocr_is_found(session, &line)) {
        return ocr_read_track(session, track, error);
    }
    CV_BECAUSE(session->reasons, track->id, 0, &line,
               "left out: what waited at an edge is now a part of other lines");
    ocr_tracks_remove(&session->tracks, track);
    return 0;
}

/* Ends the lines that are gone, and reads those that waited and are now whole. */
static int settle(struct ocr_session *session, struct cv_error *error)
{
    for (size_t i = session->tracks.count; i-- > 0;) {
        struct ocr_track *track = session->tracks.items[i];
        if (track->present && !track->matched) {
            CV_BECAUSE(session->reasons, track->id, 0, &track->box, "not found any more: %s",
                       track->differs ? track->differs : "it was not looked for");
            CV_TRY(ocr_end_stretch(session, track, error));
            track->present = false;
        } else if (track->open && !track->is_read && !ocr_track_is_left(track) &&
                   !ocr_touches_edge(ocr_session_pane(session), &track->box, session->frame->width,
                                     session->frame->height)) {
            CV_TRY(settle_waiting(session, track, error));
        }
    }
    return 0;
}

/* Reads what still stands and had to wait for the budget, before what is new: so it is read however much else comes and
 * goes. */
static int read_waiting(struct ocr_session *session, struct cv_error *error)
{
    for (size_t i = 0; i < session->tracks.count && session->budget.columns > 0; i++) {
        struct ocr_track *track = session->tracks.items[i];
        CV_TRY(track->matched && track->open && ocr_track_is_left(track)
                   ? ocr_read_track(session, track, error)
                   : 0);
    }
    return 0;
}

/* Leaves a frame out, for which the budget has no room: its lines would cost more than they are worth unread. How the
 * content moved to the next frame is then not known. */
static void leave_frame(struct ocr_session *session)
{
    cv_frame_deinit(&session->before);
    session->index++;
}

/* Follows and reads the lines of the next frame, which is ready. */
static int follow_frame(struct ocr_session *session, struct cv_error *error)
{
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = {0};
    cv_auto(cv_frame_deinit) struct cv_frame here = {0};
    bool is_film;

    CV_TRY(ocr_standing_take(&session->around, &here, &is_film, error));
    ocr_budget_advance(&session->budget, session->timings[session->index].t_start);
    if (session->reasons) {
        session->reasons->t_ms = session->timings[session->index].t_start;
    }
    session->screen.width = cv_max(session->screen.width, here.width);
    session->screen.height = cv_max(session->screen.height, here.height);
    session->reduction = cv_max(session->reduction, here.reduction);
    if (session->budget.columns <= 0) {
        leave_frame(session);
        return 0;
    }
    CV_TRY(cv_text_lines_find(&here, &lines, error));
    session->frame = &here;
    session->lines = &lines;
    if (is_film) {
        CV_BECAUSE(session->reasons, 0, 0, NULL,
                   "of the moving picture, what is light for a moment only was darkened");
    }
    CV_TRY(learn_shift(session, error));
    CV_TRY(ocr_follow(session, error));
    CV_TRY(read_waiting(session, error));
    CV_TRY(ocr_add_new_lines(session, error));
    CV_TRY(settle(session, error));
    ocr_mark_company(&session->tracks);
    cv_frame_deinit(&session->before);
    session->before = here;
    here = (struct cv_frame){0};
    session->frame = NULL;
    session->lines = NULL;
    session->index++;
    return 0;
}

int ocr_session_frame(struct ocr_session *session, struct cv_frame *frame, struct cv_error *error)
{
    if (session->around.received >= session->timing_count) {
        return cv_fail(error, CV_ERROR_INTERNAL, "more frames than times");
    }
    CV_TRY(ocr_standing_add(&session->around, frame, error));
    while (ocr_standing_ready(&session->around)) {
        CV_TRY(follow_frame(session, error));
    }
    return 0;
}
