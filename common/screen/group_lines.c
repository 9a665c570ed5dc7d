#include "common/screen/group_lines.h"

#include <string.h>

enum {
    OPEN_MAX = 4096, /* lines under construction at one place from left to right */
    /* Components of a mark apart from its letters: an ellipsis. More are a text of their own. */
    MARKS_MOST = 3,
    DOTS_MOST = 2,  /* of a letter */
    TALL_MOST = 60, /* pixels: beside taller things, letters may be less than a tenth as high */
    BAND = 4,       /* last letters whose height and place a line is continued at */
    /* Parts of square letters, in hundredths of the height of both. Of drawn Korean, Chinese and Japanese pages (looked at)
     * 49 of 51 pairs of pieces have wider ones in the mean; of 750 frames of recordings of screens 209 pairs, mostly of
     * pictures, have narrower ones, and 16 a wider one. */
    PART_WIDTH = 35,
    WIDEST_MAX = 125,
    PARTS_REACH = 8, /* of that height, one part in so many is in both at least: rows leave a gap */
    CELL_MIN = 12,   /* pixels: 30 pairs in those frames are lower */
    NO_LINE = -1,
};

void cv_text_lines_deinit(struct cv_text_lines *lines)
{
    free(lines->items);
    free(lines->glyphs);
    *lines = (struct cv_text_lines){0};
}

/* A line under construction. */
struct growing {
    struct cv_box box;
    int tall; /* tallest letter */
    int band_top[BAND], band_bottom[BAND];
    int band_count;
    int glyphs;
    int widths, widest; /* of its glyphs: of all together, and of one */
    int cells;          /* height of square letters whose parts are its glyphs; 0: none are known */
    int merged_into;    /* NO_LINE, or the line that took it */
};

struct grouping {
    const struct cv_component *items;
    size_t count;
    int *line_of; /* component → line */
    struct growing *lines;
    int line_count;
    int *open;
    int open_count;
};

/* The line that took this one, or itself. */
static int root_of(const struct grouping *all, int line)
{
    while (all->lines[line].merged_into != NO_LINE) {
        line = all->lines[line].merged_into;
    }
    return line;
}

static int band_top(const struct growing *line)
{
    int top = line->band_top[0];
    for (int i = 1; i < cv_min(line->band_count, BAND); i++) {
        top = cv_min(top, line->band_top[i]);
    }
    return top;
}

static int band_bottom(const struct growing *line)
{
    int bottom = line->band_bottom[0];
    for (int i = 1; i < cv_min(line->band_count, BAND); i++) {
        bottom = cv_max(bottom, line->band_bottom[i]);
    }
    return bottom;
}

/* How wide a gap may be inside of a line whose tall letters have height `tall` (≈ 0.73 em): a bit
 * over one em. A blank has a quarter of an em, columns stand further apart. */
static int gap_limit(int tall)
{
    return tall + tall * 9 / 20 + 1;
}

/* Whether marks (dots, commas, accents, quotes, hyphens) belong to letters at [from, to). What begins below them is an
 * underscore or a dot, as wide as high: a narrower sign is of a label under a bar of a chart. */
static bool mark_fits(const struct cv_box *mark, int count, int from, int to)
{
    int band = to - from, slack = band * 3 / 8;
    bool begins_in = mark->y <= to;
    bool begins_below = mark->y <= to + band / 6 + 1 && mark->width >= mark->height * count;

    return mark->y >= from - slack && cv_box_bottom(mark) <= to + slack &&
           (begins_in || begins_below);
}

/* How well `box` continues `line`: larger is better, negative is not at all. */
static int score(const struct growing *line, const struct cv_box *box)
{
    int gap = box->x - cv_box_right(&line->box);
    int from = band_top(line), to = band_bottom(line);
    int band = to - from, height = box->height;
    int overlap = cv_min(to, cv_box_bottom(box)) - cv_max(from, box->y);

    if (gap > gap_limit(cv_max(line->tall, height)) || gap > gap_limit(line->tall) * 2) {
        return -1;
    }
    if (height * 20 < band * 9) {
        bool fits = mark_fits(box, 1, from, to);
        return fits && gap <= gap_limit(line->tall) ? 1000 - cv_max(gap, 0) * 100 / (band + 1) : -1;
    }
    if (band * 20 < height * 9) {
        bool fits = mark_fits(&line->box, line->glyphs, box->y, cv_box_bottom(box));
        return fits && gap * 2 <= height ? 500 - cv_max(gap, 0) : -1;
    }
    int small = cv_min(band, height), large = cv_max(band, height);
    if (overlap * 20 < small * 11 || large * 10 > small * 26) {
        bool is_mark = height * 20 < band * 13 && mark_fits(box, 1, from, to);
        return is_mark && gap <= gap_limit(line->tall) ? 500 - cv_max(gap, 0) : -1;
    }
    return 1000 + 1000 * overlap / large - cv_max(gap, 0) * 200 / (large + 1);
}

