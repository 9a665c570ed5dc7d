/* The removal of all objects of a video. */
#pragma once

#include "common/store/store.h"

/* Called now and then with what was removed so far. */
typedef void cv_objects_progress(void *opaque, int64_t removed);

struct cv_objects_removal {
    struct cv_store *store;
    struct cv_cancel *cancel;      /* may be NULL, as the next */
    cv_objects_progress *progress; /* called with `opaque` */
    void *opaque;
    int64_t removed; /* objects, also those before a failure */
};

/* Removes every object of a video, and looks again until a look finds none. */
CV_MUST_CHECK int cv_objects_remove_video(struct cv_objects_removal *removal, const char *video_id,
                                          struct cv_error *error);
