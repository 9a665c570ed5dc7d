#include "workers/clip_generate/covers.h"

#include "common/worker/worker.h"

#include <libavutil/imgutils.h>
#include <libavutil/mathematics.h>
#include <libavutil/pixdesc.h>
#include <string.h>

enum {
    PLACE_MAX = 1 << 20, /* pixels and times of a step: far beyond pictures, far below overflow */
    US_PER_MS = 1000,
    /* How wrong the time of a place can be, in ms: a source frame at 60 a second, and rounding. The
     * box covers all places of that time. */
    SLACK_MS = 20,
    /* How far from its track a line is looked for, in pixels and heights of the line, and how long
     * before and after its times, in ms. */
    AROUND = 48,
    AROUND_HEIGHTS = 2,
    AROUND_SIDEWAYS = 12,
    AROUND_MS = 1500,
    LOST_MS = 300,      /* before and after the times in which the line was seen */
    LOOK_AGAIN_MS = 50, /* in the whole picture, which costs as much as encoding it */
    LOOK_BYTES_MAX = 16 << 20,
};

void clip_covers_deinit(struct clip_covers *covers)
{
    for (size_t i = 0; i < covers->count; i++) {
        free(covers->items[i].points);
        free(covers->items[i].pack);
        clip_look_deinit(&covers->items[i].look);
    }
    free(covers->items);
    *covers = (struct clip_covers){0};
}

/* ---- the payload ----------------------------------------------------------------------------- */

/* Reads {t, x, y, dt, dx, dy, …}; false: it is none. */
static bool read_points(const json_t *track, struct clip_cover *cover)
{
    struct cv_path_point at = {0};
    for (size_t i = 0; i < cover->count; i++) {
        int64_t step[3];
        for (size_t j = 0; j < 3; j++) {
            const json_t *value = json_array_get(track, 3 * i + j);
            int64_t limit = i == 0 && j == 0 ? INT32_MAX : PLACE_MAX;
            step[j] = json_integer_value(value);
            if (!json_is_integer(value) || step[j] < -limit || step[j] > limit) {
                return false;
            }
        }
        int64_t x = at.x + step[1], y = at.y + step[2];
        if ((i > 0 && step[0] < 0) || x < -PLACE_MAX || x > PLACE_MAX || y < -PLACE_MAX ||
            y > PLACE_MAX) {
            return false;
        }
        at = (struct cv_path_point){at.t_ms + step[0], (int)x, (int)y};
        cover->points[i] = at;
        cover->moves_sideways = cover->moves_sideways || (i > 0 && step[1] != 0);
    }
    return true;
}

/* Reads where the picture of the line is, if there is one. */
static int read_pack(const json_t *value, struct clip_cover *cover, struct cv_error *error)
{
    const char *pack = json_string_value(json_object_get(value, "pack"));
    int64_t x = 0, y = 0;
    if (!pack) {
        return 0;
    }
    CV_TRY(cv_payload_int(value, "offset", 0, INT64_MAX, &cover->offset, error));
    CV_TRY(cv_payload_int(value, "bytes", 1, LOOK_BYTES_MAX, &cover->bytes, error));
    CV_TRY(cv_payload_int(value, "x", -PLACE_MAX, PLACE_MAX, &x, error));
    CV_TRY(cv_payload_int(value, "y", -PLACE_MAX, PLACE_MAX, &y, error));
    cover->x = (int)x;
    cover->y = (int)y;
    cover->pack = strdup(pack);
    CV_TRY_MEMORY(cover->pack, error, "a key");
    return 0;
}

static int read_cover(const json_t *value, struct clip_cover *cover, struct cv_error *error)
{
    const json_t *track = json_object_get(value, "track");
    int64_t width = 0, height = 0;
    CV_TRY(cv_payload_int(value, "from", -PLACE_MAX, INT32_MAX, &cover->from_ms, error));
    CV_TRY(cv_payload_int(value, "to", cover->from_ms, (int64_t)INT32_MAX + PLACE_MAX,
                          &cover->to_ms, error));
    CV_TRY(cv_payload_int(value, "t_start", 0, INT32_MAX, &cover->seen_from_ms, error));
    CV_TRY(cv_payload_int(value, "t_end", 0, INT32_MAX, &cover->seen_to_ms, error));
    CV_TRY(cv_payload_int(value, "width", 1, PLACE_MAX, &width, error));
    CV_TRY(cv_payload_int(value, "height", 1, PLACE_MAX, &height, error));
    CV_TRY(read_pack(value, cover, error));
    cover->width = (int)width;
    cover->height = (int)height;
    cover->count = json_array_size(track) / 3;
    cover->points = calloc(cover->count ? cover->count : 1, sizeof(*cover->points));
    CV_TRY_MEMORY(cover->points, error, "a path");
    bool is_path = cover->count > 0 && json_array_size(track) % 3 == 0 && read_points(track, cover);
    return is_path ? 0
                   : cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                             "payload: \"track\" of a cover must be t, x, y, dt, dx, dy, …");
}

