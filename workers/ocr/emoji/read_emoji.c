#include "workers/ocr/emoji/candidates.h"
#include "workers/ocr/emoji/emoji.h"

enum {
    FAINT = 14,       /* levels from the paper that belong to an emoji; codec noise stays below */
    BLANK_MAX = 2,    /* rows or columns of paper inside of one (a cup and its steam) */
    SUSPECTS_MAX = 8, /* glyphs of a line that are compared because of their colours alone */
    RUN_MAX = 8,      /* emoji that touch each other */
    SIDE_MIN = 16,    /* pixels; smaller ones cannot be told apart from symbols */
    SIDE_MAX = 200,
    SHORE = 4,         /* one pixel in so many may bleed into the paper beside an emoji */
    COMPARED_MAX = 64, /* boxes of one line; more are compared again */
};

/* By how much several emoji side by side have to be a better likeness than fewer. */
static const double PARTS_LEAD = 0.03;
/* A box that was compared already: the same ones come again where colours bleed little. */
struct compared {
    struct cv_box box;
    struct ocr_emoji_match match;
};

struct reading {
    const struct cv_frame *frame;
    const struct cv_ink *ink;
    int tall;     /* of the line's letters */
    int bleeding; /* per cent of the strongest colour that count as paper */
    int faint;    /* levels from the paper that belong to the emoji being looked at */
    struct ocr_emoji *emoji;
    size_t count;
    struct compared compared[COMPARED_MAX];
    size_t compared_count;
};

static int away(const struct reading *reading, int x, int y)
{
    size_t at = (size_t)y * (size_t)reading->frame->width + (size_t)x;

    return cv_ink_distance(reading->ink, reading->frame, at);
}

static bool differs(const struct reading *reading, int x, int y)
{
    return away(reading, x, y) >= reading->faint;
}

/* Colours bleed into the paper, the more the stronger they are. */
static int faintest(const struct reading *reading, const struct cv_box *box)
{
    struct cv_box inside = cv_box_clip(box, reading->frame->width, reading->frame->height);
    int most = 0;

    for (int y = inside.y; y < cv_box_bottom(&inside); y++) {
        for (int x = inside.x; x < cv_box_right(&inside); x++) {
            most = cv_max(most, away(reading, x, y));
        }
    }
    return cv_max(FAINT, most * reading->bleeding / 100);
}

/* Pixels of a box that belong to something. */
static int ink_in(const struct reading *reading, struct cv_box box)
{
    int found = 0;

    for (int y = box.y; y < cv_box_bottom(&box); y++) {
        for (int x = box.x; x < cv_box_right(&box); x++) {
            found += differs(reading, x, y);
        }
    }
    return found;
}

static bool row_differs(const struct reading *reading, int y, int from, int to)
{
    return ink_in(reading, (struct cv_box){from, y, to - from, 1}) >= 2;
}

static bool column_differs(const struct reading *reading, int x, int from, int to)
{
    return ink_in(reading, (struct cv_box){x, from, 1, to - from}) >= 2;
}

/* The last place from `edge` on, at most `reach` away in the direction of `step`, up to which rows
 * (or columns) differ with no more than BLANK_MAX blank ones between. */
static int grow_edge(const struct reading *reading, bool rows, int edge, int step, int reach,
                     int from, int to)
{
    int last = edge, blank = 0;

    for (int i = 1; i <= reach && blank <= BLANK_MAX; i++) {
        int at = edge + i * step;
        bool here =
            rows ? row_differs(reading, at, from, to) : column_differs(reading, at, from, to);
        last = here ? at : last;
        blank = here ? 0 : blank + 1;
    }
    return last;
}

/* The tight box of what differs from the paper in and around a spot. */
static struct cv_box tighten(struct reading *reading, const struct ocr_emoji_candidate *spot)
{
    const struct cv_frame *frame = reading->frame;
    int left = spot->box.x, right = cv_box_right(&spot->box) - 1;
    int top = spot->box.y, bottom = cv_box_bottom(&spot->box) - 1;
    reading->faint = faintest(reading, &spot->box);
    int reach = cv_max(cv_max(spot->box.height, spot->box.width), reading->tall);

    for (int round = 0; round < 2; round++) {
        int up = cv_min(reach * 2 / 3, top),
            down = cv_min(reach * 2 / 3, frame->height - 1 - bottom);
        top = grow_edge(reading, true, top, -1, up, left, right + 1);
        bottom = grow_edge(reading, true, bottom, 1, down, left, right + 1);
        int west = cv_min(reach, left - cv_max(spot->left, 0));
        int east = cv_min(reach, cv_min(spot->right, frame->width) - 1 - right);
        left = grow_edge(reading, false, left, -1, west, top, bottom + 1);
        right = grow_edge(reading, false, right, 1, east, top, bottom + 1);
    }
    while (top < bottom && !row_differs(reading, top, left, right + 1)) {
        top++;
    }
    while (bottom > top && !row_differs(reading, bottom, left, right + 1)) {
        bottom--;
    }
    while (left < right && !column_differs(reading, left, top, bottom + 1)) {
        left++;
    }
    while (right > left && !column_differs(reading, right, top, bottom + 1)) {
        right--;
    }
    return (struct cv_box){left, top, right - left + 1, bottom - top + 1};
}

