#include "workers/ocr/tracks/same_line.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum {
    ALIGNED = 4,     /* pixels by which the left or right edges of one line differ */
    CLOSE = 2,       /* letter heights: what is so near to a cover may be taken for a part of it */
    LETTERS_MIN = 4, /* bytes that two texts have in common */
    LETTERS_OFF = 2, /* … but for so many: half a letter is read as another one */
    LINES_MAX = 128, /* of one frame that are looked at; more is texture */
    PAIRS_MAX = 64,  /* of lines before and after that may be the same */
    AGREE_MIN = 3,   /* lines that have to agree on how the page grew */
    APART_MIN = 3,   /* line heights between two of which the growth is taken */
    SIDE_EDGE = 2,   /* pixels from the picture's side to ink that it cuts: edges are within */
};

/* What grows by less is standing; what grows by more is another page. */
static const double GROWTH_MIN = 0.01, GROWTH_MAX = 1.0;

bool ocr_shares_place(const struct cv_box *known, const struct cv_box *fresh)
{
    int middle = known->y + known->height / 2 - fresh->y - fresh->height / 2;
    bool left = abs(known->x - fresh->x) <= ALIGNED;
    bool right = abs(cv_box_right(known) - cv_box_right(fresh)) <= ALIGNED;

    return (left || right) && abs(middle) * 2 <= cv_min(known->height, fresh->height);
}

static size_t common_start(const char *a, const char *b)
{
    size_t length = 0;

    while (a[length] && a[length] == b[length]) {
        length++;
    }
    return length;
}

static size_t common_end(const char *a, const char *b)
{
    size_t left = strlen(a), right = strlen(b), length = 0;

    while (length < left && length < right && a[left - 1 - length] == b[right - 1 - length]) {
        length++;
    }
    return length;
}

static bool has_digit(const char *text, size_t from, size_t to)
{
    bool has = false;

    for (size_t i = from; i < to && !has; i++) {
        has = isdigit((unsigned char)text[i]);
    }
    return has;
}

bool ocr_digits_differ(const char *a, const char *b)
{
    size_t left = strlen(a), right = strlen(b), shorter = left < right ? left : right;
    size_t start = common_start(a, b), end = common_end(a, b);

    end = end < shorter - start ? end : shorter - start;
    bool here = has_digit(a, start, left - end), there = has_digit(b, start, right - end);
    bool beside = (start > 0 && isdigit((unsigned char)a[start - 1])) ||
                  (end > 0 && isdigit((unsigned char)a[left - end]));
    return (here && there) || ((here || there) && (beside || start + end == shorter));
}

bool ocr_shares_text(const char *a, const char *b)
{
    size_t left = strlen(a), right = strlen(b), shorter = left < right ? left : right;
    size_t start = common_start(a, b), end = common_end(a, b);
    size_t common = start + end < shorter ? start + end : shorter;
    bool is_piece = strstr(left < right ? b : a, left < right ? a : b) != NULL;
    bool is_alike = common * 4 >= shorter * 3 && !ocr_digits_differ(a, b);

    return shorter + 1 >= OCR_TEXT_MIN && (is_piece || is_alike);
}

/* Two readings of one line at one place, of which one is unsure: over a moving picture every frame
 * reads a little differently. Numbers have to agree. */
const char *ocr_parts_lines(const struct ocr_track *known, const struct ocr_track *fresh)
{
    const char *a = known->reading.text, *b = fresh->reading.text;
    size_t longest = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
    bool picture = fresh->crop.ink.kind != CV_INK_FLAT || known->crop.ink.kind != CV_INK_FLAT;
    double unsure = known->reading.worst_word < fresh->reading.worst_word
                        ? known->reading.worst_word
                        : fresh->reading.worst_word;

    /* Two lines that cannot be read are not one line for that reason. */
    if (strcmp(a, b) == 0) {
        return a[0] ? NULL : "neither could be read";
    }
    return longest < 4 || longest > OCR_COMPARED_MAX ? "their texts are too short or too long"
           : !picture && unsure > 0.7                ? "each word of both is read surely"
           : abs(known->box.x - fresh->box.x) > known->crop.tall ||
                   abs(known->crop.height - fresh->crop.height) > known->crop.tall
               ? "they stand apart"
           : ocr_digits_differ(a, b)            ? "their numbers differ"
           : ocr_text_edits(a, b) * 6 > longest ? "more than a sixth of the letters differ"
                                                : NULL;
}