int clip_covers_read(const json_t *payload, struct clip_covers *ret_covers, struct cv_error *error)
{
    const json_t *list = json_object_get(payload, "covers"), *value;
    const json_t *redact = json_object_get(payload, "redact");
    size_t i;
    if (!list && !redact) {
        return 0;
    }
    if (!json_is_array(list)) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       "payload: \"covers\" must be a list; request_clip() makes it of \"redact\"");
    }
    size_t count = json_array_size(list);
    ret_covers->items = calloc(count ? count : 1, sizeof(*ret_covers->items));
    CV_TRY_MEMORY(ret_covers->items, error, "covers");
    ret_covers->count = count;
    ret_covers->wanted = true;
    json_array_foreach(list, i, value)
    {
        CV_TRY(read_cover(value, &ret_covers->items[i], error));
    }
    return 0;
}

/* ---- the looks of lines ---------------------------------------------------------------------- */

static int read_look(struct clip_cover *cover, struct cv_store_reader *reader,
                     struct cv_error *error)
{
    struct cv_byte_source source = cv_store_reader_source(reader);
    cv_auto_free uint8_t *data = malloc((size_t)cover->bytes);
    size_t filled = 0, length = 1;
    CV_TRY_MEMORY(data, error, "the picture of a line");
    while (filled < (size_t)cover->bytes && length > 0) {
        CV_TRY(source.read(source.opaque, cover->offset + (int64_t)filled, data + filled,
                           (size_t)cover->bytes - filled, &length, error));
        filled += length;
    }
    return filled == (size_t)cover->bytes ? clip_look_read(data, filled, &cover->look, error) : 0;
}

