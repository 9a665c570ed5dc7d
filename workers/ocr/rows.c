#include "workers/ocr/evidence.h"
#include "workers/ocr/session_internal.h"

#include <string.h>

/* Lines cut by an edge to the end read like garbage unless only a margin is missing. */
static const double CUT_CONFIDENCE_MIN = 0.85;

static int add_row(struct ocr_session *session, const struct ocr_track *track,
                   struct cv_error *error)
{
    if (session->row_count == OCR_ROWS_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the video has more than %d text lines",
                       OCR_ROWS_MAX);
    }
    if (session->row_count == session->row_capacity) {
        size_t capacity = session->row_capacity ? session->row_capacity * 2 : 256;
        void *grown = realloc(session->rows, capacity * sizeof(*session->rows));
        if (!grown) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu rows", capacity);
        }
        session->rows = grown;
        session->row_capacity = capacity;
    }
    struct ocr_row row = {.text = strdup(track->reading.text),
                          .confidence = track->reading.confidence,
                          .line = track->number,
                          .scene = track->scene,
                          .ink = track->crop.ink,
                          .weight = track->weight,
                          .has_company = track->has_company,
                          .stretch = track->stretch};
    if (!row.text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a row");
    }
    memcpy(row.language, track->reading.language, sizeof(row.language));
    session->rows[session->row_count++] = row;
    return 0;
}

static bool box_in_viewport(const struct ocr_viewport *viewport, const struct ocr_box *box)
{
    return ocr_viewport_known(viewport) && ocr_bottom(box) > viewport->top &&
           box->y < viewport->bottom;
}

int ocr_close(struct ocr_session *session, struct ocr_track *track, struct cv_error *error)
{
    const struct ocr_viewport *viewport = &session->viewports[track->scene];

    if (!track->open) {
        return 0;
    }
    track->open = false;
    track->stretch.moves =
        track->place == OCR_PLACE_MOVES ||
        (track->place == OCR_PLACE_UNKNOWN && box_in_viewport(viewport, &track->box));
    if (!track->is_read) {
        struct ocr_box frame_edge = track->box;
        struct ocr_viewport none = {0};
        if (ocr_touches_edge(&none, &frame_edge, session->screen.width, session->screen.height)) {
            return 0;
        }
        int result = ocr_read_track(session, track, error);
        if (result < 0) {
            return result;
        }
    }
    return track->reading.text[0] ? add_row(session, track, error) : 0;
}

static struct ocr_box box_at(const struct ocr_row *row, const struct ocr_sighting *sighting)
{
    return (struct ocr_box){sighting->x, sighting->y, row->stretch.width, row->stretch.height};
}

/* Whether both sightings touch the same edge, and that edge is known for sure. */
static bool at_sure_edge(const struct ocr_viewport *viewport, const struct ocr_box *first,
                         const struct ocr_box *last)
{
    bool top = ocr_max(first->y, last->y) <= viewport->top + 1;
    bool bottom = ocr_min(ocr_bottom(first), ocr_bottom(last)) >= viewport->bottom - 1;

    return (top && viewport->top_cuts >= OCR_VIEWPORT_SURE) ||
           (bottom && viewport->bottom_cuts >= OCR_VIEWPORT_SURE);
}

/* Height of the middle one of all rows, in pixels; 0 when there are none. */
static int typical_height(const struct ocr_session *session)
{
    size_t heights[OCR_GLYPH_HEIGHT_MAX * 3 + 1] = {0}, above = 0;

    for (size_t i = 0; i < session->row_count; i++) {
        int height = session->rows[i].stretch.height;
        heights[ocr_min(height, (int)CV_COUNT(heights) - 1)]++;
    }
    for (int height = (int)CV_COUNT(heights) - 1; height > 0; height--) {
        above += heights[height];
        if (above * 2 > session->row_count) {
            return height;
        }
    }
    return 0;
}

/* The upper or lower half of a line that rested on an edge which nothing else was seen to cross: it
 * stands there alone and is too low for a line of this video. */
static bool is_half(const struct ocr_viewport *viewport, const struct ocr_box *first,
                    const struct ocr_box *last, int typical)
{
    bool top = first->y <= viewport->top + 1 && last->y <= viewport->top + 1;
    bool bottom = ocr_bottom(first) >= viewport->bottom - 1 &&
                  ocr_bottom(last) >= viewport->bottom - 1 && last->y < viewport->bottom;

    return ocr_viewport_known(viewport) && ocr_bottom(first) > viewport->top && (top || bottom) &&
           first->height * 10 < typical * 7;
}

