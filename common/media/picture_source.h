/* The pictures of a video: received from another process as long as it sends them, then decoded here. */
#pragma once

#include "common/base/base.h"
#include "common/media/decode.h"

struct cv_picture_source;

/* `decoder` was just opened. `peer`: the other process; NULL if there is none. All three are borrowed. */
CV_MUST_CHECK int cv_picture_source_new(struct cv_decoder *decoder, const struct cv_peer *peer,
                                        struct cv_cancel *cancel,
                                        struct cv_picture_source **ret_source,
                                        struct cv_error *error);
void cv_picture_source_free(struct cv_picture_source *source);
CV_DEFINE_CLEANUP(struct cv_picture_source *, cv_picture_source_free)

/* Returns the first picture whose time, rounded to ms, is `time_ms`, or else the first later
 * picture. Must be called once, before cv_picture_source_next. */
CV_MUST_CHECK int cv_picture_source_start(struct cv_picture_source *source, int64_t time_ms,
                                          struct cv_video_frame *ret_frame, struct cv_error *error);

/* As cv_decoder_next. */
CV_MUST_CHECK int cv_picture_source_next(struct cv_picture_source *source,
                                         struct cv_video_frame *ret_frame, struct cv_error *error);
