#include "workers/transcode/transcode.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ESTIMATE_MS = 3000,   /* an estimate is shown this long */
    JITTER_US = 3 * 1000, /* containers with millisecond times round by one in either direction */
    MEAN_TO_SPREAD = 10,  /* the rate is variable if intervals differ by a tenth of the mean */
};

static void measure(struct transcode_meter *meter, int64_t pts_us)
{
    if (meter->frames == 0) {
        meter->first_us = pts_us;
        meter->shortest_us = INT64_MAX;
    } else {
        int64_t interval = pts_us - meter->last_us;
        meter->shortest_us = interval < meter->shortest_us ? interval : meter->shortest_us;
        meter->longest_us = interval > meter->longest_us ? interval : meter->longest_us;
    }
    meter->last_us = pts_us;
    meter->frames++;
}

void transcode_conclude(const struct transcode_meter *meter, struct transcode_report *report)
{
    report->source_frames = meter->frames;
    report->frame_rate = 0;
    report->variable_frame_rate = false;
    if (meter->frames > 1) {
        double mean_us = (double)(meter->last_us - meter->first_us) / (double)(meter->frames - 1);
        report->frame_rate = round(1e6 / mean_us * 1000) / 1000;
        double spread_us = (double)(meter->longest_us - meter->shortest_us);
        report->variable_frame_rate = spread_us > fmax(mean_us / MEAN_TO_SPREAD, JITTER_US);
    }
}

/* The last estimate of the remaining time, and when it was made. */
struct progress {
    int64_t began_ms, estimated_ms;
    char doing[48];
};

/* The finished part of the work. For a whole file: the part of its bytes that was read, which
 * increases whatever the time stamps are. For a chunk, whose bytes are not known: the part of its
 * time. */
static double part_done(const struct cv_decoder *decoder, const struct cv_ladder_chunk *range,
                        int64_t pts_us)
{
    if (range->until_us == INT64_MAX && range->from_us == 0) {
        return cv_decoder_consumed(decoder);
    }
    int64_t duration_us = cv_decoder_info(decoder)->duration_us;
    int64_t until_us = range->until_us < INT64_MAX ? range->until_us : duration_us;
    int64_t whole_us = until_us - range->from_us, done_us = pts_us - range->from_us;
    return whole_us > 0 && done_us > 0 ? (double)done_us / (double)whole_us : 0;
}

static void report_progress(struct cv_stage_context *context, const struct cv_decoder *decoder,
                            const struct cv_ladder_chunk *range, int64_t pts_us,
                            struct progress *progress)
{
    double done = part_done(decoder, range, pts_us);
    int64_t now_ms = cv_monotonic_ms();
    if (done > 0 && done < 1 && now_ms - progress->estimated_ms >= ESTIMATE_MS) {
        double left_s = (double)(now_ms - progress->began_ms) * (1 - done) / done / 1000;
        (void)snprintf(progress->doing, sizeof(progress->doing), "encode, about %.0f %s left",
                       ceil(left_s < 90 ? left_s : left_s / 60), left_s < 90 ? "s" : "min");
        progress->estimated_ms = now_ms;
    }
    cv_stage_progress(context, 0.95 * done, progress->doing);
}

