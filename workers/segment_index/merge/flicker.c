#include "workers/segment_index/merge/flicker.h"

#include "workers/segment_index/merge/place.h"

#include <ctype.h>
#include <string.h>

enum {
    FLICKER_MS = 500, /* a text that stands longer can be read */
    STATES_MIN = 4,   /* fewer may be a score that changed twice */
    /* Segments that begin before one, and after it, by which it may have to go: more at a time than a screen has is a
     * picture made to be slow. */
    LOOKED_AT_MAX = 512,
    LETTERS_OFF = 2,  /* a letter that is half drawn, and one beside it */
    TYPING_MS = 1000, /* until the line of which a state was a piece */
    PIECE_MIN = 2,    /* bytes of a piece */
};

/* `next` and `previous` of a chain of states. */
struct state {
    size_t next, previous;
    bool is_gone;
};

static bool is_brief(const struct cv_detection *segment)
{
    return segment->t_end_ms - segment->t_start_ms <= FLICKER_MS;
}

/* Steps over one number with what separates and groups its digits: "1,024", "00:12.50", "4/7". */
static const char *skip_number(const char *text)
{
    while (isdigit((unsigned char)*text) ||
           (*text && strchr(".,:'/-", *text) && isdigit((unsigned char)text[1]))) {
        text++;
    }
    return text;
}

/* Equal but for their numbers, of which there is one. */
static bool is_same_but_numbers(const char *a, const char *b)
{
    bool has_number = false;

    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            a = skip_number(a);
            b = skip_number(b);
            has_number = true;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return !*a && !*b && has_number;
}

/* Digits, and here and there a letter that one was taken for. */
static bool is_number(const char *text)
{
    size_t digits = 0, others = 0;

    for (; *text; text++) {
        digits += isdigit((unsigned char)*text) != 0;
        others += isalpha((unsigned char)*text) || (unsigned char)*text >= 0x80;
    }
    return digits > 0 && digits >= others;
}

static bool is_next_state(const struct cv_detection *before, const struct cv_detection *after)
{
    return is_brief(after) && (is_same_but_numbers(before->normalized, after->normalized) ||
                               (is_number(before->normalized) && is_number(after->normalized)));
}

static size_t without_last(const char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[--length] & 0xC0) == 0x80) {
    }
    return length;
}

/* Whether the second text is longer, has all of the first one apart from letters at its end, and stands around it: more was
 * typed, or an edge had cut the line. */
static bool is_piece(const struct cv_detection *piece, const struct cv_detection *whole)
{
    if (whole->box.width <= cv_end_of(piece).width || !cv_is_within(whole->box, cv_end_of(piece))) {
        return false;
    }
    size_t length = strlen(piece->normalized), longer = strlen(whole->normalized);
    size_t most_off = length / 3 < LETTERS_OFF ? length / 3 : LETTERS_OFF, least = length;
    for (size_t off = 0; off < most_off; off++) {
        least = without_last(piece->normalized, least);
    }
    least = least < PIECE_MIN ? length : least;
    return longer > length && memmem(whole->normalized, longer, piece->normalized, least);
}

/* Whether a text has all of another one. An edge may have cut a word, but "12" is no piece of "1,234" or "12.5". */
static bool has_all_of(const char *text, const char *piece)
{
    const char *at = strstr(text, piece), *end = at ? at + strlen(piece) : NULL;

    return at && !(at > text && isdigit((unsigned char)at[-1])) &&
           !(at > text + 1 && ispunct((unsigned char)at[-1]) && isdigit((unsigned char)at[-2])) &&
           !isdigit((unsigned char)end[0]) &&
           !(ispunct((unsigned char)end[0]) && isdigit((unsigned char)end[1]));
}

/* Whether `whole` began when the piece ended: more was typed, or an edge had cut the line. */
static bool goes_on(const struct cv_detection *piece, const struct cv_detection *whole)
{
    int64_t pause = whole->t_start_ms - piece->t_end_ms;

    return is_brief(piece) && pause >= -CV_OVERLAP_MS && pause <= TYPING_MS;
}

/* Whether the piece was there only while `whole` was, most of it in its box, and is read no surer: a surer one is a line
 * beside an icon that was read into the other. Of what moves, one stands where another did. */
