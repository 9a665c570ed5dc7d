#include "workers/segment_index/merge/merge.h"

/* Measured on boxes of ink, whose height is that of the letters in the line: 13 of "now", 17 of "pay" at the same
 * size. All in parts of the height of the higher one of two boxes, in hundredths. */
enum {
    EDGE_APART_MAX = 30,  /* left edges, or centres */
    LINES_APART_MIN = 80, /* middles of a line and the next one */
    LINES_APART_MAX =
        220, /* 200 is double spacing; a line without tall letters makes it a little more */
    HEIGHT_RATIO_MAX = 160, /* "none" and "Ägypten" */
    GAP_RATIO_MAX = 125,    /* distances within one paragraph; boxes of ink vary by a sixth */
    BLANK = 25,             /* between words */
    RAGGED = 50, /* by which a line may be shorter than its column without its last word fitting */
};

/* Lines that begin and end together, but for a few frames, may be centred: a subtitle. */
enum { TOGETHER_MS = 200 };

/* Lines of a message appear at once, or one after the other while they are scrolled into view. Messages of a chat follow
 * each other more slowly. In the chat among the fixtures, all seven lines that continue another one are found; without this
 * limit nine more would be joined, each with another message. */
enum { APPEAR_APART_MAX_MS = 800 };

/* Lines of one screen that are compared with a new one; the oldest are no longer looked at. A screen full of text has about
 * a hundred. */
enum { OPEN_MAX = 512 };

struct link {
    size_t above, below; /* SIZE_MAX: none */
    int above_apart, below_apart;
    bool is_centred; /* to the one above */
};

/* ---- two lines ------------------------------------------------------------------------------- */

static void place_at(const struct cv_text_line *line, int64_t t_ms, int *ret_x, int *ret_y)
{
    *ret_x = line->box.x;
    *ret_y = line->box.y;
    for (size_t i = 0; i < line->place_count; i++) {
        const struct cv_text_place *to = &line->places[i];
        const struct cv_text_place *from = i > 0 ? to - 1 : to;
        if (to->t_ms >= t_ms && i > 0 && to->t_ms > from->t_ms) {
            double share = (double)(t_ms - from->t_ms) / (double)(to->t_ms - from->t_ms);
            *ret_x = from->x + (int)(share * (to->x - from->x));
            *ret_y = from->y + (int)(share * (to->y - from->y));
            return;
        }
        *ret_x = to->x;
        *ret_y = to->y;
        if (to->t_ms >= t_ms) {
            return;
        }
    }
}

static bool are_of_one_time(const struct cv_text_line *a, const struct cv_text_line *b)
{
    int64_t start = a->t_start_ms > b->t_start_ms ? a->t_start_ms : b->t_start_ms;
    int64_t end = a->t_end_ms < b->t_end_ms ? a->t_end_ms : b->t_end_ms;
    int64_t first = a->t_end_ms - a->t_start_ms, second = b->t_end_ms - b->t_start_ms;
    return llabs(a->t_start_ms - b->t_start_ms) <= APPEAR_APART_MAX_MS &&
           2 * (end - start) >= (first < second ? first : second);
}

static bool are_together(const struct cv_text_line *a, const struct cv_text_line *b)
{
    return llabs(a->t_start_ms - b->t_start_ms) <= TOGETHER_MS &&
           llabs(a->t_end_ms - b->t_end_ms) <= TOGETHER_MS;
}

/* How far the second line is below the first one when both are seen, negative: above; 0: they cannot
 * be neighbours in a paragraph. */