/* How much of a line the second row shows, against the first; by their texts. */
enum share { SHARE_NONE, SHARE_SAME, SHARE_MORE, SHARE_LESS };

static enum share share_of(const struct ocr_row *known, const struct ocr_row *fresh)
{
    size_t before = strlen(known->text), after = strlen(fresh->text);
    size_t start = common_start(known->text, fresh->text);
    size_t end = common_end(known->text, fresh->text);
    size_t common = start > end ? start : end, shorter = before < after ? before : after;

    if (before == after && common == before) {
        return SHARE_SAME;
    }
    size_t least = shorter < LETTERS_MIN + LETTERS_OFF ? 1 : LETTERS_MIN;
    if (common < least || common + LETTERS_OFF < shorter) {
        return SHARE_NONE;
    }
    return after > before ? SHARE_MORE : SHARE_LESS;
}

/* Whether something hides a part of the line where the row sighted it, or lies so near that it was
 * read with it: `width` is that of the line as a whole. */
static bool is_hidden(const struct ocr_session *session, const struct ocr_row *row,
                      const struct ocr_sighting *sighting, int width)
{
    int pane = cv_panes_near(&session->panes, (size_t)sighting->frame);
    int reach = width - row->stretch.width + CLOSE * row->tall;
    struct cv_box around = {sighting->x - reach, sighting->y, row->stretch.width + 2 * reach,
                            row->stretch.height};

    return cv_pane_covers(cv_panes_get(&session->panes, pane), &around);
}

/* Whether the picture's side cuts the line there: `width` is that of the line as a whole. */
static bool is_cut_aside(const struct ocr_session *session, const struct ocr_row *row,
                         const struct ocr_sighting *sighting, int width)
{
    int missing = width - row->stretch.width;

    return sighting->x - missing <= SIDE_EDGE ||
           sighting->x + width >= session->screen.width - SIDE_EDGE;
}

/* Joins two rows: `after` continues `before` and takes over its beginning. */
static void unite(const struct ocr_session *session, struct ocr_row *before, struct ocr_row *after)
{
    const struct ocr_timing *timing = &session->timings[after->stretch.first.frame];
    struct ocr_sighting first = before->stretch.first, last = before->stretch.last;

    after->stretch.first =
        (struct ocr_sighting){first.frame, first.x + after->stretch.first.x - timing->dx - last.x,
                              first.y + after->stretch.first.y - timing->dy - last.y};
    after->has_company = after->has_company || before->has_company;
    after->predecessor = before->predecessor;
    before->is_gone = true;
}

/* One line, seen by two rows, one after the other. The one that ends at a cover, or at the picture's
 * side towards which it moves, shows a part of it, or the cover's picture beside it. */
static void compare(const struct ocr_session *session, struct ocr_row *before,
                    struct ocr_row *after)
{
    int width = cv_max(before->stretch.width, after->stretch.width);
    bool hid_before = is_hidden(session, before, &before->stretch.last, width);
    bool hid_after = is_hidden(session, after, &after->stretch.first, width);
    if (session->timings[after->stretch.first.frame].dx != 0) {
        hid_before = hid_before || is_cut_aside(session, before, &before->stretch.last, width);
        hid_after = hid_after || is_cut_aside(session, after, &after->stretch.first, width);
    }
    enum share share = share_of(before, after);

