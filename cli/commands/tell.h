/* What commands tell: rows, sentences, notes and failures, for people or as JSON. */
#pragma once

#include "cli/commands/verb.h"

/* A query whose rows are told: as a table of `columns`, or as JSON Lines with --json, which has every column of the rows. */
struct cli_listing {
    const struct cli_column *columns;
    size_t count;
    const char *sql;
    size_t parameter_count;
    const char *const *parameters;
};

/* Returns the number of rows, or a failure. */
CV_MUST_CHECK int cli_list(struct cli_call *call, const struct cli_listing *listing,
                           struct cv_error *error);

/* A verb that is one list: opens, lists, and notes `none` (unless it is NULL) where there are no rows. Returns
 * CLI_EXIT_OK or a failure. */
CV_MUST_CHECK int cli_show(struct cli_call *call, const struct cli_listing *listing,
                           const char *none, struct cv_error *error);

/* A listing with its parameters, all of them texts, in place; `columns` is an array. */
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

/* What has been done, as a sentence; with --json as `object` in one line. Takes `object` (NULL: no memory,
 * which is told as a failure). Returns CLI_EXIT_OK or a failure. */
CV_MUST_CHECK int cli_tell(const struct cli_call *call, json_t *object, struct cv_error *error,
                           const char *format, ...) CV_PRINTF(4, 5);

/* Runs `sql`, which takes `name` and, unless it is NULL, `more`, and returns a row where there was such a thing;
 * tells "NAME DONE". `thing` says what it would be: "webhook". */
CV_MUST_CHECK int cli_change(struct cli_call *call, const char *sql, const char *name,
                             const char *more, const char *thing, const char *done,
                             struct cv_error *error);

/* A line on standard error that says what failed; with --json an object with its type (may be NULL) and message. */
void cli_put_failure(const struct cli_call *call, const char *type, const char *message);

/* "nothing to list" and the like on standard error, unless --json or --quiet was given. */
void cli_note(const struct cli_call *call, const char *format, ...) CV_PRINTF(2, 3);
