#include "cli/clips.h"

#include "common/queue/queue.h"

#include <poll.h>
#include <string.h>

enum { POLL_MS = 100 };

CV_DEFINE_CLEANUP(json_t *, json_decref)

struct request {
    char dedupe_key[CLI_UUID_SIZE + 8];
    json_t *payload;
    char *key;
};

static void request_deinit(struct request *request)
{
    json_decref(request->payload);
    free(request->key);
}
CV_DEFINE_CLEANUP_ADDRESS(struct request, request_deinit)

/* The options as plan_clip() takes them: what is not asked for is left out. */
static int options_text(const struct cli_clip *clip, char **ret_text, struct cv_error *error)
{
    cv_auto(json_decref) json_t *options = json_object();
    bool good = options != NULL;
    if (good && clip->mode) {
        good = json_object_set_new(options, "mode", json_string(clip->mode)) == 0;
    }
    if (good && clip->format) {
        good = json_object_set_new(options, "format", json_string(clip->format)) == 0;
    }
    if (good && clip->max_height > 0) {
        good = json_object_set_new(options, "max_height", json_integer(clip->max_height)) == 0;
    }
    if (good && clip->mute) {
        good = json_object_set_new(options, "mute", json_true()) == 0;
    }
    if (good && clip->crop.width > 0) {
        good = json_object_set_new(options, "crop",
                                   json_pack("{s:i, s:i, s:i, s:i}", "x", clip->crop.x, "y",
                                             clip->crop.y, "width", clip->crop.width, "height",
                                             clip->crop.height)) == 0;
    }
    char *text = good ? json_dumps(options, JSON_COMPACT) : NULL;
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a clip's options");
    }
    *ret_text = text;
    return 0;
}

/* What the clip is called, where it lies, and the job that makes it: the database's words. */
static int prepare(struct cli_session *session, const struct cli_clip *clip,
                   struct request *request, struct cv_error *error)
{
    char start[24];
    char end[24];
    char padding[24];
    (void)snprintf(start, sizeof(start), "%lld", (long long)clip->t_start);
    (void)snprintf(end, sizeof(end), "%lld", (long long)clip->t_end);
    (void)snprintf(padding, sizeof(padding), "%lld", (long long)clip->padding_ms);
    cv_auto_free char *options = NULL;
    int result = options_text(clip, &options, error);
    if (result) {
        return result;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    result = cv_db_run(session->db, &rows, error,
                       "SELECT clip_id, clip_path, payload"
                       " FROM plan_clip($1::uuid, $2::int, $3::int, $4::int, $5::jsonb)",
                       clip->video_id, start, end, padding, options);
    if (result) {
        return result;
    }
    (void)snprintf(request->dedupe_key, sizeof(request->dedupe_key), "clip:%s",
                   cv_db_text(rows, 0, "clip_id"));
    request->payload = json_loads(cv_db_text(rows, 0, "payload"), 0, NULL);
    if (!request->payload) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a payload");
    }
    return cv_format(&request->key, error, "%s", cv_db_text(rows, 0, "clip_path"));
}

static int enqueue(struct cli_session *session, const struct cli_clip *clip,
                   const struct request *request, char job_id[CV_UUID_SIZE], struct cv_error *error)
{
    const struct cv_enqueue_params params = {
        .job_type = "clip_generate",
        .video_id = clip->video_id,
        .payload = request->payload,
        .priority = -1,
        .dedupe_key = request->dedupe_key,
    };
    int result = cv_queue_enqueue(session->db, &params, job_id, error);
    return result == CV_QUEUE_DUPLICATE ? 0 : result;
}

/* 1: the job is done; 0: not yet. */
static int look(struct cli_session *session, const char *job_id, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT state, error_type, error_message FROM job_overview"
                           " WHERE id = $1::uuid",
                           job_id);
    if (result) {
        return result;
    }
    const char *state = cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "state") : "deleted";
    if (strcmp(state, "failed") == 0 || strcmp(state, "canceled") == 0 ||
        strcmp(state, "deleted") == 0) {
        const char *type = cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "error_type") : NULL;
        const char *message = type ? cv_db_text(rows, 0, "error_message") : NULL;
        return cv_fail(error, type ? cv_error_type_from_name(type) : CV_ERROR_CANCELED,
                       "the clip's job %s is %s%s%s", job_id, state, message ? ": " : "",
                       message ? message : "");
    }
    return strcmp(state, "done") == 0;
}

static int wait_for_job(struct cli_session *session, struct cli_workers *workers,
                        const char *job_id, struct cv_cancel *cancel, struct cv_error *error)
{
    for (;;) {
        int result = look(session, job_id, error);
        if (result != 0) {
            return result < 0 ? result : 0;
        }
        result = cli_workers_check(workers, error);
        struct pollfd wait = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (result || poll(&wait, 1, POLL_MS) > 0) {
            return result ? result : cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
}

int cli_clip_make(struct cli_session *session, struct cli_workers *workers,
                  const struct cli_clip *clip, struct cv_cancel *cancel, char **ret_key,
                  struct cv_error *error)
{
    cv_auto(request_deinit) struct request request = {0};
    int result = prepare(session, clip, &request, error);
    if (result) {
        return result;
    }
    result = cv_store_head(session->store, request.key, NULL, error);
    if (result == CV_STORE_NOT_FOUND) {
        char job_id[CV_UUID_SIZE];
        result = session->is_local ? cli_workers_start(workers, "clip_generate", error) : 0;
        result = result ? result : enqueue(session, clip, &request, job_id, error);
        result = result ? result : wait_for_job(session, workers, job_id, cancel, error);
    }
    if (result == 0) {
        *ret_key = cv_take(request.key);
    }
    return result;
}
