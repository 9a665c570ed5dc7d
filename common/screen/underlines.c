/* Rules under text: of underlined links and headings, and the lines of a table that letters stand on. In small and
 * blurred pictures the letters touch the rule, and all of them are one component with it. */
#include "common/screen/underlines.h"

#include "common/screen/components.h"

#include <string.h>

enum {
    /* A rule is long and thin beside the letters above it, so no bar or foot of a letter is one. */
    LENGTH = 2,     /* heights of the letters at least */
    THICKNESS = 3,  /* as many times as high as the rule are the letters at least */
    THICK_MOST = 4, /* rows */
    GAP_MOST = 3,   /* rows between letters and rule; farther away the rule harms nothing */
    PIECE_MIN = 4,  /* pixels of a rule between two descenders that it leaves room for */
    ROOM_MOST = 8,  /* pixels of that room */
    /* Percent of the pixels of a row. */
    RULE_INK = 80, /* that are ink, in a rule */
    BELOW = 70,    /* that are background, below a rule: descenders cross it */
    ABOVE = 40,    /* that are background, above a rule: the letters touch it */
    CLOSED = 75,  /* that are ink, where a row is no row of letters but the upper edge of a field */
    BLANK = 3,    /* that are ink at most, between a rule and the next row of text */
    LETTERS = 16, /* of the ink of the fullest row above: a row with more is one of the letters */
    PLAIN = 18,   /* levels by which plain background varies */
    PLAIN_SHARE = 80, /* percent of its pixels that vary so little */
};

/* A rule, or a part of one. */
struct rule {
    int from, to, top, bottom; /* `to` and `bottom` exclusive */
    uint8_t side;              /* of its pixels: enum cv_side */
    int height;                /* of the letters above it */
};

static const uint8_t *row_of(const struct cv_sides *sides, int y)
{
    return sides->side + (size_t)y * (size_t)sides->width;
}

/* How many pixels of a row are on a side, within the columns of a rule; 0 outside of the picture. */
static int count_side(const struct cv_sides *sides, const struct rule *rule, int y, uint8_t side)
{
    int count = 0;

    if (y < 0 || y >= sides->height) {
        return 0;
    }
    const uint8_t *row = row_of(sides, y);
    for (int x = rule->from; x < rule->to; x++) {
        count += row[x] == side;
    }
    return count;
}

static bool is_filled(const struct cv_sides *sides, const struct rule *rule, int y, int percent)
{
    return count_side(sides, rule, y, rule->side) * 100 >= (rule->to - rule->from) * percent;
}

/* Whether a row has ink in the columns [from, to), or in the ones beside them. */
static bool has_ink(const struct cv_sides *sides, const struct rule *rule, int from, int to, int y)
{
    int first = cv_max(from - 1, 0), last = cv_min(to, sides->width - 1);

    return y >= 0 && y < sides->height &&
           memchr(row_of(sides, y) + first, rule->side, (size_t)(last - first + 1));
}

/* Where the next piece of a rule begins behind the room for a descender; -1 where there is none. The bottoms of
 * letters have gaps, too, but there nothing reaches below them. */
static int next_piece(const struct cv_sides *sides, const struct rule *rule)
{
    const uint8_t *row = row_of(sides, rule->top);
    int pixels = 0;

    for (int x = rule->to; x < sides->width && x - rule->to < ROOM_MOST + PIECE_MIN; x++) {
        pixels = row[x] == rule->side ? pixels + 1 : 0;
        if (pixels == PIECE_MIN) {
            int from = x + 1 - PIECE_MIN;
            bool is_crossed = true;
            for (int y = rule->top; y < rule->top + THICK_MOST; y++) {
                is_crossed = is_crossed && has_ink(sides, rule, rule->to + 1, from - 1, y);
            }
            return is_crossed ? from : -1;
        }
    }
    return -1;
}

