#include "common/media/media.h"
#include "common/queue/queue.h"
#include "common/retention/retention.h"

#include "cli/commands/gc.h"
#include "cli/commands/ingest.h"
#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/playback.h"
#include "cli/commands/verbs.h"

#include <string.h>
#include <sys/stat.h>

enum {
    GC_PAGES = 3,  /* lists per kind of object that are read: takes seconds, not hours */
    GC_HOURS = 24, /* younger objects may belong to running jobs */
    MS_PER_HOUR = 60 * 60 * 1000,
    FINDINGS_MAX = 50, /* findings of one video that are printed */
};

enum level { OK, WARN, FAIL };

/* Prints each check as a line, or with --json as an object. */
struct report {
    const struct cli_call *call;
    enum level worst;
};

static void print_result(enum level level, struct report *report, const char *what,
                         const char *format, ...) CV_PRINTF(4, 5);

static void print_result(enum level level, struct report *report, const char *what,
                         const char *format, ...)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    struct cv_error ignored;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    report->worst = level > report->worst ? level : report->worst;
    if (cli_print_outcome(
            report->call,
            json_pack("{s:s, s:s, s:s}", "level", names[level], "check", what, "text", text),
            &ignored, "%-5s %-12s %s", names[level], what, text)) {
        report->worst = FAIL; /* no memory for a line: counts as a failure */
    }
}

static void check_database(struct cli_session *session, struct report *report)
{
    struct cv_error error;
    char reason[CV_SCHEMA_REASON_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(session->db, &rows, &error, "SHOW server_version")) {
        print_result(FAIL, report, "database", "%s", error.message);
        return;
    }
    print_result(OK, report, "database", "PostgreSQL %s", cv_db_text(rows, 0, "server_version"));
    int result = cv_queue_check_schema(session->db, reason, &error);
    if (result == 0) {
        print_result(OK, report, "schema", "fits this program");
    } else {
        print_result(FAIL, report, "schema", "%s", result < 0 ? error.message : reason);
    }
}

/* Checks whether PostgreSQL has room for a temporary file as large as one of its WAL, by rows of a query
 * that do not fit into memory, which any login may ask for. Of a WAL on another disk it says nothing. */
static void check_database_room(struct cli_session *session, struct report *report)
{
    cv_auto(cv_db_rollback) struct cv_db *db = session->db;
    struct cv_error error;
    if (cv_db_begin(db, &error) || cv_db_run(db, NULL, &error, "SET LOCAL work_mem = '64kB'") ||
        cv_db_run(db, NULL, &error,
                  "WITH temporary_file AS MATERIALIZED (SELECT repeat('x', 1024)"
                  " FROM generate_series(1, 16 * 1024)) SELECT count(*) FROM temporary_file")) {
        bool is_limited = strcmp(cv_db_sqlstate(db), "53400") == 0; /* by temp_file_limit */
        print_result(is_limited ? WARN : FAIL, report, "postgres", "%s%s", error.message,
                     is_limited ? ": whether its disk has room is not known"
                     : error.type == CV_ERROR_DISK_FULL
                         ? ": make room there; work that waits for it goes on by itself"
                         : "");
    } else {
        print_result(OK, report, "postgres", "has room for temporary files");
    }
}

static void check_store(struct cli_session *session, struct report *report)
{
    static const char key[] = "doctor/probe";
    const struct cv_new_object probe = {.key = key, .data = "probe", .size = 5};
    struct cv_error error;
    if (cv_store_put(session->store, &probe, NULL, &error) ||
        cv_store_delete(session->store, key, &error)) {
        print_result(FAIL, report, "store", "%s cannot be written: %s",
                     cv_store_name(session->store), error.message);
    } else {
        print_result(OK, report, "store", "%s", cv_store_name(session->store));
    }
}

