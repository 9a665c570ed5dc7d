#include "workers/scanner/scanner.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

static const char name[] = "scanner-worker";

static const char usage[] =
    "usage: scanner-worker [--interval SECONDS] [--pages N] [--listen ADDR:PORT]\n"
    "       scanner-worker --events < notifications\n"
    "\n"
    "Finds videos under inbox/ and videos/original/ of the store, and starts their way through\n"
    "the pipeline, once each. Any number may run at once.\n"
    "\n"
    "  --interval SECONDS  look again and again, until SIGTERM; else one look, and an end\n"
    "  --pages N           lists of 1,000 originals in one look (20); the next look goes on there\n"
    "  --listen ADDR:PORT  with --interval: answer GET /healthz, /readyz and /metrics there\n"
    "                      (CORTANA_LISTEN)\n"
    "  --events            read notifications of an S3 store, one JSON text a line, until the end\n"
    "                      of the input; exit 65 when lines could not be read\n";

enum {
    PAGES = 20,
    PAGES_MAX = 1000000,
    SETTLE_MS = 5000,
    SETTLE_LEAST_MS = 100,
    SETTLE_MOST_MS = 60 * 60 * 1000,
    SETTLE_LOOKS = 3,         /* of a scanner that runs once: what still grows is for the next */
    ONCE_WAIT_MS = 60 * 1000, /* the longest that it waits for one to stand still */
    RECONNECT_MS = 30 * 1000, /* at one go, between looks at the cancel object */
    CLIPS_A_PASS = 1000,
    WAIT_LEAST_MS = 50,        /* between two looks, however much is due */
    WAIT_MOST_MS = 10 * 1000,  /* between two signs of life */
    STALL_MS = 10 * 60 * 1000, /* an upload of some hundred gigabytes may be copied in one step */
    SCHEMA_MS = 2000,          /* between two looks at a schema that does not fit */
    HEARTBEAT_MS = 60 * 1000,  /* people call a worker stale that is silent for five minutes */
    HEARTBEAT_LEAST_MS = 100,
    HEARTBEAT_MOST_MS = 60 * 60 * 1000,
};

struct options {
    double interval_s; /* 0: once */
    int64_t pages;
    bool events;
    const char *listen; /* "": nowhere */
};

static struct cv_cancel *stop_request;
static struct cv_probe *told_of_stop;

static void on_stop_signal(int number)
{
    (void)number;
    cv_cancel_request(stop_request, CV_CANCEL_ABORT);
    cv_probe_drain(told_of_stop);
}

/* ---- one pass -------------------------------------------------------------------------------- */

static int keep_house(struct scanner *scanner, struct cv_error *error)
{
    int64_t removed = 0;
    int result = cv_clips_expire(scanner->db, scanner->store, scanner->clip_days, CLIPS_A_PASS,
                                 scanner->cancel, &removed, error);
    if (result == 0 && removed > 0) {
        cv_log(CV_LOG_INFO, "%lld clips have had their time", (long long)removed);
    }
    return result ? result : cv_db_run(scanner->db, NULL, error, "SELECT prune_object_notes()");
}

static int pass(struct scanner *scanner, struct cv_error *error)
{
    int result = scanner_drain(scanner, error);
    result = result ? result : scanner_note(scanner, error);
    result = result ? result : scanner_look(scanner, error);
    return result ? result : keep_house(scanner, error);
}

/* Until `until`, a notification or a stop; what has come is left for scanner_look. */
static void wait_until(struct scanner *scanner, int64_t until)
{
    for (;;) {
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        struct cv_error error;
        int64_t left = until - cv_monotonic_ms();
        cv_probe_beat(scanner->probe);
        if (left <= 0 || cv_cancel_level(scanner->cancel) != CV_CANCEL_NONE ||
            (cv_db_is_connected(scanner->db) &&
             cv_db_notification(scanner->db, &channel, &payload, &error) == 1)) {
            return;
        }
        if (!cv_db_is_connected(scanner->db)) {
            cv_probe_set_reason(scanner->probe, "no connection to the database");
        }
        struct pollfd polls[2] = {
            {.fd = cv_cancel_fd(scanner->cancel), .events = POLLIN},
            {.fd = cv_db_fd(scanner->db), .events = POLLIN},
        };
        (void)poll(polls, cv_db_is_connected(scanner->db) ? 2 : 1,
                   left < WAIT_MOST_MS ? (int)left : WAIT_MOST_MS);
    }
}

