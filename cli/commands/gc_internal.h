/* What the two halves of a comparison share: gc.c walks the store, gc_rows.c the tables beside it. */
#pragma once

#include "cli/commands/gc.h"

struct gc {
    struct cv_db *db;
    struct cv_store *store;
    const struct cv_gc_params *params;
    struct cv_gc_summary summary;
    int64_t now_ms;
};

/* Counts a finding and tells of it. */
void gc_tell(struct gc *gc, enum cv_gc_kind kind, const char *key, const char *video_id,
             int64_t size);

/* One page of a list, as the tables are to show it: rows with an id above `after_id` ("" for the
 * first) and up to `until_id` (NULL: to the last) whose key is not among `keys` are looked at. */
struct gc_range {
    enum cv_object_place place;
    const char *after_id;
    const char *until_id;
    const struct cv_object_list *page;
};

/* Whether rows name keys of this place. */
bool gc_has_rows(enum cv_object_place place);
CV_MUST_CHECK int gc_check_rows(struct gc *gc, const struct gc_range *range,
                                struct cv_error *error);

/* Of the videos in the array `ids`, those at which unsuccessful attempts may have left objects under a
 * place: rows of "id". NULL where the place has no such thing. */
CV_MUST_CHECK int gc_find_suspects(struct gc *gc, enum cv_object_place place, const char *ids,
                                   struct cv_db_result **ret_rows, struct cv_error *error);
bool gc_is_suspect(const struct cv_db_result *suspects, const char *video_id);

/* Of a page, the objects of suspects that nothing refers to and that are old enough: rows of "key". NULL:
 * none. */
CV_MUST_CHECK int gc_find_leftovers(struct gc *gc, enum cv_object_place place,
                                    const struct cv_object_list *page,
                                    const struct cv_db_result *suspects,
                                    struct cv_db_result **ret_rows, struct cv_error *error);
bool gc_is_leftover(const struct cv_db_result *leftovers, const char *key);

/* Raises CV_ERROR_CONFLICT when store and database cannot belong together. */
CV_MUST_CHECK int gc_check_pair(struct gc *gc, struct cv_error *error);
