/* Text that was on screen: the entities in it, and the paths of its boxes. Pure functions, without
 * database or pictures. */
#pragma once

#include "common/base/base.h"

/* ---- entities -------------------------------------------------------------------------------- */

struct cv_entity {
    const char *type; /* "url", …, as in the table entity_types: static */
    char *value;      /* as in the text */
    /* URLs have scheme and host in lower case; numbers are plain decimals with unit or currency:
     * "24.50 USD", "42 %", "+4930901820". NULL: the normal form of the text, which SQL makes. */
    char *normalized_value;
};

struct cv_entity_list {
    struct cv_entity *entities;
    size_t count;
};

void cv_entity_list_deinit(struct cv_entity_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_entity_list, cv_entity_list_deinit)

/* Compiled patterns (PCRE2, JIT, Unicode). Make one per process. */
struct cv_entity_extractor;
CV_MUST_CHECK int cv_entity_extractor_new(struct cv_entity_extractor **ret_extractor,
                                          struct cv_error *error);
void cv_entity_extractor_free(struct cv_entity_extractor *extractor);
CV_DEFINE_CLEANUP(struct cv_entity_extractor *, cv_entity_extractor_free)

/* Finds entities, in the order of the text, not overlapping, at most 500 and none longer than 1024
 * bytes; the list is initialised here. E-mail addresses, times, dates and version numbers are not
 * entities, and nothing inside them is. An extractor is used by one thread at a time. `text` may
 * have any bytes; invalid UTF-8 is read as U+FFFD. CV_ERROR_LIMIT_EXCEEDED for more than 1 MiB. */
CV_MUST_CHECK int cv_entity_extract(struct cv_entity_extractor *extractor, const char *text,
                                    struct cv_entity_list *ret_list, struct cv_error *error);

/* As a list: [{"type", "value", "normalized_value"}], the last one only where there is one. NULL: out of memory. */
json_t *cv_entities_json(const struct cv_entity_list *list);

/* Whether a value that an untrusted process sent is such a list, of types that there are. */
bool cv_are_entities(const json_t *entities);

/* ---- path ------------------------------------------------------------------------------------ */

/* The path of a box over the screen, as a few points: straight between two points, at rest before
 * the first and after the last. */
enum {
    CV_PATH_POINTS_MAX = 64,  /* of a finished path */
    CV_PATH_TAKEN_MAX = 4096, /* while it is built; then every second point is dropped */
};

struct cv_path_point {
    int64_t t_ms;
    int x, y; /* pixels */
};

struct cv_path {
    struct cv_path_point *items; /* in order of time */
    size_t count;
    int64_t last_ms; /* when the box was last seen */
    int64_t step_ms; /* the shortest time between two sightings; 0: not known yet */
};

void cv_path_deinit(struct cv_path *path);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_path, cv_path_deinit)

/* Adds a sighting of the box at x, y. Sightings that are not later than the last one are ignored.
 * If the pause since the last sighting is longer than usual, the box was at rest until just before
 * this one. */
CV_MUST_CHECK int cv_path_add(struct cv_path *path, int64_t t_ms, int x, int y,
                              struct cv_error *error);

/* The same, but the box moved straight from its last place to this one, however long that took. */
CV_MUST_CHECK int cv_path_go(struct cv_path *path, int64_t t_ms, int x, int y,
                             struct cv_error *error);

/* Removes points as long as no sighting is off by more than a pixel. If more than
 * CV_PATH_POINTS_MAX points are left, allows 2, 4, 8 … pixels, as few as suffice. */
void cv_path_simplify(struct cv_path *path);

/* The points as a list of triples of time, x and y, each relative to the one before, places multiplied by `scale`; NULL:
 * the box did not move. */
CV_MUST_CHECK int cv_path_json(const struct cv_path *path, int scale, json_t **ret_list,
                               struct cv_error *error);
