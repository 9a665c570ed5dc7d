/* Removes all objects of a video. */
#pragma once

#include "common/store/store.h"

/* Called from time to time with the number of objects removed so far. */
typedef void cv_objects_progress(void *opaque, int64_t removed);

struct cv_objects_removal {
    struct cv_store *store;
    struct cv_cancel *cancel;      /* may be NULL */
    cv_objects_progress *progress; /* may be NULL; called with `opaque` */
    void *opaque;
    int64_t removed; /* number of objects, including those removed before a failure */
};

/* Removes every object of a video, and lists again until a list is empty. */
CV_MUST_CHECK int cv_objects_remove_video(struct cv_objects_removal *removal, const char *video_id,
                                          struct cv_error *error);