static bool is_cut(const struct ocr_session *session, const struct ocr_row *row, int typical)
{
    struct ocr_box first = box_at(row, &row->stretch.first), last = box_at(row, &row->stretch.last);
    const struct ocr_viewport *viewport = &session->viewports[row->scene];
    int width = session->screen.width, height = session->screen.height;

    if (row->stretch.moves && is_half(viewport, &first, &last, typical)) {
        return true;
    }
    if (!row->stretch.moves || !ocr_touches_edge(viewport, &first, width, height) ||
        !ocr_touches_edge(viewport, &last, width, height)) {
        return false;
    }
    return row->confidence < CUT_CONFIDENCE_MIN || at_sure_edge(viewport, &first, &last);
}

struct timed_row {
    const struct ocr_row *row;
    int64_t start, end;
};

static int compare_rows(const void *left, const void *right)
{
    const struct timed_row *a = left, *b = right;

    if (a->start != b->start) {
        return a->start < b->start ? -1 : 1;
    }
    if (a->row->stretch.first.y != b->row->stretch.first.y) {
        return a->row->stretch.first.y < b->row->stretch.first.y ? -1 : 1;
    }
    if (a->row->stretch.first.x != b->row->stretch.first.x) {
        return a->row->stretch.first.x < b->row->stretch.first.x ? -1 : 1;
    }
    return (a->row->line > b->row->line) - (a->row->line < b->row->line);
}

/* NULL when there is no memory. */
static json_t *box_json(const struct ocr_row *row, const struct ocr_sighting *sighting,
                        int reduction)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "x", sighting->x * reduction, "y",
                     sighting->y * reduction, "width", row->stretch.width * reduction, "height",
                     row->stretch.height * reduction);
}

static json_t *row_json(const struct timed_row *timed, int reduction)
{
    const struct ocr_row *row = timed->row;
    const struct ocr_sighting *first = &row->stretch.first, *last = &row->stretch.last;
    double confidence = (double)(int64_t)(row->confidence * 10000 + 0.5) / 10000;
    bool moved = first->x != last->x || first->y != last->y;
    json_t *json = json_pack("{s:s, s:f, s:s, s:o, s:I, s:I, s:I}", "text", row->text, "confidence",
                             confidence, "language", row->language, "bounding_box",
                             box_json(row, first, reduction), "t_start", (json_int_t)timed->start,
                             "t_end", (json_int_t)timed->end, "line", (json_int_t)row->line);

    if (json && moved &&
        json_object_set_new(json, "end_box", box_json(row, last, reduction)) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *rows_json(const struct ocr_session *session, double min_confidence,
                         struct timed_row *timed)
{
    json_t *detections = json_array();
    int typical = typical_height(session);
    size_t count = 0;

    for (size_t i = 0; i < session->row_count; i++) {
        const struct ocr_row *row = &session->rows[i];
        if (row->confidence < min_confidence || is_cut(session, row, typical)) {
            continue;
        }
        struct timed_row *here = &timed[count];
        here->row = row;
        ocr_timing_of(session->timings, session->timing_count, &row->stretch,
                      &session->viewports[row->scene], &session->screen, &here->start, &here->end);
        count += ocr_is_credible(row, here->end - here->start);
    }
    qsort(timed, count, sizeof(*timed), compare_rows);
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(detections, row_json(&timed[i], session->reduction)) != 0) {
            json_decref(detections);
            return NULL;
        }
    }
    return detections;
}

int ocr_session_finish(struct ocr_session *session, double min_confidence, json_t **ret_result,
                       struct cv_error *error)
{
    for (size_t i = 0; i < session->tracks.count; i++) {
        int result = ocr_close(session, session->tracks.items[i], error);
        if (result < 0) {
            return result;
        }
    }
    cv_auto_free struct timed_row *timed = calloc(session->row_count + 1, sizeof(*timed));
    json_t *detections = timed ? rows_json(session, min_confidence, timed) : NULL;
    json_t *result = detections ? json_pack("{s:o, s:I, s:I, s:I, s:I}", "detections", detections,
                                            "frames", (json_int_t)session->index, "lines_seen",
                                            (json_int_t)session->lines_seen, "lines_read",
                                            (json_int_t)session->lines_read, "readings",
                                            (json_int_t)session->readings)
                                : NULL;
    if (!result) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %zu rows", session->row_count);
    }
    *ret_result = result;
    return 0;
}