    if (share == SHARE_SAME) {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL,
                   "joined: the same text took its place in the content");
        unite(session, before, after);
    } else if (share != SHARE_NONE && hid_before && (share == SHARE_MORE || !hid_after)) {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL,
                   "joined: something hid a part of it before");
        unite(session, before, after);
        after->stretch.pieced = true;
    } else if (share != SHARE_NONE && hid_after) {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL,
                   "left out: a part of that line, of which something hides the rest");
        after->is_gone = true;
    } else {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL,
                   "not joined with the line whose place it took: %s",
                   share == SHARE_NONE ? "their texts have too little in common"
                                       : "nothing hid a part of either");
    }
}

/* A line before and after; places are those of its left upper corner. */
struct pair {
    struct ocr_row *before, *after;
};

/* Where things went: x' = scale · x + dx. */
struct growth {
    double scale, dx, dy;
    int agree;
};

static bool agrees(const struct growth *growth, const struct pair *pair)
{
    const struct ocr_sighting *from = &pair->before->stretch.last;
    const struct ocr_sighting *to = &pair->after->stretch.first;
    double slack = pair->after->tall / 2.0;

    return fabs(growth->scale * from->x + growth->dx - to->x) <= slack &&
           fabs(growth->scale * from->y + growth->dy - to->y) <= slack;
}

/* The growth that most of the lines agree on. */
static struct growth find_growth(const struct pair *pairs, size_t count)
{
    struct growth best = {.agree = 0};

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            const struct ocr_sighting *a = &pairs[i].before->stretch.last;
            const struct ocr_sighting *b = &pairs[k].before->stretch.last;
            const struct ocr_sighting *to = &pairs[i].after->stretch.first;
            if (b->y - a->y < APART_MIN * pairs[i].before->tall) {
                continue;
            }
            struct growth growth = {.scale = (double)(pairs[k].after->stretch.first.y - to->y) /
                                             (b->y - a->y)};
            growth.dx = to->x - growth.scale * a->x;
            growth.dy = to->y - growth.scale * a->y;
            for (size_t n = 0; n < count; n++) {
                growth.agree += agrees(&growth, &pairs[n]);
            }
            best = growth.agree > best.agree ? growth : best;
        }
    }
    return best;
}

#define CUT_BY_SIDE "left out: a part of that line, of which the picture's side cuts the rest"

/* One line, or one and a piece of it that the picture's right side has left. */
static void settle_pair(const struct ocr_session *session, const struct pair *pair, double scale)
{
    struct ocr_row *before = pair->before, *after = pair->after;
    double was = fmax(before->stretch.width, after->stretch.width / scale);
    double is = fmax(after->stretch.width, before->stretch.width * scale);
    int side = session->screen.width - SIDE_EDGE;
    enum share share = share_of(before, after);

    if (share == SHARE_SAME && !before->is_gone) {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL,
                   "joined: the page grew or shrank, and its lines with it");
        after->stretch.first = before->stretch.first;
        after->has_company = after->has_company || before->has_company;
        before->is_gone = true;
    } else if (share == SHARE_LESS && after->stretch.first.x + is >= side) {
        CV_BECAUSE(session->reasons, after->id, before->id, NULL, CUT_BY_SIDE);
        after->is_gone = true;
    } else if (share == SHARE_MORE && before->stretch.last.x + was >= side) {
        CV_BECAUSE(session->reasons, before->id, after->id, NULL, CUT_BY_SIDE);
        before->is_gone = true;
    }
}

void ocr_join_grown_rows(const struct ocr_session *session, struct ocr_row *const *before,
                         size_t before_count, struct ocr_row *const *after, size_t after_count)
{
    struct pair pairs[PAIRS_MAX];
    size_t count = 0;

    before_count = before_count < LINES_MAX ? before_count : LINES_MAX;
    after_count = after_count < LINES_MAX ? after_count : LINES_MAX;
    for (size_t i = 0; i < before_count; i++) {
        for (size_t k = 0; k < after_count && count < PAIRS_MAX; k++) {
            if (share_of(before[i], after[k]) != SHARE_NONE) {
                pairs[count++] = (struct pair){before[i], after[k]};
            }
        }
    }
    struct growth growth = find_growth(pairs, count);
    double grown = fabs(growth.scale - 1);
    if (growth.agree < AGREE_MIN || grown < GROWTH_MIN || grown > GROWTH_MAX || growth.scale <= 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (agrees(&growth, &pairs[i])) {
            settle_pair(session, &pairs[i], growth.scale);
        }
    }
}