/* Looks at what is due until `until`, when the lists are read again. */
static int look_until(struct scanner *scanner, int64_t until, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && cv_cancel_level(scanner->cancel) == CV_CANCEL_NONE &&
           cv_monotonic_ms() < until) {
        int64_t due = INT64_MAX;
        result = scanner_next_due(scanner, &due, error);
        int64_t now = cv_monotonic_ms();
        int64_t wake = now + scanner->heartbeat_ms < until ? now + scanner->heartbeat_ms : until;
        if (due < wake - now) {
            wake = now + (due > WAIT_LEAST_MS ? due : WAIT_LEAST_MS);
        }
        if (result == 0) {
            wait_until(scanner, wake);
            result = scanner_drain(scanner, error);
            result = result ? result : scanner_look(scanner, error);
        }
    }
    return result;
}

static int run_once(struct scanner *scanner, struct cv_error *error)
{
    int result = pass(scanner, error);
    for (int i = 0; result == 0 && i < SETTLE_LOOKS; i++) {
        int64_t due = INT64_MAX;
        result = scanner_next_due(scanner, &due, error);
        if (result != 0 || due > scanner->settle_ms || due > ONCE_WAIT_MS) {
            break;
        }
        wait_until(scanner, cv_monotonic_ms() + (due > 0 ? due : 0));
        result = scanner_look(scanner, error);
    }
    return result;
}

/* The database may go away and come back; nothing of ours is lost by that. */
static int recover(struct scanner *scanner, const struct cv_error *failure, struct cv_error *error)
{
    if (cv_cancel_level(scanner->cancel) != CV_CANCEL_NONE) {
        return 0;
    }
    *error = *failure;
    if (failure->verdict == CV_VERDICT_STOP) {
        return -1;
    }
    cv_log_error(failure, "this look ends early");
    while (!cv_db_is_connected(scanner->db) && cv_cancel_level(scanner->cancel) == CV_CANCEL_NONE) {
        cv_probe_set_reason(scanner->probe, failure->message);
        int result = cv_db_reconnect(scanner->db, RECONNECT_MS, error);
        cv_probe_beat(scanner->probe);
        if (result < 0 && error->verdict == CV_VERDICT_STOP) {
            return result;
        }
    }
    cv_probe_set_reason(scanner->probe, NULL);
    return 0;
}

/* Waits for a schema that this program may work on. */
static int wait_for_schema(struct scanner *scanner, struct cv_error *error)
{
    char said[CV_SCHEMA_REASON_SIZE] = "";
    while (cv_cancel_level(scanner->cancel) == CV_CANCEL_NONE) {
        char reason[CV_SCHEMA_REASON_SIZE] = "";
        int result = cv_queue_check_schema(scanner->db, reason, error);
        if (result != CV_QUEUE_SCHEMA) {
            return result;
        }
        if (strcmp(said, reason) != 0) {
            cv_log(CV_LOG_WARN, "%s", reason);
            (void)memcpy(said, reason, sizeof(said));
        }
        cv_probe_set_reason(scanner->probe, reason);
        wait_until(scanner, cv_monotonic_ms() + SCHEMA_MS);
    }
    return 0;
}

static int run_loop(struct scanner *scanner, double interval_s, struct cv_error *error)
{
    int result = 0;
    while (result == 0 && cv_cancel_level(scanner->cancel) == CV_CANCEL_NONE) {
        struct cv_error failure;
        int64_t until = cv_monotonic_ms() + (int64_t)(interval_s * 1000);
        int looked = wait_for_schema(scanner, &failure);
        if (looked == 0) {
            cv_probe_set_reason(scanner->probe, NULL);
            looked = pass(scanner, &failure);
        }
        looked = looked ? looked : look_until(scanner, until, &failure);
        if (looked < 0) {
            result = recover(scanner, &failure, error);
            wait_until(scanner, until);
        }
    }
    scanner_leave(scanner);
    return result;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    static const struct option long_options[] = {
        {"interval", required_argument, NULL, 'i'},
        {"pages", required_argument, NULL, 'p'},
        {"events", no_argument, NULL, 'e'},
        {"listen", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    bool good = true;
    *ret_exit = CV_EXIT_DONE;
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (option) {
        case 'i':
            good = good && cv_parse_double(optarg, 0.1, 86400, &options->interval_s);
            break;
        case 'p':
            good = good && cv_parse_int(optarg, 1, PAGES_MAX, &options->pages);
            break;
        case 'e':
            options->events = true;
            break;
        case 'l':
            options->listen = optarg;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return false;
        case 'v':
            (void)printf("%s %s\n", name, CV_VERSION);
            return false;
        default:
            good = false;
        }
    }
    if (!good || optind < argc) {
        (void)fprintf(stderr, "%s: wrong arguments\ntry %s --help\n", name, name);
        *ret_exit = CV_EXIT_USAGE;
        return false;
    }
    return true;
}

static int catch_signals(struct cv_cancel *cancel, struct cv_error *error)
{
    stop_request = cancel;
    /* Without SA_RESTART: a read of --events ends, too. */
    struct sigaction action = {.sa_handler = on_stop_signal};
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0 ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return cv_fail_errno(error, errno, "cannot catch SIGTERM");
    }
    return 0;
}

