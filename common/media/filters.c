#include "common/media/filters.h"

#include "common/media/caption.h"
#include "common/media/libav.h"
#include "common/media/scale.h"

#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>

/* ---- one graph -------------------------------------------------------------------------------- */

/* A chain of libavfilter's filters for pictures of one size and format. */
struct graph {
    AVFilterGraph *graph; /* NULL: none yet */
    AVFilterContext *source, *sink;
    int width, height, format;
};

static bool graph_fits(const struct graph *graph, const AVFrame *picture)
{
    return graph->graph && picture->width == graph->width && picture->height == graph->height &&
           picture->format == graph->format;
}

/* Creates the chain `filters`, in the syntax of ffmpeg's -vf, for pictures of the size and format
 * of `picture`. `ticks` per second is the time base of their times. */
static int graph_open(struct graph *graph, const AVFrame *picture, int ticks, const char *filters,
                      struct cv_error *error)
{
    avfilter_graph_free(&graph->graph);
    graph->graph = avfilter_graph_alloc();
    cv_auto(cv_av_inout_free) AVFilterInOut *outputs = avfilter_inout_alloc();
    cv_auto(cv_av_inout_free) AVFilterInOut *inputs = avfilter_inout_alloc();
    CV_TRY_MEMORY(graph->graph && outputs && inputs, error, "a filter");
    graph->graph->nb_threads = 1;
    char arguments[160];
    (void)snprintf(arguments, sizeof(arguments),
                   "video_size=%dx%d:pix_fmt=%d:time_base=1/%d:pixel_aspect=1/1", picture->width,
                   picture->height, picture->format, ticks);
    int result = avfilter_graph_create_filter(&graph->source, avfilter_get_by_name("buffer"), "in",
                                              arguments, NULL, graph->graph);
    result = result < 0
                 ? result
                 : avfilter_graph_create_filter(&graph->sink, avfilter_get_by_name("buffersink"),
                                                "out", NULL, NULL, graph->graph);
    if (result >= 0) {
        *outputs = (AVFilterInOut){av_strdup("in"), graph->source, 0, NULL};
        *inputs = (AVFilterInOut){av_strdup("out"), graph->sink, 0, NULL};
        result = avfilter_graph_parse_ptr(graph->graph, filters, &inputs, &outputs, NULL);
    }
    result = result < 0 ? result : avfilter_graph_config(graph->graph, NULL);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot filter a picture (%s)", filters);
    }
    graph->width = picture->width;
    graph->height = picture->height;
    graph->format = picture->format;
    return 0;
}

/* ---- deinterlacing --------------------------------------------------------------------------- */

/* libavfilter's bwdif, with a picture for each field, so that motion stays as smooth as it was
 * filmed. A frame that is not interlaced remains one picture. The graph is made again if size or
 * format change, after the old graph has returned the frames it holds. */
struct cv_deinterlacer {
    struct graph graph;
    AVFrame *pending; /* waits until the old graph is empty */
    AVFrame *frame;
    uintptr_t sent;     /* frames so far; each carries its number through the graph */
    uintptr_t received; /* the number of the frame that the newest picture comes from */
    int64_t first_us;   /* when the first picture of the newest frame is shown */
};

int cv_deinterlacer_new(struct cv_deinterlacer **ret_deinterlacer, struct cv_error *error)
{
    cv_auto(cv_deinterlacer_free) struct cv_deinterlacer *deinterlacer =
        calloc(1, sizeof(*deinterlacer));
    if (deinterlacer) {
        deinterlacer->frame = av_frame_alloc();
    }
    CV_TRY_MEMORY(deinterlacer && deinterlacer->frame, error, "de-interlacing");
    *ret_deinterlacer = cv_take(deinterlacer);
    return 0;
}

void cv_deinterlacer_free(struct cv_deinterlacer *deinterlacer)
{
    if (deinterlacer) {
        avfilter_graph_free(&deinterlacer->graph.graph);
        av_frame_free(&deinterlacer->pending);
        av_frame_free(&deinterlacer->frame);
        free(deinterlacer);
    }
}

static int build(struct cv_deinterlacer *deinterlacer, const AVFrame *picture,
                 struct cv_error *error)
{
    return graph_open(&deinterlacer->graph, picture, AV_TIME_BASE,
                      "bwdif=mode=send_field:deint=interlaced", error);
}

