#include "cli/clips.h"

#include "common/queue/queue.h"

#include <poll.h>
#include <string.h>

enum { POLL_MS = 100 };

CV_DEFINE_CLEANUP(json_t *, json_decref)

struct request {
    char id[CLI_UUID_SIZE]; /* of the clip: follows from what it shows */
    char original[1100];
    char *key;
};

static int prepare(struct cli_session *session, const struct cli_clip *clip,
                   struct request *request, struct cv_error *error)
{
    char start[24];
    char end[24];
    char padding[24];
    (void)snprintf(start, sizeof(start), "%lld", (long long)clip->t_start);
    (void)snprintf(end, sizeof(end), "%lld", (long long)clip->t_end);
    (void)snprintf(padding, sizeof(padding), "%lld", (long long)clip->padding_ms);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result =
        cv_db_run(session->db, &rows, error,
                  "SELECT s3_original_path AS original,"
                  " md5(concat_ws('|', 'clip', id, $2::text, $3::text, $4::text))::uuid AS clip_id"
                  " FROM videos WHERE id = $1::uuid",
                  clip->video_id, start, end, padding);
    if (result) {
        return result;
    }
    if (cv_db_rows(rows) == 0 || !cv_db_text(rows, 0, "original")) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "video %s has no original",
                       clip->video_id);
    }
    (void)snprintf(request->id, sizeof(request->id), "%s", cv_db_text(rows, 0, "clip_id"));
    (void)snprintf(request->original, sizeof(request->original), "%s",
                   cv_db_text(rows, 0, "original"));
    return cv_format(&request->key, error, "videos/clips/%s/%s.mp4", clip->video_id, request->id);
}

static int enqueue(struct cli_session *session, const struct cli_clip *clip,
                   const struct request *request, char job_id[CV_UUID_SIZE], struct cv_error *error)
{
    cv_auto(json_decref) json_t *payload = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:s}", "video_id", clip->video_id, "clip_id", request->id,
        "t_start", (json_int_t)clip->t_start, "t_end", (json_int_t)clip->t_end, "padding_ms",
        (json_int_t)clip->padding_ms, "s3_original_path", request->original);
    char dedupe_key[64];
    (void)snprintf(dedupe_key, sizeof(dedupe_key), "clip:%s", request->id);
    if (!payload) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a payload");
    }
    const struct cv_enqueue_params params = {
        .job_type = "clip_generate",
        .video_id = clip->video_id,
        .payload = payload,
        .priority = -1,
        .dedupe_key = dedupe_key,
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
    struct request request = {0};
    int result = prepare(session, clip, &request, error);
    cv_auto_free char *key = request.key;
    if (result) {
        return result;
    }
    result = cv_store_head(session->store, key, NULL, error);
    if (result == CV_STORE_NOT_FOUND) {
        char job_id[CV_UUID_SIZE];
        result = session->is_local ? cli_workers_start(workers, "clip_generate", error) : 0;
        result = result ? result : enqueue(session, clip, &request, job_id, error);
        result = result ? result : wait_for_job(session, workers, job_id, cancel, error);
    }
    if (result == 0) {
        *ret_key = cv_take(key);
    }
    return result;
}
