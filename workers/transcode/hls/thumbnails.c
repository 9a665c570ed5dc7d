#include "workers/transcode/hls/thumbnails.h"

#include "common/media/media.h"

#include <inttypes.h>
#include <libavutil/imgutils.h>
#include <math.h>

enum {
    INTERVAL_UNKNOWN_US = 2 * 1000 * 1000
}; /* distance of candidates if the duration is unknown */

/* ---- the poster ------------------------------------------------------------------------------ */

enum {
    CANDIDATES = 24, /* pictures examined over the whole video */
    CANDIDATE_MIN_US = 200 * 1000,
    GRID = 192, /* samples per side: enough for lines of text, and cheap */
    TONES = 256,
};

/* Below it a picture shows next to nothing, and the next one is looked at, however soon it comes: one colour has 0, with the noise of a
 * codec 1.9; one line of text on white has 1.5, a page of text 4.5. */
static const double BLANK_SCORE = 2;

void cv_poster_init(struct cv_poster *poster, int64_t duration_us)
{
    int64_t interval = duration_us > 0 ? duration_us / CANDIDATES : INTERVAL_UNKNOWN_US;
    *poster = (struct cv_poster){
        .best_score = -1,
        .interval_us = interval < CANDIDATE_MIN_US ? CANDIDATE_MIN_US : interval,
    };
}

void cv_poster_deinit(struct cv_poster *poster)
{
    av_frame_free(&poster->best);
}

double cv_poster_score(const AVFrame *picture)
{
    int columns = picture->width < GRID ? picture->width : GRID;
    int rows = picture->height < GRID ? picture->height : GRID;
    int histogram[TONES] = {0};
    int64_t detail = 0;
    for (int row = 0; row < rows; row++) {
        int y = (int)((int64_t)row * picture->height / rows);
        const uint8_t *line = picture->data[0] + (ptrdiff_t)y * picture->linesize[0];
        for (int column = 0; column < columns; column++) {
            int x = (int)((int64_t)column * picture->width / columns);
            histogram[line[x]]++;
            detail += x > 0 ? abs(line[x] - line[x - 1]) : 0;
        }
    }
    double count = (double)columns * rows, entropy = 0;
    for (int tone = 0; tone < TONES; tone++) {
        if (histogram[tone] > 0) {
            double share = histogram[tone] / count;
            entropy -= share * log2(share);
        }
    }
    return entropy + log2(1.0 + (double)detail / count);
}

int cv_poster_offer(struct cv_poster *poster, const AVFrame *picture, int64_t pts_us,
                    struct cv_error *error)
{
    if (poster->best_score > BLANK_SCORE && pts_us < poster->next_us) {
        return 0;
    }
    poster->next_us = pts_us + poster->interval_us;
    double score = cv_poster_score(picture);
    if (score <= poster->best_score) {
        return 0;
    }
    AVFrame *best = av_frame_clone(picture);
    CV_TRY_MEMORY(best, error, "a poster");
    av_frame_free(&poster->best);
    poster->best = best;
    poster->best_score = score;
    return 0;
}

/* ---- sheets and their WebVTT ----------------------------------------------------------------- */

enum {
    TILE_SIDE = 192, /* longer side; enough to recognise a scene, not to read it */
    SIDE_MIN = 2,
    COLUMNS = 10,
    ROWS = 10,
    TILES_AIM = 300, /* number of tiles: one for every few pixels of a seek bar */
    TILES_MAX = 1200,
    TILE_MIN_US = 1000 * 1000,
    /* As sharp as JPEG at 70 (SSIM 0.976 for tiles of screen recordings) in 0.44 of the bytes. */
    QUALITY = 50,
};

struct cv_sprites {
    struct cv_files *files;
    struct SwsContext *cache;
    struct cv_buffer text;
    AVFrame *shown; /* the newest picture; NULL before the first */
    AVFrame *sheet;
    int tile_width, tile_height;
    int tiles, sheets;
    int64_t interval_us, next_us; /* time at which the next tile is due */
    int64_t cue_us;               /* start of the newest tile's cue */
    int chunk;                    /* -1: the whole video */
    int64_t until_us;
};

