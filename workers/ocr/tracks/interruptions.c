/* Rows of one line that something interrupted for a moment: a pointer that passed over it, a picture that
 * moved behind it, a frame in which it was found in pieces. */
#include "workers/ocr/tracks/interruptions.h"

#include "workers/ocr/tracks/accept.h"
#include "workers/ocr/tracks/same_line.h"

#include <ctype.h>
#include <string.h>

enum {
    GAP_MS = 300,     /* the longest time without any sighting of a line that stays */
    UNREAD_MS = 1500, /* the same up to a sighting of its very size that could not be read */
    LOOKED_AT = 512,  /* rows around one; more is a picture made to be slow */
    SAME_BOX = 3,     /* pixels by which the boxes of an unread and of a read sighting differ */
};

struct bridge {
    const struct ocr_session *session;
    struct ocr_row **rows; /* by their first frame */
    bool *is_sure;         /* of them: a line of text for itself */
    size_t count;
};

static int64_t start_of(const struct bridge *all, const struct ocr_row *row)
{
    return all->session->timings[row->stretch.first.frame].t_start;
}

static int64_t end_of(const struct bridge *all, const struct ocr_row *row)
{
    return all->session->timings[row->stretch.last.frame].t_end;
}

static bool is_sure(const struct bridge *all, const struct ocr_row *row, double least)
{
    struct ocr_standing standing = {.lasted_ms = end_of(all, row) - start_of(all, row),
                                    .width = row->stretch.width};

    return ocr_acceptance(row, &standing) >= least;
}

/* How far the content moved from one kept frame to another; false: not known. */
static bool moved_between(const struct bridge *all, int from, int to, int *ret_dx, int *ret_dy)
{
    *ret_dx = *ret_dy = 0;
    for (int frame = from + 1; frame <= to; frame++) {
        const struct ocr_timing *timing = &all->session->timings[frame];
        if (!timing->shift_known) {
            return false;
        }
        *ret_dx += timing->dx;
        *ret_dy += timing->dy;
    }
    return true;
}

/* Whether most of one of two rows lies in the other, where the earlier one is at x, y. */
static bool lies_at(const struct ocr_row *before, const struct ocr_row *after, int x, int y)
{
    const struct ocr_stretch *a = &before->stretch, *b = &after->stretch;
    struct cv_box place = {x, y, a->width, a->height};
    struct cv_box box = {b->first.x, b->first.y, b->width, b->height};
    int64_t least = cv_min(place.width * place.height, box.width * box.height);

    return cv_box_overlap(&place, &box) * 2 >= least;
}

/* Whether `after` begins where `before` may be by then: where it was, or moved with the content. */
static bool stands_there(const struct bridge *all, const struct ocr_row *before,
                         const struct ocr_row *after)
{
    const struct ocr_sighting *last = &before->stretch.last;
    int dx, dy;

    return lies_at(before, after, last->x, last->y) ||
           (after->stretch.first.frame > last->frame &&
            moved_between(all, last->frame, after->stretch.first.frame, &dx, &dy) &&
            lies_at(before, after, last->x + dx, last->y + dy));
}

/* Whether two readings differ in digits alone: a clock that went on, however unsure. */
static bool counted_on(const char *a, const char *b)
{
    bool differ = false;

    for (; *a && *b && (*a == *b || (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)));
         a++, b++) {
        differ = differ || *a != *b;
    }
    return differ && !*a && !*b;
}

/* Whether a sighting that could not be read is of the same line: it has the same size and no
 * other number. */
static bool is_same_box(const struct ocr_row *before, const struct ocr_row *after)
{
    const struct ocr_stretch *a = &before->stretch, *b = &after->stretch;

    return !counted_on(before->text, after->text) && abs(a->last.x - b->first.x) <= SAME_BOX &&
           abs(a->last.y - b->first.y) <= SAME_BOX && abs(a->width - b->width) <= SAME_BOX &&
           abs(a->height - b->height) <= SAME_BOX;
}

/* The nearest to `was` at which a side as long as a row's holds all of a later one, or lies in it. */
static int own_corner(int was, int length, int later, int later_length)
{
    int spare = length - later_length;

    return cv_max(cv_min(was, later - cv_min(spare, 0)), later - cv_max(spare, 0));
}

