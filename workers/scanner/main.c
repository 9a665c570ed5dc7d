#include "workers/scanner/scanner.h"

static const char name[] = "scanner-worker";
static const char job_type[] = "scanner";

static const char usage[] =
    "usage: scanner-worker [--interval SECONDS] [--pages N] [--listen ADDR:PORT]\n"
    "       scanner-worker --events < notifications\n"
    "\n"
    "Finds videos under " CV_KEYS_INBOX " and " CV_KEYS_ORIGINALS " of the store, and starts the\n"
    "pipeline once for each. Any number of scanners may run at once.\n"
    "\n"
    "  --interval SECONDS  look repeatedly until SIGTERM; without it, look once and exit\n"
    "  --pages N           pages of 1,000 originals per look (20); the next look continues there\n"
    "  --listen ADDR:PORT  with --interval: answer GET /healthz, /readyz and /metrics there\n"
    "                      (CORTANA_LISTEN)\n"
    "  --events            read notifications of an S3 store, one JSON text per line, until the "
    "end\n"
    "                      of the input; exit with 65 if some lines are not notifications\n";

enum {
    PAGES = 20,
    PAGES_MAX = 1000000,
    SETTLE_MS = 5000,
    SETTLE_LEAST_MS = 100,
    SETTLE_MOST_MS = 60 * 60 * 1000,
    SETTLE_LOOKS =
        3, /* of a scanner that runs once; uploads that still grow are left to the next one */
    ONCE_WAIT_MS = 60 * 1000, /* the longest time that it waits for an upload to settle */
    CLIPS_A_PASS = 1000,
    EXPIRE_MS = 24 * 60 * 60 * 1000, /* between two removals of expired logs and files */
    WAIT_LEAST_MS = 50,              /* between two looks, even if much is due */
    STALL_MS = 10 * 60 * 1000, /* an upload of some hundred gigabytes may be copied in one step */
    HEARTBEAT_MS = 60 * 1000,  /* a worker that is silent for five minutes is stale */
    HEARTBEAT_LEAST_MS = 100,
    HEARTBEAT_MOST_MS = 60 * 60 * 1000,
};

struct options {
    double interval_s; /* 0: once */
    int64_t pages;
    bool events;
    const char *listen; /* "": nowhere */
};

int scanner_report(struct scanner *scanner, struct cv_error *error)
{
    return scanner->is_loop ? cv_daemon_report(&scanner->daemon, scanner->db, job_type,
                                               scanner->heartbeat_ms, error)
                            : 0;
}

/* ---- one pass -------------------------------------------------------------------------------- */

/* Removes expired objects, once a day, because it lists all logs. */
/* 0 days: keep for ever. */
static int expire(struct scanner *scanner, const char *prefix, int64_t days, const char *what,
                  struct cv_error *error)
{
    int64_t removed = 0;
    if (days == 0) {
        return 0;
    }
    int result =
        cv_store_expire(scanner->store, prefix, days, scanner->daemon.cancel, &removed, error);
    if (removed > 0) {
        cv_log(CV_LOG_INFO, "%lld expired %s were removed", (long long)removed, what);
    }
    return result;
}

static int expire_old(struct scanner *scanner, struct cv_error *error)
{
    if (cv_monotonic_ms() < scanner->expire_at) {
        return 0;
    }
    scanner->expire_at = cv_monotonic_ms() + EXPIRE_MS;
    CV_TRY(expire(scanner, CV_KEYS_JOB_LOGS, scanner->log_days, "logs of jobs", error));
    return expire(scanner, CV_KEYS_OUTPUTS, scanner->output_days, "files of commands", error);
}

static int keep_house(struct scanner *scanner, struct cv_error *error)
{
    struct cv_retention retention = {scanner->db, scanner->store, scanner->daemon.cancel, 0};
    CV_TRY(cv_clips_expire(&retention, scanner->clip_days, CLIPS_A_PASS, error));
    if (retention.removed > 0) {
        cv_log(CV_LOG_INFO, "%lld expired clips were removed", (long long)retention.removed);
    }
    CV_TRY(cv_leftovers_remove(&retention, error));
    if (retention.removed > 0) {
        cv_log(CV_LOG_INFO, "%lld objects of unsuccessful attempts were removed",
               (long long)retention.removed);
    }
    CV_TRY(cv_frames_thin(&retention, scanner->frame_days, error));
    if (retention.removed > 0) {
        cv_log(CV_LOG_INFO, "%lld objects of frames have had their time",
               (long long)retention.removed);
    }
    CV_TRY(expire_old(scanner, error));
    return cv_db_run(scanner->db, NULL, error, "SELECT prune_object_notes()");
}

