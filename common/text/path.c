#include "common/text/text.h"

#include <assert.h>

enum { USUAL_MS = 16 /* between sightings, until more is known: a frame at 60 a second */ };

void cv_path_deinit(struct cv_path *path)
{
    free(path->items);
    *path = (struct cv_path){0};
}

static int append(struct cv_path *path, int64_t t_ms, int x, int y, struct cv_error *error)
{
    CV_TRY_MEMORY(CV_MAKE_ROOM(path->items, path->count), error, "a path");
    path->items[path->count++] = (struct cv_path_point){t_ms, x, y};
    return 0;
}

/* Leaves out every second point but the ends. */
static void thin_out(struct cv_path *path)
{
    size_t kept = 1;
    assert(path->items);

    for (size_t i = 2; i < path->count; i += 2) {
        path->items[kept++] = path->items[i];
    }
    path->count = kept;
}

int cv_path_go(struct cv_path *path, int64_t t_ms, int x, int y, struct cv_error *error)
{
    int64_t since = t_ms - path->last_ms;

    if (path->count && since <= 0) {
        return 0;
    }
    if (path->count >= CV_PATH_TAKEN_MAX) {
        thin_out(path);
    }
    path->step_ms =
        path->count > 1 && (!path->step_ms || since < path->step_ms) ? since : path->step_ms;
    path->last_ms = t_ms;
    struct cv_path_point *last = path->count > 1 ? &path->items[path->count - 1] : NULL;
    if (last && last->x == x && last->y == y && last[-1].x == x && last[-1].y == y) {
        last->t_ms = t_ms; /* still at rest */
        return 0;
    }
    return append(path, t_ms, x, y, error);
}

int cv_path_add(struct cv_path *path, int64_t t_ms, int x, int y, struct cv_error *error)
{
    int64_t since = t_ms - path->last_ms;
    int64_t step = path->step_ms ? path->step_ms : USUAL_MS;

    struct cv_path_point last = {0, 0, 0};
    if (path->count > 0) {
        last = path->items[path->count - 1];
    }
    if (path->count > 0 && (last.x != x || last.y != y) && since > 2 * step) {
        CV_TRY(append(path, t_ms - step, last.x, last.y, error));
    }
    return cv_path_go(path, t_ms, x, y, error);
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Whether the straight way from one point to another is never further than `slack` pixels from those between. */
static bool is_straight(const struct cv_path *path, size_t from, size_t to, int slack)
{
    const struct cv_path_point *a = &path->items[from], *b = &path->items[to];
    int64_t time = b->t_ms - a->t_ms;

    for (size_t i = from + 1; i < to; i++) {
        const struct cv_path_point *at = &path->items[i];
        int64_t part = at->t_ms - a->t_ms;
        int64_t x = (int64_t)(b->x - a->x) * part, y = (int64_t)(b->y - a->y) * part;
        if (distance(x, (int64_t)(at->x - a->x) * time) > slack * time ||
            distance(y, (int64_t)(at->y - a->y) * time) > slack * time) {
            return false;
        }
    }
    return true;
}

/* Marks the points that stay, at `kept`; their number. */
static size_t choose(const struct cv_path *path, int slack, size_t *kept, size_t most)
{
    size_t count = 0, at = 0;

    kept[count++] = 0;
    while (at + 1 < path->count && count < most) {
        size_t next = at + 1;
        while (next + 1 < path->count && is_straight(path, at, next + 1, slack)) {
            next++;
        }
        kept[count++] = at = next;
    }
    return at + 1 < path->count ? most + 1 : count;
}

void cv_path_simplify(struct cv_path *path)
{
    size_t kept[CV_PATH_POINTS_MAX], count = 0;

    if (path->count < 2) {
        return;
    }
    for (int slack = 1; slack < INT32_MAX / 2; slack *= 2) {
        count = choose(path, slack, kept, CV_PATH_POINTS_MAX);
        if (count <= CV_PATH_POINTS_MAX) {
            break;
        }
    }
    count = count <= CV_PATH_POINTS_MAX ? count : 1;
    for (size_t i = 0; i < count; i++) {
        path->items[i] = path->items[kept[i]];
    }
    path->count = count;
}

int cv_path_json(const struct cv_path *path, int scale, json_t **ret_list, struct cv_error *error)
{
    struct cv_path_point before = {0, 0, 0};
    cv_auto(json_decref) json_t *list = json_array();
    bool moved = false;

    for (size_t i = 0; i < path->count; i++) {
        const struct cv_path_point *at = &path->items[i];
        bool is_there =
            json_array_append_new(list, json_integer(at->t_ms - before.t_ms)) == 0 &&
            json_array_append_new(list, json_integer((json_int_t)(at->x - before.x) * scale)) ==
                0 &&
            json_array_append_new(list, json_integer((json_int_t)(at->y - before.y) * scale)) == 0;
        CV_TRY_MEMORY(is_there, error, "a path");
        moved = moved || (i > 0 && (at->x != before.x || at->y != before.y));
        before = *at;
    }
    *ret_list = moved ? cv_take(list) : NULL;
    return 0;
}
