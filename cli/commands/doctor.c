#include "common/objects/objects.h"
#include "common/proxy/proxy.h"
#include "common/queue/queue.h"

#include "cli/command.h"
#include "cli/languages.h"
#include "cli/session.h"

#include <getopt.h>
#include <glob.h>
#include <libavcodec/avcodec.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    GC_PAGES = 3,  /* lists of each kind of object that a doctor reads: seconds, not hours */
    GC_HOURS = 24, /* what is younger may be under way */
    MS_PER_HOUR = 60 * 60 * 1000,
    FINDINGS_MAX = 50,       /* of one video that are printed */
    SCRATCH_FREE_LEAST = 10, /* percent; stages keep whole videos there */
};

enum level { OK, WARN, FAIL };

static void tell(enum level level, enum level *worst, const char *what, const char *format, ...)
    CV_PRINTF(4, 5);

static void tell(enum level level, enum level *worst, const char *what, const char *format, ...)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    va_list arguments;
    va_start(arguments, format);
    (void)printf("%-5s %-12s ", names[level], what);
    (void)vprintf(format, arguments);
    (void)putchar('\n');
    va_end(arguments);
    *worst = level > *worst ? level : *worst;
}

static void check_database(struct cli_session *session, enum level *worst)
{
    struct cv_error error;
    struct cv_migration_status status;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(session->db, &rows, &error, "SHOW server_version")) {
        tell(FAIL, worst, "database", "%s", error.message);
        return;
    }
    tell(OK, worst, "database", "PostgreSQL %s", cv_db_text(rows, 0, "server_version"));
    if (cv_migrate_status(session->db, &status, &error)) {
        tell(FAIL, worst, "migrations", "%s", error.message);
    } else if (status.pending > 0) {
        tell(FAIL, worst, "migrations", "%d are pending: run cortana migrate", status.pending);
    } else {
        tell(OK, worst, "migrations", "%d applied", status.applied);
    }
}

static void check_store(struct cli_session *session, enum level *worst)
{
    static const char key[] = "doctor/probe";
    struct cv_error error;
    if (cv_store_put(session->store, key, "probe", 5, NULL, NULL, &error) ||
        cv_store_delete(session->store, key, &error)) {
        tell(FAIL, worst, "store", "%s cannot be written: %s", cv_store_name(session->store),
             error.message);
    } else {
        tell(OK, worst, "store", "%s", cv_store_name(session->store));
    }
}

/* A bounded look for what does not belong together; `cortana gc` looks at everything. */
static void check_objects(struct cli_session *session, struct cv_cancel *cancel, enum level *worst)
{
    struct cv_error error;
    struct cv_gc_summary summary;
    struct cv_gc_params params = {
        .min_age_ms = (int64_t)GC_HOURS * MS_PER_HOUR, .max_pages = GC_PAGES, .cancel = cancel};
    if (cv_clip_days(&params.clip_days, &error) ||
        cv_gc_run(session->db, session->store, &params, &summary, &error)) {
        tell(FAIL, worst, "objects", "%s", error.message);
        return;
    }
    const int64_t *found = summary.found;
    long long orphans = (long long)(found[CV_GC_ORPHAN] + found[CV_GC_OLD_CLIP]);
    long long lost = (long long)(found[CV_GC_LOST_ORIGINAL] + found[CV_GC_LOST_PROXY] +
                                 found[CV_GC_LOST_THUMB] + found[CV_GC_DEAD_ROW]);
    tell(orphans > 0 || lost > 0 ? WARN : OK, worst, "objects",
         "%lld looked at%s: %lld to be removed, %lld missing, %lld not taken in yet%s",
         (long long)summary.objects, summary.is_complete ? "" : " (there are more)", orphans, lost,
         (long long)found[CV_GC_UNREGISTERED], orphans > 0 || lost > 0 ? ": see cortana gc" : "");
}