/* Checks a limited number of objects and rows against each other; `cortana gc` checks all. */
static void check_objects(struct cli_session *session, struct cv_cancel *cancel,
                          struct report *report)
{
    struct cv_error error;
    struct cv_gc_summary summary;
    struct cv_gc_params params = {
        .min_age_ms = (int64_t)GC_HOURS * MS_PER_HOUR, .max_pages = GC_PAGES, .cancel = cancel};
    if (cv_clip_days(&params.clip_days, &error) ||
        cv_gc_run(session->db, session->store, &params, &summary, &error)) {
        print_result(FAIL, report, "objects", "%s", error.message);
        return;
    }
    const int64_t *found = summary.found;
    long long orphans =
        (long long)(found[CV_GC_ORPHAN] + found[CV_GC_OLD_CLIP] + found[CV_GC_LEFTOVER]);
    long long lost = (long long)(found[CV_GC_LOST_ORIGINAL] + found[CV_GC_LOST_PROXY] +
                                 found[CV_GC_LOST_THUMB] + found[CV_GC_DEAD_ROW]);
    print_result(orphans > 0 || lost > 0 ? WARN : OK, report, "objects",
                 "%lld examined%s: %lld to be removed, %lld missing, %lld not imported yet%s",
                 (long long)summary.objects, summary.is_complete ? "" : " (there are more)",
                 orphans, lost, (long long)found[CV_GC_UNREGISTERED],
                 orphans > 0 || lost > 0 ? ": see cortana gc" : "");
}

/* Checks how full the disk of a folder is. */
static void check_disk_space(struct report *report, const char *what, const char *path)
{
    struct cv_error error;
    struct cv_disk disk;
    if (cv_disk_read(path, &disk, &error)) {
        print_result(FAIL, report, what, "%s", error.message);
        return;
    }
    const double gib = (double)(1 << 30);
    print_result(disk.level == CV_DISK_EMERGENCY ? FAIL
                 : disk.level == CV_DISK_OK      ? OK
                                                 : WARN,
                 report, what, "%s, %.1f GiB (%d %%) free%s", path, (double)disk.free_bytes / gib,
                 disk.total_bytes > 0 ? (int)(100 * disk.free_bytes / disk.total_bytes) : 0,
                 disk.level == CV_DISK_EMERGENCY
                     ? ": the disk is full: no job is started before there is room"
                 : disk.level == CV_DISK_CRITICAL
                     ? ": the API accepts no uploads before there is room"
                     : "");
}

static bool is_on_disk_of(const char *one, const char *other)
{
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev;
}

/* Checks the disks of scratch, of a directory store, and of the private PostgreSQL. */
static void check_disks(const struct cli_session *session, struct report *report)
{
    char scratch[PATH_MAX + 16];
    const char *store = cv_store_directory(session->store);
    if (session->is_local) {
        (void)snprintf(scratch, sizeof(scratch), "%s/scratch", session->installation.directory);
    } else {
        (void)snprintf(scratch, sizeof(scratch), "%s",
                       cv_env("CORTANA_SCRATCH", cv_env("TMPDIR", "/tmp")));
    }
    if (access(scratch, W_OK | X_OK)) {
        print_result(FAIL, report, "scratch", "%s: %s: set CORTANA_SCRATCH", scratch,
                     strerror(errno));
        return;
    }
    check_disk_space(report, "scratch", scratch);
    const char *const others[][2] = {
        {"store disk", store ? store : scratch},
        {"postgres", session->is_local ? session->installation.postgres.home : scratch}};
    for (size_t i = 0; i < CV_COUNT(others); i++) {
        if (!is_on_disk_of(others[i][1], scratch)) {
            check_disk_space(report, others[i][0], others[i][1]);
        }
    }
}