int cv_sprites_new(int64_t duration_us, const struct cv_ladder_chunk *chunk, struct cv_files *files,
                   struct cv_sprites **ret_sprites, struct cv_error *error)
{
    struct cv_sprites *sprites = calloc(1, sizeof(*sprites));
    CV_TRY_MEMORY(sprites, error, "sprites");
    sprites->files = files;
    int64_t interval = INTERVAL_UNKNOWN_US;
    if (duration_us > 0) {
        int64_t steps = (duration_us + TILE_MIN_US * (int64_t)TILES_AIM - 1) /
                        (TILE_MIN_US * (int64_t)TILES_AIM);
        interval = steps * TILE_MIN_US;
    }
    sprites->interval_us = interval;
    sprites->chunk = chunk ? chunk->number : -1;
    sprites->until_us = chunk ? chunk->until_us : INT64_MAX;
    sprites->next_us = sprites->cue_us = chunk ? chunk->from_us : 0;
    cv_buffer_text(&sprites->text, chunk ? "" : "WEBVTT\n");
    *ret_sprites = sprites;
    return 0;
}

void cv_sprites_free(struct cv_sprites *sprites)
{
    if (sprites) {
        sws_freeContext(sprites->cache);
        cv_buffer_deinit(&sprites->text);
        av_frame_free(&sprites->shown);
        av_frame_free(&sprites->sheet);
        free(sprites);
    }
}

const char *cv_sprites_cues(const struct cv_sprites *sprites)
{
    return sprites->text.data ? sprites->text.data : "";
}

int cv_sprites_sheets(const struct cv_sprites *sprites)
{
    return sprites->sheets;
}

int cv_sprites_tiles(const struct cv_sprites *sprites)
{
    return sprites->tiles;
}

static int even(int64_t side)
{
    return side < SIDE_MIN ? SIDE_MIN : (int)(side & ~INT64_C(1));
}

static int open_sheet(struct cv_sprites *sprites, struct cv_error *error)
{
    const AVFrame *shown = sprites->shown;
    int longer = shown->width > shown->height ? shown->width : shown->height;
    int side = longer < TILE_SIDE ? longer : TILE_SIDE;
    sprites->tile_width = even((int64_t)shown->width * side / longer);
    sprites->tile_height = even((int64_t)shown->height * side / longer);
    CV_TRY(cv_picture_new(COLUMNS * sprites->tile_width, ROWS * sprites->tile_height,
                          AV_PIX_FMT_YUV420P, &sprites->sheet, error));
    AVFrame *sheet = sprites->sheet;
    sheet->colorspace = shown->colorspace;
    sheet->color_range = AVCOL_RANGE_MPEG;
    /* Clears the sheet, because the last row may have fewer tiles, and would show old memory. */
    const ptrdiff_t strides[4] = {sheet->linesize[0], sheet->linesize[1], sheet->linesize[2]};
    (void)av_image_fill_black(sheet->data, strides, sheet->format, sheet->color_range, sheet->width,
                              sheet->height);
    return 0;
}

void cv_sprites_sheet_name(int chunk, int sheet, char name[CV_SPRITES_NAME_SIZE])
{
    if (chunk < 0) {
        (void)snprintf(name, CV_SPRITES_NAME_SIZE, "sprite_%03d.webp", sheet);
    } else {
        (void)snprintf(name, CV_SPRITES_NAME_SIZE, "sprite_%05d_%03d.webp", chunk, sheet);
    }
}

static int close_sheet(struct cv_sprites *sprites, struct cv_error *error)
{
    int used = sprites->tiles - sprites->sheets * COLUMNS * ROWS;
    AVFrame *sheet = sprites->sheet;
    sheet->height = (used + COLUMNS - 1) / COLUMNS * sprites->tile_height;
    sheet->width = (used < COLUMNS ? used : COLUMNS) * sprites->tile_width;
    cv_auto_free void *data = NULL;
    size_t size = 0;
    char name[CV_SPRITES_NAME_SIZE];
    cv_sprites_sheet_name(sprites->chunk, sprites->sheets, name);
    int result = cv_picture_webp(sheet, QUALITY, 0, &data, &size, error);
    result =
        result ? result : cv_files_write(sprites->files, CV_LADDER_THUMBS, name, data, size, error);
    av_frame_free(&sprites->sheet);
    sprites->sheets++;
    return result;
}