static int end_graph(struct cv_deinterlacer *deinterlacer, struct cv_error *error)
{
    int result =
        deinterlacer->graph.graph ? av_buffersrc_add_frame(deinterlacer->graph.source, NULL) : 0;
    return result < 0 ? cv_fail_av(error, result, CV_ERROR_DECODE, "cannot end de-interlacing") : 0;
}

/* Takes `picture` over. */
static int feed(struct cv_deinterlacer *deinterlacer, AVFrame *picture, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *own = picture;
    int result = av_buffersrc_add_frame(deinterlacer->graph.source, own);
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
    CV_TRY_MEMORY(picture, error, "a picture");
    picture->pts = frame->pts_us;
    *cv_av_duration(picture) = frame->duration_us;
    picture->opaque = (void *)++deinterlacer->sent; /* a number, never dereferenced */
    if (deinterlacer->graph.graph && !graph_fits(&deinterlacer->graph, picture)) {
        deinterlacer->pending = picture;
        return end_graph(deinterlacer, error);
    }
    int result = deinterlacer->graph.graph ? 0 : build(deinterlacer, picture, error);
    if (result != 0) {
        av_frame_free(&picture);
        return result;
    }
    return feed(deinterlacer, picture, error);
}

/* Makes a new graph and sends the frame that waited for the old graph to become empty. */
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

/* Describes the newest picture. The second one of a frame comes midway to the next frame, but not
 * later than half of its own frame's duration: a pause begins after it. */
static void describe_picture(struct cv_deinterlacer *deinterlacer, struct cv_video_frame *ret_frame)
{
    AVFrame *frame = deinterlacer->frame;
    AVRational clock = av_buffersink_get_time_base(deinterlacer->graph.sink);
    int64_t pts_us = av_rescale_q(frame->pts, clock, AV_TIME_BASE_Q);
    int64_t duration_us = *cv_av_duration(frame) > 1 ? *cv_av_duration(frame) : 1;
    bool is_second = (uintptr_t)frame->opaque == deinterlacer->received;
    if (is_second) {
        int64_t half_us = duration_us / 2, latest_us = deinterlacer->first_us + half_us;
        pts_us = half_us > 0 && (frame->pts == AV_NOPTS_VALUE || pts_us > latest_us) ? latest_us
                                                                                     : pts_us;
        duration_us = half_us > 0 ? half_us : 1;
        cv_av_forget_key_frame(frame); /* a seek finds the first one */
    } else {
        deinterlacer->first_us = pts_us;
        deinterlacer->received = (uintptr_t)frame->opaque;
    }
    *ret_frame = (struct cv_video_frame){
        .picture = frame,
        .pts_us = pts_us,
        .duration_us = duration_us,
        .key_frame = cv_av_is_key_frame(frame),
    };
}

int cv_deinterlacer_receive(struct cv_deinterlacer *deinterlacer, struct cv_video_frame *ret_frame,
                            struct cv_error *error)
{
    av_frame_unref(deinterlacer->frame);
    int result = deinterlacer->graph.graph
                     ? av_buffersink_get_frame(deinterlacer->graph.sink, deinterlacer->frame)
                     : AVERROR_EOF;
    if (result == AVERROR_EOF && deinterlacer->pending) {
        CV_TRY(restart(deinterlacer, error));
        result = av_buffersink_get_frame(deinterlacer->graph.sink, deinterlacer->frame);
    }
    if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) {
        return CV_DEINTERLACER_NEEDS_MORE;
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot de-interlace a picture");
    }
    describe_picture(deinterlacer, ret_frame);
    return CV_DEINTERLACER_FRAME;
}

/* ---- rotation -------------------------------------------------------------------------------- */

enum { CHAIN_SIZE = 96 };

/* A chain of libavfilter's transpose, hflip, vflip and scale, for one size and format; it is made
 * again when they change. */
struct cv_upright {
    struct cv_orientation orientation;
    AVRational aspect;
    char filters[CHAIN_SIZE]; /* empty: pictures stay as they are */
    struct graph graph;
};

/* vflip alone returns planes with a negative stride, which not every reader supports, so a flip is
 * made of two transpositions. `transpose` names its directions by number. */
static const char *turning(const struct cv_orientation *orientation)
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
    return orientation->flip_x ? "hflip" : "";
}