/* Emoji are a bit larger than the letters beside them; an avatar is much larger. */
static bool has_emoji_size(const struct reading *reading, const struct cv_box *box)
{
    return box->width >= SIDE_MIN && box->height >= SIDE_MIN && box->height <= SIDE_MAX &&
           box->height * 10 >= reading->tall * 6 && box->height * 10 <= reading->tall * 26;
}

/* Whether there is paper around a box, within the frame: a piece of a picture, of a gradient, of a bar or of a
 * word has more of itself beside it. A neighbour that it reaches is no more of itself. */
static bool is_island(const struct reading *reading, const struct ocr_emoji_candidate *spot,
                      const struct cv_box *box)
{
    int right = cv_box_right(box), bottom = cv_box_bottom(box);

    if (box->x == 0 || box->y == 0 || right >= reading->frame->width ||
        bottom >= reading->frame->height) {
        return false;
    }
    struct cv_box left_side = {box->x - 1, box->y, 1, box->height}, right_side = left_side;
    struct cv_box top_side = {box->x, box->y - 1, box->width, 1}, bottom_side = top_side;
    right_side.x = right;
    bottom_side.y = bottom;
    int before = box->x > spot->left ? ink_in(reading, left_side) : 0;
    int behind = right < spot->right ? ink_in(reading, right_side) : 0;
    int above = ink_in(reading, top_side), below = ink_in(reading, bottom_side);
    return cv_max(before, behind) * SHORE <= box->height &&
           cv_max(above, below) * SHORE <= box->width;
}

static void add(struct reading *reading, const struct ocr_emoji *emoji)
{
    if (reading->count < OCR_EMOJI_LINE_MAX) {
        reading->emoji[reading->count++] = *emoji;
    }
}

static struct ocr_emoji_match match_box(struct reading *reading, const struct cv_box *box)
{
    for (size_t i = 0; i < reading->compared_count; i++) {
        const struct cv_box *known = &reading->compared[i].box;
        if (known->x == box->x && known->y == box->y && known->width == box->width &&
            known->height == box->height) {
            return reading->compared[i].match;
        }
    }
    struct ocr_emoji_match match = ocr_emoji_match(reading->frame, reading->ink->paper, box);
    if (reading->compared_count < COMPARED_MAX) {
        reading->compared[reading->compared_count++] = (struct compared){*box, match};
    }
    return match;
}

/* Reads a box as `parts` emoji side by side; their mean score, 0 when one is none. */
static double match_parts(struct reading *reading, const struct cv_box *box, int parts,
                          struct ocr_emoji *found)
{
    double sum = 0;

    for (int i = 0; i < parts; i++) {
        int from = box->x + box->width * i / parts, to = box->x + box->width * (i + 1) / parts;
        struct ocr_emoji_candidate spot = {{from, box->y, to - from, box->height}, from, to, true};
        struct cv_box part = parts > 1 ? tighten(reading, &spot) : *box;
        struct ocr_emoji_match match = match_box(reading, &part);
        if (!ocr_emoji_is_sure(&match)) {
            return 0;
        }
        found[i] = (struct ocr_emoji){part, match.text, match.score};
        sum += match.score;
    }
    return sum / parts;
}

/* The best reading of a spot so far. */
struct guess {
    struct ocr_emoji emoji[RUN_MAX];
    int parts;
    double score;
};

/* Reads a spot as one emoji, or as several that touch, when that is better than `best`. */
static void guess(struct reading *reading, const struct ocr_emoji_candidate *spot,
                  struct guess *best)
{
    struct cv_box box = tighten(reading, spot);
    int likely = (box.width * 10 + box.height * 5) / (box.height * 10);

    if (!has_emoji_size(reading, &box) || !is_island(reading, spot, &box)) {
        return;
    }
    for (int parts = cv_max(likely - 1, 1); parts <= cv_min(likely + 1, RUN_MAX); parts++) {
        struct guess here = {.parts = parts};
        if (box.width < parts * SIDE_MIN || box.width * 10 > box.height * parts * 16) {
            continue;
        }
        here.score = match_parts(reading, &box, parts, here.emoji);
        double lead = best->parts && best->parts < parts ? PARTS_LEAD : 0;
        if (here.score > best->score + lead) {
            *best = here;
        }
    }
}

