#include "workers/ocr/reading/word_boxes.h"

#include "workers/ocr/reading/line_text.h"

#include <string.h>
#include <utf8proc.h>

enum {
    RUNS_MAX = 400, /* of ink on a line; more is a texture, and its words are laid out by length */
    WORDS_MAX = 128,
    INK_LEVEL = 10, /* of sixteen, from which on a pixel is paper: the edges of letters are not */
    /* A pixel of blank says so many times more than a pixel by which a word is too long or too short:
     * widths of letters are estimated within a fifth. */
    BLANK_WEIGHT = 3,
};

static const double NEVER = 1e12;

/* A span of columns, right exclusive. */
struct span {
    int left, right;
};

struct layout {
    struct span runs[RUNS_MAX]; /* of ink */
    double widths[WORDS_MAX];   /* of words, in letters and then in pixels */
    size_t run_count, word_count;
    bool from_right;
};

/* How wide a character is, in letters; combining ones have no width. */
static double letter_width(utf8proc_int32_t point)
{
    if (point < 0x80 && strchr("iljtfrI.,:;'!|()[]", (int)point)) {
        return 0.6;
    }
    if (point < 0x80 && strchr("mwMW@%", (int)point)) {
        return 1.5;
    }
    return utf8proc_charwidth(point);
}

/* Splits the text at its blanks; false when it has more words than fit. */
static bool measure_words(const char *text, struct layout *layout)
{
    bool in_word = false;

    layout->from_right = ocr_word_is_from_right(text);
    while (*text) {
        utf8proc_int32_t point;
        text += ocr_next_point(text, &point);
        if (point == ' ') {
            in_word = false;
            continue;
        }
        if (!in_word && layout->word_count == WORDS_MAX) {
            return false;
        }
        layout->word_count += !in_word;
        in_word = true;
        layout->widths[layout->word_count - 1] += letter_width(point);
    }
    return true;
}

static bool has_ink(const struct ocr_crop *crop, int x)
{
    for (size_t i = 0; i < crop->emoji_count; i++) {
        const struct cv_box *box = &crop->emoji[i].box;
        if (crop->emoji[i].text && x >= box->x && x < cv_box_right(box)) {
            return true;
        }
    }
    for (int y = 0; y < crop->height; y++) {
        if (ocr_level(crop->grey[(size_t)y * (size_t)crop->width + (size_t)x]) < INK_LEVEL) {
            return true;
        }
    }
    return false;
}

/* False when there are too many. */
static bool find_runs(const struct ocr_crop *crop, struct layout *layout)
{
    bool in_run = false;

    for (int x = 0; x < crop->width; x++) {
        bool is_ink = has_ink(crop, x);
        if (is_ink && !in_run) {
            if (layout->run_count == RUNS_MAX) {
                return false;
            }
            layout->runs[layout->run_count++].left = x;
        }
        if (is_ink) {
            layout->runs[layout->run_count - 1].right = x + 1;
        }
        in_run = is_ink;
    }
    return true;
}

/* From letters to pixels: blanks between words are half a letter wide. */
static void scale_words(struct layout *layout, int width)
{
    double letters = 0.5 * (double)(layout->word_count - 1);

    for (size_t i = 0; i < layout->word_count; i++) {
        layout->widths[i] = layout->widths[i] > 0.5 ? layout->widths[i] : 0.5;
        letters += layout->widths[i];
    }
    for (size_t i = 0; i < layout->word_count; i++) {
        layout->widths[i] *= width / letters;
    }
    for (size_t i = 0; layout->from_right && i < layout->word_count / 2; i++) {
        double *other = &layout->widths[layout->word_count - 1 - i];
        double swap = layout->widths[i];
        layout->widths[i] = *other;
        *other = swap;
    }
}

/* Words one behind the other by their widths alone. */
static void lay_out(const struct layout *layout, int width, struct span *spans)
{
    double sum = 0, x = 0;

    for (size_t i = 0; i < layout->word_count; i++) {
        sum += layout->widths[i];
    }
    double blank =
        layout->word_count > 1 ? (width - sum) / (double)(layout->word_count - 1) : width - sum;
    for (size_t i = 0; i < layout->word_count; i++) {
        spans[i] = (struct span){(int)x, (int)(x + layout->widths[i] + 0.5)};
        x += layout->widths[i] + blank;
    }
}

/* cost[w][r]: of the first w + 1 words on the first r + 1 runs; from[w][r]: the run with which the last
 * of them begins. */
struct table {
    double *cost;
    uint16_t *from;
    size_t width;
};

static void fill_cell(const struct layout *layout, struct table *table, size_t word, size_t last)
{
    size_t cell = word * table->width + last;

    table->cost[cell] = NEVER;
    for (size_t first = word; first <= last; first++) {
        if (word == 0 && first > 0) {
            return;
        }
        double width = layout->runs[last].right - layout->runs[first].left - layout->widths[word];
        double cost = width < 0 ? -width : width;
        if (word > 0) {
            int blank = layout->runs[first].left - layout->runs[first - 1].right;
            cost += table->cost[(word - 1) * table->width + first - 1] - BLANK_WEIGHT * blank;
        }
        if (cost < table->cost[cell]) {
            table->cost[cell] = cost;
            table->from[cell] = (uint16_t)first;
        }
    }
}

/* The words on the runs of ink, each on one or more, so that wide gaps lie between words and each is about as
 * wide as its letters say. */
static bool fit(const struct layout *layout, struct span *spans)
{
    size_t words = layout->word_count, runs = layout->run_count;
    cv_auto_free double *cost = malloc(words * runs * sizeof(*cost));
    cv_auto_free uint16_t *from = calloc(words * runs, sizeof(*from));
    struct table table = {cost, from, runs};

    if (!cost || !from) {
        return false;
    }
    for (size_t word = 0; word < words; word++) {
        for (size_t last = word; last < runs; last++) {
            fill_cell(layout, &table, word, last);
        }
    }
    for (size_t word = words, last = runs - 1; word-- > 0;) {
        size_t first = from[word * runs + last];
        spans[word] = (struct span){layout->runs[first].left, layout->runs[last].right};
        last = first - 1;
    }
    return true;
}

static int per_mille(int x, int width)
{
    int share = (int)(((int64_t)x * 1000 + width / 2) / width);
    return cv_max(cv_min(share, 1000), 0);
}

static json_t *spans_json(const struct layout *layout, const struct span *spans, int width)
{
    cv_auto(json_decref) json_t *list = json_array();

    for (size_t i = 0; i < layout->word_count; i++) {
        const struct span *span = &spans[layout->from_right ? layout->word_count - 1 - i : i];
        int left = per_mille(span->left, width);
        if (json_array_append_new(list, json_integer(left)) ||
            json_array_append_new(list, json_integer(per_mille(span->right, width) - left))) {
            return NULL;
        }
    }
    return cv_take(list);
}

json_t *ocr_word_boxes(const struct ocr_crop *crop, const char *text)
{
    struct layout layout = {.run_count = 0};
    struct span spans[WORDS_MAX];

    if (!measure_words(text, &layout) || layout.word_count == 0) {
        return json_array();
    }
    scale_words(&layout, crop->width);
    if (!find_runs(crop, &layout) || layout.run_count < layout.word_count) {
        lay_out(&layout, crop->width, spans);
    } else if (!fit(&layout, spans)) {
        return NULL;
    }
    return spans_json(&layout, spans, crop->width);
}