static void check_scratch(const struct cli_session *session, enum level *worst)
{
    char path[PATH_MAX + 16];
    struct statvfs space;
    if (session->is_local) {
        (void)snprintf(path, sizeof(path), "%s/scratch", session->installation.directory);
    } else {
        (void)snprintf(path, sizeof(path), "%s",
                       cv_env("CORTANA_SCRATCH", cv_env("TMPDIR", "/tmp")));
    }
    if (access(path, W_OK | X_OK) || statvfs(path, &space) || space.f_blocks == 0) {
        tell(FAIL, worst, "scratch", "%s: %s: set CORTANA_SCRATCH", path, strerror(errno));
        return;
    }
    double gib = (double)space.f_bavail * (double)space.f_frsize / (double)(1 << 30);
    int percent = (int)(100 * (double)space.f_bavail / (double)space.f_blocks);
    tell(percent < SCRATCH_FREE_LEAST ? WARN : OK, worst, "scratch", "%s, %.1f GiB (%d %%) free",
         path, gib, percent);
}

static bool is_among(const glob_t *found, const char *name, size_t length)
{
    for (size_t i = 0; i < found->gl_pathc; i++) {
        const char *file = strrchr(found->gl_pathv[i], '/') + 1;
        if (strncmp(file, name, length) == 0 && strcmp(file + length, ".traineddata") == 0) {
            return true;
        }
    }
    return false;
}

/* Appends the names of `wanted` ("eng+deu") that no file has to `missing`; returns their number. Models
 * of scripts may lie beside the languages or in a folder of their own: the stage looks in both. */
static size_t find_missing(const char *wanted, const glob_t *found, struct cv_buffer *missing)
{
    size_t count = 0;

    while (*wanted) {
        size_t length = strcspn(wanted, "+");
        bool is_script = memchr(wanted, '/', length);
        if (length && !is_script && !is_among(found, wanted, length)) {
            cv_buffer_printf(missing, "%s%.*s", count++ ? ", " : "", (int)length, wanted);
        }
        wanted += length + (wanted[length] == '+');
    }
    return count;
}

static size_t count_names(const char *wanted)
{
    size_t count = 1;

    for (; *wanted; wanted++) {
        count += *wanted == '+';
    }
    return count;
}

static void check_models(enum level *worst)
{
    char pattern[PATH_MAX];
    const char *given = cv_env("TESSDATA_PREFIX", NULL);
    (void)snprintf(pattern, sizeof(pattern), "%s/*.traineddata",
                   given ? given : "/usr/share/tesseract-ocr/*/tessdata");
    glob_t found = {0};
    (void)glob(pattern, 0, NULL, &found);
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    const char *named = cv_env("CORTANA_LANGUAGES", NULL);
    const char *wanted = named ? named : CLI_LANGUAGES_DEFAULT;
    cv_auto(cv_buffer_deinit) struct cv_buffer missing = CV_BUFFER_INIT;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        int length = (int)strcspn(name, ".");
        cv_buffer_printf(&names, "%s%.*s", i ? " " : "", length, name);
    }
    size_t lacking = find_missing(wanted, &found, &missing);
    globfree(&found);
    if (!lacking) {
        tell(OK, worst, "models", "%s", names.data);
    } else {
        bool is_fatal = named || lacking == count_names(wanted);
        tell(is_fatal ? FAIL : WARN, worst, "models",
             "videos that name no language are read with %s, and there is no model of %s: "
             "apt-get install tesseract-ocr-…, or set CORTANA_LANGUAGES",
             wanted, missing.data);
    }
}

static void check_codecs(enum level *worst)
{
    if (!avcodec_find_encoder_by_name("libx264") || !avcodec_find_encoder(AV_CODEC_ID_AAC) ||
        !avcodec_find_encoder(AV_CODEC_ID_MJPEG)) {
        tell(FAIL, worst, "ffmpeg", "libavcodec lacks H.264 (libx264), AAC or JPEG encoding");
    } else {
        tell(OK, worst, "ffmpeg", "libavcodec %d.%d", (int)(avcodec_version() >> 16),
             (int)(avcodec_version() >> 8 & 0xff));
    }
}

