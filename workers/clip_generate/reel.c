#include "workers/clip_generate/reel.h"

#include "workers/clip_generate/reencode.h"

#include <string.h>

enum {
    US_PER_MS = 1000,
    WIDTH =
        1280, /* pixels of the film, whatever shapes its parts have: what fits into most windows */
    HEIGHT = 720,
    RATE_MAX = 30,         /* pictures per second: twice as many take twice as long to encode */
    CARD_US = 2500 * 1000, /* four lines are read in this time; as SQL's plan_reel() counts */
    REASON_BYTES = 300,    /* of a part that is left out: 100 of them fit into a job's result */
};

/* The part of the work that is done when the film is cut and must only be stored. */
#define CUT_SHARE 0.95

struct reel {
    struct cv_stage_context *context;
    struct cv_media_info info; /* of the film */
    struct cv_output *output;
    int64_t at_us; /* where the next card begins */
    size_t count, done;

    /* The video of the part before, which stays open for the next one. */
    const char *original;
    struct cv_store_reader *reader;
    struct cv_byte_source source;
    struct cv_decoder *decoder;

    json_t *left_out;
};

static void close_video(struct reel *reel)
{
    cv_decoder_close(reel->decoder);
    cv_store_reader_close(reel->reader);
    reel->decoder = NULL;
    reel->reader = NULL;
    reel->original = NULL;
}

static void reel_deinit(struct reel *reel)
{
    close_video(reel);
    cv_output_free(reel->output);
    json_decref(reel->left_out);
}
CV_DEFINE_CLEANUP_ADDRESS(struct reel, reel_deinit)

static int open_video(struct reel *reel, const char *original, struct cv_error *error)
{
    if (reel->original && strcmp(reel->original, original) == 0) {
        return 0;
    }
    close_video(reel);
    CV_TRY(cv_stage_open_input(reel->context, original, &reel->reader, error));
    reel->source = cv_store_reader_source(reel->reader);
    CV_TRY(cut_open_source(&reel->source, cv_stage_threads(reel->context),
                           cv_stage_cancel(reel->context), &reel->decoder, error));
    reel->original = original;
    return 0;
}

/* ---- the card before a part -------------------------------------------------------------------- */

/* What the card says in white on black. Its colours are those of most videos of this height: the film is
 * marked with the colours of its first picture. */
static int make_card(const json_t *texts, const char *scratch, AVFrame **ret_card,
                     struct cv_error *error)
{
    const char *lines[CLIP_QUOTE_LINES_MAX];
    cv_auto_free char *path = NULL;
    cv_auto(cv_av_frame_free) AVFrame *black = NULL;
    cv_auto(cv_av_frame_free) AVFrame *written = NULL;
    struct cv_caption caption = {.lines = lines, .count = json_array_size(texts)};
    for (size_t i = 0; i < caption.count; i++) {
        lines[i] = json_string_value(json_array_get(texts, i));
    }
    CV_TRY(cv_picture_new(WIDTH, HEIGHT, AV_PIX_FMT_RGB24, &black, error));
    (void)memset(black->data[0], 0, (size_t)black->linesize[0] * HEIGHT);
    CV_TRY(cv_format(&path, error, "%s/card", scratch));
    caption.path = path;
    CV_TRY(cv_picture_caption(black, &caption, &written, error));
    struct SwsContext *cache = NULL;
    int result = cv_scale_picture(written, WIDTH, HEIGHT, AV_PIX_FMT_YUV420P, false, &cache,
                                  ret_card, error);
    sws_freeContext(cache);
    CV_TRY(result);
    (*ret_card)->colorspace = AVCOL_SPC_BT709;
    (*ret_card)->color_primaries = AVCOL_PRI_BT709;
    (*ret_card)->color_trc = AVCOL_TRC_BT709;
    return 0;
}

static int show_card(struct reel *reel, const json_t *texts, struct cv_error *error)
{
    cv_auto(cv_av_frame_free) AVFrame *card = NULL;
    CV_TRY(make_card(texts, cv_stage_scratch(reel->context), &card, error));
    const struct cv_video_frame frame = {card, reel->at_us, CARD_US, false};
    return cv_output_frame(reel->output, &frame, error);
}

/* ---- parts ------------------------------------------------------------------------------------- */

static void report_progress(void *opaque, double fraction)
{
    const struct reel *reel = opaque;
    cv_stage_progress(reel->context,
                      CUT_SHARE * ((double)reel->done + fraction) / (double)reel->count, "cut");
}