static void extend(struct growing *line, const struct cv_box *box)
{
    int band = line->band_count ? band_bottom(line) - band_top(line) : 0;

    line->box = line->glyphs ? cv_box_union(&line->box, box) : *box;
    line->glyphs++;
    line->widths += box->width;
    line->widest = cv_max(line->widest, box->width);
    if (box->height * 20 >= band * 9) {
        /* A first mark (dot of an i, quote) must not stay in the band of the letters. */
        if (band * 20 < box->height * 9) {
            line->band_count = 0;
        }
        line->band_top[line->band_count % BAND] = box->y;
        line->band_bottom[line->band_count % BAND] = cv_box_bottom(box);
        line->band_count++;
        line->tall = cv_max(line->tall, box->height);
    }
}

static void close_passed(struct grouping *all, int x)
{
    int kept = 0;

    for (int i = 0; i < all->open_count; i++) {
        const struct growing *line = &all->lines[all->open[i]];
        if (x - cv_box_right(&line->box) <= gap_limit(cv_max(line->tall, 8)) * 2) {
            all->open[kept++] = all->open[i];
        }
    }
    all->open_count = kept;
}

static void place(struct grouping *all, size_t item)
{
    const struct cv_box *box = &all->items[item].box;
    int best = NO_LINE, best_score = -1;

    for (int i = 0; i < all->open_count; i++) {
        int mark = score(&all->lines[all->open[i]], box);
        if (mark > best_score) {
            best_score = mark;
            best = all->open[i];
        }
    }
    if (best == NO_LINE) {
        if (all->open_count == OPEN_MAX) {
            return;
        }
        best = all->line_count++;
        all->lines[best] = (struct growing){.merged_into = NO_LINE};
        all->open[all->open_count++] = best;
    }
    extend(&all->lines[best], box);
    all->line_of[item] = best;
}

/* Whether a dash stands before letters, as before the items of a list: then a blank may lie between. */
static bool is_list_dash(const struct growing *small, const struct growing *large)
{
    const struct cv_box *dash = &small->box, *text = &large->box;
    int above = dash->y - text->y, below = cv_box_bottom(text) - cv_box_bottom(dash);

    return small->glyphs == 1 && dash->width * 2 >= dash->height * 3 &&
           dash->width <= large->tall && dash->height * 4 <= large->tall &&
           above * 4 >= large->tall && below * 4 >= large->tall &&
           text->x - cv_box_right(dash) <= gap_limit(large->tall) && dash->x < text->x;
}

/* Whether a letter of one piece stands on the baseline of a letter of the other one. */
static bool share_baseline(const struct growing *a, const struct growing *b)
{
    int slack = cv_max(a->box.height, b->box.height) / 8;
    bool is = false;

    for (int i = 0; i < cv_min(a->band_count, BAND); i++) {
        for (int k = 0; k < cv_min(b->band_count, BAND) && !is; k++) {
            is = abs(a->band_bottom[i] - b->band_bottom[k]) <= slack;
        }
    }
    return is;
}

/* Whether two finished pieces are one line: same height and place, or a stray mark beside letters. */
static bool same_line(const struct growing *a, const struct growing *b)
{
    const struct growing *left = a->box.x <= b->box.x ? a : b, *right = left == a ? b : a;
    int gap = right->box.x - cv_box_right(&left->box);
    const struct growing *large = a->box.height >= b->box.height ? a : b;
    const struct growing *small = large == a ? b : a;
    int height = large->box.height,
        overlap =
            cv_min(cv_box_bottom(&a->box), cv_box_bottom(&b->box)) - cv_max(a->box.y, b->box.y);

    if (is_list_dash(small, large)) {
        return true;
    }
    if (small->box.height * 20 < large->tall * 9) {
        return small->glyphs <= MARKS_MOST && small->box.width <= 3 * height &&
               gap * 2 <= large->tall &&
               mark_fits(&small->box, small->glyphs, large->box.y, cv_box_bottom(&large->box));
    }
    /* "ana: " has no tall letter: on one baseline with others, it is a line of theirs */
    int tall =
        share_baseline(a, b) && cv_min(a->tall, b->tall) * 20 >= cv_max(a->tall, b->tall) * 13
            ? cv_max(a->tall, b->tall)
            : cv_min(a->tall, b->tall);
    return gap <= gap_limit(tall) && overlap * 10 >= small->box.height * 7 &&
           height * 10 <= small->box.height * 22;
}

