#include "common/base/base.h"

struct cv_box cv_box_clip(const struct cv_box *box, int width, int height)
{
    int left = cv_max(box->x, 0), top = cv_max(box->y, 0);
    int right = cv_min(cv_box_right(box), width), bottom = cv_min(cv_box_bottom(box), height);

    return (struct cv_box){left, top, cv_max(right - left, 0), cv_max(bottom - top, 0)};
}

struct cv_box cv_box_union(const struct cv_box *a, const struct cv_box *b)
{
    int left = cv_min(a->x, b->x), top = cv_min(a->y, b->y);
    int right = cv_max(cv_box_right(a), cv_box_right(b));
    int bottom = cv_max(cv_box_bottom(a), cv_box_bottom(b));

    return (struct cv_box){left, top, right - left, bottom - top};
}

bool cv_box_lies_in(const struct cv_box *box, const struct cv_box *around)
{
    return box->x >= around->x && box->y >= around->y &&
           cv_box_right(box) <= cv_box_right(around) && cv_box_bottom(box) <= cv_box_bottom(around);
}

int64_t cv_box_overlap(const struct cv_box *a, const struct cv_box *b)
{
    int width = cv_min(cv_box_right(a), cv_box_right(b)) - cv_max(a->x, b->x);
    int height = cv_min(cv_box_bottom(a), cv_box_bottom(b)) - cv_max(a->y, b->y);

    return width > 0 && height > 0 ? (int64_t)width * height : 0;
}

json_t *cv_box_json(const struct cv_box *box)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "x", box->x, "y", box->y, "width", box->width,
                     "height", box->height);
}
