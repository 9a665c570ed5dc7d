#include "cli/commands/ingest.h"
#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"
#include "cli/commands/wait.h"

#include <poll.h>
#include <string.h>

enum {
    POLL_MS = 100,
    PATIENCE_MS = 30 * 1000, /* after this, the workers of the next run do the rest */
};

/* ---- looking --------------------------------------------------------------------------------- */

int cli_videos_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"id", "VIDEO"},        {"status", "STATE"}, {"duration_text", "LENGTH"},
        {"resolution", "SIZE"}, {"texts", "TEXTS"},  {"taken_in", "TAKEN IN"},
        {"name", "NAME"},
    };
    cv_auto(json_decref) json_t *filter = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &filter, error));
    cv_auto_free char *text = json_dumps(filter, JSON_COMPACT);
    CV_TRY_MEMORY(text, error, "a filter");
    int result =
        CLI_LIST(call, columns, error,
                 "SELECT v.id, v.status, v.resolution, v.fps,"
                 " round(v.duration * 1000)::bigint AS duration_ms,"
                 " to_char(v.duration * interval '1 s', 'FMHH24:MI:SS') AS duration_text,"
                 " (SELECT count(*) FROM segments s WHERE s.video_id = v.id) AS texts,"
                 " to_char(v.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS taken_in,"
                 " v.created_at, coalesce(v.original_name, v.title, v.id::text) AS name"
                 " FROM videos v WHERE ($1::jsonb ->> 'status' IS NULL"
                 " OR v.status::text = $1::jsonb ->> 'status') AND ($1::jsonb ->> 'name' IS NULL"
                 " OR position(lower($1::jsonb ->> 'name')"
                 " IN lower(concat_ws(' ', v.original_name, v.title))) > 0)"
                 " AND ($1::jsonb ->> 'since' IS NULL"
                 " OR v.created_at >= ($1::jsonb ->> 'since')::timestamptz)"
                 " ORDER BY v.created_at DESC, v.id LIMIT ($1::jsonb ->> 'limit')::bigint",
                 text);
    if (result == 0) {
        cli_print_note(call, "there are no such videos");
    }
    return result < 0 ? result : CLI_EXIT_OK;
}

/* Prints the name and the text of each column that is not empty in the first row. */
static void print_fields(const struct cv_db_result *rows, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = cv_db_text(rows, 0, names[i]);
        if (text && text[0] != '\0') {
            (void)printf("%-14s ", names[i]);
            cli_put(stdout, text);
            (void)putchar('\n');
        }
    }
}

/* Prints a video, one line per field. */
static int print_video(struct cli_call *call, const char *id, struct cv_error *error)
{
    static const char *const fields[] = {"id",       "name",  "title",     "status",  "trouble",
                                         "length",   "size",  "fps",       "video",   "sound",
                                         "taken_in", "texts", "languages", "original"};
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(
        call->session.db, &rows, error,
        "SELECT v.id, v.original_name AS name, nullif(v.title, v.original_name) AS title, v.status,"
        " " CLI_TROUBLE " AS trouble,"
        " to_char(v.duration * interval '1 s', 'FMHH24:MI:SS.MS') AS length, v.resolution AS size,"
        " round(v.fps::numeric, 2) AS fps,"
        " concat_ws(', ', v.container, v.video_codec, v.pixel_format) AS video,"
        " concat_ws(', ', v.audio_codec, v.audio_channels || ' channels') AS sound,"
        " v.created_at::timestamptz(0) AS taken_in,"
        " (SELECT count(*) FROM segments s WHERE s.video_id = v.id) AS texts,"
        " (SELECT string_agg(l, '+') FROM jsonb_array_elements_text(video_languages(v.id)) AS l)"
        " AS languages, v.s3_original_path AS original FROM videos v WHERE v.id = $1::uuid",
        id));
    print_fields(rows, fields, CV_COUNT(fields));
    (void)putchar('\n');
    return 0;
}

int cli_videos_show(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column jobs[] = {
        {"id", "JOB"},      {"job_type", "STEP"},   {"state", "STATE"}, {"percent", "DONE"},
        {"attempt", "TRY"}, {"running_ms", "TIME"}, {"note", "NOTE"},
    };
    char id[CLI_UUID_SIZE];
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "video", call->arguments[0], id, error));
    if (call->json) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(call->session.db, &rows, error,
                         "SELECT to_jsonb(v) - 'original_name' || jsonb_build_object("
                         "'name', v.original_name, 'texts',"
                         " (SELECT count(*) FROM segments s WHERE s.video_id = v.id),"
                         " 'trouble', " CLI_TROUBLE ", 'jobs',"
                         " (SELECT coalesce(jsonb_agg(o ORDER BY o.created_at, o.id), '[]')"
                         " FROM job_overview o WHERE o.video_id = v.id)) AS line"
                         " FROM videos v WHERE v.id = $1::uuid",
                         id));
        cli_print_lines(rows);
        return CLI_EXIT_OK;
    }
    CV_TRY(print_video(call, id, error));
    int result =
        CLI_LIST(call, jobs, error,
                 "SELECT *, round(progress * 100) || ' %' AS percent,"
                 " coalesce(error_message, progress_message) AS note"
                 " FROM job_overview WHERE video_id = $1::uuid ORDER BY created_at, sequence,"
                 " id",
                 id);
    return result < 0 ? result : CLI_EXIT_OK;
}

/* ---- delete ---------------------------------------------------------------------------------- */

/* Waits until the objects are removed: a local installation has no worker after this command. */
static int wait_for_removal(struct cli_call *call, const char *video_id, struct cv_error *error)
{
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &call->session);
    CV_TRY(cli_workers_start(&workers, "object_remove", error));
    int64_t end = cv_monotonic_ms() + PATIENCE_MS;
    while (cv_monotonic_ms() < end) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(call->session.db, &rows, error,
                         "SELECT objects FROM object_removals WHERE video_id = $1::uuid"
                         " AND (finished_at IS NOT NULL OR final_after > clock_timestamp())",
                         video_id));
        if (cv_db_rows(rows) > 0) {
            char removed[CLI_COUNTED_SIZE];
            cli_print_note(call, "%s",
                           cli_counted(cv_db_int(rows, 0, "objects", 0), "object is removed",
                                       "objects are removed", removed));
            return 0;
        }
        CV_TRY(cli_workers_check(&workers, error));
        struct pollfd wait = {.fd = cv_cancel_fd(call->cancel), .events = POLLIN};
        if (poll(&wait, 1, POLL_MS) > 0) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
    return 0;
}

int cli_delete(struct cli_call *call, struct cv_error *error)
{
    CV_TRY(cli_open(call, error));
    for (int i = 0; i < call->count; i++) {
        char id[CLI_UUID_SIZE];
        CV_TRY(cli_find(call, "video", call->arguments[i], id, error));
        CV_TRY(cv_db_run(call->session.db, NULL, error, "SELECT delete_video($1::uuid)", id));
        CV_TRY(cli_print_outcome(call, json_pack("{s:s, s:s}", "video", id, "outcome", "deleted"),
                                 error, "video %s is deleted", id));
        (void)fflush(stdout);
        CV_TRY(call->session.is_local ? wait_for_removal(call, id, error) : 0);
    }
    return 0;
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
                     "SELECT id, coalesce(original_name, id::text) AS name FROM videos v"
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