/* Sends every frame and all sound from the decoder to the ladder, until the ladder is full. */
int transcode_convert(struct cv_stage_context *context, struct cv_decoder *decoder,
                      struct cv_ladder *ladder, const struct cv_ladder_chunk *range,
                      struct transcode_meter *meter, struct cv_error *error)
{
    int64_t now_ms = cv_monotonic_ms();
    struct progress progress = {now_ms, now_ms, "encode"};
    for (;;) {
        struct cv_video_frame frame;
        struct cv_sound sound;
        int result = cv_decoder_next_any(decoder, &frame, &sound, error);
        if (result == CV_DECODER_END) {
            return 0;
        }
        if (result == CV_DECODER_SOUND) {
            if (sound.pts_us != AV_NOPTS_VALUE) {
                report_progress(context, decoder, range, sound.pts_us, &progress);
            }
            result = cv_ladder_sound(ladder, &sound, error);
        } else if (result == CV_DECODER_FRAME) {
            if (frame.pts_us >= range->from_us && frame.pts_us < range->until_us) {
                measure(meter, frame.pts_us);
            }
            report_progress(context, decoder, range, frame.pts_us, &progress);
            if (cv_decoder_damaged_frames(decoder) > 0) {
                cv_ladder_refuse(ladder, "it is damaged");
            }
            result = cv_ladder_frame(ladder, &frame, error);
        }
        if (result != 0) {
            return result == CV_LADDER_FULL ? 0 : result;
        }
    }
}

int transcode_input_open(struct cv_stage_context *context, const struct transcode_request *request,
                         const struct cv_decoder_params *params, struct transcode_input *input,
                         struct cv_error *error)
{
    CV_TRY(cv_stage_open_input(context, request->original, &input->reader, error));
    input->source = cv_store_reader_source(input->reader);
    return cv_decoder_open(&input->source, params, &input->decoder, error);
}

void transcode_input_close(struct transcode_input *input)
{
    cv_decoder_close(input->decoder);
    cv_store_reader_close(input->reader);
    *input = (struct transcode_input){0};
}

struct cv_ladder_params transcode_ladder_params(const struct transcode_work *work,
                                                const struct transcode_input *input)
{
    return (struct cv_ladder_params){
        .directory = work->directory,
        .source = cv_decoder_info(input->decoder),
        .source_bytes = input->source.size,
        .cancel = cv_stage_cancel(work->context),
        .threads = cv_stage_threads(work->context),
        .short_sides = work->request->short_sides,
        .short_side_count = work->request->short_side_count,
        .format = work->request->format,
        .any_size = work->request->split >= TRANSCODE_CHUNK,
        .finished = transcode_publisher_add,
        .opaque = work->publisher,
    };
}

bool transcode_copies(const struct transcode_request *request,
                      const struct cv_ladder_params *params, const struct transcode_input *input,
                      char reason[CV_LADDER_REASON_SIZE])
{
    if (reason[0] == '\0' && !request->copies) {
        (void)snprintf(reason, CV_LADDER_REASON_SIZE, "%s",
                       request->encoded_because ? request->encoded_because
                                                : "copying is switched off");
    }
    return reason[0] == '\0' && cv_ladder_suits(params, cv_decoder_codec(input->decoder), reason);
}

/* Opens a ladder for the whole original. The largest rendition is a copy of the original's pictures
 * unless report->encoded_because says why not; that is written here if the header shows it. */
static int open_ladder(const struct transcode_work *work, const struct transcode_input *input,
                       struct transcode_report *report, struct cv_ladder **ret_ladder,
                       struct cv_error *error)
{
    const struct transcode_request *request = work->request;
    if (request->short_side_count == 0) {
        CV_TRY(transcode_find_content(&input->source, cv_stage_cancel(work->context),
                                      &report->is_screen, error));
    }
    struct cv_ladder_params params = transcode_ladder_params(work, input);
    params.for_reading = report->is_screen;
    if (transcode_copies(request, &params, input, report->encoded_because)) {
        params.copied = cv_decoder_codec(input->decoder);
    }
    CV_TRY(cv_ladder_new(&params, ret_ladder, error));
    if (params.copied) {
        cv_decoder_set_watch(input->decoder, cv_ladder_packet, *ret_ladder);
    }
    return 0;
}

/* Decodes the original, writes all files into the work's directory and passes them to the
 * publisher. CV_LADDER_UNSUITABLE: the original's pictures cannot be copied after all, and
 * report->encoded_because says why. */
