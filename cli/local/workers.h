/* The workers and the scanner of a local installation, as processes. */
#pragma once

#include "cli/local/session.h"

enum { CLI_STAGES_MAX = 32, CLI_SERVICE_COUNT = 3, CLI_SLOTS_MAX = 64 };

/* When `cortana run` starts a program: for every video; to watch the inbox; where its
 * setting is there. */
enum cli_starts { CLI_STARTS_ALWAYS, CLI_STARTS_SERVICE, CLI_STARTS_SETTING };

struct cli_worker_process {
    const char *job_type;
    const char *name;   /* name of the program and of its log */
    const char *option; /* --option=value of a program without slots; NULL: a stage */
    enum cli_starts starts;
    const char *setting; /* with which it starts; NULL: none */
    int slots;
    pid_t pid; /* 0: not running */
    int restarts;
};

/* The stages, made from the file `stages`. */
extern const struct cli_worker_process cli_stages[];
extern const size_t cli_stage_count; /* at most CLI_STAGES_MAX */

struct cli_workers {
    struct cli_worker_process workers[CLI_STAGES_MAX + CLI_SERVICE_COUNT];
    size_t count;
    char note[PATH_MAX + 256]; /* a note that was not reported yet; "": none */
    char told[PATH_MAX + 256];
    char page[64]; /* "--api=ADDRESS:PORT"; "": the gateway was not started */
    const struct cli_session *session;
    enum cv_disk_level disk_level; /* of the installation's disk, as it was read last */
    int64_t disk_at;               /* when to read it again */
};

/* Initialises all workers with one slot, none running. Borrows `session`. */
void cli_workers_init(struct cli_workers *workers, const struct cli_session *session);

/* Reads "STAGE=N,STAGE=N"; false if a stage is unknown or a number is not 1…CLI_SLOTS_MAX. */
CV_MUST_CHECK bool cli_workers_parse(struct cli_workers *workers, const char *text);

/* Starts workers that are not running: those of one job type, or all that videos need (NULL). Logs are in DIR/log/NAME.log. */
CV_MUST_CHECK int cli_workers_start(struct cli_workers *workers, const char *job_type,
                                    struct cv_error *error);

/* Starts what else an installation has that goes on running: scanner, scheduler, and the stages
 * that are no part of the pipeline. */
CV_MUST_CHECK int cli_workers_start_services(struct cli_workers *workers, struct cv_error *error);

/* Starts the gateway on loopback, at CORTANA_API_LISTEN, port 8080, or any free port; *ret_address
 * is its address ("127.0.0.1:8080"), borrowed from `workers`. The session must have an owner
 * (cli_tokens_prepare). The other workers do not need the gateway, so a failure to start it is only
 * a note (cli_workers_warning). */
CV_MUST_CHECK int cli_workers_start_gateway(struct cli_workers *workers, const char **ret_address,
                                            struct cv_error *error);

/* Restarts workers that have died, a few times each; then fails with the name of the log. A worker
 * that the pipeline does not need (embed) is left with a note (cli_workers_warning). */
CV_MUST_CHECK int cli_workers_check(struct cli_workers *workers, struct cv_error *error);

/* Returns a sentence about a missing worker that the others do not need, or about a disk that is so
 * full that the workers start nothing, once for each; NULL: there is none (any more). Valid until the
 * next call. */
const char *cli_workers_warning(struct cli_workers *workers);

/* Sends SIGTERM to all and waits; running jobs are given back. Workers that do not exit are killed. */
void cli_workers_stop(struct cli_workers *workers);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_workers, cli_workers_stop)
