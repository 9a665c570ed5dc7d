#include "workers/ocr/tracks/same_line.h"

#include <math.h>
#include <string.h>

enum {
    LINES_MAX = 128, /* of one frame that are looked at; more is texture */
    PAIRS_MAX = 64,  /* of lines before and after that may be the same */
    AGREE_MIN = 3,   /* lines that have to agree on how the page grew */
    APART_MIN = 3,   /* line heights between two of which the growth is taken */
};

/* What grows by less is standing; what grows by more is another page. */
static const double GROWTH_MIN = 0.01, GROWTH_MAX = 1.0;

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

/* One line, or one and a piece of it that the picture's right side has left. */
static void settle_pair(const struct ocr_session *session, const struct pair *pair, double scale)
{
    struct ocr_row *before = pair->before, *after = pair->after;
    double was = fmax(before->stretch.width, after->stretch.width / scale);
    double is = fmax(after->stretch.width, before->stretch.width * scale);
    int side = session->screen.width - OCR_SIDE_EDGE;
    enum ocr_share share = ocr_share_of(before, after);

    if (share == OCR_SHARE_SAME && !before->is_gone) {
        after->stretch.first = before->stretch.first;
        after->has_company = after->has_company || before->has_company;
        before->is_gone = true;
    } else if (share == OCR_SHARE_LESS && after->stretch.first.x + is >= side) {
        after->is_gone = true;
    } else if (share == OCR_SHARE_MORE && before->stretch.last.x + was >= side) {
        before->is_gone = true;
    }
}

void ocr_zoom_unite(const struct ocr_session *session, struct ocr_row *const *before,
                    size_t before_count, struct ocr_row *const *after, size_t after_count)
{
    struct pair pairs[PAIRS_MAX];
    size_t count = 0;

    before_count = before_count < LINES_MAX ? before_count : LINES_MAX;
    after_count = after_count < LINES_MAX ? after_count : LINES_MAX;
    for (size_t i = 0; i < before_count; i++) {
        for (size_t k = 0; k < after_count && count < PAIRS_MAX; k++) {
            if (ocr_share_of(before[i], after[k]) != OCR_SHARE_NONE) {
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
