/* The scheduler starts due schedules, runs the triggers of events, and does maintenance.
 *
 * All rules are SQL functions (sql/migrations/0013_upkeep_tasks.sql, sql/platform/1003_triggers.sql). Each call is one statement, so that a
 * scheduler that dies leaves nothing locked: any number of them may run, and die, at once. Two threads
 * have a connection each, so that slow maintenance delays no schedule.
 */
#include "common/daemon/daemon.h"
#include "common/queue/queue.h"

#define SCHEDULER_JOB_TYPE "scheduler" /* in its row of the list of workers */

/* One of the two threads: a connection and its work. */
struct scheduler_part {
    struct cv_daemon *daemon;
    int64_t poll_ms;     /* the longest time between two rounds */
    const char *name;    /* also of the connection */
    const char *channel; /* notifications that start a round; NULL: none */
    int64_t statement_ms;
    /* Does the work that is due; *ret_wait_ms is the time until the next round, of which at most
     * poll_ms are waited. */
    int (*round)(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error);
    struct cv_db *db;
    bool is_once;      /* runs one round only, so it has no row in the list of workers */
    int64_t schema_at; /* monotonic: when to check the schema next */
    int64_t nodes_at;  /* monotonic: when to look for nodes next */
};

/* ---- what is due --------------------------------------------------------------------------------- */

/* Starts due schedules and runs the triggers of events. */
static int scheduler_fire(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(part->db, &rows, error, "SELECT * FROM scheduler_tick()"));
    int64_t fired = cv_db_int(rows, 0, "fired", 0);
    int64_t dispatched = cv_db_int(rows, 0, "dispatched", 0);
    int64_t failed = cv_db_int(rows, 0, "failed", 0);
    if (fired > 0 || dispatched > 0) {
        cv_log(CV_LOG_INFO, "started %lld schedules, ran the triggers of %lld events",
               (long long)fired, (long long)dispatched);
    }
    if (failed > 0) {
        cv_log(CV_LOG_WARN, "%lld triggers failed: cortana triggers says why", (long long)failed);
    }
    *ret_wait_ms = cv_db_int(rows, 0, "wait_ms", INT64_MAX);
    return 0;
}

/* ---- upkeep -------------------------------------------------------------------------------------- */

enum {
    TASKS_A_ROUND = 32,    /* more than there are, so that all due tasks run and the loop ends */
    NODES_MS = 30 * 1000,  /* between two checks whether nodes must be woken */
    REPORT_MS = 60 * 1000, /* stale after five minutes, like a worker */
};

static void log_node(const char *node, const struct cv_error *failure)
{
    if (failure) {
        cv_log(CV_LOG_WARN, "node %s: %s", node, failure->message);
    } else {
        cv_log(CV_LOG_INFO, "node %s is woken", node);
    }
}

/* One statement per task: each is its own transaction, and its lock keeps other schedulers from
 * running the task at the same time. */
static int do_tasks(struct scheduler_part *part, struct cv_error *error)
{
    for (int i = 0; i < TASKS_A_ROUND; i++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        if (cv_daemon_is_stopping(part->daemon)) {
            return 0;
        }
        CV_TRY(cv_db_run(part->db, &rows, error,
                         "SELECT u.task, t.took_ms, t.last_error FROM run_upkeep() AS u (task)"
                         " LEFT JOIN upkeep_tasks t ON t.name = u.task"));
        const char *task = cv_db_text(rows, 0, "task");
        if (!task) {
            return 0;
        }
        cv_log(CV_LOG_DEBUG, "upkeep: %s", task);
    }
    return 0;
}

/* Logs the last failure of each task, which is stored in the task's row. Called once per round. */
static int log_failures(struct scheduler_part *part, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(part->db, &rows, error,
                     "SELECT name, last_error FROM upkeep_tasks WHERE last_error IS NOT NULL"
                     " ORDER BY name"));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        cv_log(CV_LOG_WARN, "upkeep: %s: %s", cv_db_text(rows, i, "name"),
               cv_db_text(rows, i, "last_error"));
    }
    return 0;
}

/* Runs due maintenance tasks, wakes sleeping nodes, and updates this scheduler's row in the list
 * of workers. */