/* Appends a row's later sightings. Their box may lack letters, or have found them again: its corner is not the row's. */
static void append_sightings(struct ocr_row *row, struct ocr_row *later)
{
    struct ocr_stretch *a = &row->stretch, *b = &later->stretch;

    a->last =
        (struct ocr_sighting){b->last.frame, own_corner(a->last.x, a->width, b->last.x, b->width),
                              own_corner(a->last.y, a->height, b->last.y, b->height)};
    row->has_company = row->has_company || later->has_company;
    later->is_gone = true;
}

/* Joins the row at `index` with the rows that follow at its place. Rows of pieces are dropped
 * when the line is seen whole again. */
static void bridge_on(struct bridge *all, size_t index)
{
    struct ocr_row *row = all->rows[index];
    struct ocr_row *pieces[LOOKED_AT];
    size_t piece_count = 0;
    int64_t seen = end_of(all, row);

    for (size_t i = index + 1; i < all->count && i <= index + LOOKED_AT; i++) {
        struct ocr_row *next = all->rows[i];
        int64_t gap = start_of(all, next) - seen;
        if (gap > UNREAD_MS) {
            return;
        }
        if (next->is_gone || next->stretch.last.frame <= row->stretch.last.frame) {
            continue;
        }
        bool is_later = next->stretch.first.frame > row->stretch.last.frame;
        if (!stands_there(all, row, next)) {
            continue;
        }
        bool is_again = strcmp(row->text, next->text) == 0;
        if (is_later &&
            ((is_again && gap <= GAP_MS) || (!all->is_sure[i] && is_same_box(row, next)))) {
            CV_BECAUSE(all->session->reasons, row->id, next->id, NULL, "joined after %d ms: %s",
                       (int)gap,
                       is_again ? "the same text at its place"
                                : "something of its size at its place that could not be read");
            append_sightings(row, next);
            for (size_t k = 0; k < piece_count; k++) {
                pieces[k]->is_gone = pieces[k]->is_gone || all->is_sure[i] ||
                                     pieces[k]->stretch.last.frame <= row->stretch.last.frame;
                if (pieces[k]->is_gone) {
                    CV_BECAUSE(all->session->reasons, pieces[k]->id, row->id, NULL,
                               "left out: a part of that line, which stood around it");
                }
            }
            piece_count = all->is_sure[i] ? 0 : piece_count;
        } else if (gap <= GAP_MS && next->stretch.width <= row->stretch.width + row->tall &&
                   ocr_shares_text(row->text, next->text)) {
            pieces[piece_count++] = next;
        } else if (all->is_sure[i] && is_later) {
            CV_BECAUSE(all->session->reasons, next->id, row->id, NULL,
                       "not joined with the line that stood there %d ms before: %s", (int)gap,
                       is_again ? "it was away for more than 300 ms"
                                : "it is read surely, and has another text or place");
            return;
        } else {
            continue;
        }
        int64_t end = end_of(all, next);
        seen = seen > end ? seen : end;
    }
}

int ocr_join_interrupted_rows(struct ocr_session *session, double least, struct cv_error *error)
{
    size_t count = session->row_count;
    cv_auto_free struct ocr_row **rows = calloc(count + 1, sizeof(struct ocr_row *));
    cv_auto_free bool *sure = calloc(count + 1, sizeof(*sure));
    struct bridge all = {session, rows, sure, count};

    CV_TRY_MEMORY(rows && sure, error, "rows");
    for (size_t i = 0; i < count; i++) {
        rows[i] = &session->rows[i];
    }
    qsort(rows, count, sizeof(struct ocr_row *), ocr_compare_starts);
    for (size_t i = 0; i < count; i++) {
        sure[i] = is_sure(&all, rows[i], least);
    }
    for (size_t i = 0; i < count; i++) {
        if (!rows[i]->is_gone && sure[i] && strlen(rows[i]->text) >= OCR_TEXT_MIN) {
            bridge_on(&all, i);
        }
    }
    return 0;
}
