/* Small pictures of a video on sheets, and the WebVTT that says which one stands for which time.
 * Private to common/media. */
#pragma once

#include "common/media/files.h"

struct cv_sprites;

/* `duration_us` as far as it is known, else 0: tiles are spread over it. */
CV_MUST_CHECK int cv_sprites_new(int64_t duration_us, struct cv_files *files,
                                 struct cv_sprites **ret_sprites, struct cv_error *error);
void cv_sprites_free(struct cv_sprites *sprites);
CV_DEFINE_CLEANUP(struct cv_sprites *, cv_sprites_free)

/* The picture (4:2:0, 8 bits, always the same size) that is shown from `time_us` on. */
CV_MUST_CHECK int cv_sprites_show(struct cv_sprites *sprites, const AVFrame *picture,
                                  int64_t time_us, struct cv_error *error);

/* Completes the sheets and writes thumbnails.vtt. */
CV_MUST_CHECK int cv_sprites_finish(struct cv_sprites *sprites, int64_t end_us,
                                    struct cv_error *error);

int cv_sprites_tiles(const struct cv_sprites *sprites);
