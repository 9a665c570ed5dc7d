#include "workers/ocr/tracks/rows.h"

#include "workers/ocr/reading/reading.h"
#include "workers/ocr/tracks/accept.h"
#include "workers/ocr/tracks/detection.h"
#include "workers/ocr/tracks/follow.h"
#include "workers/ocr/tracks/interruptions.h"
#include "workers/ocr/tracks/line_path.h"
#include "workers/ocr/tracks/new_lines.h"
#include "workers/ocr/tracks/same_line.h"

#include <string.h>

/* Lines that could not be read are kept for other models, where lines are kept at all. */
static int record_row(struct ocr_session *session, const struct ocr_track *track,
                      struct cv_error *error)
{
    bool is_empty = !track->reading.text[0];

    if (is_empty && (!session->pack || session->row_count == OCR_ROWS_MAX)) {
        return 0;
    }
    if (session->row_count == OCR_ROWS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video has more than %d text lines",
                       OCR_ROWS_MAX);
    }
    CV_TRY_MEMORY(CV_MAKE_ROOM(session->rows, session->row_count), error, "rows");
    struct ocr_row row = {.text = strdup(track->reading.text),
                          .confidence = track->reading.confidence,
                          .worst_word = track->reading.worst_word,
                          .agreement = track->reading.agreement,
                          .line = track->number,
                          .id = track->id,
                          .predecessor = track->predecessor,
                          .tall = track->crop.tall,
                          .picture = track->picture,
                          .words = ocr_word_boxes(&track->crop, track->reading.text),
                          .ink = track->crop.ink,
                          .weight = track->weight,
                          .has_company = track->has_company,
                          .stretch = track->stretch};
    if (!row.text || !row.words) {
        free(row.text);
        json_decref(row.words);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a row");
    }
    memcpy(row.language, track->reading.language, sizeof(row.language));
    session->rows[session->row_count++] = row;
    return 0;
}

int ocr_end_stretch(struct ocr_session *session, struct ocr_track *track, struct cv_error *error)
{
    if (!track->open) {
        return 0;
    }
    track->open = false;
    track->stretch.places = track->places;
    CV_BECAUSE(session->reasons, track->id, 0, &track->box, "was whole in %d kept frames",
               track->stretch.last.frame - track->stretch.first.frame + 1);
    if (!track->is_read) {
        const struct ocr_sighting *first = &track->stretch.first, *last = &track->stretch.last;
        /* What moves at the frame's edge is cut. What stands there may be whole: the first line of a terminal. */
        bool stood = first->x == last->x && first->y == last->y;
        if (!stood &&
            ocr_touches_edge(NULL, &track->box, session->screen.width, session->screen.height)) {
            CV_BECAUSE(session->reasons, track->id, 0, NULL,
                       "left out: it moved at the picture's edge, which cut it all the time");
            return 0;
        }
        if (session->budget.columns <= 0) {
            CV_BECAUSE(session->reasons, track->id, 0, NULL,
                       "left out: the budget of reading was used up");
            session->lines_left++;
            return 0;
        }
        CV_TRY(ocr_read_track(session, track, error));
    }
    return record_row(session, track, error);
}

static struct cv_box box_at(const struct ocr_row *row, const struct ocr_sighting *sighting)
{
    return (struct cv_box){sighting->x, sighting->y, row->stretch.width, row->stretch.height};
}

/* A sighting of a row, and the pane whose edges it lies within; NULL where it does not move. */
struct bounded {
    struct cv_box box;
    const struct cv_pane *pane;
};

static struct bounded bounds_of(const struct ocr_session *session, const struct ocr_row *row,
                                const struct ocr_sighting *sighting)
{
    struct bounded bounded = {box_at(row, sighting), NULL};
    int pane = cv_panes_near(&session->panes, (size_t)sighting->frame);

    if (cv_panes_move(&session->panes, pane, &row->stretch.places, &bounded.box)) {
        bounded.pane = cv_panes_get(&session->panes, pane);
    }
    return bounded;
}

static bool at_top(const struct bounded *at)
{
    return at->box.y <= at->pane->top + 1;
}

static bool at_bottom(const struct bounded *at)
{
    return cv_box_bottom(&at->box) >= at->pane->bottom - 1;
}

