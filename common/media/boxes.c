#include "common/media/boxes.h"

#include <libavutil/avutil.h>
#include <libavutil/mathematics.h>
#include <string.h>

int cv_read_at(const struct cv_byte_source *source, int64_t offset, void *data, size_t length,
               size_t *ret_got, struct cv_error *error)
{
    size_t got = 0, step = 1;
    while (got < length && step > 0 && offset + (int64_t)got < source->size) {
        step = 0;
        CV_TRY(source->read(source->opaque, offset + (int64_t)got, (char *)data + got, length - got,
                            &step, error));
        got += step;
    }
    *ret_got = got;
    return 0;
}

static uint64_t read_number(const unsigned char *bytes, size_t length)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

int cv_read_box(const struct cv_byte_source *source, int64_t offset, int64_t end,
                struct cv_mp4_box *ret_box, struct cv_error *error)
{
    unsigned char head[16];
    size_t got = 0;
    CV_TRY(offset < end ? cv_read_at(source, offset, head, sizeof(head), &got, error) : 0);
    if (got < 8) {
        return 1;
    }
    uint64_t size = read_number(head, 4);
    int64_t head_size = size == 1 ? 16 : 8;
    size = size == 1 ? read_number(head + 8, 8) : size == 0 ? (uint64_t)(end - offset) : size;
    if (got < (size_t)head_size || size < (uint64_t)head_size || size > (uint64_t)(INT64_MAX / 2)) {
        return 1;
    }
    (void)memcpy(ret_box->type, head + 4, 4);
    ret_box->type[4] = '\0';
    ret_box->content = offset + head_size;
    ret_box->end = offset + (int64_t)size;
    return 0;
}

/* Finds the first box of a type on one level. 1: there is none. */
static int find_box(const struct cv_byte_source *source, int64_t from, int64_t end,
                    const char *type, struct cv_mp4_box *ret_box, struct cv_error *error)
{
    int result = 1;
    for (int i = 0; i < CV_BOXES_MAX; i++, from = ret_box->end) {
        result = cv_read_box(source, from, end, ret_box, error);
        if (result != 0 || strcmp(ret_box->type, type) == 0) {
            return result;
        }
    }
    return 1;
}

int cv_read_movie_us(const struct cv_byte_source *source, int64_t *ret_us, struct cv_error *error)
{
    unsigned char header[32];
    struct cv_mp4_box movie, box;
    size_t got = 0;
    *ret_us = 0;
    int result = find_box(source, 0, source->size, "moov", &movie, error);
    result = result == 0 ? find_box(source, movie.content, movie.end, "mvhd", &box, error) : result;
    if (result != 0) {
        return result < 0 ? result : 0;
    }
    CV_TRY(cv_read_at(source, box.content, header, sizeof(header), &got, error));
    if (got < sizeof(header)) {
        return 0;
    }
    /* After version and flags: two dates, time scale and duration; version 1 has wide dates and a
     * wide duration. */
    bool is_wide = header[0] == 1;
    uint64_t scale = read_number(header + (is_wide ? 20 : 12), 4);
    uint64_t duration = read_number(header + (is_wide ? 24 : 16), is_wide ? 8 : 4);
    bool is_known = scale > 0 && duration != (is_wide ? UINT64_MAX : UINT32_MAX);
    if (is_known && duration / scale < INT64_MAX / AV_TIME_BASE) {
        *ret_us = av_rescale((int64_t)duration, AV_TIME_BASE, (int64_t)scale);
    }
    return 0;
}