static void check_named_models(struct report *report, const char *named)
{
    char package[96];
    cv_auto(cv_buffer_deinit) struct cv_buffer packages = CV_BUFFER_INIT;
    for (const char *part = named; *part; part += strcspn(part, "+"), part += *part == '+') {
        char name[CLI_LANGUAGE_NAME_MAX + 16];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(part, "+"), part);
        if (!cli_model_is_installed(name)) {
            cv_buffer_printf(&packages, " %s", cli_model_package(name, package));
        }
    }
    if (packages.length > 0) {
        print_result(
            FAIL, report, "models",
            "CORTANA_LANGUAGES is %s, and not all of these models are here: apt-get install%s, or "
            "change it",
            named, packages.data);
    } else {
        print_result(OK, report, "models", "%s, by CORTANA_LANGUAGES", named);
    }
}

static void check_models(struct report *report)
{
    const char *named = cv_env("CORTANA_LANGUAGES", NULL);
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    cv_auto(cv_buffer_deinit) struct cv_buffer packages = CV_BUFFER_INIT;
    if (named) {
        check_named_models(report, named);
        return;
    }
    cli_installed_models(&names);
    cli_missing_packages(&packages);
    if (packages.length == 0) {
        print_result(OK, report, "models", "%s", names.data);
    } else {
        print_result(
            names.length > 0 ? WARN : FAIL, report, "models",
            "text in some languages cannot be read without their models: apt-get install%s",
            packages.data ? packages.data : "");
    }
}

/* Checks which scripts no model has read. */
static void check_scripts(struct cli_session *session, struct report *report)
{
    char text[CLI_UNREAD_TEXT_SIZE], package[96];
    struct cv_error error;
    size_t i;
    json_t *item;
    cv_auto(json_decref) json_t *unread = NULL;
    if (cli_unread_find(session->db, &unread, &error)) {
        print_result(FAIL, report, "scripts", "%s", error.message);
        return;
    }
    json_array_foreach(unread, i, item)
    {
        const char *video = json_string_value(json_object_get(item, "video"));
        print_result(WARN, report, "scripts", "%s", cli_unread_text(item, video, text));
    }
    if (!cli_model_is_installed("osd")) {
        print_result(WARN, report, "scripts",
                     "scripts that no model reads are not named: apt-get install %s",
                     cli_model_package("osd", package));
    } else if (json_array_size(unread) == 0) {
        print_result(OK, report, "scripts", "no video has lines in one that no model reads");
    }
}

static void check_codecs(struct report *report)
{
    if (!avcodec_find_encoder_by_name("libx264") || !avcodec_find_encoder(AV_CODEC_ID_AAC) ||
        !avcodec_find_encoder_by_name("libwebp")) {
        print_result(FAIL, report, "ffmpeg",
                     "libavcodec lacks H.264 (libx264), AAC or WebP (libwebp)");
    } else {
        print_result(OK, report, "ffmpeg", "libavcodec %d.%d", (int)(avcodec_version() >> 16),
                     (int)(avcodec_version() >> 8 & 0xff));
    }
}

static void check_leftovers(struct cli_session *session, struct report *report)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(session->db, &rows, &error,
                  "SELECT (SELECT count(*) FROM job_overview WHERE state = 'lost') AS lost,"
                  " (SELECT count(*) FROM job_overview WHERE state = 'failed' AND NOT refused)"
                  " AS dead,"
                  " (SELECT count(DISTINCT video_id) FROM job_overview WHERE refused) AS refused,"
                  " (SELECT count(*) FROM worker_overview WHERE state = 'stale') AS stale,"
                  " (SELECT count(*) FROM search_pending) AS unsearchable")) {
        print_result(FAIL, report, "leftovers", "%s", error.message);
        return;
    }
    long long lost = cv_db_int(rows, 0, "lost", 0);
    long long dead = cv_db_int(rows, 0, "dead", 0);
    long long refused = cv_db_int(rows, 0, "refused", 0);
    long long stale = cv_db_int(rows, 0, "stale", 0);
    char counted[CLI_COUNTED_SIZE];
    print_result(
        dead > 0 ? WARN : OK, report, "jobs", "%s%s",
        cli_counted(dead, "dead letter", "dead letters", counted),
        dead > 0 ? ": cortana jobs list --status failed says why, cortana jobs retry tries again"
                 : "");
    if (refused > 0) {
        print_result(
            OK, report, "videos", "%s: cortana videos --status failed",
            cli_counted(refused, "file cannot be read as a video, which cortana delete forgets",
                        "files cannot be read as videos, which cortana delete forgets", counted));
    }
    print_result(lost > 0 ? WARN : OK, report, "leases", "%lld run out%s", lost,
                 lost > 0 ? ": a worker of that type will take them over" : "");
    print_result(stale > 0 ? WARN : OK, report, "workers", "%lld stale%s", stale,
                 stale > 0 ? ": see cortana workers" : "");
}

