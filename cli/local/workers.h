/* The workers of a local installation and its scanner, as processes of their own. */
#pragma once

#include "cli/local/session.h"

enum { CLI_WORKER_COUNT = 12, CLI_SLOTS_MAX = 64 };

struct cli_worker_process {
    const char *job_type;
    const char *name;    /* of the program and of its log */
    const char *service; /* --option=value of a program without slots, started by its name alone */
    bool is_spare;       /* the others do their work without it */
    int slots;
    pid_t pid; /* 0: not running */
    int restarts;
};

struct cli_workers {
    struct cli_worker_process workers[CLI_WORKER_COUNT];
    char note[PATH_MAX + 256]; /* not told yet; "": nothing */
    char told[PATH_MAX + 256];
    char page[64]; /* "--api=ADDRESS:PORT"; "": the gateway was not started */
    const struct cli_session *session;
};

/* All with one slot, none running. Borrows `session`. */
void cli_workers_init(struct cli_workers *workers, const struct cli_session *session);

/* Reads "STAGE=N,STAGE=N"; false when a stage is unknown or a number is not 1…CLI_SLOTS_MAX. */
CV_MUST_CHECK bool cli_workers_parse(struct cli_workers *workers, const char *text);

/* Starts what does not run: one job type, all of them (NULL; embed when the pipeline has it), or
 * "scanner", "scheduler", "command" or "webhook". Logs go to DIR/log/NAME.log. */
CV_MUST_CHECK int cli_workers_start(struct cli_workers *workers, const char *job_type,
                                    struct cv_error *error);

/* Starts the gateway on loopback, at CORTANA_API_LISTEN, port 8080, or any free one; *ret_address is where
 * ("127.0.0.1:8080"), borrowed from `workers`. The session has an owner (cli_tokens_prepare). The others go on without
 * it, so that it is noted where it does not start. */
CV_MUST_CHECK int cli_workers_start_gateway(struct cli_workers *workers, const char **ret_address,
                                            struct cv_error *error);

/* Starts workers that died again, a few times each; raises with the name of the log after that. A worker without which the
 * pipeline goes on (embed) is noted and left (cli_workers_note). */
CV_MUST_CHECK int cli_workers_check(struct cli_workers *workers, struct cv_error *error);

/* A sentence about a worker that is not there, though the others go on: once each; NULL: there is none (more). Valid until the
 * next call. */
const char *cli_workers_note(struct cli_workers *workers);

/* SIGTERM to all, and waits; jobs at work are given back. Who does not go is killed. */
void cli_workers_stop(struct cli_workers *workers);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_workers, cli_workers_stop)