int clip_covers_read_looks(struct clip_covers *covers, struct cv_store *store,
                           struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    const char *opened = NULL;
    for (size_t i = 0; i < covers->count; i++) {
        struct clip_cover *cover = &covers->items[i];
        if (!cover->pack) {
            continue;
        }
        if (!opened || strcmp(opened, cover->pack) != 0) {
            cv_store_reader_close(reader);
            reader = NULL;
            int result = cv_store_reader_open(store, cover->pack, &reader, error);
            CV_TRY(result < 0 ? result : 0);
            opened = cover->pack;
        }
        CV_TRY(reader ? read_look(cover, reader, error) : 0);
    }
    return 0;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Edges, of pixels of the original or of a picture. */
struct edges {
    int64_t left, top, right, bottom;
};

static void include_place(struct edges *edges, const struct clip_cover *cover, int64_t x, int64_t y)
{
    edges->left = least(edges->left, x);
    edges->top = least(edges->top, y);
    edges->right = greatest(edges->right, x + cover->width);
    edges->bottom = greatest(edges->bottom, y + cover->height);
}

/* Includes the place of a time. */
static void include_time(struct edges *edges, const struct clip_cover *cover, int64_t t_ms)
{
    const struct cv_path_point *before = cover->points, *last = before + cover->count - 1;
    while (before < last && before[1].t_ms <= t_ms) {
        before++;
    }
    if (before == last || t_ms <= before->t_ms) {
        include_place(edges, cover, before->x, before->y);
        return;
    }
    int64_t part = t_ms - before->t_ms, whole = before[1].t_ms - before->t_ms;
    include_place(edges, cover, before->x + (before[1].x - before->x) * part / whole,
                  before->y + (before[1].y - before->y) * part / whole);
}

static struct edges edges_at(const struct clip_cover *cover, int64_t t_ms)
{
    struct edges edges = {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN};
    include_time(&edges, cover, t_ms - SLACK_MS);
    include_time(&edges, cover, t_ms);
    include_time(&edges, cover, t_ms + SLACK_MS);
    for (size_t i = 0; i < cover->count; i++) {
        const struct cv_path_point *point = &cover->points[i];
        if (point->t_ms > t_ms - SLACK_MS && point->t_ms < t_ms + SLACK_MS) {
            include_place(&edges, cover, point->x, point->y);
        }
    }
    return edges;
}

/* Makes a rectangle black whose sides lie between samples of all planes. */
static int fill(AVFrame *picture, const AVPixFmtDescriptor *form, const struct edges *edges)
{
    uint8_t *data[4] = {0};
    ptrdiff_t line_sizes[4] = {0};
    for (int plane = 0; plane < 4 && picture->data[plane]; plane++) {
        bool is_chroma = plane == 1 || plane == 2;
        int down = is_chroma && !(form->flags & AV_PIX_FMT_FLAG_RGB) ? form->log2_chroma_h : 0;
        int left = av_image_get_linesize(picture->format, (int)edges->left, plane);
        line_sizes[plane] = picture->linesize[plane];
        data[plane] = picture->data[plane] + (edges->top >> down) * line_sizes[plane] +
                      (edges->left > 0 ? left : 0);
    }
    return av_image_fill_black(data, line_sizes, picture->format,
                               cv_is_full_range(picture) ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG,
                               (int)(edges->right - edges->left),
                               (int)(edges->bottom - edges->top));
}

/* Draws a cover, scaled if the picture's size has changed in mid-stream. */
static int draw(AVFrame *picture, const AVPixFmtDescriptor *form, const struct cv_media_info *info,
                const struct edges *edges)
{
    int64_t across = INT64_C(1) << form->log2_chroma_w, down = INT64_C(1) << form->log2_chroma_h;
    struct edges drawn = {
        greatest(edges->left * picture->width / info->width, 0) / across * across,
        greatest(edges->top * picture->height / info->height, 0) / down * down,
        least(edges->right * picture->width / info->width + across, picture->width),
        least(edges->bottom * picture->height / info->height + down, picture->height),
    };
    drawn.right = least((drawn.right + across - 1) / across * across, picture->width);
    drawn.bottom = least((drawn.bottom + down - 1) / down * down, picture->height);
    return drawn.left < drawn.right && drawn.top < drawn.bottom ? fill(picture, form, &drawn) : 0;
}

/* Makes the picture one that can be drawn on: with whole bytes for its samples, and not shared. */
static int own_picture(AVFrame **picture, struct cv_error *error)
{
    const AVPixFmtDescriptor *form = av_pix_fmt_desc_get((*picture)->format);
    uint64_t closed = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL;
    if (form && !(form->flags & closed)) {
        CV_TRY_MEMORY(av_frame_make_writable(*picture) >= 0, error, "a picture");
        return 0;
    }
    AVFrame *plain = NULL;
    struct SwsContext *cache = NULL;
    int result = cv_scale_picture(*picture, (*picture)->width, (*picture)->height, AV_PIX_FMT_RGB24,
                                  true, &cache, &plain, error);
    sws_freeContext(cache);
    CV_TRY(result);
    plain->pts = (*picture)->pts;
    av_frame_free(picture);
    *picture = plain;
    return 0;
}

/* ---- where lines are ------------------------------------------------------------------------- */

/* The brightness of a picture; *grey holds it if it had to be made, av_frame_free it. */
static int read_luma(const AVFrame *picture, AVFrame **grey, struct clip_luma *ret_luma,
                     struct cv_error *error)
{
    const AVPixFmtDescriptor *form = av_pix_fmt_desc_get(picture->format);
    const AVFrame *from = picture;
    if ((form->flags & AV_PIX_FMT_FLAG_RGB) || form->comp[0].depth != 8 ||
        form->comp[0].step != 1) {
        struct SwsContext *cache = NULL;
        int result = cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_GRAY8,
                                      true, &cache, grey, error);
        sws_freeContext(cache);
        CV_TRY(result);
        from = *grey;
    }
    *ret_luma = (struct clip_luma){from->data[0], from->linesize[0], from->width, from->height};
    return 0;
}

/* Looks around a place, and adds those at which the line is. */
static void look_around(struct clip_cover *cover, const struct clip_luma *luma,
                        struct clip_place place, struct clip_place places[CLIP_PLACES_MAX],
                        size_t *count)
{
    int around = cv_max(AROUND, AROUND_HEIGHTS * cover->look.height);
    int sideways = cover->moves_sideways ? AROUND_SIDEWAYS : 1;
    const struct clip_window window = {place.x - sideways, place.y - around, place.x + sideways,
                                       place.y + around};
    struct clip_place found[CLIP_PLACES_MAX];
    size_t found_count = clip_look_find(&cover->look, luma, &window, found);
    for (size_t i = 0; i < found_count && *count < CLIP_PLACES_MAX; i++) {
        bool is_known = false;
        for (size_t j = 0; j < *count; j++) {
            is_known = is_known || (abs(places[j].x - found[i].x) <= 2 &&
                                    abs(places[j].y - found[i].y) <= cover->look.height / 2);
        }
        places[*count] = found[i];
        *count += !is_known;
    }
}