struct findings {
    struct report *report;
    int told;
};

static void print_finding(void *opaque, const char *where, const char *what)
{
    struct findings *findings = opaque;
    if (findings->told++ < FINDINGS_MAX) {
        print_result(FAIL, findings->report, "video", "%s %s", where, what);
    }
}

/* Checks the playback of one video. */
static void check_playback(struct cli_session *session, const char *video_id, struct report *report)
{
    struct findings findings = {.report = report};
    struct cli_playback playback;
    struct cv_error error;
    if (cli_playback_check(session->store, video_id, print_finding, &findings, &playback, &error)) {
        print_result(FAIL, report, "video", "%s", error.message);
    } else if (findings.told == 0) {
        print_result(OK, report, "video", "%.3f s; %d playlists name %d objects, and all are there",
                     playback.seconds, playback.playlists, playback.objects);
    } else if (findings.told > FINDINGS_MAX) {
        print_result(FAIL, report, "video", "and %d findings more", findings.told - FINDINGS_MAX);
    }
}

/* Says what is wrong with the file itself, and checks the playback, if it has been made. */
static void check_video(struct cli_session *session, const char *video_id, struct report *report)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(session->db, &rows, &error,
                  "SELECT video_trouble(v) AS trouble, s3_proxy_path IS NOT NULL AS has_playback"
                  " FROM videos v WHERE v.id = $1::uuid",
                  video_id)) {
        print_result(FAIL, report, "video", "%s", error.message);
        return;
    }
    if (cv_db_rows(rows) > 0 && cv_db_text(rows, 0, "trouble")) {
        print_result(WARN, report, "video", "%s", cv_db_text(rows, 0, "trouble"));
    }
    if (cv_db_bool(rows, 0, "has_playback")) {
        check_playback(session, video_id, report);
    } else {
        print_result(OK, report, "video", "has no playback yet");
    }
}

static void check_named_video(struct cli_call *call, const char *name, struct report *report)
{
    struct cli_session *session = &call->session;
    char id[CLI_UUID_SIZE];
    struct cv_error error;

    if (cli_find(call, "video", name, id, &error) < 0) {
        print_result(FAIL, report, "video", "%s", error.message);
        return;
    }
    check_video(session, id, report);
}

int cli_doctor(struct cli_call *call, struct cv_error *error)
{
    struct report report = {.call = call};
    check_models(&report);
    check_codecs(&report);
    if (cli_open(call, error)) {
        cv_redact(error->message);
        print_result(FAIL, &report, "installation", "%s%s", error->message,
                     error->type == CV_ERROR_CONNECTION
                         ? ": if PostgreSQL has stopped, its log says why, such as a full disk"
                         : "");
        return CLI_EXIT_FAILED;
    }
    check_database(&call->session, &report);
    check_database_room(&call->session, &report);
    check_store(&call->session, &report);
    check_objects(&call->session, call->cancel, &report);
    check_disks(&call->session, &report);
    check_leftovers(&call->session, &report);
    check_scripts(&call->session, &report);
    if (call->count > 0) {
        check_named_video(call, call->arguments[0], &report);
    }
    return report.worst == FAIL ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
