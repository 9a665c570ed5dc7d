#include "common/worker/brokers.h"
#include "common/worker/once.h"
#include "common/worker/supervisor.h"

#include <string.h>
#include <sys/prctl.h>

static const char usage_format[] =
    "usage: %s [--slots N] [--poll-ms N] [--threads N] [--listen ADDR:PORT] [--no-listen]\n"
    "       %s --once [--threads N] [--scratch DIR] [--progress-fd N] < payload.json\n"
    "\n"
    "  without --once   claim \"%s\" jobs and run them until SIGTERM\n"
    "    --slots N        jobs at the same time (1)\n"
    "    --poll-ms N      longest time between two looks for jobs, ms (2000)\n"
    "    --threads N      threads of each stage (default: the CPUs, divided by the slots)\n"
    "    --listen A:P     answer GET /healthz, /readyz and /metrics there, e.g. 0.0.0.0:9090\n"
    "                     (CORTANA_LISTEN)\n"
    "    --metrics-fleet  /metrics also shows the whole fleet; for one or two workers of a fleet\n"
    "    --no-listen      only poll, do not use LISTEN\n"
    "  --once           run the stage on one payload, print its result\n"
    "    --threads N      threads to use (default: the CPUs of this process)\n"
    "    --scratch DIR    an empty working directory (default: a private one, removed at the end)\n"
    "    --progress-fd N  write progress to this descriptor, one JSON object per line\n";

enum {
    SLOTS_MAX = 256,
    THREADS_MAX = 1024,
    POLL_MIN_MS = 10,
    POLL_MAX_MS = 600000,
    DESCRIPTOR_MAX = 1 << 20,
    COMPANION_MAX_MS = 24 * 60 * 60 * 1000,
    STAGE_NAME_MAX = 64,
};

static bool parse(const struct cv_stage *stage, int argc, char **argv,
                  struct cv_worker_options *options, int *ret_exit)
{
    int64_t threads = options->threads, slots = options->slots, progress_fd = options->progress_fd;
    bool is_polling_only = false;
    char usage[sizeof(usage_format) + 3 * STAGE_NAME_MAX];
    const struct cv_option known[] = {
        {"once", .flag = &options->once},
        {"scratch", .text = &options->scratch},
        {"threads", .integer = &threads, .least = 1, .most = THREADS_MAX},
        {"progress-fd", .integer = &progress_fd, .least = 0, .most = DESCRIPTOR_MAX},
        {"slots", .integer = &slots, .least = 1, .most = SLOTS_MAX},
        {"poll-ms", .integer = &options->poll_ms, .least = POLL_MIN_MS, .most = POLL_MAX_MS},
        {"listen", .text = &options->probe_address, .variable = "CORTANA_LISTEN"},
        {"metrics-fleet", .flag = &options->shows_fleet},
        {"no-listen", .flag = &is_polling_only},
        /* The supervisor passes these options to its child processes. */
        {"companion-ms", .integer = &options->companion_ms, .least = 0, .most = COMPANION_MAX_MS},
        {"broker", .flag = &options->has_broker},
        {"kept", .flag = &options->has_kept},
        {"broker-host", .flag = &options->is_broker_host},
    };
    const struct cv_program program = {stage->name, usage, known, CV_COUNT(known)};
    (void)snprintf(usage, sizeof(usage), usage_format, stage->name, stage->name, stage->job_type);
    if (!cv_parse_options(&program, argc, argv, ret_exit)) {
        return false;
    }
    options->threads = (int)threads;
    options->slots = (int)slots;
    options->progress_fd = (int)progress_fd;
    options->listen = !is_polling_only;
    return true;
}

/* Restarts the program with OMP_THREAD_LIMIT=1, because Tesseract's OpenMP threads cost more than
 * they gain: a stage has its own threads. libgomp reads the variable when it is loaded, before
 * main. */
static void limit_openmp(char **argv)
{
    static const char name[] = "OMP_THREAD_LIMIT";
    if (strcmp(cv_env(name, ""), "1") != 0 && setenv(name, "1", 1) == 0) {
        (void)execv("/proc/self/exe", argv);
        cv_log(CV_LOG_DEBUG, "cannot restart with %s=1: %s", name, strerror(errno));
    }
}

int cv_worker_main(const struct cv_stage *stage, int argc, char **argv)
{
    struct cv_worker_options options = {
        .progress_fd = -1,
        .slots = 1,
        .poll_ms = 2000,
    };
    int code = CV_EXIT_DONE;
    struct cv_error error;
    if (!parse(stage, argc, argv, &options, &code)) {
        return code;
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
    if (stage->check && stage->check(&error) != 0) {
        cv_log_error(&error, stage->name);
        return CV_EXIT_STOP;
    }
    return cv_worker_supervise(stage, &options);
}