static int pass(struct scanner *scanner, struct cv_error *error)
{
    CV_TRY(scanner_drain(scanner, error));
    CV_TRY(scanner_read_lists(scanner, error));
    CV_TRY(scanner_import(scanner, error));
    return keep_house(scanner, error);
}

/* Imports due uploads until `until`, when the lists are read again. */
static int import_until(struct scanner *scanner, int64_t until, struct cv_error *error)
{
    while (!cv_daemon_is_stopping(&scanner->daemon) && cv_monotonic_ms() < until) {
        int64_t due = INT64_MAX;
        CV_TRY(scanner_next_due(scanner, &due, error));
        int64_t now = cv_monotonic_ms();
        int64_t wake = now + scanner->heartbeat_ms < until ? now + scanner->heartbeat_ms : until;
        if (due < wake - now) {
            wake = now + (due > WAIT_LEAST_MS ? due : WAIT_LEAST_MS);
        }
        cv_daemon_wait(&scanner->daemon, scanner->db, wake);
        CV_TRY(scanner_drain(scanner, error));
        CV_TRY(scanner_import(scanner, error));
    }
    return 0;
}

/* A scanner that runs once does not wait for the schema: it will be started again, and the
 * migration may run meanwhile. */
static int check_schema(struct scanner *scanner, struct cv_error *error)
{
    char reason[CV_SCHEMA_REASON_SIZE];
    int result = cv_queue_check_schema(scanner->db, reason, error);
    return result == CV_QUEUE_SCHEMA ? cv_fail(error, CV_ERROR_SERVER, "%s", reason) : result;
}

/* Whether the store can be read. A wrong key, right or bucket is a permanent error for a scanner
 * that runs once, because an immediate retry would not help. A scanner that runs on and on waits
 * until it is corrected. */
static int probe_once(struct scanner *scanner, struct cv_error *error)
{
    int result = cv_store_probe(scanner->store, CV_STORE_READ, error);
    if (result < 0 &&
        (error->type == CV_ERROR_AUTHENTICATION || error->type == CV_ERROR_AUTHORIZATION ||
         error->type == CV_ERROR_CONFIGURATION)) {
        error->verdict = CV_VERDICT_STOP;
    }
    return result;
}

static int run_once(struct scanner *scanner, struct cv_error *error)
{
    CV_TRY(check_schema(scanner, error));
    CV_TRY(probe_once(scanner, error));
    CV_TRY(pass(scanner, error));
    for (int i = 0; i < SETTLE_LOOKS; i++) {
        int64_t due = INT64_MAX;
        CV_TRY(scanner_next_due(scanner, &due, error));
        if (due > scanner->settle_ms || due > ONCE_WAIT_MS) {
            break;
        }
        cv_daemon_wait(&scanner->daemon, scanner->db, cv_monotonic_ms() + (due > 0 ? due : 0));
        CV_TRY(scanner_import(scanner, error));
    }
    return 0;
}

static int run_loop(struct scanner *scanner, double interval_s, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && !cv_daemon_is_stopping(&scanner->daemon)) {
        struct cv_error failure;
        int64_t until = cv_monotonic_ms() + (int64_t)(interval_s * 1000);
        int looked = cv_daemon_wait_for_schema(&scanner->daemon, scanner->db, &failure);
        if (looked == 0) { /* if the store is gone, every original would look missing */
            looked = cv_store_probe(scanner->store, CV_STORE_READ, &failure);
        }
        if (looked == 0) {
            cv_daemon_set_reason(&scanner->daemon, NULL);
            looked = pass(scanner, &failure);
        }
        looked = looked ? looked : import_until(scanner, until, &failure);
        if (looked < 0) {
            /* The database and the store may go away and come back; the scanner loses nothing by that. */
            result = cv_daemon_recover(&scanner->daemon, scanner->db, &failure, error);
            cv_probe_set_reason(scanner->daemon.probe,
                                failure.environment ? failure.message : NULL);
            cv_daemon_wait(&scanner->daemon, scanner->db, until);
        }
    }
    cv_daemon_leave(&scanner->daemon, job_type);
    return result;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    const struct cv_option known[] = {
        {"interval", .decimal = &options->interval_s, .least = 0.1, .most = 86400},
        {"pages", .integer = &options->pages, .least = 1, .most = PAGES_MAX},
        {"events", .flag = &options->events},
        {"listen", .text = &options->listen, .variable = "CORTANA_LISTEN"},
    };
    const struct cv_program program = {name, usage, known, CV_COUNT(known)};
    return cv_parse_options(&program, argc, argv, ret_exit);
}