/* Finds the next run of pixels in a row that may be the upper row of a rule, at `from` or behind it. */
static bool next_run(const struct cv_sides *sides, int y, int from, struct rule *ret_rule)
{
    const uint8_t *row = row_of(sides, y);

    for (int x = from; x + 8 <= sides->width; x = (x + 8) & ~7) {
        uint64_t eight, same = row[x] * UINT64_C(0x0101010101010101);
        memcpy(&eight, row + x, sizeof(eight));
        if (!row[x] || eight != same) {
            continue;
        }
        struct rule rule = {x, x + 8, y, y + 1, row[x], 0};
        while (rule.from > from && row[rule.from - 1] == rule.side) {
            rule.from--;
        }
        for (int next = rule.to; next >= 0; next = next_piece(sides, &rule)) {
            rule.to = next;
            while (rule.to < sides->width && row[rule.to] == rule.side) {
                rule.to++;
            }
        }
        *ret_rule = rule;
        return true;
    }
    return false;
}

/* The height of the letters above a rule; 0 where there are none, or something else. */
static int letters_above(const struct cv_sides *sides, const struct rule *rule)
{
    struct rule inner = *rule; /* without the sides of a field at its ends */
    int fullest = 0, height = 0, y = rule->top - 1;

    inner.from += CV_EDGE_REACH;
    inner.to -= CV_EDGE_REACH;
    while (rule->top - y <= GAP_MOST && !count_side(sides, &inner, y, rule->side)) {
        y--;
    }
    for (; y >= 0 && height <= CV_GLYPH_HEIGHT_MAX; y--, height++) {
        int ink = count_side(sides, &inner, y, rule->side);
        if (ink * 100 >= (inner.to - inner.from) * CLOSED) {
            return 0;
        }
        if (ink * 100 <= fullest * LETTERS) {
            break;
        }
        fullest = cv_max(fullest, ink);
    }
    return height;
}

/* Whether what reaches below a rule ends soon, as descenders do: the stems below the bars of T do not, nor letters that
 * are struck through. */
static bool ends_soon(const struct cv_sides *sides, const struct rule *rule)
{
    for (int y = rule->bottom; y <= rule->bottom + rule->height / 2; y++) {
        if (!is_filled(sides, rule, y, BLANK)) {
            return true;
        }
    }
    return false;
}

/* Whether a run of pixels is the upper row of a rule; finds its other rows, and the letters' height. */
static bool is_rule(const struct cv_sides *sides, struct rule *rule)
{
    int length = rule->to - rule->from;
    uint8_t other = rule->side == CV_SIDE_DARK ? CV_SIDE_LIGHT : CV_SIDE_DARK;

    if (count_side(sides, rule, rule->top - 1, other) * 100 < length * ABOVE) {
        return false;
    }
    while (is_filled(sides, rule, rule->bottom, RULE_INK) &&
           rule->bottom - rule->top <= THICK_MOST) {
        rule->bottom++;
    }
    int thick = rule->bottom - rule->top;
    if (thick > THICK_MOST || count_side(sides, rule, rule->bottom, other) * 100 < length * BELOW) {
        return false;
    }
    rule->height = letters_above(sides, rule);
    return rule->height >= cv_max(thick * THICKNESS, CV_GLYPH_HEIGHT_MIN) &&
           length >= rule->height * LENGTH && ends_soon(sides, rule);
}

/* The middle level of the background below a rule, in one plane; -1 where the background is not plain. */
static int level_below(const struct cv_frame *frame, const struct cv_sides *sides,
                       const struct rule *rule, enum cv_plane plane)
{
    int y = cv_min(rule->bottom + 1, frame->height - 1), level = 0;
    const uint8_t *row = frame->plane[plane] + (size_t)y * (size_t)frame->width;
    int counts[256] = {0}, total = 0, seen = 0, plain = 0;

    for (int x = rule->from; x < rule->to; x++) {
        bool is_background = row_of(sides, y)[x] != rule->side;
        counts[row[x]] += is_background;
        total += is_background;
    }
    while (level < 255 && (seen += counts[level]) * 2 < total) {
        level++;
    }
    for (int i = cv_max(level - PLAIN, 0); i <= cv_min(level + PLAIN, 255); i++) {
        plain += counts[i];
    }
    return plain * 100 >= total * PLAIN_SHARE ? level : -1;
}