static void stamp(struct cv_buffer *text, int64_t time_us)
{
    int64_t ms = time_us / 1000;
    cv_buffer_printf(text, "%02" PRId64 ":%02d:%02d.%03d", ms / 3600000, (int)(ms / 60000 % 60),
                     (int)(ms / 1000 % 60), (int)(ms % 1000));
}

/* Writes the cue of the newest tile, whose end is known now. */
static void write_cue(struct cv_sprites *sprites, int64_t end_us)
{
    int place = (sprites->tiles - 1) % (COLUMNS * ROWS);
    int sheet = (sprites->tiles - 1) / (COLUMNS * ROWS);
    cv_buffer_text(&sprites->text, "\n");
    stamp(&sprites->text, sprites->cue_us);
    cv_buffer_text(&sprites->text, " --> ");
    stamp(&sprites->text, end_us);
    char name[CV_SPRITES_NAME_SIZE];
    cv_sprites_sheet_name(sprites->chunk, sheet, name);
    cv_buffer_printf(&sprites->text, "\n%s#xywh=%d,%d,%d,%d\n", name,
                     place % COLUMNS * sprites->tile_width, place / COLUMNS * sprites->tile_height,
                     sprites->tile_width, sprites->tile_height);
}

static void copy_tile(const struct cv_sprites *sprites, const AVFrame *tile, int place)
{
    for (int plane = 0; plane < 3; plane++) {
        int half = plane > 0;
        int x = place % COLUMNS * sprites->tile_width >> half;
        int y = place / COLUMNS * sprites->tile_height >> half;
        av_image_copy_plane(
            sprites->sheet->data[plane] + (ptrdiff_t)y * sprites->sheet->linesize[plane] + x,
            sprites->sheet->linesize[plane], tile->data[plane], tile->linesize[plane],
            sprites->tile_width >> half, sprites->tile_height >> half);
    }
}

static int add_tile(struct cv_sprites *sprites, struct cv_error *error)
{
    CV_TRY(sprites->sheet ? 0 : open_sheet(sprites, error));
    if (sprites->tiles > 0) {
        write_cue(sprites, sprites->next_us);
    }
    cv_auto(cv_av_frame_free) AVFrame *tile = NULL;
    CV_TRY(cv_scale_picture(sprites->shown, sprites->tile_width, sprites->tile_height,
                            AV_PIX_FMT_YUV420P, false, &sprites->cache, &tile, error));
    copy_tile(sprites, tile, sprites->tiles % (COLUMNS * ROWS));
    sprites->tiles++;
    sprites->cue_us = sprites->next_us;
    if (sprites->tiles % TILES_MAX == 0) {
        sprites->interval_us *= 2; /* the video is longer than the header says */
    }
    sprites->next_us += sprites->interval_us;
    return sprites->tiles % (COLUMNS * ROWS) == 0 ? close_sheet(sprites, error) : 0;
}

int cv_sprites_show(struct cv_sprites *sprites, const AVFrame *picture, int64_t time_us,
                    struct cv_error *error)
{
    while (sprites->shown && sprites->next_us < time_us) {
        CV_TRY(add_tile(sprites, error));
    }
    av_frame_free(&sprites->shown);
    sprites->shown = av_frame_clone(picture);
    return sprites->shown ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for sprites");
}

int cv_sprites_finish(struct cv_sprites *sprites, int64_t end_us, struct cv_error *error)
{
    end_us = end_us < sprites->until_us ? end_us : sprites->until_us;
    while (sprites->shown && (sprites->tiles == 0 || sprites->next_us < end_us)) {
        CV_TRY(add_tile(sprites, error));
    }
    if (sprites->tiles > 0) {
        write_cue(sprites, end_us > sprites->cue_us ? end_us : sprites->cue_us + TILE_MIN_US);
    }
    if (sprites->sheet) {
        CV_TRY(close_sheet(sprites, error));
    }
    CV_TRY_MEMORY(!sprites->text.failed, error, "cues");
    if (sprites->chunk >= 0) {
        return 0;
    }
    return cv_files_write(sprites->files, CV_LADDER_THUMBS, "thumbnails.vtt", sprites->text.data,
                          sprites->text.length, error);
}