/* Whether both sightings touch the same edge, and that edge is known for sure. */
static bool at_sure_edge(const struct bounded *first, const struct bounded *last)
{
    bool top = at_top(first) && at_top(last), bottom = at_bottom(first) && at_bottom(last);

    return (top && cv_min(first->pane->top_cuts, last->pane->top_cuts) >= CV_PANE_SURE) ||
           (bottom && cv_min(first->pane->bottom_cuts, last->pane->bottom_cuts) >= CV_PANE_SURE);
}

enum cut {
    CUT_NOWHERE,
    CUT_PERHAPS, /* it ends at an edge that is not sure */
    CUT_SURELY,
};

static enum cut cut_of(const struct ocr_session *session, const struct ocr_row *row)
{
    struct bounded first = bounds_of(session, row, &row->stretch.first);
    struct bounded last = bounds_of(session, row, &row->stretch.last);
    int width = session->screen.width, height = session->screen.height;
    bool moves = first.pane && last.pane;

    if (!ocr_touches_edge(moves ? first.pane : NULL, &first.box, width, height) ||
        !ocr_touches_edge(moves ? last.pane : NULL, &last.box, width, height)) {
        return CUT_NOWHERE;
    }
    return moves && at_sure_edge(&first, &last) ? CUT_SURELY : CUT_PERHAPS;
}

/* A row, or one visit of several. */
struct timed_row {
    const struct ocr_row *row;
    struct ocr_stretch stretch; /* of the row, in that visit */
    struct ocr_span span;
    bool is_cut;
};

static int compare_rows(const void *left, const void *right)
{
    const struct timed_row *a = left, *b = right;

    if (a->span.start != b->span.start) {
        return a->span.start < b->span.start ? -1 : 1;
    }
    if (a->stretch.first.y != b->stretch.first.y) {
        return a->stretch.first.y < b->stretch.first.y ? -1 : 1;
    }
    if (a->stretch.first.x != b->stretch.first.x) {
        return a->stretch.first.x < b->stretch.first.x ? -1 : 1;
    }
    return (a->row->line > b->row->line) - (a->row->line < b->row->line);
}

/* A line of which only the margin is outside of the picture matches as a whole: its box is the
 * part inside. */
static struct ocr_kept_row kept_row(const struct timed_row *timed,
                                    const struct ocr_session *session)
{
    const struct ocr_row *row = timed->row;
    const struct ocr_stretch *stretch = &timed->stretch;
    struct cv_box first = box_at(row, &stretch->first), last = box_at(row, &stretch->last);
    int reduction = session->reduction;

    first = cv_box_clip(&first, session->screen.width, session->screen.height);
    last = cv_box_clip(&last, session->screen.width, session->screen.height);
    return (struct ocr_kept_row){
        .picture = row->picture,
        .line = row->line,
        .t_start = timed->span.start,
        .t_end = timed->span.end,
        .box = {first.x * reduction, first.y * reduction, first.width * reduction,
                first.height * reduction},
        .end_x = last.x * reduction,
        .end_y = last.y * reduction,
        .is_cut = timed->is_cut,
        .is_faint = row->ink.is_faint,
        .has_company = row->has_company,
        .kind = row->ink.kind,
        .clarity = row->ink.clarity,
    };
}

/* `session->panes` must be settled. */
static struct ocr_course course_of(const struct ocr_session *session)
{
    return (struct ocr_course){session->timings, session->timing_count, &session->panes,
                               session->screen, session->reduction};
}

struct timed_rows {
    struct timed_row *items;
    size_t count;
};

static void timed_rows_deinit(struct timed_rows *timed)
{
    free(timed->items);
}
CV_DEFINE_CLEANUP_ADDRESS(struct timed_rows, timed_rows_deinit)

static int time_row(const struct ocr_course *course, const struct ocr_row *row, bool is_cut,
                    struct cv_reasons *reasons, struct timed_rows *timed, struct cv_error *error)
{
    struct ocr_visits visits;

    ocr_timing_of(course, &row->stretch, &visits);
    if (visits.count > 1) {
        CV_BECAUSE(reasons, row->id, 0, NULL,
                   "%d rows of one line: the content took it out of view and back", visits.count);
    }
    for (int i = 0; i < visits.count; i++) {
        const struct ocr_visit *visit = &visits.items[i];
        CV_TRY_MEMORY(CV_MAKE_ROOM(timed->items, timed->count), error, "rows");
        struct timed_row *here = &timed->items[timed->count++];
        *here = (struct timed_row){row, row->stretch, visit->span, is_cut};
        here->stretch.first = visit->first;
        here->stretch.last = visit->last;
    }
    return 0;
}

