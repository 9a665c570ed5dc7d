#include "common/media/palette.h"

#include "common/media/averror.h"
#include "common/media/cleanup.h"

#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>

struct cv_palette {
    AVFilterGraph *graph;
    AVFilterContext *source, *sink;
    int64_t count;
};

/* Ordered dither of low strength: banding goes, and still parts stay still from picture to picture,
 * which is what makes a GIF small. */
static const char *const filters =
    "format=rgb32,split[a][b];[a]palettegen=stats_mode=single[p];"
    "[b][p]paletteuse=new=1:dither=bayer:bayer_scale=5:diff_mode=rectangle";

void cv_palette_free(struct cv_palette *palette)
{
    if (palette) {
        avfilter_graph_free(&palette->graph);
        free(palette);
    }
}

static int make_graph(struct cv_palette *palette, const AVFrame *first)
{
    char arguments[160];
    (void)snprintf(arguments, sizeof(arguments),
                   "video_size=%dx%d:pix_fmt=%d:time_base=1/100:pixel_aspect=1/1", first->width,
                   first->height, first->format);
    int result = avfilter_graph_create_filter(&palette->source, avfilter_get_by_name("buffer"),
                                              "in", arguments, NULL, palette->graph);
    result = result < 0
                 ? result
                 : avfilter_graph_create_filter(&palette->sink, avfilter_get_by_name("buffersink"),
                                                "out", NULL, NULL, palette->graph);
    cv_auto(cv_av_inout_free) AVFilterInOut *inputs = avfilter_inout_alloc();
    cv_auto(cv_av_inout_free) AVFilterInOut *outputs = avfilter_inout_alloc();
    if (result < 0 || !inputs || !outputs) {
        return result < 0 ? result : AVERROR(ENOMEM);
    }
    *outputs = (AVFilterInOut){av_strdup("in"), palette->source, 0, NULL};
    *inputs = (AVFilterInOut){av_strdup("out"), palette->sink, 0, NULL};
    result = avfilter_graph_parse_ptr(palette->graph, filters, &inputs, &outputs, NULL);
    return result < 0 ? result : avfilter_graph_config(palette->graph, NULL);
}

int cv_palette_new(const AVFrame *first, struct cv_palette **ret_palette, struct cv_error *error)
{
    cv_auto(cv_palette_free) struct cv_palette *palette = calloc(1, sizeof(*palette));
    if (!palette || !(palette->graph = avfilter_graph_alloc())) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a palette");
    }
    palette->graph->nb_threads = 1;
    int result = make_graph(palette, first);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot make palettes");
    }
    *ret_palette = cv_take(palette);
    return 0;
}

int cv_palette_apply(struct cv_palette *palette, AVFrame **frame, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *painted = av_frame_alloc();
    if (!painted) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a palette");
    }
    (*frame)->pts = palette->count++; /* the filters pair pictures with palettes by time */
    int result = av_buffersrc_add_frame_flags(palette->source, *frame, AV_BUFFERSRC_FLAG_KEEP_REF);
    result = result < 0 ? result : av_buffersink_get_frame(palette->sink, painted);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot give a picture its palette");
    }
    av_frame_free(frame);
    *frame = cv_take(painted);
    return 0;
}
