/* Prints the output of commands: rows, sentences, notes and failures, for people or as JSON. */
#pragma once

#include "cli/commands/verb.h"

/* Prints objects as a table of `columns`, or with --json one a line. */
CV_MUST_CHECK int cli_put_items(const struct cli_call *call, const json_t *items,
                                const struct cli_column *columns, size_t count,
                                struct cv_error *error);

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
