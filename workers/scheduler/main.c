#include "workers/scheduler/scheduler.h"

#include <poll.h>
#include <pthread.h>

static const char program[] = "scheduler";

static const char usage[] =
    "usage: scheduler [--poll-ms N] [--listen ADDR:PORT [--metrics-fleet]] [--once]\n"
    "\n"
    "Fires schedules and triggers, and does what has to be done from time to time. Any number may\n"
    "run, anywhere: each instant of a schedule and each event counts once.\n"
    "\n"
    "  --poll-ms N      look at least this often (1000); notifications wake it earlier\n"
    "  --listen A:P     answer GET /healthz, /readyz and /metrics there (CORTANA_LISTEN)\n"
    "  --metrics-fleet  /metrics shows the whole fleet, too\n"
    "  --once           do what is due now, and end\n";

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
    int failure = pthread_create(&thread, NULL, run_keeper, &keeper);
    if (failure != 0) {
        return cv_fail_errno(error, failure, "cannot start a thread");
    }
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

static int open_both(struct parts *parts, struct cv_error *error)
{
    CV_TRY(scheduler_open(&parts->fire, error));
    int result = scheduler_open(&parts->keep, error);
    if (result != 0) { /* with only one connection this process cannot work; leave it to others */
        cv_db_close(parts->fire.db);
        parts->fire.db = NULL;
    }
    return result;
}

/* Waits for a database that is away or has no free connections. Also returns 0 when the scheduler
 * is to stop. */
static int open_patiently(struct parts *parts, struct cv_error *error)
{
    enum { PAUSE_LEAST_MS = 250, PAUSE_MOST_MS = 5000 };
    struct cv_daemon *daemon = &parts->daemon;
    for (int64_t pause = PAUSE_LEAST_MS;; pause *= pause < PAUSE_MOST_MS ? 2 : 1) {
        int result = open_both(parts, error);
        if (result == 0 || cv_daemon_is_stopping(daemon)) {
            return 0;
        }
        if (error->verdict != CV_VERDICT_RETRY) {
            return result;
        }
        if (pause == PAUSE_LEAST_MS) {
            cv_log(CV_LOG_WARN, "waiting for the database: %s", error->message);
        }
        cv_probe_set_reason(daemon->probe, error->message);
        cv_probe_beat(daemon->probe);
        struct pollfd stop = {.fd = cv_cancel_fd(daemon->cancel), .events = POLLIN};
        (void)poll(&stop, 1, (int)(pause / 2 + arc4random_uniform((uint32_t)pause)));
    }
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
    CV_TRY(options->is_once ? open_both(&parts, error) : open_patiently(&parts, error));
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
