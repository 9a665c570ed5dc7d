#include "common/worker/stage.h"
#include "common/worker/supervisor.h"

#include <getopt.h>
#include <string.h>
#include <sys/prctl.h>

static const char usage[] =
    "usage: %s [--slots N] [--poll-ms N] [--threads N] [--listen ADDR:PORT] [--no-listen]\n"
    "       %s --once [--threads N] [--scratch DIR] [--progress-fd N] < payload.json\n"
    "\n"
    "  without --once   claim \"%s\" jobs and run them until SIGTERM\n"
    "    --slots N        jobs at the same time (1)\n"
    "    --poll-ms N      look for jobs at least this often (2000)\n"
    "    --threads N      threads of each stage (the CPUs, shared by the slots)\n"
    "    --listen A:P     answer GET /healthz, /readyz and /metrics there, 0.0.0.0:9090 say\n"
    "                     (CORTANA_LISTEN)\n"
    "    --metrics-fleet  /metrics shows the whole fleet, too; for one worker or two of a fleet\n"
    "    --no-listen      poll only\n"
    "  --once           run the stage on one payload, print its result\n"
    "    --threads N      threads to use (the CPUs this process may use)\n"
    "    --scratch DIR    an empty directory to work in (a private one, removed at the end)\n"
    "    --progress-fd N  write progress, a JSON object a line, to this descriptor\n";

enum {
    SLOTS_MAX = 256,
    THREADS_MAX = 1024,
    POLL_MIN_MS = 10,
    POLL_MAX_MS = 600000,
    DESCRIPTOR_MAX = 1 << 20,
};

enum option_value {
    OPTION_ONCE = 256,
    OPTION_SCRATCH,
    OPTION_THREADS,
    OPTION_PROGRESS_FD,
    OPTION_BROKER,
    OPTION_BROKER_HOST,
    OPTION_SLOTS,
    OPTION_POLL_MS,
    OPTION_LISTEN,
    OPTION_METRICS_FLEET,
    OPTION_NO_LISTEN,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option long_options[] = {
    {"once", no_argument, NULL, OPTION_ONCE},
    {"scratch", required_argument, NULL, OPTION_SCRATCH},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"progress-fd", required_argument, NULL, OPTION_PROGRESS_FD},
    {"broker", no_argument, NULL, OPTION_BROKER},
    {"broker-host", no_argument, NULL, OPTION_BROKER_HOST},
    {"slots", required_argument, NULL, OPTION_SLOTS},
    {"poll-ms", required_argument, NULL, OPTION_POLL_MS},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"metrics-fleet", no_argument, NULL, OPTION_METRICS_FLEET},
    {"no-listen", no_argument, NULL, OPTION_NO_LISTEN},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static bool read_number(int option, struct cv_worker_options *options)
{
    int64_t number = 0;
    switch (option) {
    case OPTION_THREADS:
        if (!cv_parse_int(optarg, 1, THREADS_MAX, &number)) {
            return false;
        }
        options->threads = (int)number;
        return true;
    case OPTION_PROGRESS_FD:
        if (!cv_parse_int(optarg, 0, DESCRIPTOR_MAX, &number)) {
            return false;
        }
        options->progress_fd = (int)number;
        return true;
    case OPTION_SLOTS:
        if (!cv_parse_int(optarg, 1, SLOTS_MAX, &number)) {
            return false;
        }
        options->slots = (int)number;
        return true;
    case OPTION_POLL_MS:
        return cv_parse_int(optarg, POLL_MIN_MS, POLL_MAX_MS, &options->poll_ms);
    default:
        return false;
    }
}

enum parsed { PARSED_RUN, PARSED_SHOWN, PARSED_WRONG };

static enum parsed parse(const struct cv_stage *stage, int argc, char **argv,
                         struct cv_worker_options *options)
{
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        switch (option) {
        case OPTION_ONCE:
            options->once = true;
            break;
        case OPTION_BROKER: /* these two are what a supervisor says to its children */
            options->has_broker = true;
            break;
        case OPTION_BROKER_HOST:
            options->is_broker_host = true;
            break;
        case OPTION_SCRATCH:
            options->scratch = optarg;
            break;
        case OPTION_LISTEN:
            options->probe_address = optarg;
            break;
        case OPTION_METRICS_FLEET:
            options->metrics_fleet = true;
            break;
        case OPTION_NO_LISTEN:
            options->listen = false;
            break;
        case OPTION_HELP:
            (void)printf(usage, stage->name, stage->name, stage->job_type);
            return PARSED_SHOWN;
        case OPTION_VERSION:
            (void)printf("%s %s\n", stage->name, CV_VERSION);
            return PARSED_SHOWN;
        case '?':
            return PARSED_WRONG;
        default:
            if (!read_number(option, options)) {
                (void)fprintf(stderr, "%s: \"%s\" is not a number in range\n", stage->name, optarg);
                return PARSED_WRONG;
            }
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "%s: unexpected argument \"%s\"\n", stage->name, argv[optind]);
        return PARSED_WRONG;
    }
    return PARSED_RUN;
}

/* Tesseract's OpenMP threads cost more than they bring: a stage does its own threading. libgomp
 * reads this when it is loaded, before main, so the program starts anew with it. */
static void limit_openmp(char **argv)
{
    static const char name[] = "OMP_THREAD_LIMIT";
    if (strcmp(cv_env(name, ""), "1") != 0 && setenv(name, "1", 1) == 0) {
        (void)execv("/proc/self/exe", argv);
        cv_log(CV_LOG_DEBUG, "cannot start anew with %s=1: %s", name, strerror(errno));
    }
}

int cv_worker_main(const struct cv_stage *stage, int argc, char **argv)
{
    struct cv_worker_options options = {
        .progress_fd = -1,
        .slots = 1,
        .poll_ms = 2000,
        .listen = true,
        .probe_address = cv_env("CORTANA_LISTEN", ""),
    };
    switch (parse(stage, argc, argv, &options)) {
    case PARSED_WRONG:
        (void)fprintf(stderr, "try %s --help\n", stage->name);
        return CV_EXIT_USAGE;
    case PARSED_SHOWN:
        return 0;
    case PARSED_RUN:
        break;
    }
    if (options.is_broker_host) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        cv_broker_host(CV_BROKER_HOST_FD);
        return 0;
    }
    if (options.once) {
        limit_openmp(argv);
        return cv_worker_once(stage, &options);
    }
    return cv_worker_supervise(stage, &options);
}
