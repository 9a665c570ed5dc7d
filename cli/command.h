/* The subcommands of `cortana`: each is one file that defines one struct, and main.c has the table.
 */
#pragma once

#include "common/base/base.h"

#define CLI_DEFAULT_DATA ".local"

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,
    CLI_EXIT_USAGE = CV_EXIT_USAGE,
    CLI_EXIT_INTERRUPTED = 130, /* 128 + SIGINT, as a shell says it */
};

struct cli_command {
    const char *name;
    const char *summary; /* one line of `cortana --help` */
    const char *help;    /* whole text of `cortana NAME --help`; begins with "usage:" */

    /* argv[0] is the command's name. Returns an exit status (≥ 0), or a failure that main prints.
     * `cancel` aborts on SIGINT, SIGTERM and SIGHUP. */
    int (*run)(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error);
};

extern const struct cli_command cli_command_run;
extern const struct cli_command cli_command_reindex;
extern const struct cli_command cli_command_search;
extern const struct cli_command cli_command_embeddings;
extern const struct cli_command cli_command_export;
extern const struct cli_command cli_command_clip;
extern const struct cli_command cli_command_commands;
extern const struct cli_command cli_command_jobs;
extern const struct cli_command cli_command_runs;
extern const struct cli_command cli_command_workflows;
extern const struct cli_command cli_command_rules;
extern const struct cli_command cli_command_schedules;
extern const struct cli_command cli_command_triggers;
extern const struct cli_command cli_command_webhooks;
extern const struct cli_command cli_command_nodes;
extern const struct cli_command cli_command_workers;
extern const struct cli_command cli_command_migrate;
extern const struct cli_command cli_command_doctor;
extern const struct cli_command cli_command_delete;
extern const struct cli_command cli_command_gc;
extern const struct cli_command cli_command_bucket;

/* Says on standard error what is wrong with the command line and how it is used; returns
 * CLI_EXIT_USAGE. */
int cli_usage(const struct cli_command *command, const char *format, ...) CV_PRINTF(2, 3);

/* Prints the command's help; returns CLI_EXIT_OK. */
int cli_help(const struct cli_command *command);

struct option;

/* One step of getopt_long with `options`, without its own messages. An unknown option or a missing
 * argument is explained (cli_usage) and returned as '?'; the end is -1. 'h' is printed here too and
 * returned as 'h'. */
int cli_next_option(const struct cli_command *command, int argc, char **argv,
                    const char *short_options, const struct option *options);