static void scanner_deinit(struct scanner *scanner)
{
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    told_of_stop = NULL;
    cv_probe_stop(scanner->probe);
    cv_db_close(scanner->db);
    cv_store_close(scanner->store);
    cv_cancel_free(scanner->cancel);
}
CV_DEFINE_CLEANUP_ADDRESS(struct scanner, scanner_deinit)

static int open_scanner(struct scanner *scanner, struct cv_error *error)
{
    int result = cv_cancel_new(&scanner->cancel, error);
    result = result ? result : catch_signals(scanner->cancel, error);
    result = result ? result
                    : cv_env_int("CORTANA_SETTLE_MS", SETTLE_MS, SETTLE_LEAST_MS, SETTLE_MOST_MS,
                                 &scanner->settle_ms, error);
    result = result ? result
                    : cv_env_int("CORTANA_HEARTBEAT_MS", HEARTBEAT_MS, HEARTBEAT_LEAST_MS,
                                 HEARTBEAT_MOST_MS, &scanner->heartbeat_ms, error);
    result = result ? result : cv_clip_days(&scanner->clip_days, error);
    result = result ? result : cv_store_open(NULL, &scanner->store, error);
    if (result != 0) {
        return result;
    }
    cv_store_set_cancel(scanner->store, scanner->cancel);
    struct cv_db_params params = {.application_name = name, .cancel = scanner->cancel};
    result = cv_db_open(&params, &scanner->db, error);
    if (result != 0) {
        return result;
    }
    struct cv_error reason;
    if (cv_db_listen(scanner->db, "cv_uploads", &reason) != 0) {
        cv_log(CV_LOG_WARN, "polling only: %s", reason.message); /* a pooler that knows no LISTEN */
    }
    return 0;
}

static int start_probe(struct scanner *scanner, const struct options *options,
                       struct cv_error *error)
{
    struct cv_probe_params params = {name, options->listen, STALL_MS};
    if (!options->listen[0] || options->interval_s <= 0) {
        return 0;
    }
    int result = cv_probe_start(&params, &scanner->probe, error);
    if (result == 0) {
        told_of_stop = scanner->probe;
        cv_log(CV_LOG_INFO, "probes and metrics at port %d", cv_probe_port(scanner->probe));
    }
    return result;
}

static int run(const struct options *options, int64_t *ret_unreadable, struct cv_error *error)
{
    cv_auto(scanner_deinit) struct scanner scanner = {.max_pages = options->pages};
    int result = start_probe(&scanner, options, error);
    result = result ? result : open_scanner(&scanner, error);
    if (result != 0) {
        return result;
    }
    if (options->events) {
        result = scanner_events(&scanner, stdin, ret_unreadable, error);
    } else if (options->interval_s > 0) {
        scanner.is_loop = true;
        result = run_loop(&scanner, options->interval_s, error);
    } else {
        result = run_once(&scanner, error);
    }
    cv_log(CV_LOG_INFO, "%lld uploads taken, %lld lists", (long long)scanner.taken,
           (long long)scanner.lists);
    if (result < 0 && cv_cancel_level(scanner.cancel) != CV_CANCEL_NONE) {
        return 0; /* asked to end, and nothing is lost */
    }
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.pages = PAGES, .listen = cv_env("CORTANA_LISTEN", "")};
    struct cv_error error;
    int64_t unreadable = 0;
    int code = CV_EXIT_DONE;
    if (!parse(argc, argv, &options, &code)) {
        return code;
    }
    /* No stage of this user may read our environment, where DATABASE_URL stands. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    cv_log_set_context(&(const struct cv_log_context){.worker_id = name});
    if (run(&options, &unreadable, &error) < 0) {
        cv_log_error(&error, name);
        return error.verdict == CV_VERDICT_RETRY       ? CV_EXIT_RETRY
               : error.verdict == CV_VERDICT_PERMANENT ? CV_EXIT_PERMANENT
                                                       : CV_EXIT_STOP;
    }
    return unreadable > 0 ? CV_EXIT_PERMANENT : CV_EXIT_DONE;
}
