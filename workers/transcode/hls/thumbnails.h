/* Small pictures of a video: the poster, and sheets for the seek bar. Private to workers/transcode/hls. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/finished_files.h"

/* ---- the poster ------------------------------------------------------------------------------ */

struct cv_poster {
    AVFrame *best;
    double best_score;
    int64_t interval_us, next_us;
};

/* `duration_us`: 0 if unknown; candidates are spread over it. */
void cv_poster_init(struct cv_poster *poster, int64_t duration_us);
void cv_poster_deinit(struct cv_poster *poster);

/* Offers a picture (4:2:0, 8 bits); most are not even examined. Keeps a reference to the best. */
CV_MUST_CHECK int cv_poster_offer(struct cv_poster *poster, const AVFrame *picture, int64_t pts_us,
                                  struct cv_error *error);

/* Scores how much a picture shows: 0 for a single colour; higher with more different tones (entropy
 * of the luma histogram, bits) and more detail. */
double cv_poster_score(const AVFrame *picture);

/* ---- sheets and their WebVTT ----------------------------------------------------------------- */

struct cv_sprites;

enum { CV_SPRITES_NAME_SIZE = 40 };

/* `duration_us`: 0 if unknown; tiles are spread over it. `chunk` NULL: the whole video. */
CV_MUST_CHECK int cv_sprites_new(int64_t duration_us, const struct cv_ladder_chunk *chunk,
                                 struct cv_files *files, struct cv_sprites **ret_sprites,
                                 struct cv_error *error);
void cv_sprites_free(struct cv_sprites *sprites);
CV_DEFINE_CLEANUP(struct cv_sprites *, cv_sprites_free)

/* Adds the picture (4:2:0, 8 bits, always the same size) that is shown from `time_us` on. */
CV_MUST_CHECK int cv_sprites_show(struct cv_sprites *sprites, const AVFrame *picture,
                                  int64_t time_us, struct cv_error *error);

/* Completes the sheets; also writes thumbnails.vtt unless this is a chunk. */
CV_MUST_CHECK int cv_sprites_finish(struct cv_sprites *sprites, int64_t end_us,
                                    struct cv_error *error);

/* After cv_sprites_finish: the cues of a chunk, the number of sheets, and the name of a sheet. */
const char *cv_sprites_cues(const struct cv_sprites *sprites);
int cv_sprites_sheets(const struct cv_sprites *sprites);
void cv_sprites_sheet_name(int chunk, int sheet, char name[CV_SPRITES_NAME_SIZE]);

int cv_sprites_tiles(const struct cv_sprites *sprites);