/* Paints a rule over with the background below it, and half covered pixels above and below it, but not what crosses it. */
static void paint_over(struct cv_frame *frame, const struct cv_sides *sides,
                       const struct rule *rule, const int colour[CV_PLANES])
{
    int to = cv_min(rule->to + 1, frame->width);

    for (int x = cv_max(rule->from - 1, 0); x < to; x++) {
        bool is_above = has_ink(sides, rule, x, x + 1, rule->top - 1);
        bool is_below = has_ink(sides, rule, x, x + 1, rule->bottom);
        int top =
            is_above || has_ink(sides, rule, x, x + 1, rule->top - 2) ? rule->top : rule->top - 1;
        int bottom = is_below ? rule->bottom : rule->bottom + 1;
        for (int y = top; y < bottom && !(is_above && is_below); y++) {
            size_t at = (size_t)y * (size_t)frame->width + (size_t)x;
            for (int plane = 0; plane < CV_PLANES; plane++) {
                frame->plane[plane][at] = (uint8_t)colour[plane];
            }
        }
    }
}

static bool has_letter_above(const struct cv_sides *sides, const struct rule *rule, int x)
{
    for (int y = rule->top - 1; y >= cv_max(rule->top - rule->height, 0); y--) {
        if (row_of(sides, y)[x] == rule->side) {
            return true;
        }
    }
    return false;
}

/* The next part of a rule that has letters above it, at `from` or behind it; false where there is none. */
static bool next_part(const struct cv_sides *sides, const struct rule *rule, int from,
                      struct rule *ret_part)
{
    int blank = rule->height * 3 / 2;

    while (from < rule->to && !has_letter_above(sides, rule, from)) {
        from++;
    }
    *ret_part = *rule;
    ret_part->from = ret_part->to = from;
    for (int x = from; x < rule->to && x - ret_part->to < blank; x++) {
        ret_part->to = has_letter_above(sides, rule, x) ? x + 1 : ret_part->to;
    }
    return from < rule->to;
}

/* Whether a stroke ends at a rule; those of descenders and of a table's lines cross it. */
static bool is_touched(const struct cv_sides *sides, const struct rule *rule)
{
    const uint8_t *above = row_of(sides, rule->top - 1);

    for (int x = rule->from; x < rule->to; x++) {
        int from = x;
        while (x < rule->to && above[x] == rule->side) {
            x++;
        }
        if (x > from && !has_ink(sides, rule, from, x, rule->bottom)) {
            return true;
        }
    }
    return false;
}

/* Removes a rule that has letters above all of it; otherwise the parts that letters touch. */
static void remove_rule(struct cv_frame *frame, const struct cv_sides *sides,
                        const struct rule *rule)
{
    struct cv_box box = {rule->from, rule->top, rule->to - rule->from, rule->bottom - rule->top};
    struct rule part = {.to = rule->from};
    int colour[CV_PLANES];

    if (cv_is_filling(frame, sides, &box, rule->side)) {
        return;
    }
    for (int plane = 0; plane < CV_PLANES; plane++) {
        colour[plane] = level_below(frame, sides, rule, plane);
        if (colour[plane] < 0) {
            return;
        }
    }
    while (next_part(sides, rule, part.to, &part)) {
        bool is_whole =
            part.from - rule->from <= rule->height && rule->to - part.to <= rule->height;
        if (is_whole || is_touched(sides, &part)) {
            paint_over(frame, sides, is_whole ? rule : &part, colour);
        }
    }
}

int cv_underlines_remove(struct cv_frame *frame, struct cv_sides *sides, struct cv_error *error)
{
    cv_auto_free struct rule *rules = NULL;
    size_t count = 0;

    for (int y = 1; y + 1 < frame->height; y++) {
        struct rule rule = {0};
        while (next_run(sides, y, rule.to, &rule)) {
            struct rule found = rule;
            if (is_rule(sides, &found)) {
                CV_TRY_MEMORY(CV_MAKE_ROOM(rules, count), error, "rules");
                rules[count++] = found;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        remove_rule(frame, sides, &rules[i]);
    }
    int next = 0; /* the first row that was not found again */
    for (size_t i = 0; i < count; i++) {
        int from = cv_max(rules[i].top - 1 - CV_EDGE_REACH, next);
        next = cv_max(rules[i].bottom + 1 + CV_EDGE_REACH, next);
        CV_TRY(cv_sides_update(frame, sides, from, next, error));
    }
    return 0;
}