static int distance(const struct cv_text_line *a, const struct cv_text_line *b, int64_t t_ms,
                    bool *ret_is_centred)
{
    int64_t higher = a->box.height > b->box.height ? a->box.height : b->box.height;
    int64_t lower = (int64_t)a->box.height + b->box.height - higher;
    if (lower <= 0 || 100 * higher > HEIGHT_RATIO_MAX * lower) {
        return 0;
    }
    int ax, ay, bx, by;
    place_at(a, t_ms, &ax, &ay);
    place_at(b, t_ms, &bx, &by);
    int64_t apart = (2 * ((int64_t)by - ay) + b->box.height - a->box.height) / 2;
    if (100 * llabs(apart) < LINES_APART_MIN * higher ||
        100 * llabs(apart) > LINES_APART_MAX * higher) {
        return 0;
    }
    bool is_left = 100 * llabs((int64_t)ax - bx) <= EDGE_APART_MAX * higher;
    *ret_is_centred = !is_left;
    bool is_centred =
        !is_left && are_together(a, b) &&
        50 * llabs(2 * ((int64_t)ax - bx) + a->box.width - b->box.width) <= EDGE_APART_MAX * higher;
    return (is_left || is_centred) && are_of_one_time(a, b) ? (int)apart : 0;
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Makes two lines neighbours if they are nearer to each other than to those that they have. */
static void join(struct link *links, size_t above, size_t below, int apart, bool is_centred)
{
    struct link *upper = &links[above], *lower = &links[below];
    if ((upper->below != SIZE_MAX && upper->below_apart <= apart) ||
        (lower->above != SIZE_MAX && lower->above_apart <= apart)) {
        return;
    }
    if (upper->below != SIZE_MAX) {
        links[upper->below].above = SIZE_MAX;
    }
    if (lower->above != SIZE_MAX) {
        links[lower->above].below = SIZE_MAX;
    }
    upper->below = below;
    upper->below_apart = apart;
    lower->above = above;
    lower->above_apart = apart;
    lower->is_centred = is_centred;
}

static void find_neighbours(const struct cv_text_line *lines, size_t count, struct link *links)
{
    size_t open[OPEN_MAX], open_count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t now = lines[i].t_start_ms;
        size_t kept = 0;
        for (size_t j = open_count == OPEN_MAX; j < open_count; j++) {
            if (lines[open[j]].t_end_ms <= now) {
                continue;
            }
            open[kept++] = open[j];
            bool is_centred = false;
            int apart = distance(&lines[open[j]], &lines[i], now, &is_centred);
            if (apart > 0) {
                join(links, open[j], i, apart, is_centred);
            } else if (apart < 0) {
                join(links, i, open[j], -apart, is_centred);
            }
        }
        open_count = kept;
        if (lines[i].box.width > 0) {
            open[open_count++] = i;
        }
    }
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* Whether the first word of the line below would not have fitted at the end of the line above. */
static bool is_wrapped(const struct cv_text_line *above, const struct cv_text_line *below,
                       int column)
{
    int64_t height = above->box.height > below->box.height ? above->box.height : below->box.height;
    return 100 * ((int64_t)above->box.width + below->first_word_width - column) +
               (BLANK + RAGGED) * height >=
           0;
}

static void divide(const struct cv_text_line *lines, const struct link *links, size_t first,
                   struct cv_text_position *positions)
{
    int column = 0, least_apart = 0;
    for (size_t i = first; i != SIZE_MAX; i = links[i].below) {
        int apart = links[i].below_apart;
        column = lines[i].box.width > column ? lines[i].box.width : column;
        least_apart = links[i].below != SIZE_MAX && (!least_apart || apart < least_apart)
                          ? apart
                          : least_apart;
    }
    size_t head = first, number = 0;
    for (size_t i = first; links[i].below != SIZE_MAX; i = links[i].below) {
        size_t next = links[i].below;
        bool goes_on =
            100 * (int64_t)links[i].below_apart <= GAP_RATIO_MAX * (int64_t)least_apart &&
            (links[next].is_centred || is_wrapped(&lines[i], &lines[next], column)) &&
            number + 1 < CV_PARAGRAPH_MAX;
        head = goes_on ? head : next;
        number = goes_on ? number + 1 : 0;
        positions[next] = (struct cv_text_position){.first = head, .number = number};
    }
}

int cv_text_paragraphs(const struct cv_text_line *lines, size_t count,
                       struct cv_text_position *positions, struct cv_error *error)
{
    cv_auto_free struct link *links = malloc((count + 1) * sizeof(*links));
    CV_TRY_MEMORY(links, error, "paragraphs");
    for (size_t i = 0; i < count; i++) {
        links[i] = (struct link){.above = SIZE_MAX, .below = SIZE_MAX};
        positions[i] = (struct cv_text_position){.first = i};
    }
    find_neighbours(lines, count, links);
    for (size_t i = 0; i < count; i++) {
        if (links[i].above == SIZE_MAX) {
            divide(lines, links, i, positions);
        }
    }
    return 0;
}
