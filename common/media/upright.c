#include "common/media/upright.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"

#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>

/* A chain of libavfilter's transpose, hflip and vflip; the graph is made for one size and format
 * and made again when they change. */
struct cv_upright {
    struct cv_orientation orientation;
    AVFilterGraph *graph;
    AVFilterContext *source, *sink;
    int width, height, format;
};

/* vflip would hand out planes that run backwards in memory, which not every reader expects: a plain
 * flip is made of two copies instead. `transpose` names its directions by number. */
static const char *filter_text(const struct cv_orientation *orientation)
{
    if (orientation->transpose) {
        if (orientation->flip_x) {
            return orientation->flip_y ? "transpose=3" : "transpose=1";
        }
        return orientation->flip_y ? "transpose=2" : "transpose=0";
    }
    if (orientation->flip_y) {
        return orientation->flip_x ? "vflip,hflip" : "transpose=0,transpose=2";
    }
    return orientation->flip_x ? "hflip" : NULL;
}

int cv_upright_new(const struct cv_orientation *orientation, struct cv_upright **ret_upright,
                   struct cv_error *error)
{
    struct cv_upright *upright = calloc(1, sizeof(*upright));
    if (!upright) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a rotation");
    }
    upright->orientation = *orientation;
    *ret_upright = upright;
    return 0;
}

void cv_upright_free(struct cv_upright *upright)
{
    if (upright) {
        avfilter_graph_free(&upright->graph);
        free(upright);
    }
}

static int build(struct cv_upright *upright, const AVFrame *frame, const char *text,
                 struct cv_error *error)
{
    avfilter_graph_free(&upright->graph);
    upright->graph = avfilter_graph_alloc();
    cv_auto(cv_av_inout_free) AVFilterInOut *outputs = avfilter_inout_alloc();
    cv_auto(cv_av_inout_free) AVFilterInOut *inputs = avfilter_inout_alloc();
    if (!upright->graph || !outputs || !inputs) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a rotation");
    }
    upright->graph->nb_threads = 1;
    char arguments[128];
    (void)snprintf(arguments, sizeof(arguments),
                   "video_size=%dx%d:pix_fmt=%d:time_base=1/1000000:pixel_aspect=1/1", frame->width,
                   frame->height, frame->format);
    int result = avfilter_graph_create_filter(&upright->source, avfilter_get_by_name("buffer"),
                                              "in", arguments, NULL, upright->graph);
    if (result >= 0) {
        result = avfilter_graph_create_filter(&upright->sink, avfilter_get_by_name("buffersink"),
                                              "out", NULL, NULL, upright->graph);
    }
    if (result >= 0) {
        outputs->name = av_strdup("in");
        outputs->filter_ctx = upright->source;
        inputs->name = av_strdup("out");
        inputs->filter_ctx = upright->sink;
        result = avfilter_graph_parse_ptr(upright->graph, text, &inputs, &outputs, NULL);
    }
    if (result >= 0) {
        result = avfilter_graph_config(upright->graph, NULL);
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot turn the picture");
    }
    upright->width = frame->width;
    upright->height = frame->height;
    upright->format = frame->format;
    return 0;
}

int cv_upright_turn(struct cv_upright *upright, AVFrame *frame, AVFrame *ret_frame,
                    struct cv_error *error)
{
    const char *text = filter_text(&upright->orientation);
    if (!text) {
        av_frame_move_ref(ret_frame, frame);
        return 0;
    }
    if (!upright->graph || frame->width != upright->width || frame->height != upright->height ||
        frame->format != upright->format) {
        int result = build(upright, frame, text, error);
        if (result != 0) {
            return result;
        }
    }
    /* The chain is one frame in, one frame out; times are the caller's and do not pass through. */
    AVRational aspect = frame->sample_aspect_ratio;
    frame->pts = 0;
    int result = av_buffersrc_add_frame_flags(upright->source, frame, AV_BUFFERSRC_FLAG_PUSH);
    if (result >= 0) {
        result = av_buffersink_get_frame(upright->sink, ret_frame);
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot turn the picture");
    }
    bool transposed = upright->orientation.transpose && aspect.num > 0;
    ret_frame->sample_aspect_ratio = transposed ? av_inv_q(aspect) : aspect;
    return 0;
}