/* Adds the emoji at a spot; returns whether there are any. How far a colour bled is not known: a
 * red heart has a pink halo that does not belong to it, and the rim of a white cup is as faint
 * as that. */
static bool read_spot(struct reading *reading, const struct ocr_emoji_candidate *spot)
{
    static const int bleeding[] = {14, 7};
    struct guess best = {.parts = 0};

    for (size_t i = 0; i < CV_COUNT(bleeding); i++) {
        reading->bleeding = bleeding[i];
        guess(reading, spot, &best);
    }
    for (int i = 0; i < best.parts; i++) {
        add(reading, &best.emoji[i]);
    }
    return best.parts > 0;
}

static void read_spots(struct reading *reading, const struct cv_text_line *line,
                       const struct cv_box *glyphs)
{
    struct ocr_emoji_candidate spots[OCR_EMOJI_LINE_MAX];
    size_t count =
        ocr_emoji_candidates(reading->frame, reading->ink, line, glyphs, spots, CV_COUNT(spots));
    int suspects = 0;

    for (size_t i = 0; i < count; i++) {
        if (!spots[i].picture && suspects++ >= SUSPECTS_MAX) {
            continue;
        }
        if (!read_spot(reading, &spots[i]) && spots[i].picture) {
            add(reading, &(struct ocr_emoji){spots[i].box, NULL, 0});
        }
    }
}

/* The next thing beside `edge` in the line's rows; false when there is only paper. */
static bool next_beside(const struct reading *reading, const struct cv_text_line *line, int edge,
                        int step, struct ocr_emoji_candidate *ret_spot)
{
    int gap = reading->tall * 3 / 2, from = line->box.y, to = cv_box_bottom(&line->box);
    int limit = step > 0 ? reading->frame->width : -1, x = edge;

    while (x != limit && gap-- > 0 && !column_differs(reading, x, from, to)) {
        x += step;
    }
    if (x == limit || gap < 0) {
        return false;
    }
    struct cv_box box = {x, line->box.y, 1, line->box.height};
    *ret_spot = (struct ocr_emoji_candidate){box, step > 0 ? edge : 0,
                                             step > 0 ? reading->frame->width : edge + 1, true};
    return true;
}

/* Emoji before and behind the line, as far as they follow each other. */
static void read_beside(struct reading *reading, const struct cv_text_line *line, int step)
{
    int edge = step > 0 ? cv_box_right(&line->box) : line->box.x - 1;
    struct ocr_emoji_candidate spot;

    while (edge > 0 && edge < reading->frame->width &&
           next_beside(reading, line, edge, step, &spot)) {
        size_t before = reading->count;
        if (!read_spot(reading, &spot)) {
            return;
        }
        for (size_t i = before; i < reading->count; i++) {
            const struct cv_box *box = &reading->emoji[i].box;
            edge = step > 0 ? cv_max(edge, cv_box_right(box)) : cv_min(edge, box->x - 1);
        }
    }
}

static int compare_places(const void *left, const void *right)
{
    const struct ocr_emoji *a = left, *b = right;
    return (a->box.x > b->box.x) - (a->box.x < b->box.x);
}

/* Drops what was found twice; the pictures that were read come first in doubt. */
static void drop_doubles(struct reading *reading)
{
    size_t kept = 0;

    qsort(reading->emoji, reading->count, sizeof(*reading->emoji), compare_places);
    for (size_t i = 0; i < reading->count; i++) {
        struct ocr_emoji *last = kept ? &reading->emoji[kept - 1] : NULL;
        int64_t overlap = last ? cv_box_overlap(&last->box, &reading->emoji[i].box) : 0;
        int64_t area = (int64_t)reading->emoji[i].box.width * reading->emoji[i].box.height;
        if (last && overlap * 3 > area) {
            if (reading->emoji[i].score > last->score) {
                last->text = reading->emoji[i].text;
                last->score = reading->emoji[i].score;
            }
            last->box = cv_box_union(&last->box, &reading->emoji[i].box);
        } else {
            reading->emoji[kept++] = reading->emoji[i];
        }
    }
    reading->count = kept;
}

size_t ocr_emoji_read(const struct cv_frame *frame, const struct cv_ink *ink,
                      const struct cv_text_line *line, const struct cv_box *glyphs,
                      struct ocr_emoji emoji[OCR_EMOJI_LINE_MAX])
{
    struct reading reading = {.frame = frame,
                              .ink = ink,
                              .tall = cv_min(line->tall, 120),
                              .faint = FAINT,
                              .emoji = emoji};

    if (ink->kind != CV_INK_FLAT) {
        return 0;
    }
    read_spots(&reading, line, glyphs);
    read_beside(&reading, line, -1);
    read_beside(&reading, line, 1);
    drop_doubles(&reading);
    return reading.count;
}