/* All rows that are whole lines, with their times and in their order. */
static int time_rows(const struct ocr_session *session, struct timed_rows *timed,
                     struct cv_error *error)
{
    struct ocr_course course = course_of(session);

    for (size_t i = 0; i < session->row_count; i++) {
        const struct ocr_row *row = &session->rows[i];
        enum cut cut = row->is_gone ? CUT_SURELY : cut_of(session, row);
        if (cut == CUT_SURELY && !row->is_gone) {
            CV_BECAUSE(session->reasons, row->id, 0, NULL,
                       "left out: an edge of its pane cut it all the time");
        }
        CV_TRY(cut == CUT_SURELY
                   ? 0
                   : time_row(&course, row, cut == CUT_PERHAPS, session->reasons, timed, error));
    }
    if (timed->count > 0) {
        qsort(timed->items, timed->count, sizeof(*timed->items), compare_rows);
    }
    return 0;
}

/* What ocr_session_finish gathers. */
struct gathering {
    const struct ocr_session *session;
    struct ocr_course course;
    double least;
    json_t *detections;
    json_t *evidence; /* NULL: not asked for */
};

static int add_row(const struct gathering *all, const struct timed_row *timed,
                   struct cv_error *error)
{
    const struct ocr_row *row = timed->row;
    struct ocr_pack *pack = all->session->pack;
    struct ocr_kept_row kept = kept_row(timed, all->session);
    CV_TRY(ocr_path_of(&all->course, &timed->stretch, timed->span, &kept.path, error));
    cv_auto(json_decref) json_t *path = kept.path;
    double acceptance = ocr_row_judge(row, row->stretch.width, all->least, &kept);
    bool stands = !kept.refusal;

    json_t *detection = stands ? ocr_detection_json(row, &kept) : NULL;
    if (detection && pack && row->picture >= 0) {
        (void)json_object_set_new(detection, "picture", json_integer(row->picture));
    }
    bool is_full =
        (stands && json_array_append_new(all->detections, detection) != 0) ||
        (all->evidence && row->text[0] &&
         json_array_append_new(all->evidence,
                               ocr_evidence_json(row, row->stretch.width, &kept, acceptance)) != 0);
    CV_TRY_MEMORY(!is_full, error, "a row");
    bool is_kept = stands || ocr_is_worth_keeping(&row->ink, kept.t_end - kept.t_start);
    return pack && row->picture >= 0 && is_kept ? ocr_pack_row(pack, &kept, error) : 0;
}

int ocr_session_finish(struct ocr_session *session, double min_confidence, json_t **ret_result,
                       struct cv_error *error)
{
    if (session->timing_count) {
        ocr_budget_advance(&session->budget, session->timings[session->timing_count - 1].t_end);
    }
    for (size_t i = 0; i < session->tracks.count; i++) {
        CV_TRY(ocr_end_stretch(session, session->tracks.items[i], error));
    }
    CV_TRY(cv_panes_finish(&session->panes, error));
    CV_TRY(ocr_join_hidden_rows(session, error));
    CV_TRY(ocr_join_interrupted_rows(session, min_confidence, error));
    cv_auto(timed_rows_deinit) struct timed_rows timed = {0};
    cv_auto(json_decref) json_t *detections = json_array();
    struct cv_reasons *reasons = session->reasons;
    cv_auto(json_decref) json_t *evidence = reasons ? json_array() : NULL;
    CV_TRY_MEMORY(detections && (evidence || !reasons), error, "rows");
    CV_TRY(time_rows(session, &timed, error));
    struct gathering all = {session, course_of(session), min_confidence, detections, evidence};
    for (size_t i = 0; i < timed.count; i++) {
        CV_TRY(add_row(&all, &timed.items[i], error));
    }
    json_t *result =
        json_pack("{s:O, s:O*, s:O*, s:I, s:I, s:I, s:I, s:I}", "detections", detections,
                  "evidence", evidence, "reasons", reasons ? reasons->list : NULL, "frames",
                  (json_int_t)session->index, "lines_seen", (json_int_t)session->lines_seen,
                  "lines_read", (json_int_t)session->lines_read, "readings",
                  (json_int_t)session->readings, "truncated", (json_int_t)session->lines_left);
    CV_TRY_MEMORY(result && !(reasons && reasons->has_failed), error, "rows");
    *ret_result = result;
    return 0;
}
