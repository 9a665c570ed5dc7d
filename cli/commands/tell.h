/* Prints the output of commands: rows, sentences, notes and failures, for people or as JSON. */
#pragma once

#include "cli/commands/verb.h"

/* A query whose rows are printed: as a table of `columns`, or with --json as JSON Lines with every
 * column. */
struct cli_listing {
    const struct cli_column *columns;
    size_t count;
    const char *sql;
    size_t parameter_count;
    const char *const *parameters;
};

/* Prints objects as a table of `columns`, or with --json one a line. */
CV_MUST_CHECK int cli_put_items(const struct cli_call *call, const json_t *items,
                                const struct cli_column *columns, size_t count,
                                struct cv_error *error);

/* Prints the rows; returns their number, or a failure. */
CV_MUST_CHECK int cli_list(struct cli_call *call, const struct cli_listing *listing,
                           struct cv_error *error);

/* Runs a verb that is one list: opens the session, prints the rows, and notes `none` (unless NULL)
 * if there are none. Returns CLI_EXIT_OK or a failure. */
CV_MUST_CHECK int cli_show(struct cli_call *call, const struct cli_listing *listing,
                           const char *none, struct cv_error *error);

/* A listing with its parameters, all of them texts; `columns` is an array. */
#define CLI_LISTING(columns, sql, ...)                                               \
    &(const struct cli_listing)                                                      \
    {                                                                                \
        columns, CV_COUNT(columns), sql,                                             \
            sizeof((const char *const[]){NULL, ##__VA_ARGS__}) / sizeof(char *) - 1, \
            (const char *const[]){NULL, ##__VA_ARGS__} + 1                           \
    }
#define CLI_LIST(call, columns, error, ...) cli_list(call, CLI_LISTING(columns, __VA_ARGS__), error)
#define CLI_SHOW(call, columns, none, error, ...) \
    cli_show(call, CLI_LISTING(columns, __VA_ARGS__), none, error)

/* Prints what has been done, as a sentence; with --json `object` in one line. Takes ownership of
 * `object` (NULL: out of memory, which is a failure). Returns CLI_EXIT_OK or a failure. */
CV_MUST_CHECK int cli_print_outcome(const struct cli_call *call, json_t *object,
                                    struct cv_error *error, const char *format, ...)
    CV_PRINTF(4, 5);

/* Prints a failure as a line on standard error; with --json as an object with its type (may be
 * NULL) and message. */
void cli_put_failure(const struct cli_call *call, const char *type, const char *message);

/* Prints a note such as "nothing to list" on standard error, unless --json or --quiet was given. */
void cli_print_note(const struct cli_call *call, const char *format, ...) CV_PRINTF(2, 3);
