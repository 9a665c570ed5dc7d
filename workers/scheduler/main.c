#include "workers/scheduler/scheduler.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

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
    FIRE_STATEMENT_MS = 30 * 1000,      /* a round takes milliseconds; then the network is cut */
    KEEP_STATEMENT_MS = 15 * 60 * 1000, /* the words of a large library take their time */
    LAST_STATEMENT_MS = 3 * 1000,       /* after a stop: to say that we are gone */
    ONCE_ROUNDS = 1000,                 /* of a hundred events each */
    STALL_MS = 5 * 60 * 1000, /* a round ends by its statements' time, or by a reconnect's */
};

struct options {
    int64_t poll_ms;
    bool is_once;
    const char *listen; /* "": nowhere */
    bool metrics_fleet;
};

static struct cv_cancel *stop_request;
static struct cv_probe *told_of_stop;

static void on_stop_signal(int number)
{
    (void)number;
    cv_probe_drain(told_of_stop);
    cv_cancel_request(stop_request, CV_CANCEL_ABORT);
}

static int catch_signals(struct cv_cancel *cancel, struct cv_error *error)
{
    stop_request = cancel;
    const struct sigaction action = {.sa_handler = on_stop_signal, .sa_flags = SA_RESTART};
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0 ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return cv_fail_errno(error, errno, "cannot catch SIGTERM");
    }
    return 0;
}

static void name_scheduler(struct scheduler *scheduler)
{
    char boot[40] = "unknown";
    cv_auto_file FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && fgets(boot, sizeof(boot), file)) {
        boot[strcspn(boot, "\n")] = '\0';
    }
    if (gethostname(scheduler->host, sizeof(scheduler->host) - 1) != 0) {
        (void)snprintf(scheduler->host, sizeof(scheduler->host), "unknown");
    }
    (void)snprintf(scheduler->id, sizeof(scheduler->id), "%s:%d:%s", scheduler->host, (int)getpid(),
                   boot);
}

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
        cv_cancel_request(keeper->part->scheduler->cancel, CV_CANCEL_ABORT);
    }
    return NULL;
}

/* On a connection of its own: those of the parts end their waits at a stop. */
static void say_goodbye(struct scheduler *scheduler)
{
    struct scheduler last = *scheduler;
    last.cancel = NULL;
    struct scheduler_part part = {
        .scheduler = &last, .name = program, .statement_ms = LAST_STATEMENT_MS};
    struct cv_error error;
    if (scheduler_open(&part, &error) != 0 || scheduler_report(&part, "stopped", &error) != 0) {
        cv_log(CV_LOG_DEBUG, "cannot say that it is gone: %s", error.message);
    }
    cv_db_close(part.db);
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
    cv_cancel_request(fire->scheduler->cancel, CV_CANCEL_ABORT);
    (void)pthread_join(thread, NULL);
    if (result == 0 && keeper.result != 0) {
        *error = keeper.error;
        result = keeper.result;
    }
    say_goodbye(fire->scheduler);
    return result;
}

static int run_once(struct scheduler_part *fire, struct scheduler_part *keep,
                    struct cv_error *error)
{
    int64_t wait_ms = 0;
    int result = 0;
    keep->report_at = INT64_MAX; /* it is gone before anybody looks */
    for (int i = 0; result == 0 && i < ONCE_ROUNDS && wait_ms == 0; i++) {
        result = scheduler_fire(fire, &wait_ms, error);
    }
    return result ? result : scheduler_keep(keep, &wait_ms, error);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct parts {
    struct scheduler scheduler;
    struct scheduler_part fire, keep;
    struct cv_fleet *fleet;
};

static void parts_deinit(struct parts *parts)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    told_of_stop = NULL;
    cv_fleet_stop(parts->fleet);
    cv_probe_stop(parts->fire.probe);
    cv_db_close(parts->fire.db);
    cv_db_close(parts->keep.db);
    cv_cancel_free(parts->scheduler.cancel);
}
CV_DEFINE_CLEANUP_ADDRESS(struct parts, parts_deinit)

static int start_probe(struct parts *parts, const struct options *options, struct cv_error *error)
{
    const struct cv_probe_params params = {program, options->listen, STALL_MS};
    int64_t interval = 0;
    if (!options->listen[0] || options->is_once) {
        return 0;
    }
    int result = cv_probe_start(&params, &parts->fire.probe, error);
    if (result != 0) {
        return result;
    }
    told_of_stop = parts->fire.probe;
    cv_log(CV_LOG_INFO, "probes and metrics at port %d", cv_probe_port(parts->fire.probe));
    if (!options->metrics_fleet) {
        return 0;
    }
    result = cv_fleet_interval(&interval, error);
    return result ? result : cv_fleet_start(parts->fire.probe, interval, &parts->fleet, error);
}