/* Whether two pieces are the upper and the lower parts of the same square letters (Hangul, Han): they reach into one
 * another, as two rows do not, and are wide for the height of both. */
static bool are_cells(const struct growing *a, const struct growing *b)
{
    struct cv_box both = cv_box_union(&a->box, &b->box);
    int shared = cv_min(cv_box_right(&a->box), cv_box_right(&b->box)) - cv_max(a->box.x, b->box.x);
    int reach = cv_min(cv_box_bottom(&a->box), cv_box_bottom(&b->box)) - cv_max(a->box.y, b->box.y);
    const struct growing *small = a->glyphs < b->glyphs ? a : b;

    return both.height >= CELL_MIN && reach * PARTS_REACH >= both.height &&
           (small->glyphs > 1 || reach + 1 >= small->box.height) &&
           cv_min(a->box.height, b->box.height) * 3 > both.height &&
           shared * 5 >= cv_min(a->box.width, b->box.width) * 4 &&
           cv_max(a->widest, b->widest) * 100 <= WIDEST_MAX * both.height &&
           (a->widths + b->widths) * 100 >= PART_WIDTH * both.height * (a->glyphs + b->glyphs);
}

static int compare_tops(const void *left, const void *right, void *lines)
{
    const struct growing *a = &((const struct growing *)lines)[*(const int *)left];
    const struct growing *b = &((const struct growing *)lines)[*(const int *)right];

    if (a->box.y != b->box.y) {
        return a->box.y < b->box.y ? -1 : 1;
    }
    return *(const int *)left - *(const int *)right;
}

static struct growing join(const struct growing *into, const struct growing *from, bool as_cells)
{
    struct growing both = into->tall >= from->tall ? *into : *from; /* its baseline */

    both.box = cv_box_union(&into->box, &from->box);
    both.glyphs = into->glyphs + from->glyphs;
    both.widths = into->widths + from->widths;
    both.widest = cv_max(into->widest, from->widest);
    both.cells = as_cells ? both.box.height : cv_max(into->cells, from->cells);
    both.tall = cv_max(both.tall, both.cells);
    both.merged_into = NO_LINE;
    return both;
}

/* Joins pieces of one line that left-to-right growth kept apart: parts of square letters, or others. */
static void merge_pieces(struct grouping *all, bool as_cells)
{
    int *order = all->open; /* free by now, and large enough */
    int count = cv_min(all->line_count, OPEN_MAX);

    for (int i = 0; i < count; i++) {
        order[i] = i;
    }
    qsort_r(order, (size_t)count, sizeof(*order), compare_tops, all->lines);
    for (int i = 0; i < count; i++) {
        for (int k = i + 1; k < count; k++) {
            int a = root_of(all, order[i]), b = root_of(all, order[k]);
            struct growing *into = &all->lines[a], *from = &all->lines[b];
            if (all->lines[order[k]].box.y > cv_box_bottom(&into->box) + into->box.height / 2) {
                break;
            }
            if (a == b || !(as_cells ? are_cells(into, from) : same_line(into, from))) {
                continue;
            }
            *into = join(into, from, as_cells);
            from->merged_into = a;
        }
    }
}

/* Height of the tall letters: between the median and the tallest, deaf to a lone tall thing. */
static int tall_of(const struct cv_box *glyphs, size_t count, int *scratch)
{
    for (size_t i = 0; i < count; i++) {
        scratch[i] = glyphs[i].height;
    }
    qsort(scratch, count, sizeof(*scratch), cv_compare_ints);
    return scratch[count - 1 - count / 6];
}

/* Height of a row from its baseline to the tops of its tallest letters, marks (quotes) included: "name:" has no tall
 * letter. A lone tall thing is none, and letters are at most half as high again as those without ascenders. */
