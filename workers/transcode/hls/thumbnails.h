/* Small pictures of a video on sheets, and the WebVTT that says which one stands for which time.
 * Private to common/media. */
#pragma once

#include "common/media/files.h"

struct cv_sprites;

enum { CV_SPRITES_NAME_SIZE = 40 };

/* `duration_us` as far as it is known, else 0: tiles are spread over it. `chunk` NULL: the whole. */
CV_MUST_CHECK int cv_sprites_new(int64_t duration_us, const struct cv_ladder_chunk *chunk,
                                 struct cv_files *files, struct cv_sprites **ret_sprites,
                                 struct cv_error *error);
void cv_sprites_free(struct cv_sprites *sprites);
CV_DEFINE_CLEANUP(struct cv_sprites *, cv_sprites_free)

/* The picture (4:2:0, 8 bits, always the same size) that is shown from `time_us` on. */
CV_MUST_CHECK int cv_sprites_show(struct cv_sprites *sprites, const AVFrame *picture,
                                  int64_t time_us, struct cv_error *error);

/* Completes the sheets; writes thumbnails.vtt, if this is the whole. */
CV_MUST_CHECK int cv_sprites_finish(struct cv_sprites *sprites, int64_t end_us,
                                    struct cv_error *error);

/* After cv_sprites_finish: the cues of a chunk; and how many sheets, which are called like this. */
const char *cv_sprites_cues(const struct cv_sprites *sprites);
int cv_sprites_sheets(const struct cv_sprites *sprites);
void cv_sprites_sheet_name(int chunk, int sheet, char name[CV_SPRITES_NAME_SIZE]);

int cv_sprites_tiles(const struct cv_sprites *sprites);