/* As in cv_shown_size(): the height is kept, the width follows the aspect ratio. */
static void write_chain(struct cv_upright *upright)
{
    const char *turned = turning(&upright->orientation);
    const char *between = turned[0] != '\0' ? "," : "";
    double aspect = av_q2d(upright->aspect);
    if (upright->aspect.num == upright->aspect.den) {
        (void)snprintf(upright->filters, CHAIN_SIZE, "%s", turned);
    } else if (upright->orientation.transpose) {
        (void)snprintf(upright->filters, CHAIN_SIZE, "%s%sscale=iw:max(1\\,round(ih/%.9f))", turned,
                       between, aspect);
    } else {
        (void)snprintf(upright->filters, CHAIN_SIZE, "%s%sscale=max(1\\,round(iw*%.9f)):ih", turned,
                       between, aspect);
    }
}

int cv_upright_new(const struct cv_orientation *orientation, AVRational aspect,
                   struct cv_upright **ret_upright, struct cv_error *error)
{
    struct cv_upright *upright = calloc(1, sizeof(*upright));
    CV_TRY_MEMORY(upright, error, "a rotation");
    upright->orientation = *orientation;
    upright->aspect = aspect;
    write_chain(upright);
    *ret_upright = upright;
    return 0;
}

void cv_upright_free(struct cv_upright *upright)
{
    if (upright) {
        avfilter_graph_free(&upright->graph.graph);
        free(upright);
    }
}

int cv_upright_turn(struct cv_upright *upright, AVFrame *frame, AVFrame *ret_frame,
                    struct cv_error *error)
{
    if (upright->filters[0] == '\0') {
        av_frame_move_ref(ret_frame, frame);
        return 0;
    }
    if (!graph_fits(&upright->graph, frame)) {
        CV_TRY(graph_open(&upright->graph, frame, AV_TIME_BASE, upright->filters, error));
    }
    /* The chain returns one frame for each frame sent. The caller keeps the times; they do not pass
     * through the chain. */
    AVRational aspect = frame->sample_aspect_ratio;
    frame->pts = 0;
    int result = av_buffersrc_add_frame_flags(upright->graph.source, frame, AV_BUFFERSRC_FLAG_PUSH);
    if (result >= 0) {
        result = av_buffersink_get_frame(upright->graph.sink, ret_frame);
    }
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_DECODE, "cannot turn the picture");
    }
    bool transposed = upright->orientation.transpose && aspect.num > 0;
    ret_frame->sample_aspect_ratio = upright->aspect.num != upright->aspect.den ? (AVRational){1, 1}
                                     : transposed                               ? av_inv_q(aspect)
                                                                                : aspect;
    return 0;
}

/* ---- palettes -------------------------------------------------------------------------------- */

struct cv_palette {
    struct graph graph;
    int64_t count;
};

enum { PALETTE_TICKS = 100 }; /* pictures are counted, not timed */

/* A weak ordered dither removes banding, and does not change still parts from picture to picture,
 * which keeps a GIF small. */
static const char *const filters =
    "format=rgb32,split[a][b];[a]palettegen=stats_mode=single[p];"
    "[b][p]paletteuse=new=1:dither=bayer:bayer_scale=5:diff_mode=rectangle";

void cv_palette_free(struct cv_palette *palette)
{
    if (palette) {
        avfilter_graph_free(&palette->graph.graph);
        free(palette);
    }
}

int cv_palette_new(const AVFrame *first, struct cv_palette **ret_palette, struct cv_error *error)
{
    cv_auto(cv_palette_free) struct cv_palette *palette = calloc(1, sizeof(*palette));
    CV_TRY_MEMORY(palette, error, "a palette");
    CV_TRY(graph_open(&palette->graph, first, PALETTE_TICKS, filters, error));
    *ret_palette = cv_take(palette);
    return 0;
}

int cv_palette_apply(struct cv_palette *palette, AVFrame **frame, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *painted = av_frame_alloc();
    CV_TRY_MEMORY(painted, error, "a palette");
    (*frame)->pts = palette->count++; /* the filters pair pictures with palettes by time */
    int result =
        av_buffersrc_add_frame_flags(palette->graph.source, *frame, AV_BUFFERSRC_FLAG_KEEP_REF);
    result = result < 0 ? result : av_buffersink_get_frame(palette->graph.sink, painted);
    if (result < 0) {
        return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot give a picture its palette");
    }
    av_frame_free(frame);
    *frame = cv_take(painted);
    return 0;
}

/* ---- texts ------------------------------------------------------------------------------------ */

enum {
    LETTER_MIN = 14,         /* pixels of a line's height */
    LETTERS_HIGH = 42,       /* of these a picture is wide: some 80 letters to a line */
    LETTERS_HIGH_ALONE = 28, /* on a picture that has nothing else */
    LINES_PADDING = 2, /* of the lines below a picture: for one that is longer than was estimated */
};