static int row_of(const struct cv_box *glyphs, size_t count, int tall, int *scratch)
{
    for (size_t i = 0; i < count; i++) {
        scratch[i] = cv_box_bottom(&glyphs[i]);
    }
    qsort(scratch, count, sizeof(*scratch), cv_compare_ints);
    int baseline = scratch[count / 2];
    for (size_t i = 0; i < count; i++) {
        scratch[i] = baseline - glyphs[i].y;
    }
    qsort(scratch, count, sizeof(*scratch), cv_compare_ints);
    return cv_max(tall, cv_min(scratch[count - cv_min(count, 2)], tall * 3 / 2));
}

/* `rows` are those from the top of its letters to their bottom, without marks and specks. */
static bool is_text(const struct cv_text_line *line, int rows)
{
    const struct cv_box *box = &line->box;

    if (box->height < 6 || box->height > CV_GLYPH_HEIGHT_MAX || box->width < 4) {
        return false;
    }
    /* Letters of one line share their height; a patch of texture piles up. */
    if (rows * 10 > line->tall * 22) {
        return false;
    }
    return line->glyphs > 1 ? box->width * 2 >= box->height
                            : box->height >= 8 && box->width <= 40 * box->height;
}

static int compare_lines(const void *left, const void *right)
{
    const struct cv_box *a = &((const struct cv_text_line *)left)->box;
    const struct cv_box *b = &((const struct cv_text_line *)right)->box;

    if (a->y != b->y) {
        return a->y < b->y ? -1 : 1;
    }
    return (a->x > b->x) - (a->x < b->x);
}

void cv_text_lines_sort(struct cv_text_lines *lines)
{
    qsort(lines->items, lines->count, sizeof(*lines->items), compare_lines);
}

/* Adds one piece of a line, if it can be text. */
static void add_piece(struct cv_text_lines *lines, size_t first, size_t count, int cells,
                      int *scratch)
{
    struct cv_text_line line = {
        .box = lines->glyphs[first],
        .tall = cv_max(tall_of(lines->glyphs + first, count, scratch), cells * 3 / 4),
        .glyphs = (int)count,
        .first_glyph = first,
        .glyph_count = count};
    int top = INT32_MAX, bottom = 0;

    for (size_t i = first; i < first + count; i++) {
        const struct cv_box *glyph = &lines->glyphs[i];
        line.box = cv_box_union(&line.box, glyph);
        if (glyph->height * 20 >= line.tall * 9) {
            top = cv_min(top, glyph->y);
            bottom = cv_max(bottom, cv_box_bottom(glyph));
        }
    }
    if (lines->count < CV_TEXT_LINES_MAX && is_text(&line, bottom - top)) {
        lines->items[lines->count++] = line;
    }
}

/* A line grew over gaps that fitted its tallest glyph. Where that was an emoji or a picture, they may
 * be columns to its letters ("12 likes", "3 comments"), which are known only now. */
static void add_pieces(struct cv_text_lines *lines, size_t first, size_t count, int cells,
                       int *scratch)
{
    const struct cv_box *glyphs = lines->glyphs + first;
    int tall = cv_max(tall_of(glyphs, count, scratch), cells);
    int limit = gap_limit(row_of(glyphs, count, tall, scratch));
    int right = cv_box_right(&lines->glyphs[first]);
    size_t piece = first;

    for (size_t i = first + 1; i < first + count; i++) {
        if (lines->glyphs[i].x - right > limit) {
            add_piece(lines, piece, i - piece, cells, scratch);
            piece = i;
        }
        right = cv_max(right, cv_box_right(&lines->glyphs[i]));
    }
    add_piece(lines, piece, first + count - piece, cells, scratch);
}

/* Glyph boxes sorted by their line (components are in order of x already), and the lines' marks. */
static int gather(struct grouping *all, struct cv_text_lines *lines, struct cv_error *error)
{
    cv_auto_free size_t *start = calloc((size_t)all->line_count + 2, sizeof(*start));
    cv_auto_free int *scratch = calloc(all->count + 1, sizeof(*scratch));

    lines->items = calloc(CV_TEXT_LINES_MAX, sizeof(*lines->items));
    lines->glyphs = calloc(all->count + 1, sizeof(*lines->glyphs));
    CV_TRY_MEMORY(start && scratch && lines->items && lines->glyphs, error, "text lines");
    for (size_t i = 0; i < all->count; i++) {
        if (all->line_of[i] != NO_LINE) {
            all->line_of[i] = root_of(all, all->line_of[i]);
            start[all->line_of[i] + 1]++;
        }
    }
    for (int i = 0; i < all->line_count; i++) {
        start[i + 1] += start[i];
    }
    for (size_t i = 0; i < all->count; i++) {
        if (all->line_of[i] != NO_LINE) {
            lines->glyphs[start[all->line_of[i]]++] = all->items[i].box;
        }
    }
    lines->glyph_count = all->count;
    for (int i = 0; i < all->line_count && lines->count < CV_TEXT_LINES_MAX; i++) {
        size_t first = i ? start[i - 1] : 0, count = start[i] - first;
        if (all->lines[i].merged_into == NO_LINE && count) {
            add_pieces(lines, first, count, all->lines[i].cells, scratch);
        }
    }
    cv_text_lines_sort(lines);
    return 0;
}