static int open_both(struct parts *parts, struct cv_error *error)
{
    int result = scheduler_open(&parts->fire, error);
    result = result ? result : scheduler_open(&parts->keep, error);
    if (result != 0) { /* one connection alone would be of use to others */
        cv_db_close(parts->fire.db);
        parts->fire.db = NULL;
    }
    return result;
}

/* Waits for a database that is away or has no room; returns 0 at a stop, too. */
static int open_patiently(struct parts *parts, struct cv_error *error)
{
    enum { PAUSE_LEAST_MS = 250, PAUSE_MOST_MS = 5000 };
    struct cv_cancel *cancel = parts->scheduler.cancel;
    for (int64_t pause = PAUSE_LEAST_MS;; pause *= pause < PAUSE_MOST_MS ? 2 : 1) {
        int result = open_both(parts, error);
        if (result == 0 || cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            return 0;
        }
        if (error->verdict != CV_VERDICT_RETRY) {
            return result;
        }
        if (pause == PAUSE_LEAST_MS) {
            cv_log(CV_LOG_WARN, "waiting for the database: %s", error->message);
        }
        if (parts->fire.probe) {
            cv_probe_set_reason(parts->fire.probe, error->message);
            cv_probe_beat(parts->fire.probe);
        }
        struct pollfd stop = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        (void)poll(&stop, 1, (int)(pause / 2 + arc4random_uniform((uint32_t)pause)));
    }
}

static int run(const struct options *options, struct cv_error *error)
{
    cv_auto(parts_deinit) struct parts parts = {.scheduler = {.poll_ms = options->poll_ms}};
    parts.fire = (struct scheduler_part){.scheduler = &parts.scheduler,
                                         .name = program,
                                         .channel = "cv_events",
                                         .statement_ms = FIRE_STATEMENT_MS,
                                         .round = scheduler_fire};
    parts.keep = (struct scheduler_part){.scheduler = &parts.scheduler,
                                         .name = "scheduler upkeep",
                                         .statement_ms = KEEP_STATEMENT_MS,
                                         .round = scheduler_keep};
    name_scheduler(&parts.scheduler);
    int result = cv_cancel_new(&parts.scheduler.cancel, error);
    result = result ? result : catch_signals(parts.scheduler.cancel, error);
    result = result ? result : start_probe(&parts, options, error);
    if (result == 0) {
        result = options->is_once ? open_both(&parts, error) : open_patiently(&parts, error);
    }
    if (result != 0) {
        return result;
    }
    cv_log_set_context(&(const struct cv_log_context){.worker_id = parts.scheduler.id});
    if (options->is_once) {
        return run_once(&parts.fire, &parts.keep, error);
    }
    cv_log(CV_LOG_INFO, "%s %s", program, CV_VERSION);
    result = run_both(&parts.fire, &parts.keep, error);
    cv_log(CV_LOG_INFO, "stopped");
    return result;
}

static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    static const struct option long_options[] = {
        {"poll-ms", required_argument, NULL, 'p'},
        {"listen", required_argument, NULL, 'l'},
        {"metrics-fleet", no_argument, NULL, 'm'},
        {"once", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    bool good = true;
    *ret_exit = CV_EXIT_DONE;
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (option) {
        case 'p':
            good = good && cv_parse_int(optarg, POLL_MIN_MS, POLL_MAX_MS, &options->poll_ms);
            break;
        case 'l':
            options->listen = optarg;
            break;
        case 'm':
            options->metrics_fleet = true;
            break;
        case 'o':
            options->is_once = true;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return false;
        case 'v':
            (void)printf("%s %s\n", program, CV_VERSION);
            return false;
        default:
            good = false;
        }
    }
    if (!good || optind < argc) {
        (void)fprintf(stderr, "%s: wrong arguments\ntry %s --help\n", program, program);
        *ret_exit = CV_EXIT_USAGE;
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.poll_ms = POLL_MS, .listen = cv_env("CORTANA_LISTEN", "")};
    int code = CV_EXIT_DONE;
    struct cv_error error;
    if (!parse(argc, argv, &options, &code)) {
        return code;
    }
    /* No stage of this user may read our environment, where DATABASE_URL stands. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    cv_log_set_context(&(const struct cv_log_context){.worker_id = program});
    if (run(&options, &error) != 0) {
        cv_log_error(&error, program);
        return error.verdict == CV_VERDICT_RETRY ? CV_EXIT_RETRY : CV_EXIT_STOP;
    }
    return CV_EXIT_DONE;
}