static int encode(const struct transcode_work *work, struct transcode_report *report,
                  struct cv_error *error)
{
    const struct cv_decoder_params params = {
        .threads = 1 + cv_stage_threads(work->context) / TRANSCODE_ENCODE_TO_DECODE,
        .cancel = cv_stage_cancel(work->context),
        .sound = true,
        .all_sound = true,
        .whole = true,
        .torn = true,
    };
    cv_auto(transcode_input_close) struct transcode_input input = {0};
    CV_TRY(transcode_input_open(work->context, work->request, &params, &input, error));
    cv_auto(cv_ladder_free) struct cv_ladder *ladder = NULL;
    int result = open_ladder(work, &input, report, &ladder, error);
    struct cv_ladder_chunk range = {0, 0, INT64_MAX};
    struct transcode_meter meter = {0};
    result = result
                 ? result
                 : transcode_convert(work->context, input.decoder, ladder, &range, &meter, error);
    if (result == 0) {
        transcode_conclude(&meter, report);
        report->info = *cv_decoder_info(input.decoder);
        report->damaged_frames = cv_decoder_damaged_frames(input.decoder);
        report->truncated = cv_decoder_is_cut_off(input.decoder);
        if (report->damaged_frames > 0 || report->truncated) {
            cv_ladder_refuse(ladder, report->truncated ? "it is cut off" : "it is damaged");
        }
        result = cv_ladder_finish(ladder, &report->summary, error);
    }
    if (result == CV_LADDER_UNSUITABLE) {
        (void)snprintf(report->encoded_because, sizeof(report->encoded_because), "%s",
                       cv_ladder_refusal(ladder));
        return result;
    }
    return result;
}

static int run_part(const struct transcode_work *work, struct transcode_report *report,
                    json_t **ret_result, struct cv_error *error)
{
    if (work->request->split == TRANSCODE_CHUNK) {
        return transcode_run_chunk(work, report, ret_result, error);
    }
    return work->request->chunk_count > 0 ? transcode_run_join(work, report, error)
                                          : encode(work, report, error);
}

static int run_request(struct cv_stage_context *context, const struct transcode_request *request,
                       json_t **ret_result, struct cv_error *error)
{
    if (request->split == TRANSCODE_PLAN) {
        return transcode_run_plan(context, request, ret_result, error);
    }
    cv_auto_free char *directory = NULL;
    CV_TRY(cv_format(&directory, error, "%s/hls", cv_stage_scratch(context)));
    CV_TRY_ERRNO(mkdir(directory, 0700) == 0, error, "cannot create %s", directory);
    cv_auto(transcode_publisher_free) struct transcode_publisher *publisher = NULL;
    struct transcode_report report = {0};
    CV_TRY(transcode_publisher_new(context, request->video_id, &publisher, error));
    struct transcode_work work = {context, request, directory, publisher};
    int result = run_part(&work, &report, ret_result, error);
    if (result == CV_LADDER_UNSUITABLE) {
        cv_log(CV_LOG_INFO, "the largest rendition is encoded: %s", report.encoded_because);
        /* The files of the copy are written anew; what was stored of it is replaced, or removed as stale. */
        CV_TRY(cv_stage_uploads_wait(context, error));
        transcode_publisher_free(cv_take(publisher));
        result = transcode_publisher_new(context, request->video_id, &publisher, error);
        work.publisher = publisher;
        result = result ? result : run_part(&work, &report, ret_result, error);
    }
    if (result != 0 || request->split == TRANSCODE_CHUNK) {
        return result;
    }
    cv_stage_progress(context, 0.95, "publish");
    CV_TRY(transcode_publisher_finish(publisher, error));
    return transcode_result(&report, request->video_id, ret_result, error);
}

int transcode_run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
                  struct cv_error *error)
{
    struct transcode_request request;
    int result = transcode_read_request(payload, &request, error);
    result = result ? result : run_request(context, &request, ret_result, error);
    free(request.chunks);
    return result;
}