/* What a line consists of besides its tallest things. */
struct letters {
    int tall;  /* of the largest that are small beside the tallest */
    int width; /* of all those, in pixels */
    int count; /* of all those */
    int rest;  /* width of the others */
    int rest_count;
    int tallest;     /* height of the tallest */
    int first, last; /* the components at its ends; NO_LINE where there is none */
};

/* Whether a component lies inside of another that is no wider than a letter or two: the hole of an
 * o, or the inner outline of a bold letter. */
static bool is_hole(const struct grouping *all, size_t item)
{
    const struct cv_box *box = &all->items[item].box;

    for (size_t i = item; i-- > 0 && box->x - all->items[i].box.x <= CV_GLYPH_HEIGHT_MAX * 2;) {
        const struct cv_box *around = &all->items[i].box;
        if (cv_box_right(around) >= cv_box_right(box) && around->y <= box->y &&
            cv_box_bottom(around) >= cv_box_bottom(box) && around->width <= 2 * around->height) {
            return true;
        }
    }
    return false;
}

static bool is_of(const struct grouping *all, size_t item, int line)
{
    return all->line_of[item] != NO_LINE && root_of(all, all->line_of[item]) == line;
}

static void count_end(struct letters *ends, const struct cv_component *items, int item)
{
    ends->tallest = cv_max(ends->tallest, items[item].box.height);
    ends->first = ends->first == NO_LINE ? item : ends->first; /* items are in order of x */
    if (ends->last == NO_LINE ||
        cv_box_right(&items[item].box) > cv_box_right(&items[ends->last].box)) {
        ends->last = item;
    }
}

/* What else a line has than one of its ends and what lies in that: a picture in its frame. */
struct rest {
    int tallest; /* pixels; 0: nothing */
    int gap;     /* pixels from the end; 0 where they touch */
};

static struct rest rest_of(const struct grouping *all, int line, int end)
{
    const struct cv_box *box = &all->items[end].box;
    struct rest rest = {0, CV_GLYPH_HEIGHT_MAX};

    for (size_t i = 0; i < all->count; i++) {
        const struct cv_box *other = &all->items[i].box;
        if (!is_of(all, i, line) || cv_box_lies_in(other, box)) {
            continue;
        }
        int gap = cv_max(other->x - cv_box_right(box), box->x - cv_box_right(other));
        rest.gap = cv_max(cv_min(rest.gap, gap), 0);
        rest.tallest = cv_max(rest.tallest, other->height);
    }
    return rest;
}

/* An avatar of one colour before a name, a button behind it: about as wide as high, larger than anything else of the
 * line, and further from it than a blank; where it is so large that it can be no emoji, not so far. */
static bool stands_apart(const struct grouping *all, int line, int tallest, int end)
{
    const struct cv_box *box = &all->items[end].box;

    if (box->height < tallest || box->width * 10 < box->height * 7 ||
        box->width * 10 > box->height * 14) {
        return false;
    }
    struct rest rest = rest_of(all, line, end);
    bool large = box->height * 20 >= rest.tallest * 33;
    return rest.tallest >= CV_GLYPH_HEIGHT_MIN + 2 && box->height * 10 >= rest.tallest * 13 &&
           (large || !all->items[end].has_parts) &&
           rest.gap * 20 >= rest.tallest * (large ? 7 : 11);
}

/* Marks what stands apart at the ends of lines; whether there is any. */
static bool find_apart(const struct grouping *all, bool *left_out, struct letters *ends)
{
    bool found = false;

    for (int i = 0; i < all->line_count; i++) {
        ends[i].first = ends[i].last = NO_LINE;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (all->line_of[i] != NO_LINE) {
            count_end(&ends[root_of(all, all->line_of[i])], all->items, (int)i);
        }
    }
    for (int i = 0; i < all->line_count; i++) {
        for (int k = 0; k < 2 && ends[i].tallest; k++) {
            int end = k ? ends[i].last : ends[i].first;
            if (!stands_apart(all, i, ends[i].tallest, end)) {
                continue;
            }
            found = true;
            for (size_t item = 0; item < all->count; item++) {
                left_out[item] =
                    left_out[item] || (is_of(all, item, i) &&
                                       cv_box_lies_in(&all->items[item].box, &all->items[end].box));
            }
        }
    }
    return found;
}

