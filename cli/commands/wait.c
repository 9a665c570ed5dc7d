#include "cli/commands/wait.h"

#include "common/queue/queue.h"

#include "cli/commands/bucket.h"
#include "cli/commands/operation.h"

#include <limits.h>
#include <string.h>

enum {
    REFRESH_MS = 200,
    LOOK_MS = 500, /* between two looks at the inbox's videos */
    STATUS_SIZE = 16,
    RECOVER_MS = 60 * 1000, /* if a database is away for longer, the command ends */
};

static const char first_again[] = "ocr";    /* stage with which a repeated reading begins */
static const char playback[] = "transcode"; /* the only stage when playback is added */

/* ---- errors ---------------------------------------------------------------------------------- */

/* What to do, where the message does not say it itself. */
static const struct {
    enum cv_error_type type;
    const char *advice;
} advices[] = {
    {CV_ERROR_DISK_FULL, "make room, then run it again"},
    {CV_ERROR_CONFIGURATION, "see cortana doctor"},
};

/* Appends a failed job's error for people: without its type, and with what to do. `type` and
 * `message` may be NULL. */
static void explain(struct cv_buffer *text, const char *type, const char *message)
{
    cv_buffer_text(text, message ? message : "for a reason that nobody noted");
    for (size_t i = 0; type && i < CV_COUNT(advices); i++) {
        if (cv_error_type_from_name(type) == advices[i].type) {
            cv_buffer_printf(text, "; %s", advices[i].advice);
        }
    }
}

/* ---- the database and the workers while we wait ---------------------------------------------- */

/* Recovers from a temporary failure: waits for the server, or starts it again. */
static int recover(struct cli_call *call, struct cli_progress *progress, int result,
                   struct cv_error *error)
{
    if (result == 0 || error->type != CV_ERROR_CONNECTION) {
        return result;
    }
    char text[PATH_MAX + 128];
    const char *directory = call->session.installation.directory;
    struct cv_error ignored;
    struct cv_disk disk;
    bool is_full = call->session.is_local && cv_disk_read(directory, &disk, &ignored) == 0 &&
                   disk.level == CV_DISK_EMERGENCY;
    (void)snprintf(text, sizeof(text), "the database is away%s%s; waiting for it",
                   is_full ? ", and there is hardly any room on the disk of " : "",
                   is_full ? directory : "");
    cli_progress_say(progress, text);
    result = cli_session_recover(&call->session, RECOVER_MS, call->cancel, error);
    if (result == 0) {
        cli_progress_say(progress, "the database is back");
    }
    return result;
}

static int check_workers(const struct cli_call *call, struct cli_workers *workers,
                         struct cli_progress *progress, struct cv_error *error)
{
    CV_TRY(cli_workers_check(workers, error));
    for (const char *note; (note = cli_workers_warning(workers));) {
        cli_progress_erase(progress);
        cli_print_note(call, "%s", note);
    }
    return 0;
}

/* Pauses; 1: interrupted. */
static int rest(struct cli_call *call, int ms)
{
    return cv_cancel_wait(call->cancel, ms);
}

/* ---- videos ---------------------------------------------------------------------------------- */

struct stage_sum {
    size_t jobs;
    double progress;
    size_t done;
    size_t failed;
    int64_t running_ms;
    char doing[96];
};

struct watch {
    const struct cli_call *call;
    const struct cli_video_list *list;
    char (*shown)[STATUS_SIZE]; /* status of video × stage as printed last */
    struct cli_progress progress;
};