/* Writes the card and the part. If this fails, the next card takes the place of this one. */
static int cut_part(struct reel *reel, struct clip_request *part, struct cv_error *error)
{
    struct cut_report report;
    struct cut_params params = {
        .range = {clip_request_start_us(part), clip_request_end_us(part)},
        .output = reel->output,
        .at_us = reel->at_us + CARD_US,
        .crop = part->crop,
        .covers = &part->covers,
        .mute = part->mute,
        .cancel = cv_stage_cancel(reel->context),
        .progress = report_progress,
        .opaque = reel,
    };
    CV_TRY(open_video(reel, part->original, error));
    CV_TRY(clip_covers_read_looks(&part->covers, cv_stage_store(reel->context), error));
    CV_TRY(show_card(reel, part->quote, error));
    int result = cut_by_encoding(reel->decoder, &params, &report, error);
    if (result == CUT_BEYOND_END) {
        return cv_fail(error, CV_ERROR_OUTSIDE_VIDEO,
                       "the video ends before this place; process it again");
    }
    CV_TRY(result);
    int64_t end_us = params.at_us + report.summary.duration_us;
    const char *title = json_string_value(json_array_get(part->quote, 0));
    CV_TRY(cv_output_chapter(reel->output, reel->at_us, end_us, title ? title : "", error));
    reel->at_us = end_us;
    return 0;
}

/* Whether only this part cannot be made, whatever is tried. */
static bool is_of_part(const struct cv_error *error)
{
    switch (error->type) {
    case CV_ERROR_OBJECT_NOT_FOUND:
    case CV_ERROR_NOT_A_VIDEO:
    case CV_ERROR_UNSUPPORTED_MEDIA:
    case CV_ERROR_DECODE:
    case CV_ERROR_LIMIT_EXCEEDED:
    case CV_ERROR_OUTSIDE_VIDEO:
        return true;
    default:
        return false;
    }
}

static int add_part(struct reel *reel, const json_t *payload, struct cv_error *error)
{
    cv_auto(clip_request_deinit) struct clip_request part = {0};
    CV_TRY(clip_request_read(payload, &part, error));
    int result = cut_part(reel, &part, error);
    if (result == 0 || !is_of_part(error)) {
        return result;
    }
    close_video(reel);
    char reason[REASON_BYTES];
    (void)snprintf(reason, sizeof(reason), "%s", error->message);
    json_t *text = json_string(reason); /* NULL if a letter was cut in two */
    json_t *left = json_pack("{s:s, s:I, s:o}", "video_id", part.video_id, "t_start",
                             (json_int_t)part.t_start_ms, "reason",
                             text ? text : json_string("it cannot be read"));
    CV_TRY_MEMORY(json_array_append_new(reel->left_out, left) == 0, error, "a part");
    return 0;
}

static int cut_all(struct reel *reel, const struct clip_request *request, const char *path,
                   struct cv_output_summary *summary, struct cv_error *error)
{
    const json_t *part;
    size_t i;
    struct cv_output_params params = {
        .kind = CV_OUTPUT_MP4,
        .path = path,
        .source = &reel->info,
        .cancel = cv_stage_cancel(reel->context),
        .threads = cv_stage_threads(reel->context),
        .max_frame_rate = RATE_MAX,
    };
    CV_TRY(cv_output_new(&params, &reel->output, error));
    json_array_foreach(request->parts, i, part)
    {
        CV_TRY(add_part(reel, part, error));
        reel->done++;
    }
    if (reel->at_us == 0) {
        return reel->count > 0 /* the reason of the last part */
                   ? -1
                   : cv_fail(error, CV_ERROR_OUTSIDE_VIDEO,
                             "none of the videos is there any more, or may be read; search again");
    }
    return cv_output_finish(reel->output, reel->at_us, summary, error);
}

int reel_make(struct cv_stage_context *context, const struct clip_request *request,
              json_t **ret_result, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    struct cv_output_summary summary = {0};
    cv_auto(reel_deinit) struct reel reel = {
        .context = context,
        .info = {.width = WIDTH,
                 .height = HEIGHT,
                 .sample_aspect = {1, 1},
                 .time_base = {1, US_PER_MS},
                 .frame_rate = RATE_MAX,
                 .audio_codec = "any"}, /* silence, where a part has none */
        .count = json_array_size(request->parts),
        .left_out = json_array(),
    };
    CV_TRY_MEMORY(reel.left_out, error, "a reel");
    if (request->mute) {
        reel.info.audio_codec[0] = '\0';
    }
    CV_TRY(cv_format(&path, error, "%s/clip", cv_stage_scratch(context)));
    CV_TRY(cut_all(&reel, request, path, &summary, error));
    cv_stage_progress(context, CUT_SHARE, "publish");
    const struct cv_new_object film = {.key = request->key, .path = path};
    CV_TRY(cv_stage_put(context, &film, error));
    /* A list is kept of a result only as part of its summary. */
    *ret_result = json_pack("{s:{s:s, s:I, s:I, s:I, s:O, s:s, s:i, s:i, s:b, s:b}}", "summary",
                            "clip_path", request->key, "duration_us",
                            (json_int_t)summary.duration_us, "frames", (json_int_t)summary.frames,
                            "parts", (json_int_t)(reel.count - json_array_size(reel.left_out)),
                            "left_out", reel.left_out, "mode", "encode", "width", summary.width,
                            "height", summary.height, "sound", summary.sound, "skipped", false);
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return 0;
}