static int scheduler_keep(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error)
{
    int64_t now = cv_monotonic_ms();
    CV_TRY(do_tasks(part, error));
    if (!part->is_once && now >= part->daemon->report_at) {
        CV_TRY(cv_daemon_report(part->daemon, part->db, SCHEDULER_JOB_TYPE, REPORT_MS, error));
        CV_TRY(log_failures(part, error));
    }
    if (now >= part->nodes_at) {
        part->nodes_at = now + NODES_MS;
        CV_TRY(cv_queue_wake_nodes(part->db, log_node, error));
    }
    *ret_wait_ms = INT64_MAX;
    return 0;
}

/* ---- a part's loop ------------------------------------------------------------------------------- */

enum {
    WAIT_LEAST_MS = 20,    /* between two rounds, even if much is due */
    SCHEMA_MS = 30 * 1000, /* between two checks of the schema */
};

static int scheduler_open(struct scheduler_part *part, struct cv_error *error)
{
    const struct cv_daemon_db_params params = {part->name, part->channel, part->statement_ms};
    return cv_daemon_connect(part->daemon, &params, &part->db, error);
}

static void wait_for(struct scheduler_part *part, int64_t wait_ms)
{
    int64_t wait = wait_ms < part->poll_ms ? wait_ms : part->poll_ms;
    wait = wait > WAIT_LEAST_MS ? wait : WAIT_LEAST_MS;
    cv_daemon_wait(part->daemon, part->db, cv_monotonic_ms() + wait);
}

/* Checks from time to time whether the schema still fits. */
static int watch_schema(struct scheduler_part *part, struct cv_error *error)
{
    if (cv_monotonic_ms() < part->schema_at) {
        return 0;
    }
    CV_TRY(cv_daemon_wait_for_schema(part->daemon, part->db, error));
    part->schema_at = cv_monotonic_ms() + SCHEMA_MS;
    return 0;
}

/* Runs rounds until the cancel object is raised. Waits while the database is away; ends with a
 * failure that waiting cannot cure. */
static int scheduler_run(struct scheduler_part *part, struct cv_error *error)
{
    while (!cv_daemon_is_stopping(part->daemon)) {
        struct cv_error failure;
        int64_t wait_ms = 0;
        int done = watch_schema(part, &failure);
        done = done ? done : part->round(part, &wait_ms, &failure);
        if (done == 0) {
            cv_daemon_set_reason(part->daemon, NULL);
            wait_for(part, wait_ms);
        } else {
            CV_TRY(cv_daemon_recover(part->daemon, part->db, &failure, error));
        }
    }
    return 0;
}

static const char program[] = "scheduler";

static const char usage[] =
    "usage: scheduler [--poll-ms N] [--listen ADDR:PORT [--metrics-fleet]] [--once]\n"
    "\n"
    "Runs schedules and triggers, and does maintenance. Any number of schedulers may run, "
    "anywhere:\n"
    "each time of a schedule and each event counts once.\n"
    "\n"
    "  --poll-ms N      longest time between two rounds, ms (1000); notifications start one "
    "earlier\n"
    "  --listen A:P     answer GET /healthz, /readyz and /metrics there (CORTANA_LISTEN)\n"
    "  --metrics-fleet  /metrics also shows the whole fleet\n"
    "  --once           do what is due now, and exit\n";

enum {
    POLL_MS = 1000,
    POLL_MIN_MS = 50,
    POLL_MAX_MS = 60 * 1000,
    FIRE_STATEMENT_MS =
        30 * 1000, /* a round takes milliseconds; after this time the network is cut */
    KEEP_STATEMENT_MS = 15 * 60 * 1000, /* removing words of a large library is slow */
    ONCE_ROUNDS = 1000,                 /* of a hundred events each */
    STALL_MS =
        5 * 60 * 1000, /* a round is limited by the time of its statements, or of a reconnect */
};

struct options {
    int64_t poll_ms;
    bool is_once;
    const char *listen; /* "": nowhere */
    bool shows_fleet;
};

/* ---- both parts ------------------------------------------------------------------------------ */

struct keeper {
    struct scheduler_part *part;
    struct cv_error error;
    int result;
};

static void *run_keeper(void *opaque)
{
    struct keeper *keeper = opaque;
    keeper->result = scheduler_run(keeper->part, &keeper->error);
    if (keeper->result != 0) {
        cv_cancel_request(keeper->part->daemon->cancel, CV_CANCEL_ABORT);
    }
    return NULL;
}

