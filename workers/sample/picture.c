#include "workers/sample/picture.h"

#include "common/media/media.h"

#include <libavutil/pixdesc.h>

int picture_init(struct picture *picture, struct cv_error *error)
{
    *picture = (struct picture){.frame = av_frame_alloc()};
    CV_TRY_MEMORY(picture->frame, error, "a frame");
    return 0;
}

void picture_deinit(struct picture *picture)
{
    av_frame_free(&picture->frame);
    free(picture->copy);
    picture->copy = NULL;
}

static bool has_byte_planes(const AVFrame *frame)
{
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    uint64_t excluded = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM |
                        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BAYER | AV_PIX_FMT_FLAG_FLOAT;
    return format && (format->flags & excluded) == 0 && format->comp[0].depth == 8 &&
           format->comp[0].step == 1 && format->comp[0].plane == 0 && frame->linesize[0] > 0;
}

static int copy_luma(struct picture *picture, struct cv_error *error)
{
    const AVFrame *frame = picture->frame;
    size_t size = (size_t)frame->width * (size_t)frame->height;
    if (size > picture->copy_size) {
        uint8_t *grown = realloc(picture->copy, size);
        CV_TRY_MEMORY(grown, error, "luma");
        picture->copy = grown;
        picture->copy_size = size;
    }
    CV_TRY(cv_picture_luma(frame, picture->copy, frame->width, error));
    picture->luma = (struct plane){picture->copy, frame->width, frame->width, frame->height};
    return 0;
}

int picture_hold(struct picture *picture, const AVFrame *frame, int64_t time_us,
                 struct cv_error *error)
{
    picture_release(picture);
    CV_TRY_MEMORY(av_frame_ref(picture->frame, frame) >= 0, error, "a frame");
    if (has_byte_planes(frame)) {
        picture->luma =
            (struct plane){frame->data[0], frame->linesize[0], frame->width, frame->height};
    } else {
        CV_TRY(copy_luma(picture, error));
    }
    picture->time_us = time_us;
    picture->held = true;
    return 0;
}

void picture_release(struct picture *picture)
{
    av_frame_unref(picture->frame);
    picture->held = false;
}

void picture_slim(struct picture *picture)
{
    if (picture->luma.data == picture->copy) {
        av_frame_unref(picture->frame);
    }
}

enum { MOVING_BLOCKS = 16 }; /* of other changes: a moving picture, whose colours move too */

/* The chroma planes, where they are planes of bytes; false otherwise. `index` is 1 or 2. */
static bool chroma_of(const struct picture *picture, int index, struct plane *ret_plane)
{
    const AVFrame *frame = picture->frame;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(frame->format);
    if (!has_byte_planes(frame) || format->nb_components < 3 || format->comp[index].step != 1 ||
        frame->linesize[format->comp[index].plane] <= 0) {
        return false;
    }
    int plane = format->comp[index].plane;
    *ret_plane = (struct plane){frame->data[plane], frame->linesize[plane],
                                AV_CEIL_RSHIFT(frame->width, format->log2_chroma_w),
                                AV_CEIL_RSHIFT(frame->height, format->log2_chroma_h)};
    return true;
}

bool picture_differs(struct gate *gate, const struct picture *reference,
                     const struct picture *current, enum gate_view view,
                     struct gate_result *ret_result)
{
    gate_compare(gate, &reference->luma, &current->luma, view, ret_result);
    if (ret_result->changed > 0) {
        return true;
    }
    for (int i = 1; i <= 2 && ret_result->shifted < MOVING_BLOCKS; i++) {
        struct plane before;
        struct plane after;
        if (chroma_of(reference, i, &before) && chroma_of(current, i, &after) &&
            before.width == after.width && before.height == after.height &&
            gate_chroma_changed(gate, &before, &after, view)) {
            return true;
        }
    }
    return false;
}