static int stage_index(const char *name)
{
    for (size_t i = 0; i < cli_stage_count; i++) {
        if (strcmp(cli_stages[i].job_type, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static size_t video_index(const struct cli_video_list *list, const char *id)
{
    size_t i = 0;
    while (i < list->count && strcmp(list->videos[i].id, id) != 0) {
        i++;
    }
    return i;
}

/* Writes the ids as an array for PostgreSQL; `runs`: the ids of runs that read videos again. */
static int id_array(const struct cli_video_list *list, bool runs, char **ret_text,
                    struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_text(&text, "{");
    for (size_t i = 0; i < list->count; i++) {
        const char *id = runs ? list->videos[i].run_id : list->videos[i].id;
        if (id[0] != '\0') {
            cv_buffer_printf(&text, "%s%s", text.length > 1 ? "," : "", id);
        }
    }
    cv_buffer_text(&text, "}");
    return cv_buffer_detach(&text, ret_text, error);
}

/* Prints a failure, even with --quiet. */
static void print_failure(struct watch *watch, const char *name, const struct cv_db_result *rows,
                          int row)
{
    char duration[CLI_TIME_SIZE];
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    const char *type = cv_db_text(rows, row, "error_type");
    cv_buffer_printf(&text, "%s: ", name);
    if (!cv_db_bool(rows, row,
                    "refused")) { /* else the file is the reason, whichever stage read it */
        cv_buffer_printf(&text, "%s failed: ", cv_db_text(rows, row, "step"));
    }
    explain(&text, type, cv_db_text(rows, row, "error_message"));
    if (cv_db_text(rows, row, "retry_in_ms")) {
        cv_buffer_printf(&text, "; again in %s",
                         cli_duration(cv_db_int(rows, row, "retry_in_ms", 0), duration));
    }
    cli_progress_erase(&watch->progress);
    cli_put_failure(watch->call, type, text.failed ? name : text.data);
}

/* Whether the same failure of another stage of the video was printed: for a file that is not a
 * video, both stages that read the original fail. */
static bool is_told(const struct watch *watch, const struct cv_db_result *rows, int row)
{
    const char *video_id = cv_db_text(rows, row, "video_id");
    const char *type = cv_db_text(rows, row, "error_type");
    size_t first = video_index(watch->list, video_id) * cli_stage_count;
    for (int i = 0; type && i < cv_db_rows(rows); i++) {
        int stage = stage_index(cv_db_text(rows, i, "step"));
        const char *other = cv_db_text(rows, i, "error_type");
        if (i != row && stage >= 0 && other && strcmp(other, type) == 0 &&
            strcmp(cv_db_text(rows, i, "video_id"), video_id) == 0 &&
            strcmp(watch->shown[first + (size_t)stage], "failed") == 0) {
            return true;
        }
    }
    return false;
}

/* Whether this command makes the stage work on the video; what it did before is not news. */
static bool is_worked_on(const struct cli_video *video, int stage)
{
    return video->state == CLI_VIDEO_AGAIN      ? stage >= stage_index(first_again)
           : video->state == CLI_VIDEO_PLAYBACK ? stage == stage_index(playback)
                                                : true;
}

/* Prints a changed status of one stage of one video. */
static void print_change(struct watch *watch, const struct cv_db_result *rows, int row)
{
    size_t video = video_index(watch->list, cv_db_text(rows, row, "video_id"));
    const char *step = cv_db_text(rows, row, "step");
    int stage = stage_index(step);
    if (video == watch->list->count || stage < 0 ||
        !is_worked_on(&watch->list->videos[video], stage)) {
        return;
    }
    char *shown = watch->shown[video * cli_stage_count + (size_t)stage];
    const char *status = cv_db_text(rows, row, "status");
    /* A stage works on a long video in parts. Between two parts it is queued, but it has not
     * started again. */
    bool is_between = status && strcmp(status, "queued") == 0 && strcmp(shown, "processing") == 0;
    if (!status || is_between || strcmp(shown, status) == 0) {
        return;
    }
    (void)snprintf(shown, STATUS_SIZE, "%s", status);
    const char *name = watch->list->videos[video].name;
    if (strcmp(status, "failed") == 0 && is_told(watch, rows, row)) {
        return;
    } else if (cv_db_bool(rows, row, "skipped")) {
        return; /* the failure that is the reason was printed */
    } else if (strcmp(status, "failed") == 0) {
        print_failure(watch, name, rows, row);
    } else if (watch->progress.is_told && strcmp(status, "queued") != 0) {
        char duration[CLI_TIME_SIZE];
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        cv_buffer_printf(&text, "%s: %s %s", name, step,
                         strcmp(status, "processing") == 0 ? "started" : status);
        if (strcmp(status, "done") == 0) {
            cv_buffer_printf(&text, " in %s",
                             cli_duration(cv_db_int(rows, row, "running_ms", 0), duration));
        }
        cli_progress_say(&watch->progress, text.failed ? name : text.data);
    }
}

static void add_to_sum(struct stage_sum *sum, const struct cv_db_result *rows, int row)
{
    const char *status = cv_db_text(rows, row, "status");
    const char *doing = cv_db_text(rows, row, "progress_message");
    sum->jobs++;
    sum->progress += cv_db_double(rows, row, "progress", 0);
    sum->done += strcmp(status, "done") == 0;
    sum->failed += strcmp(status, "failed") == 0 && !cv_db_text(rows, row, "retry_in_ms");
    sum->running_ms += cv_db_int(rows, row, "running_ms", 0);
    if (strcmp(status, "processing") == 0) {
        (void)snprintf(sum->doing, sizeof(sum->doing), "%s", doing ? doing : "working");
    } else if (strcmp(status, "failed") == 0 && cv_db_text(rows, row, "retry_in_ms")) {
        (void)snprintf(sum->doing, sizeof(sum->doing), "waits for its next try");
    }
}

static void show_stages(struct watch *watch, const struct cv_db_result *rows)
{
    struct stage_sum sums[CLI_STAGES_MAX] = {0};
    size_t count = watch->list->count;
    for (int i = 0; i < cv_db_rows(rows); i++) {
        int stage = stage_index(cv_db_text(rows, i, "step"));
        if (stage >= 0) {
            add_to_sum(&sums[stage], rows, i);
        }
    }
    cli_progress_begin(&watch->progress);
    for (size_t i = 0; i < cli_stage_count; i++) {
        if (sums[i].jobs == 0) {
            continue; /* a run that only reads text has no transcode */
        }
        char duration[CLI_TIME_SIZE];
        char failed[32];
        char of[48] = "";
        char note[160];
        const char *what = sums[i].doing;
        if (count > 1) {
            (void)snprintf(of, sizeof(of), "%zu of %zu  ", sums[i].done, count);
        }
        if (sums[i].done == count) {
            what = cli_duration(sums[i].running_ms, duration);
        } else if (sums[i].failed > 0) {
            (void)snprintf(failed, sizeof(failed), "%zu failed", sums[i].failed);
            what = failed;
        }
        (void)snprintf(note, sizeof(note), "%s%s", of, what);
        cli_progress_row(&watch->progress, cli_stages[i].job_type,
                         count > 0 ? sums[i].progress / (double)count : 0, note);
    }
    cli_progress_end(&watch->progress);
}

static int read_changes(struct cli_call *call, struct watch *watch, const char *ids,
                        const char *runs, size_t *ret_waiting, size_t *ret_failed,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *counts = NULL;
    /* The number first: what ends meanwhile is printed before the wait ends. */
    CV_TRY(cv_db_run(call->session.db, &counts, error,
                     "SELECT count(*) FILTER (WHERE v.status NOT IN ('ready', 'failed')"
                     " OR r.status = 'running' OR EXISTS (SELECT FROM jobs j"
                     " WHERE j.video_id = v.id AND j.job_type IN ('subtitles', 'transcribe')"
                     " AND j.status IN ('queued', 'processing'))) AS waiting,"
                     " count(*) FILTER (WHERE v.status = 'failed'"
                     " OR r.status IN ('failed', 'canceled')) AS failed"
                     " FROM videos v LEFT JOIN runs r"
                     " ON r.video_id = v.id AND r.id = ANY ($2::uuid[])"
                     " WHERE v.id = ANY ($1::uuid[])",
                     ids, runs));
    CV_TRY(
        cv_db_run(call->session.db, &rows, error,
                  "SELECT p.video_id, p.step, p.status, p.skipped, p.progress, p.progress_message,"
                  " p.running_ms, p.error_type, p.error_message, p.refused,"
                  " (extract(epoch FROM p.retry_at - clock_timestamp()) * 1000)::bigint"
                  " AS retry_in_ms FROM pipeline_stages p"
                  " WHERE p.video_id = ANY ($1::uuid[])",
                  ids));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        print_change(watch, rows, i);
    }
    show_stages(watch, rows);
    *ret_waiting = (size_t)cv_db_int(counts, 0, "waiting", 0);
    *ret_failed = (size_t)cv_db_int(counts, 0, "failed", 0);
    return 0;
}

static void watch_deinit(struct watch *watch)
{
    free(watch->shown);
    cli_progress_deinit(&watch->progress);
}
CV_DEFINE_CLEANUP_ADDRESS(struct watch, watch_deinit)

int cli_wait_for_videos(struct cli_call *call, struct cli_workers *workers,
                        const struct cli_video_list *list, size_t *ret_failed,
                        struct cv_error *error)
{
    cv_auto_free char *ids = NULL;
    cv_auto_free char *runs = NULL;
    cv_auto(watch_deinit) struct watch watch = {
        .call = call,
        .list = list,
        .shown = calloc(list->count * cli_stage_count + 1, STATUS_SIZE)};
    int result = id_array(list, false, &ids, error);
    result = result ? result : id_array(list, true, &runs, error);
    if (result || !watch.shown) {
        return result ? result
                      : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the progress");
    }
    cli_progress_init(&watch.progress, call->quiet || call->json, call->plain);
    for (;;) {
        size_t waiting = 1;
        result = read_changes(call, &watch, ids, runs, &waiting, ret_failed, error);
        result = recover(call, &watch.progress, result, error);
        if (result || waiting == 0) {
            return result;
        }
        result = check_workers(call, workers, &watch.progress, error);
        if (result || rest(call, REFRESH_MS)) {
            return result ? result : cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
}

/* ---- clips ----------------------------------------------------------------------------------------- */

/* Asks how far the clip is, and shows it. 1: it is done; 0: not yet. */
static int check_clip(struct cli_call *call, struct cli_progress *progress, const json_t *values,
                      json_t **ret_clip, struct cv_error *error)
{
    cv_auto(json_decref) json_t *clip = NULL;
    CV_TRY(cli_ask(call, "clip", values, &clip, error));
    const char *state = json_string_value(json_object_get(clip, "state"));
    const char *doing = json_string_value(json_object_get(clip, "message"));
    bool is_done = strcmp(state, "done") == 0;
    if (cv_queue_is_over(state) && !is_done) {
        const char *type = json_string_value(cli_find_member(clip, "error.type"));
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        explain(&text, type,
                type ? json_string_value(cli_find_member(clip, "error.message"))
                     : "it was canceled");
        return cv_fail(error, type ? cv_error_type_from_name(type) : CV_ERROR_CANCELED, "%s",
                       text.failed ? state : text.data);
    }
    cli_progress_begin(progress);
    cli_progress_row(progress, "clip", json_number_value(json_object_get(clip, "progress")),
                     doing ? doing : state);
    cli_progress_end(progress);
    *ret_clip = cv_take(clip);
    return is_done;
}

int cli_wait_for_clip(struct cli_call *call, struct cli_workers *workers, json_t **clip,
                      struct cv_error *error)
{
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cv_auto(json_decref) json_t *values = json_pack("{s:O}", "id", json_object_get(*clip, "id"));
    CV_TRY_MEMORY(values, error, "a request");
    cli_progress_init(&progress, call->quiet || call->json, call->plain);
    for (;;) {
        json_t *now = NULL;
        int result = check_clip(call, &progress, values, &now, error);
        if (now) {
            json_decref(*clip);
            *clip = now;
        }
        if (result == 1) {
            cli_progress_erase(&progress);
            return 0;
        }
        result = call->server ? result : recover(call, &progress, result, error);
        result = result ? result : check_workers(call, workers, &progress, error);
        if (result || rest(call, REFRESH_MS)) {
            cli_progress_erase(&progress);
            return result ? result : cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
}

/* ---- the inbox ------------------------------------------------------------------------------- */

/* Prints what has changed about videos since the last look. */
static void print_video_changes(struct cli_call *call, struct cli_progress *progress,
                                const struct cv_db_result *rows, int row)
{
    static const char pattern[] =
        "{name}[{status=ready} is ready: {lines:count line/lines} of text (video {id})"
        "|{status=failed} has failed: {why}|{status=duplicate} is the same as {twin}"
        "|{status=duplicate} is the same as another video| is imported]";
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer why = CV_BUFFER_INIT;
    const char *name = cv_db_text(rows, row, "name");
    const char *line = cv_db_text(rows, row, "line");
    if (call->json) {
        (void)puts(line);
        return;
    }
    cv_auto(json_decref) json_t *video = json_loads(line, 0, NULL);
    explain(&why, cv_db_text(rows, row, "type"), cv_db_text(rows, row, "reason"));
    (void)json_object_set_new(video, "why", json_string(why.data));
    cli_expand(&text, pattern, video, true);
    cli_progress_erase(progress);
    cli_put(stdout, text.failed ? name : text.data);
    (void)putchar('\n');
}

/* Prints videos whose status differs from the one in `shown` (an object of ids and statuses),
 * unless `silently`, and updates `shown`. A transaction's changes become visible late but have the
 * time of its start, so the query looks back a little. */
static int show_changes(struct cli_call *call, struct cli_progress *progress, json_t *shown,
                        bool silently, struct cv_error *error)
{
    static const char sql[] =
        "SELECT *, to_jsonb(c) AS line FROM (SELECT v.id, v.status,"
        " coalesce(v.title, v.original_name, v.id::text) AS name,"
        " (SELECT count(*) FROM segments g WHERE g.video_id = v.id) AS lines,"
        " (SELECT coalesce(o.title, o.original_name, o.id::text) FROM videos o WHERE o.id = "
        "v.duplicate_of)"
        " AS twin, j.payload #>> '{error,message}' AS reason,"
        " j.payload #>> '{error,type}' AS type"
        " FROM videos v LEFT JOIN LATERAL (SELECT payload FROM jobs j WHERE j.video_id = v.id"
        " AND j.status = 'failed' ORDER BY finished_at DESC LIMIT 1) AS j ON true"
        " WHERE v.status <> 'processing' AND v.registered_at IS NOT NULL"
        " AND v.updated_at > now() - interval '15 minutes'"
        " AND (v.status <> 'ready' OR v.ready_at > now() - interval '15 minutes')"
        " ORDER BY v.updated_at, v.id) AS c";
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error, sql));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *id = cv_db_text(rows, i, "id");
        const char *status = cv_db_text(rows, i, "status");
        const char *before = json_string_value(json_object_get(shown, id));
        if (before && strcmp(before, status) == 0) {
            continue;
        }
        CV_TRY_MEMORY(json_object_set_new(shown, id, json_string(status)) == 0, error,
                      "the videos");
        if (!silently) {
            print_video_changes(call, progress, rows, i);
        }
    }
    (void)fflush(stdout);
    return 0;
}

/* Shows what the workers do now, one row per job. */
static int show_jobs(struct cli_call *call, struct cli_progress *progress, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(call->session.db, &rows, error,
                           "SELECT job_type, progress, progress_message,"
                           " coalesce(video, job_type) AS name FROM job_overview"
                           " WHERE status = 'processing' ORDER BY started_at LIMIT 8");
    if (result || cv_db_rows(rows) == 0) {
        cli_progress_erase(progress);
        return result;
    }
    cli_progress_begin(progress);
    for (int i = 0; i < cv_db_rows(rows); i++) {
        char note[160];
        const char *doing = cv_db_text(rows, i, "progress_message");
        (void)snprintf(note, sizeof(note), "%s%s%s", cv_db_text(rows, i, "job_type"),
                       doing ? ": " : "", doing ? doing : "");
        cli_progress_row(progress, cv_db_text(rows, i, "name"),
                         cv_db_double(rows, i, "progress", 0), note);
    }
    cli_progress_end(progress);
    return 0;
}

static int print_place(struct cli_call *call, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    const struct cv_store *store = call->session.store;
    CV_TRY(cli_object_path(store, CV_KEYS_INBOX, &path, error));
    if (!call->quiet) {
        bool is_path = path[0] == '/';
        (void)fprintf(stderr, "put videos into %s%s%s; Ctrl-C stops\n",
                      is_path ? "" : cv_store_name(store), is_path ? "" : "/", path);
    }
    return 0;
}

int cli_watch_inbox(struct cli_call *call, struct cli_workers *workers, struct cv_error *error)
{
    bool created = false;
    unsigned unknown = 0;
    cv_auto(json_decref) json_t *shown = json_object();
    cv_auto(cli_progress_deinit) struct cli_progress progress;
    cli_progress_init(&progress, call->quiet || call->json, call->plain);
    int result = show_changes(call, &progress, shown, true, error);
    if (result == 0 && cv_store_directory(call->session.store)) {
        /* Makes the inbox of a directory store. A bucket's rules are not changed here. */
        result = cv_bucket_init(call->session.store, 0, &created, &unknown, error);
        result = result < 0 ? result : 0;
    }
    result = result ? result : cli_workers_start(workers, NULL, error);
    result = result ? result : cli_workers_start_services(workers, error);
    result = result ? result : print_place(call, error);
    while (result == 0) {
        result = show_changes(call, &progress, shown, false, error);
        result = result ? result : show_jobs(call, &progress, error);
        result = recover(call, &progress, result, error);
        result = result ? result : check_workers(call, workers, &progress, error);
        if (result == 0 && rest(call, LOOK_MS)) {
            break;
        }
    }
    cli_progress_erase(&progress);
    return cv_cancel_level(call->cancel) != CV_CANCEL_NONE ? 0 : result;
}
