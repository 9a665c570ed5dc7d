/* The removal of all objects of a video. */
#pragma once

#include "common/store/store.h"

/* Called now and then with what was removed so far. */
typedef void cv_objects_progress(void *opaque, int64_t removed);

/* Removes every object of a video, and looks again until a look finds none. *ret_removed counts. */
CV_MUST_CHECK int cv_objects_remove_video(struct cv_store *store, const char *video_id,
                                          struct cv_cancel *cancel, cv_objects_progress *progress,
                                          void *opaque, int64_t *ret_removed,
                                          struct cv_error *error);
