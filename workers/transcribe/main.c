#include "common/said/said.h"
#include "common/speech/speech.h"
#include "common/worker/worker.h"

#include "workers/transcribe/answer.h"
#include "workers/transcribe/sound.h"

#include <inttypes.h>
#include <string.h>

/* At least as long as a piece that is not the last one. */
enum { PIECE_LEAST_MS = SOUND_PIECE_MS - SOUND_CUT_MS };

static const char endpoint[] = "the transcription endpoint";

struct job {
    const char *video_id, *original;
    int64_t from_ms; /* where its piece begins */
};

static int read_payload(const json_t *payload, struct job *job, struct cv_error *error)
{
    CV_TRY(cv_payload_uuid(payload, "video_id", &job->video_id, error));
    CV_TRY(cv_payload_object_key(payload, "s3_original_path", &job->original, error));
    return cv_payload_int_or(payload, "from_ms", 0, 0, INT32_MAX, &job->from_ms, error);
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

/* What the endpoint says or does is never the job's own fault: the supervisor asks it with a second of silence, and while
 * it fails, no job is claimed and no attempt counts. */
static int blame_endpoint(struct cv_error *error, int result)
{
    cv_error_suspect_environment(error);
    return cv_fail_context(error, result, "%s", endpoint);
}

static int read_answer(const struct cv_http_answer *answer, int64_t from_ms, int64_t length_ms,
                       struct cv_subtitle_list *list, struct cv_error *error)
{
    if (answer->status / 100 == 2) {
        return answer_read(answer->body.data, answer->body.length, from_ms, length_ms, list, error);
    }
    int result = cv_http_refusal(answer->status, answer->body.data, answer->body.length, error);
    error->retry_after_ms = answer->retry_after_ms;
    return cv_fail_context(error, result, "it refuses %lld s of sound",
                           (long long)length_ms / 1000);
}

/* Writes the piece into the scratch directory, from which the broker sends it. */
static int write_file(const struct sound_piece *piece, const char *path, struct cv_error *error)
{
    cv_auto_free char *data = NULL;
    size_t size = 0;
    CV_TRY(sound_encode(piece, &data, &size, error));
    cv_auto_file FILE *file = fopen(path, "we");
    CV_TRY_ERRNO(file && fwrite(data, 1, size, file) == size && fflush(file) == 0, error,
                 "cannot write the sound");
    return 0;
}

/* Has a piece transcribed, which is not silent. */
static int transcribe(struct cv_stage_context *context, const struct sound_piece *piece,
                      int64_t from_ms, struct cv_subtitle_list *list, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    CV_TRY(cv_format(&path, error, "%s/sound.wav", cv_stage_scratch(context)));
    CV_TRY(write_file(piece, path, error));
    cv_stage_progress(context, 0, "transcribe");
    int64_t length_ms = (int64_t)piece->count / SOUND_PER_MS;
    int result = cv_broker_transcribe(cv_stage_store(context), path, &answer, error);
    result = result ? result : read_answer(&answer, from_ms, length_ms, list, error);
    return result && error->type != CV_ERROR_CANCELED ? blame_endpoint(error, result) : result;
}

/* ---- the stage ------------------------------------------------------------------------------- */

/* Result: {"lines": as cv_said_describe() makes them, "goes_on_ms": unless the sound ends, "summary"}. */
static int run(struct cv_stage_context *context, const json_t *payload, json_t **ret_result,
               struct cv_error *error)
{
    struct job job;
    CV_TRY(read_payload(payload, &job, error));
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    CV_TRY(cv_stage_open_input(context, job.original, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    const struct cv_decoder_params params = {.threads = cv_stage_threads(context),
                                             .cancel = cv_stage_cancel(context),
                                             .sound = true,
                                             .sound_alone = true};
    cv_auto(cv_decoder_close) struct cv_decoder *decoder = NULL;
    cv_auto(sound_piece_deinit) struct sound_piece piece = {.count = 0};
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list list = {0};
    cv_auto(json_decref) json_t *lines = NULL;
    CV_TRY(cv_decoder_open(&source, &params, &decoder, error));
    CV_TRY(sound_read(decoder, job.from_ms, cv_stage_cancel(context), &piece, error));
    bool is_silent = sound_is_silent(&piece);
    CV_TRY(is_silent ? 0 : transcribe(context, &piece, job.from_ms, &list, error));
    CV_TRY(cv_subtitles_finish(&list, error));
    CV_TRY(cv_said_describe(&list, &lines, error));
    int64_t end_ms = job.from_ms + (int64_t)piece.count / SOUND_PER_MS;
    *ret_result = json_pack("{s:O, s:o*, s:{s:I, s:I, s:I, s:b}}", "lines", lines, "goes_on_ms",
                            piece.is_last ? NULL : json_integer(end_ms), "summary", "lines",
                            (json_int_t)json_array_size(lines), "from_ms", (json_int_t)job.from_ms,
                            "to_ms", (json_int_t)end_ms, "is_silent", is_silent);
    CV_TRY_MEMORY(*ret_result, error, "the result");
    return 0;
}

/* The next piece is another job's. A shorter piece than they are made would let a stage that a stranger's file has taken
 * over ask the endpoint without end. */
static int go_on(struct cv_db *db, const struct job *job, const json_t *result,
                 struct cv_error *error)
{
    const json_t *next = json_object_get(result, "goes_on_ms");
    int64_t next_ms = json_integer_value(next);
    if (!next) {
        return 0;
    }
    if (!json_is_integer(next) || next_ms < job->from_ms + PIECE_LEAST_MS || next_ms > INT32_MAX) {
        return cv_fail(error, CV_ERROR_STAGE_PROTOCOL, "the result has no usable \"goes_on_ms\"");
    }
    return cv_db_run(db, NULL, error, "SELECT transcribe_video($1::uuid, $2::int)", job->video_id,
                     cv_db_number(next_ms).text);
}

static int commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                  struct cv_error *error)
{
    struct job piece;
    CV_TRY(read_payload(job->payload, &piece, error));
    CV_TRY(cv_said_store(db, piece.video_id, "speech", "endpoint", json_object_get(result, "lines"),
                         piece.from_ms == 0, error));
    CV_TRY(cv_db_run(db, NULL, error,
                     "SELECT refresh_search_materialized($1::uuid), match_saved_searches($1::uuid)",
                     piece.video_id));
    return go_on(db, &piece, result, error);
}

/* Asks the endpoint what a second of silence says; not again before the time that it names. The first call, with which the
 * worker starts, looks at the settings alone: an endpoint that is away keeps no worker from waiting for it. */
static int check_endpoint(struct cv_error *error)
{
    enum { PROBE_MS = 20 * 1000 };
    /* Used by one thread at a time: the worker's first, then its watch. */
    static bool has_started;
    static int64_t not_before;
    static struct cv_error refusal;
    int16_t silence[SOUND_RATE] = {0};
    const struct sound_piece piece = {.samples = silence, .count = SOUND_RATE};
    cv_auto_free char *file = NULL;
    size_t size = 0;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer got = {.status = 0};
    cv_auto(cv_subtitle_list_deinit) struct cv_subtitle_list list = {0};
    CV_TRY(cv_speech_check(error));
    if (!has_started) {
        has_started = true;
        return 0;
    }
    if (cv_monotonic_ms() < not_before) {
        *error = refusal;
        return -1;
    }
    CV_TRY(sound_encode(&piece, &file, &size, error));
    int result = cv_speech_ask(file, size, PROBE_MS, NULL, &got, error);
    result = result ? result : read_answer(&got, 0, 1000, &list, error);
    if (result) {
        not_before = cv_monotonic_ms() + got.retry_after_ms;
        result = cv_fail_context(error, result, "%s", endpoint);
        refusal = *error;
    }
    return result;
}

int main(int argc, char **argv)
{
    static const struct cv_grant grants[] = {{CV_GRANT_READ, CV_KEYS_ORIGINALS "{video_id}/*"},
                                             {CV_GRANT_TRANSCRIBE, CV_GRANTED_SOUND},
                                             {0}};
    static const struct cv_stage stage = {
        .name = "transcribe-worker",
        .job_type = "transcribe",
        .needs = CV_STAGE_NEEDS_STORE,
        .grants = grants,
        .check = check_endpoint,
        .run = run,
        .commit = commit,
    };
    return cv_worker_main(&stage, argc, argv);
}