/* Whether the small components of a line are its letters: they are wider than the others. A single large thing
 * with a label, such as a bar of a chart, has more of them than a letter has dots. */
static bool outweigh(const struct letters *letters, int tall)
{
    bool is_label = letters->rest_count == 1 && letters->count > DOTS_MOST &&
                    letters->width * 2 >= letters->rest;

    return is_label || (letters->width * 4 >= tall * 3 && letters->width >= letters->rest);
}

/* Marks the components of lines that are no letters. These are components more than twice as
 * tall as the letters that they were grouped with (an avatar, a picture or a button's frame, to
 * which letters were added as if they were its dots and commas), and components at an end of a
 * line that are as wide as high, larger than the letters and further from them than a blank,
 * with what lies in them. The pieces of an emoji behind a sentence are few beside its words and
 * mark none of them. Returns whether any was marked; `letters` is scratch space, one for each
 * line. */
static bool leave_out_pictures(const struct grouping *all, bool *left_out, struct letters *letters)
{
    bool found = false;

    memset(letters, 0, (size_t)all->line_count * sizeof(*letters));
    found = find_apart(all, left_out, letters);
    for (size_t i = 0; i < all->count; i++) {
        int line = all->line_of[i] == NO_LINE ? NO_LINE : root_of(all, all->line_of[i]);
        const struct cv_box *box = &all->items[i].box;
        if (line == NO_LINE) {
            continue;
        }
        if (box->height * 20 >= all->lines[line].tall * 9) {
            letters[line].rest += box->width;
            letters[line].rest_count++;
        } else if (box->height * 10 >= cv_min(all->lines[line].tall, TALL_MOST) &&
                   !is_hole(all, i)) {
            letters[line].count++;
            letters[line].tall = cv_max(letters[line].tall, box->height);
            letters[line].width += box->width;
        }
    }
    for (size_t i = 0; i < all->count; i++) {
        int line = all->line_of[i] == NO_LINE ? NO_LINE : root_of(all, all->line_of[i]);
        if (line != NO_LINE && !all->lines[line].cells &&
            letters[line].tall >= CV_GLYPH_HEIGHT_MIN + 2 &&
            outweigh(&letters[line], all->lines[line].tall) &&
            all->items[i].box.height * 10 > letters[line].tall * 22) {
            left_out[i] = true;
            found = true;
        }
    }
    return found;
}

static void grow_all(struct grouping *all, const bool *left_out)
{
    all->line_count = 0;
    all->open_count = 0;
    for (size_t i = 0; i < all->count; i++) {
        all->line_of[i] = NO_LINE;
        if (i % 16 == 0) {
            close_passed(all, all->items[i].box.x);
        }
        if (!left_out[i]) {
            place(all, i);
        }
    }
    merge_pieces(all, true);
    merge_pieces(all, false);
}

int cv_text_lines_group(const struct cv_components *components, struct cv_text_lines *ret_lines,
                        struct cv_error *error)
{
    enum { PASSES = 3 };
    size_t count = components->count;
    cv_auto_free int *line_of = malloc((count + 1) * sizeof(*line_of));
    cv_auto_free struct growing *growing = malloc((count + 1) * sizeof(*growing));
    cv_auto_free int *open = malloc(OPEN_MAX * sizeof(*open));
    cv_auto_free bool *left_out = calloc(count + 1, sizeof(*left_out));
    cv_auto_free struct letters *letters = malloc((count + 1) * sizeof(*letters));
    cv_auto(cv_text_lines_deinit) struct cv_text_lines lines = {0};

    CV_TRY_MEMORY(line_of && growing && open && left_out && letters, error, "grouping components");
    struct grouping all = {components->items, count, line_of, growing, 0, open, 0};
    grow_all(&all, left_out);
    for (int i = 1; i < PASSES && leave_out_pictures(&all, left_out, letters); i++) {
        grow_all(&all, left_out);
    }
    CV_TRY(gather(&all, &lines, error));
    *ret_lines = lines;
    lines = (struct cv_text_lines){0};
    return 0;
}
