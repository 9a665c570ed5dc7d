#include "common/media/deinterlace.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"

#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>

/* libavfilter's bwdif, one frame out for each that goes in. Half-pictures at twice the rate would
 * be smoother for sports, but give times that the source's frames do not have. The graph is made
 * again when size or format change: what it still holds comes out first. */
struct cv_deinterlacer {
    AVFilterGraph *graph;
    AVFilterContext *source, *sink;
    AVFrame *pending; /* waits until the old graph has run dry */
    AVFrame *frame;
    int width, height, format;
    bool ending; /* the graph was told that nothing more comes */
};

bool cv_is_interlaced(const AVFrame *picture)
{
    return picture->interlaced_frame != 0;
}

int cv_deinterlacer_new(struct cv_deinterlacer **ret_deinterlacer, struct cv_error *error)
{
    cv_auto(cv_deinterlacer_free) struct cv_deinterlacer *deinterlacer =
        calloc(1, sizeof(*deinterlacer));
    if (deinterlacer) {
        deinterlacer->frame = av_frame_alloc();
    }
    if (!deinterlacer || !deinterlacer->frame) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for de-interlacing");
    }
    *ret_deinterlacer = cv_take(deinterlacer);
    return 0;
}

void cv_deinterlacer_free(struct cv_deinterlacer *deinterlacer)
{
    if (deinterlacer) {
        avfilter_graph_free(&deinterlacer->graph);
        av_frame_free(&deinterlacer->pending);
        av_frame_free(&deinterlacer->frame);
        free(deinterlacer);
    }
}

static int build(struct cv_deinterlacer *deinterlacer, const AVFrame *picture,
                 struct cv_error *error)
{
    avfilter_graph_free(&deinterlacer->graph);
    deinterlacer->ending = false;
    deinterlacer->graph = avfilter_graph_alloc();
    if (!deinterlacer->graph) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for de-interlacing");
    }
    deinterlacer->graph->nb_threads = 1;
    char arguments[128];
    (void)snprintf(arguments, sizeof(arguments),
                   "video_size=%dx%d:pix_fmt=%d:time_base=1/1000000:pixel_aspect=1/1",
                   picture->width, picture->height, picture->format);
    AVFilterContext *filter = NULL;
    AVFilterGraph *graph = deinterlacer->graph;
    int result = avfilter_graph_create_filter(&deinterlacer->source, avfilter_get_by_name("buffer"),
                                              "in", arguments, NULL, graph);
    if (result >= 0) {
        result = avfilter_graph_create_filter(&filter, avfilter_get_by_name("bwdif"), "whole",
                                              "mode=send_frame:deint=interlaced", NULL, graph);
    }
    if (result >= 0) {
        result = avfilter_graph_create_filter(
            &deinterlacer->sink, avfilter_get_by_name("buffersink"), "out", NULL, NULL, graph);
    }
    result = result < 0 ? result : avfilter_link(deinterlacer->source, 0, filter, 0);
    result = result < 0 ? result : avfilter_link(filter, 0, deinterlacer->sink, 0);
    result = result < 0 ? result : avfilter_graph_config(graph, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot de-interlace the picture");
    }
    deinterlacer->width = picture->width;
    deinterlacer->height = picture->height;
    deinterlacer->format = picture->format;
    return 0;
}

static int end_graph(struct cv_deinterlacer *deinterlacer, struct cv_error *error)
{
    deinterlacer->ending = true;
    int result = deinterlacer->graph ? av_buffersrc_add_frame(deinterlacer->source, NULL) : 0;
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_DECODE, "cannot end de-interlacing") : 0;
}

/* Takes `picture` over. */
static int feed(struct cv_deinterlacer *deinterlacer, AVFrame *picture, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *own = picture;
    int result = av_buffersrc_add_frame(deinterlacer->source, own);
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_DECODE, "cannot de-interlace a picture")
                      : 0;
}

int cv_deinterlacer_send(struct cv_deinterlacer *deinterlacer, const struct cv_video_frame *frame,
                         struct cv_error *error)
{
    if (!frame) {
        return end_graph(deinterlacer, error);
    }
    AVFrame *picture = av_frame_clone(frame->picture);
    if (!picture) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a picture");
    }
    picture->pts = frame->pts_us;
    picture->pkt_duration = frame->duration_us;
    bool fits = picture->width == deinterlacer->width && picture->height == deinterlacer->height &&
                picture->format == deinterlacer->format;
    if (deinterlacer->graph && !fits) {
        deinterlacer->pending = picture;
        return end_graph(deinterlacer, error);
    }
    int result = deinterlacer->graph ? 0 : build(deinterlacer, picture, error);
    if (result != 0) {
        av_frame_free(&picture);
        return result;
    }
    return feed(deinterlacer, picture, error);
}

/* Goes on with what waited for the old graph to run dry. */
static int restart(struct cv_deinterlacer *deinterlacer, struct cv_error *error)
{
    AVFrame *picture = cv_take(deinterlacer->pending);
    int result = build(deinterlacer, picture, error);
    if (result != 0) {
        av_frame_free(&picture);
        return result;
    }
    return feed(deinterlacer, picture, error);
}

int cv_deinterlacer_receive(struct cv_deinterlacer *deinterlacer, struct cv_video_frame *ret_frame,
                            struct cv_error *error)
{
    av_frame_unref(deinterlacer->frame);
    int result = deinterlacer->graph
                     ? av_buffersink_get_frame(deinterlacer->sink, deinterlacer->frame)
                     : AVERROR_EOF;
    if (result == AVERROR_EOF && deinterlacer->pending) {
        result = restart(deinterlacer, error);
        if (result != 0) {
            return result;
        }
        result = av_buffersink_get_frame(deinterlacer->sink, deinterlacer->frame);
    }
    if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
        return CV_DEINTERLACER_NEEDS_MORE;
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot de-interlace a picture");
    }
    AVRational clock = av_buffersink_get_time_base(deinterlacer->sink);
    *ret_frame = (struct cv_video_frame){
        .picture = deinterlacer->frame,
        .pts_us = av_rescale_q(deinterlacer->frame->pts, clock, AV_TIME_BASE_Q),
        .duration_us =
            deinterlacer->frame->pkt_duration > 0 ? deinterlacer->frame->pkt_duration : 1,
        .key_frame = deinterlacer->frame->key_frame != 0,
    };
    return CV_DEINTERLACER_FRAME;
}
