#include "cli/commands/ingest.h"
#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"
#include "cli/commands/wait.h"

#include <string.h>

enum {
    POLL_MS = 100,
    PATIENCE_MS = 30 * 1000, /* after this, the workers of the next run do the rest */
};

/* ---- delete ---------------------------------------------------------------------------------- */

/* Waits until the objects are removed: a local installation has no worker after this command. */
static int wait_for_removal(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &call->session);
    CV_TRY(cli_workers_start(&workers, "object_remove", error));
    int64_t end = cv_monotonic_ms() + PATIENCE_MS;
    while (cv_monotonic_ms() < end) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(call->session.db, &rows, error,
                         "SELECT FROM object_removals WHERE finished_at IS NULL"
                         " AND final_after <= clock_timestamp() LIMIT 1"));
        if (cv_db_rows(rows) == 0) {
            return 0;
        }
        CV_TRY(cli_workers_check(&workers, error));
        if (cv_cancel_wait(call->cancel, POLL_MS)) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    return 0;
}

int cli_delete(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_request(call, error));
    return call->session.is_local ? wait_for_removal(call, error) : 0;
}

/* ---- reindex --------------------------------------------------------------------------------- */

/* Starts reading one video again. If that is not possible, this is printed and the others continue. */
static int start_one(struct cli_call *call, const json_t *languages, struct cli_video *video,
                     struct cli_video_list *list, size_t *failed, struct cv_error *error)
{
    int result = cli_reindex_start(&call->session, languages, video, error);
    if (result == 0) {
        return cli_video_list_add(list, video, error);
    }
    if (!cli_given(call, "all") ||
        (error->type != CV_ERROR_OBJECT_NOT_FOUND && error->type != CV_ERROR_NOT_FOUND &&
         error->type != CV_ERROR_CONFLICT)) {
        return result;
    }
    (void)fprintf(stderr, "cortana reindex: ");
    cli_put(stderr, error->message);
    (void)fputc('\n', stderr);
    ++*failed;
    return 0;
}

/* Starts reading the video with that name, or all videos. */
static int start_named(struct cli_call *call, const json_t *languages, const char *name,
                       struct cli_video_list *list, size_t *failed, struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(name ? cli_find(call, "video", name, id, error) : 0);
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT id, coalesce(title, original_name, id::text) AS name FROM videos v"
                     " WHERE CASE WHEN $1::uuid IS NULL THEN status = 'ready'"
                     " AND duplicate_of IS NULL ELSE id = $1::uuid END"
                     " ORDER BY created_at, id",
                     name ? id : NULL));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        struct cli_video video = {.name = (char *)cv_db_text(rows, i, "name")};
        (void)snprintf(video.id, sizeof(video.id), "%s", cv_db_text(rows, i, "id"));
        CV_TRY(start_one(call, languages, &video, list, failed, error));
    }
    return 0;
}

/* Waits for all videos: a local installation has no worker after this command. */
static int wait_for_all(struct cli_call *call, const struct cli_video_list *list,
                        size_t *ret_failed, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &call->session);
    CV_TRY(cli_workers_start(&workers, "ocr", error));
    CV_TRY(cli_workers_start(&workers, "segment_index", error));
    return cli_wait_for_videos(call, &workers, list, ret_failed, error);
}

static int print_one(struct cli_call *call, const struct cli_video *video, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT r.status, (SELECT count(*) FROM segments s"
                     " WHERE s.video_id = r.video_id) AS texts, (SELECT string_agg(l, '+')"
                     " FROM jsonb_array_elements_text(r.input -> 'languages') AS l)"
                     " AS languages FROM runs r WHERE r.id = $1::uuid",
                     video->run_id));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    char counted[CLI_COUNTED_SIZE];
    int64_t texts = cv_db_int(rows, 0, "texts", 0);
    const char *status = cv_db_text(rows, 0, "status");
    json_t *object = json_pack("{s:s, s:s, s:s, s:I}", "video", video->id, "run", video->run_id,
                               "status", status, "texts", (json_int_t)texts);
    return strcmp(status, "done") == 0
               ? cli_print_outcome(call, object, error, "%s: %s, read with %s", video->name,
                                   cli_counted(texts, "text", "texts", counted),
                                   cv_db_text(rows, 0, "languages"))
               : cli_print_outcome(call, object, error, "%s: run %s is %s", video->name,
                                   video->run_id, status);
}

int cli_reindex(struct cli_call *call, struct cv_error *error)
{
    bool all = cli_given(call, "all");
    bool here = cli_given(call, "data") || !cli_database_is_named();
    cv_auto(cli_video_list_deinit) struct cli_video_list list = {0};
    cv_auto(json_decref) json_t *languages = NULL;
    size_t refused = 0;
    size_t failed = 0;
    if (all == (call->count > 0)) {
        return cli_usage(call,
                         all ? "--all or names, not both" : "which video? Name one, or --all");
    }
    CV_TRY(cli_read_languages(call, here, &languages));
    CV_TRY(cli_open(call, error));
    for (int i = 0; i < (all ? 1 : call->count); i++) {
        CV_TRY(
            start_named(call, languages, all ? NULL : call->arguments[i], &list, &refused, error));
    }
    if (call->session.is_local && list.count > 0) {
        CV_TRY(wait_for_all(call, &list, &failed, error));
    }
    for (size_t i = 0; i < list.count; i++) {
        CV_TRY(print_one(call, &list.videos[i], error));
    }
    return refused + failed > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