static void scanner_deinit(struct scanner *scanner)
{
    cv_db_close(scanner->db);
    cv_store_close(scanner->store);
    cv_daemon_deinit(&scanner->daemon);
}
CV_DEFINE_CLEANUP_ADDRESS(struct scanner, scanner_deinit)

static int connect_scanner(void *opaque, struct cv_error *error)
{
    struct scanner *scanner = opaque;
    const struct cv_daemon_db_params params = {.channel = "cv_uploads"};
    return cv_daemon_connect(&scanner->daemon, &params, &scanner->db, error);
}

static int open_scanner(struct scanner *scanner, struct cv_error *error)
{
    CV_TRY(cv_env_int("CORTANA_SETTLE_MS", SETTLE_MS, SETTLE_LEAST_MS, SETTLE_MOST_MS,
                      &scanner->settle_ms, error));
    CV_TRY(cv_env_int("CORTANA_HEARTBEAT_MS", HEARTBEAT_MS, HEARTBEAT_LEAST_MS, HEARTBEAT_MOST_MS,
                      &scanner->heartbeat_ms, error));
    CV_TRY(cv_clip_days(&scanner->clip_days, error));
    CV_TRY(cv_frame_days(&scanner->frame_days, error));
    CV_TRY(cv_store_job_log_days(&scanner->log_days, error));
    CV_TRY(cv_store_output_days(&scanner->output_days, error));
    scanner->owner_id = cv_env("CORTANA_OWNER", NULL);
    if (scanner->owner_id && !cv_is_uuid(scanner->owner_id)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "CORTANA_OWNER is %s, but must be a UUID",
                       scanner->owner_id);
    }
    CV_TRY(cv_store_open(NULL, &scanner->store, error));
    cv_store_set_cancel(scanner->store, scanner->daemon.cancel);
    return scanner->is_loop
               ? cv_daemon_wait_for_database(&scanner->daemon, connect_scanner, scanner, error)
               : connect_scanner(scanner, error);
}

static int run(const struct options *options, int64_t *ret_unreadable, struct cv_error *error)
{
    cv_auto(scanner_deinit) struct scanner scanner = {
        .max_pages = options->pages,
        .is_loop = options->interval_s > 0 && !options->events,
    };
    const struct cv_daemon_params params = {
        .name = name,
        .listen = options->interval_s > 0 ? options->listen : NULL,
        .stall_ms = STALL_MS,
    };
    int result;
    CV_TRY(cv_daemon_open(&params, &scanner.daemon, error));
    CV_TRY(open_scanner(&scanner, error));
    if (options->events) {
        result = check_schema(&scanner, error);
        result = result ? result : scanner_events(&scanner, stdin, ret_unreadable, error);
    } else if (scanner.is_loop) {
        result = run_loop(&scanner, options->interval_s, error);
    } else {
        result = run_once(&scanner, error);
    }
    cv_log(CV_LOG_INFO, "%lld uploads imported, %lld lists", (long long)scanner.imported,
           (long long)scanner.lists);
    if (result < 0 && cv_daemon_is_stopping(&scanner.daemon)) {
        return 0; /* stopped on request */
    }
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.pages = PAGES};
    struct cv_error error;
    int64_t unreadable = 0;
    int code = CV_EXIT_DONE;
    if (!parse(argc, argv, &options, &code)) {
        return code;
    }
    if (run(&options, &unreadable, &error) < 0) {
        return cv_daemon_exit_code(name, &error);
    }
    return unreadable > 0 ? CV_EXIT_PERMANENT : CV_EXIT_DONE;
}