/* Appends a text of an event: no mark of it may be one of the format. */
static void append_text(struct cv_buffer *file, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '{' || *c == '}') {
            cv_buffer_append(file, "\\", 1);
        }
        cv_buffer_append(file, *c >= 0 && *c < ' ' ? " " : c, 1);
        if (*c == '\\') {
            cv_buffer_printf(file, "\xE2\x81\xA0"); /* a word joiner */
        }
    }
}

/* Writes the texts as Advanced SubStation Alpha, for libavfilter's "ass". */
static int write_texts(const struct cv_caption *caption, int width, int height, int size,
                       struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer file = CV_BUFFER_INIT;
    cv_buffer_printf(
        &file,
        "[Script Info]\nScriptType: v4.00+\nPlayResX: %d\nPlayResY: %d\n"
        "[V4+ Styles]\nFormat: Name, Fontname, Fontsize, PrimaryColour, Outline, Alignment, "
        "MarginL, MarginR, MarginV\nStyle: Default,Sans,%d,&H00FFFFFF,0,%d,%d,%d,%d\n"
        "[Events]\nFormat: Start, End, Style, Text\nDialogue: 0:00:00.00,9:00:00.00,Default,",
        width, height, size, caption->below ? 1 : 5, size / 2, size / 2, size / 2);
    for (size_t i = 0; i < caption->count; i++) {
        cv_buffer_printf(&file, "%s", i == 0 ? "{\\b1}" : i == 1 ? "{\\b0}\\N" : "\\N");
        append_text(&file, caption->lines[i]);
    }
    cv_buffer_append(&file, "\n", 1);
    CV_TRY_MEMORY(!file.failed, error, "a caption");
    FILE *out = fopen(caption->path, "we");
    CV_TRY_ERRNO(out, error, "cannot create %s", caption->path);
    bool is_written = fwrite(file.data, 1, file.length, out) == file.length;
    CV_TRY_ERRNO(fclose(out) == 0 && is_written, error, "cannot write %s", caption->path);
    return 0;
}

/* As a value in a chain of filters, which is read twice. */
static void append_value(struct cv_buffer *chain, const char *value)
{
    for (const char *c = value; *c; c++) {
        cv_buffer_printf(chain, "%s%c", strchr("\\':,;[]=", *c) ? "\\\\\\" : "", *c);
    }
}

/* How many lines the texts take, about. */
static int count_lines(const struct cv_caption *caption, int width, int size)
{
    int letters = cv_max(2 * (width - size) / size, 1), lines = LINES_PADDING;
    for (size_t i = 0; i < caption->count; i++) {
        lines += 1 + (int)strlen(caption->lines[i]) / letters;
    }
    return lines;
}

int cv_picture_caption(const AVFrame *picture, const struct cv_caption *caption,
                       AVFrame **ret_picture, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *plain = NULL;
    cv_auto(cv_av_frame_free) AVFrame *written = av_frame_alloc();
    cv_auto(cv_buffer_deinit) struct cv_buffer chain = CV_BUFFER_INIT;
    struct SwsContext *cache = NULL;
    struct graph graph = {0};
    int letters = caption->below ? LETTERS_HIGH : LETTERS_HIGH_ALONE;
    int size = cv_max(picture->width / letters, LETTER_MIN);
    int below = caption->below ? count_lines(caption, picture->width, size) * size : 0;
    int result = cv_scale_picture(picture, picture->width, picture->height, AV_PIX_FMT_RGB24, true,
                                  &cache, &plain, error);
    sws_freeContext(cache);
    CV_TRY(result);
    CV_TRY(write_texts(caption, plain->width, plain->height + below, size, error));
    cv_buffer_printf(&chain, "pad=iw:ih+%d:color=black,ass=filename=", below);
    append_value(&chain, caption->path);
    CV_TRY_MEMORY(written && !chain.failed, error, "a caption");
    plain->pts = 0;
    result = graph_open(&graph, plain, AV_TIME_BASE, chain.data, error);
    if (result == 0 &&
        (av_buffersrc_add_frame_flags(graph.source, plain, AV_BUFFERSRC_FLAG_PUSH) < 0 ||
         av_buffersink_get_frame(graph.sink, written) < 0)) {
        result = cv_fail(error, CV_ERROR_ENCODE, "cannot write a text on a picture");
    }
    avfilter_graph_free(&graph.graph);
    CV_TRY(result);
    written->color_range = AVCOL_RANGE_JPEG;
    *ret_picture = cv_take(written);
    return 0;
}