static int compare_by_id(const void *left, const void *right)
{
    const struct ocr_row *a = *(struct ocr_row *const *)left, *b = *(struct ocr_row *const *)right;

    if (a->id != b->id) {
        return a->id < b->id ? -1 : 1;
    }
    return (a->stretch.last.frame > b->stretch.last.frame) -
           (a->stretch.last.frame < b->stretch.last.frame);
}

static int compare_by_end(const void *left, const void *right)
{
    const struct ocr_row *a = *(struct ocr_row *const *)left, *b = *(struct ocr_row *const *)right;

    if (a->stretch.last.frame != b->stretch.last.frame) {
        return a->stretch.last.frame < b->stretch.last.frame ? -1 : 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

int ocr_compare_starts(const void *left, const void *right)
{
    const struct ocr_row *a = *(struct ocr_row *const *)left, *b = *(struct ocr_row *const *)right;

    if (a->stretch.first.frame != b->stretch.first.frame) {
        return a->stretch.first.frame < b->stretch.first.frame ? -1 : 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

/* Compares each frame into which no shift is known. `by_end` is the caller's
 * to reorder. */
static int unite_grown(const struct ocr_session *session, struct ocr_row **by_end,
                       struct cv_error *error)
{
    size_t count = session->row_count, end = 0, start = 0;
    cv_auto_free struct ocr_row **by_start = malloc((count + 1) * sizeof(*by_start));

    CV_TRY_MEMORY(by_start, error, "rows");
    memcpy(by_start, by_end, count * sizeof(struct ocr_row *));
    qsort(by_end, count, sizeof(struct ocr_row *), compare_by_end);
    qsort(by_start, count, sizeof(struct ocr_row *), ocr_compare_starts);
    while (start < count) {
        int frame = by_start[start]->stretch.first.frame;
        size_t next = start;
        while (next < count && by_start[next]->stretch.first.frame == frame) {
            next++;
        }
        while (end < count && by_end[end]->stretch.last.frame < frame - 1) {
            end++;
        }
        size_t last = end;
        while (last < count && by_end[last]->stretch.last.frame == frame - 1) {
            last++;
        }
        if (cv_panes_at(&session->panes, (size_t)frame) < 0) {
            ocr_join_grown_rows(session, by_end + end, last - end, by_start + start, next - start);
        }
        start = next;
    }
    return 0;
}

int ocr_join_hidden_rows(struct ocr_session *session, struct cv_error *error)
{
    cv_auto_free struct ocr_row **by_id = calloc(session->row_count + 1, sizeof(*by_id));

    CV_TRY_MEMORY(by_id, error, "rows");
    for (size_t i = 0; i < session->row_count; i++) {
        by_id[i] = &session->rows[i];
    }
    qsort(by_id, session->row_count, sizeof(struct ocr_row *), compare_by_id);
    for (size_t i = 0; i < session->row_count; i++) {
        struct ocr_row *after = &session->rows[i];
        struct ocr_row key = {.id = after->predecessor,
                              .stretch.last.frame = after->stretch.first.frame - 1};
        const struct ocr_row *wanted = &key;
        struct ocr_row **before = after->predecessor
                                      ? bsearch(&wanted, by_id, session->row_count,
                                                sizeof(struct ocr_row *), compare_by_id)
                                      : NULL;
        if (before && !(*before)->is_gone) {
            compare(session, *before, after);
        }
    }
    return unite_grown(session, by_id, error);
}