static void check_leftovers(struct cli_session *session, enum level *worst)
{
    struct cv_error error;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(session->db, &rows, &error,
                  "SELECT (SELECT count(*) FROM job_overview WHERE state = 'lost') AS lost,"
                  " (SELECT count(*) FROM job_overview WHERE state = 'failed') AS dead,"
                  " (SELECT count(*) FROM worker_overview WHERE state = 'stale') AS stale,"
                  " (SELECT count(*) FROM search_pending) AS unsearchable")) {
        tell(FAIL, worst, "leftovers", "%s", error.message);
        return;
    }
    long long lost = cv_db_int(rows, 0, "lost", 0);
    long long dead = cv_db_int(rows, 0, "dead", 0);
    long long stale = cv_db_int(rows, 0, "stale", 0);
    tell(dead > 0 ? WARN : OK, worst, "jobs", "%lld dead letters%s", dead,
         dead > 0 ? ": cortana jobs says why, jobs retry tries again" : "");
    tell(lost > 0 ? WARN : OK, worst, "leases", "%lld run out%s", lost,
         lost > 0 ? ": a worker of that type will take them over" : "");
    tell(stale > 0 ? WARN : OK, worst, "workers", "%lld stale%s", stale,
         stale > 0 ? ": see cortana workers" : "");
}

struct findings {
    enum level *worst;
    int told;
};

static void tell_finding(void *opaque, const char *where, const char *what)
{
    struct findings *findings = opaque;
    if (findings->told++ < FINDINGS_MAX) {
        tell(FAIL, findings->worst, "video", "%s %s", where, what);
    }
}

/* What transcoding has left of one video, down to its bits. */
static void check_video(struct cli_session *session, const char *video_id, struct cv_cancel *cancel,
                        enum level *worst)
{
    struct findings findings = {.worst = worst};
    struct cv_proxy_summary summary;
    struct cv_error error;
    if (cv_proxy_check(session->store, video_id, cancel, tell_finding, &findings, &summary,
                       &error)) {
        tell(FAIL, worst, "video", "%s", error.message);
    } else if (findings.told == 0) {
        tell(OK, worst, "video", "%.3f s in %d renditions%s: %d segments, %d key frames, %d tiles",
             summary.duration, summary.renditions, summary.sound ? " with sound" : "",
             summary.segments, summary.key_frames, summary.tiles);
    } else if (findings.told > FINDINGS_MAX) {
        tell(FAIL, worst, "video", "and %d findings more", findings.told - FINDINGS_MAX);
    }
}

static void check_named_video(struct cli_session *session, const char *name,
                              struct cv_cancel *cancel, enum level *worst)
{
    char id[CLI_UUID_SIZE];
    struct cv_error error;

    if (cli_find_video(session->db, name, id, &error) < 0) {
        tell(FAIL, worst, "video", "%s", error.message);
        return;
    }
    check_video(session, id, cancel, worst);
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct cli_session_params params = {.unmigrated = true, .cancel = cancel};
    for (int option; (option = cli_next_option(command, argc, argv, ":h", options)) != -1;) {
        if (option != 'd') {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
        params.data = optarg;
    }
    const char *video = optind < argc ? argv[optind++] : NULL;
    if (optind < argc) {
        return cli_usage(command, "unexpected argument %s", argv[optind]);
    }
    enum level worst = OK;
    check_models(&worst);
    check_codecs(&worst);
    cv_auto(cli_session_close) struct cli_session session = {0};
    if (cli_session_open(&session, &params, error)) {
        cv_redact(error->message);
        tell(FAIL, &worst, "installation", "%s", error->message);
        return CLI_EXIT_FAILED;
    }
    check_database(&session, &worst);
    check_store(&session, &worst);
    check_objects(&session, cancel, &worst);
    check_scratch(&session, &worst);
    check_leftovers(&session, &worst);
    if (video) {
        check_named_video(&session, video, cancel, &worst);
    }
    return worst == FAIL ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

const struct cli_command cli_command_doctor = {
    .name = "doctor",
    .summary = "check this installation and say what to do",
    .help = "usage: cortana doctor [--data DIR] [VIDEO]\n\n"
            "One line a check: ok, warn or fail, and what to do. Exit 1 if anything fails.\n"
            "With a video (an id, its beginning, a file's name or \"last\"), its playlists,\n"
            "segments and pictures are checked, too: durations, key frames, codec names and rates\n"
            "against the bits, and that nothing is missing.\n",
    .run = run,
};