static bool is_during(const struct cv_detection *piece, const struct cv_detection *whole)
{
    const struct cv_box *a = &piece->box, *b = &whole->box;

    return piece->t_start_ms >= whole->t_start_ms && piece->t_end_ms <= whole->t_end_ms &&
           piece->confidence <= whole->confidence && a->width < b->width &&
           cv_is_still(*a, cv_end_of(piece)) && cv_is_still(*b, cv_end_of(whole)) &&
           cv_box_overlap(a, b) * 10 >= (int64_t)a->width * a->height * 8 &&
           has_all_of(whole->normalized, piece->normalized);
}

/* Looks for the text that the one at `here` is a piece of. */
static void find_whole(const struct cv_detection *segments, size_t count, size_t here,
                       struct cv_reasons *reasons, struct state *states)
{
    const struct cv_detection *piece = &segments[here];
    size_t first = here > LOOKED_AT_MAX ? here - LOOKED_AT_MAX : 0;

    for (size_t i = first; i < count && i <= here + LOOKED_AT_MAX && !states[here].is_gone &&
                           segments[i].t_start_ms <= piece->t_end_ms + TYPING_MS;
         i++) {
        const struct cv_detection *whole = &segments[i];
        if ((goes_on(piece, whole) && is_piece(piece, whole)) || is_during(piece, whole)) {
            CV_BECAUSE(reasons, (int64_t)piece->part, (int64_t)whole->part, NULL,
                       "left out: that text around it has all of it, at this time or just after");
            states[here].is_gone = true;
        }
    }
}

/* Finds what follows the state at `here`. */
static void find_next_state(const struct cv_detection *segments, size_t count, size_t here,
                            struct state *states)
{
    const struct cv_detection *before = &segments[here];

    for (size_t i = here + 1; i < count && i <= here + LOOKED_AT_MAX; i++) {
        const struct cv_detection *after = &segments[i];
        int64_t pause = after->t_start_ms - before->t_end_ms;
        if (pause > CV_MERGE_GAP_MS) {
            return;
        }
        if (pause >= -CV_OVERLAP_MS && states[i].previous == SIZE_MAX &&
            is_next_state(before, after) && cv_is_same_place(cv_end_of(before), after->box)) {
            states[here].next = i;
            states[i].previous = here;
            return;
        }
    }
}

/* Puts the chain that begins at `first` together in its first segment. */
static void join_chain(struct cv_detection *segments, struct state *states, size_t first,
                       size_t *parts, struct cv_reasons *reasons)
{
    struct cv_detection joined = segments[first];
    int64_t longest = -1, start = joined.t_start_ms, end = 0;
    struct cv_box box = joined.box, end_box = joined.end_box;

    for (size_t i = first; i != SIZE_MAX; i = states[i].next) {
        const struct cv_detection *state = &segments[i];
        int64_t lasted = state->t_end_ms - state->t_start_ms;
        if (lasted > longest) {
            longest = lasted;
            joined = *state;
        }
        end = state->t_end_ms > end ? state->t_end_ms : end;
        end_box = cv_end_of(state);
        states[i].is_gone = i != first;
        if (i != first) {
            CV_BECAUSE(reasons, (int64_t)segments[first].part, (int64_t)state->part, NULL,
                       "joined: a number that changes faster than anybody reads");
        }
        cv_part_join(parts, state->part, segments[first].part);
    }
    joined.t_start_ms = start;
    joined.t_end_ms = end;
    joined.box = box;
    joined.end_box = end_box;
    joined.part = segments[first].part;
    segments[first] = joined;
}

static size_t chain_length(const struct state *states, size_t first)
{
    size_t length = 0;

    for (size_t i = first; i != SIZE_MAX; i = states[i].next) {
        length++;
    }
    return length;
}

int cv_join_flicker(struct cv_detection *segments, size_t *count, size_t *parts,
                    struct cv_reasons *reasons, struct cv_error *error)
{
    cv_auto_free struct state *states = malloc((*count + 1) * sizeof(*states));
    size_t kept = 0;

    CV_TRY_MEMORY(states, error, "merging detections");
    for (size_t i = 0; i < *count; i++) {
        states[i] = (struct state){SIZE_MAX, SIZE_MAX, false};
    }
    for (size_t i = 0; i < *count; i++) {
        find_whole(segments, *count, i, reasons, states);
        if (is_brief(&segments[i])) {
            find_next_state(segments, *count, i, states);
        }
    }
    for (size_t i = 0; i < *count; i++) {
        if (states[i].previous == SIZE_MAX && chain_length(states, i) >= STATES_MIN) {
            join_chain(segments, states, i, parts, reasons);
        }
    }
    for (size_t i = 0; i < *count; i++) {
        if (!states[i].is_gone) {
            segments[kept++] = segments[i];
        }
    }
    *count = kept;
    return 0;
}