static int run_both(struct scheduler_part *fire, struct scheduler_part *keep,
                    struct cv_error *error)
{
    struct keeper keeper = {.part = keep};
    pthread_t thread;
    CV_TRY(cv_thread_start(&thread, run_keeper, &keeper, error));
    int result = scheduler_run(fire, error);
    cv_cancel_request(fire->daemon->cancel, CV_CANCEL_ABORT);
    (void)pthread_join(thread, NULL);
    if (result == 0 && keeper.result != 0) {
        *error = keeper.error;
        result = keeper.result;
    }
    cv_daemon_leave(keep->daemon, SCHEDULER_JOB_TYPE);
    return result;
}

static int run_once(struct scheduler_part *fire, struct scheduler_part *keep,
                    struct cv_error *error)
{
    int64_t wait_ms = 0;
    keep->is_once = true;
    for (int i = 0; i < ONCE_ROUNDS && wait_ms == 0; i++) {
        CV_TRY(scheduler_fire(fire, &wait_ms, error));
    }
    return scheduler_keep(keep, &wait_ms, error);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct parts {
    struct cv_daemon daemon;
    struct cv_daemon keeping; /* the same without a listener: only the other thread reports to it */
    struct scheduler_part fire, keep;
};

static void parts_deinit(struct parts *parts)
{
    cv_db_close(parts->fire.db);
    cv_db_close(parts->keep.db);
    cv_daemon_deinit(&parts->daemon);
}
CV_DEFINE_CLEANUP_ADDRESS(struct parts, parts_deinit)

static int open_both(void *opaque, struct cv_error *error)
{
    struct parts *parts = opaque;
    CV_TRY(scheduler_open(&parts->fire, error));
    int result = scheduler_open(&parts->keep, error);
    if (result != 0) { /* with only one connection this process cannot work; leave it to others */
        cv_db_close(parts->fire.db);
        parts->fire.db = NULL;
    }
    return result;
}

static int run(const struct options *options, struct cv_error *error)
{
    cv_auto(parts_deinit) struct parts parts = {.fire = {.db = NULL}};
    const struct cv_daemon_params params = {
        .name = program,
        .listen = options->is_once ? NULL : options->listen,
        .stall_ms = STALL_MS,
        .shows_fleet = options->shows_fleet,
    };
    CV_TRY(cv_daemon_open(&params, &parts.daemon, error));
    parts.keeping = parts.daemon;
    parts.keeping.probe = NULL;
    parts.fire = (struct scheduler_part){.daemon = &parts.daemon,
                                         .poll_ms = options->poll_ms,
                                         .name = program,
                                         .channel = "cv_events",
                                         .statement_ms = FIRE_STATEMENT_MS,
                                         .round = scheduler_fire};
    parts.keep = (struct scheduler_part){.daemon = &parts.keeping,
                                         .poll_ms = options->poll_ms,
                                         .name = "scheduler upkeep",
                                         .statement_ms = KEEP_STATEMENT_MS,
                                         .round = scheduler_keep};
    CV_TRY(options->is_once ? open_both(&parts, error)
                            : cv_daemon_wait_for_database(&parts.daemon, open_both, &parts, error));
    if (options->is_once) {
        return run_once(&parts.fire, &parts.keep, error);
    }
    cv_log(CV_LOG_INFO, "%s %s", program, CV_VERSION);
    int result = run_both(&parts.fire, &parts.keep, error);
    cv_log(CV_LOG_INFO, "stopped");
    return result;
}

static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    const struct cv_option known[] = {
        {"poll-ms", .integer = &options->poll_ms, .least = POLL_MIN_MS, .most = POLL_MAX_MS},
        {"listen", .text = &options->listen, .variable = "CORTANA_LISTEN"},
        {"metrics-fleet", .flag = &options->shows_fleet},
        {"once", .flag = &options->is_once},
    };
    const struct cv_program self = {program, usage, known, CV_COUNT(known)};
    return cv_parse_options(&self, argc, argv, ret_exit);
}

int main(int argc, char **argv)
{
    struct options options = {.poll_ms = POLL_MS};
    int code = CV_EXIT_DONE;
    struct cv_error error;
    if (!parse(argc, argv, &options, &code)) {
        return code;
    }
    if (run(&options, &error) != 0) {
        return cv_daemon_exit_code(program, &error);
    }
    return CV_EXIT_DONE;
}