/* Looks for the line around its track and its last places; while it was seen and is at none of
 * them, in the whole picture. */
static void follow(struct clip_cover *cover, const struct clip_luma *luma, int64_t t_ms)
{
    struct clip_place places[CLIP_PLACES_MAX];
    struct edges edges = {INT64_MAX, INT64_MAX, INT64_MIN, INT64_MIN};
    size_t count = 0;
    include_time(&edges, cover, t_ms);
    struct clip_place track = {(int)edges.left - cover->x, (int)edges.top - cover->y};
    look_around(cover, luma, track, places, &count);
    for (size_t i = 0; i < cover->place_count; i++) {
        struct clip_place place = cover->places[i];
        if (abs(place.x - track.x) > 1 || abs(place.y - track.y) > AROUND / 2) {
            look_around(cover, luma, place, places, &count);
        }
    }
    bool is_seen = t_ms >= cover->seen_from_ms - LOST_MS && t_ms <= cover->seen_to_ms + LOST_MS;
    if (count == 0 && is_seen && t_ms >= cover->look_again_ms) {
        const struct clip_window whole = {0, 0, luma->width - cover->look.width,
                                          luma->height - cover->look.height};
        count = clip_look_find(&cover->look, luma, &whole, places);
        cover->look_again_ms = count ? 0 : t_ms + LOOK_AGAIN_MS;
    }
    cover->is_found = count > 0;
    if (count > 0) {
        memcpy(cover->places, places, count * sizeof(*places));
        cover->place_count = count;
    }
}

static bool is_around(const struct clip_cover *cover, int64_t t_ms, int64_t around_ms)
{
    return t_ms >= cover->from_ms - around_ms && t_ms <= cover->to_ms + around_ms;
}

/* Draws the boxes of a cover: where the line was found, else along its track and where it was last. */
static int draw_cover(AVFrame *picture, const AVPixFmtDescriptor *form,
                      const struct cv_media_info *info, const struct clip_cover *cover,
                      int64_t t_ms)
{
    struct edges edges = edges_at(cover, t_ms);
    if (cover->is_found || is_around(cover, t_ms, 0)) {
        for (size_t i = 0; i < cover->place_count; i++) {
            int64_t x = cover->places[i].x + cover->x, y = cover->places[i].y + cover->y;
            struct edges there = {x, y, x + cover->width, y + cover->height};
            if (draw(picture, form, info, &there) < 0) {
                return -1;
            }
        }
    }
    return cover->is_found || !is_around(cover, t_ms, 0) ? 0 : draw(picture, form, info, &edges);
}

int clip_covers_draw(struct clip_covers *covers, const struct cv_media_info *info, int64_t pts_us,
                     AVFrame **picture, struct cv_error *error)
{
    if (!covers->wanted) {
        return 0;
    }
    int64_t t_ms = pts_us / US_PER_MS;
    cv_auto(cv_av_frame_free) AVFrame *grey = NULL;
    struct clip_luma luma = {0};
    CV_TRY(own_picture(picture, error));
    av_frame_remove_side_data(*picture, AV_FRAME_DATA_A53_CC);
    av_frame_remove_side_data(*picture, AV_FRAME_DATA_SEI_UNREGISTERED);
    CV_TRY(read_luma(*picture, &grey, &luma, error));
    bool is_whole = luma.width == info->width && luma.height == info->height;
    for (size_t i = 0; i < covers->count; i++) { /* before anything is drawn */
        struct clip_cover *cover = &covers->items[i];
        cover->is_found = false;
        if (is_whole && cover->look.ink && is_around(cover, t_ms, AROUND_MS)) {
            follow(cover, &luma, t_ms);
        }
    }
    const AVPixFmtDescriptor *form = av_pix_fmt_desc_get((*picture)->format);
    for (size_t i = 0; i < covers->count; i++) {
        if (draw_cover(*picture, form, info, &covers->items[i], t_ms) < 0) {
            return cv_fail(error, CV_ERROR_UNSUPPORTED_MEDIA,
                           "texts cannot be covered in pictures of the form %s", form->name);
        }
    }
    return 0;
}
