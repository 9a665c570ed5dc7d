/* An event of a track of pictures: rects of any size and place, with any colours. A picture is as large as its rects and a margin
 * can be, and has a row for each. */
#include "common/media/subtitle_picture.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 12, PALETTE = 256 * 4, SIDE = 64, RECTS = 3 };

static int16_t number(const uint8_t *data)
{
    return (int16_t)(data[0] | data[1] << 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    AVSubtitleRect rects[RECTS] = {0}, *list[RECTS] = {&rects[0], &rects[1], &rects[2]};
    uint8_t palette[PALETTE] = {0}, *pixels[RECTS] = {0};
    AVSubtitle event = {.rects = list};
    AVFrame *picture = NULL;
    int64_t all = 0;
    for (; event.num_rects < RECTS && size >= HEAD; data += HEAD, size -= HEAD) {
        AVSubtitleRect *rect = list[event.num_rects];
        *rect = (AVSubtitleRect){.type = SUBTITLE_BITMAP, .x = number(data), .y = number(data + 2)};
        rect->w = (int8_t)data[4] % SIDE;
        rect->h = (int8_t)data[5] % SIDE;
        rect->linesize[0] = rect->w + (data[6] & 7);
        size_t area = rect->w > 0 && rect->h > 0 ? (size_t)rect->linesize[0] * (size_t)rect->h : 1;
        pixels[event.num_rects] =
            calloc(area, 1); /* its own, so that what is read behind it is seen */
        rect->data[0] = data[7] & 1 ? pixels[event.num_rects] : NULL;
        rect->data[1] = palette;
        (void)memcpy(pixels[event.num_rects], data, area < size ? area : size);
        event.num_rects++;
    }
    (void)memcpy(palette, data, size < PALETTE ? size : PALETTE);
    if (cv_subtitle_compose(&event, &all, &picture, &error) == 0 &&
        (picture->width <= 32 || picture->height <= 32 || all <= 0)) {
        abort();
    }
    av_frame_free(&picture);
    for (int i = 0; i < RECTS; i++) {
        free(pixels[i]);
    }
    return 0;
}
