/* What people read on a terminal: times, text without control characters, tables, progress. */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"

/* Text for people: times, and columns of a terminal. What comes from videos, files and payloads is
 * printed without control characters, so that it cannot command the terminal. */

enum { CLI_TIME_SIZE = 32 };

/* Milliseconds as "1:02:03.456" or "2:03.456"; returns `text`. */
const char *cli_time(int64_t ms, char text[CLI_TIME_SIZE]);

/* Milliseconds as a part of a file's name that cli_parse_time reads: "2m03.456s"; returns `text`. */
const char *cli_time_for_file(int64_t ms, char text[CLI_TIME_SIZE]);

/* A duration in few letters: "340 ms", "12.5 s", "3 min", "2 h", "5 d"; returns `text`. */
const char *cli_duration(int64_t ms, char text[CLI_TIME_SIZE]);

/* A moment or a duration to milliseconds, as video tools read it: "3" and "3.4" are seconds; "0:03.4"
 * and "1:02:03.5" a clock; "1m2s", "90s" and "3400ms" have their units. False when it is none. */
CV_MUST_CHECK bool cli_parse_time(const char *text, int64_t *ret_ms);

/* Prints text with every control character replaced by a blank. */
void cli_put(FILE *file, const char *text);

/* Columns that a text takes on a terminal. */
int cli_width(const char *text);

/* Prints `text` in at most `width` columns, the last of them "…" where it was cut. */
void cli_put_cut(FILE *file, const char *text, int width);

/* Prints `text` in exactly `width` columns: cut with "…", or filled with blanks. */
void cli_put_column(FILE *file, const char *text, int width);

/* Prints `text` in lines of at most `width` columns, and a line end. The first line has `first` columns
 * behind it, the others begin with `indent` blanks. Line ends in the text are kept. */
void cli_put_wrapped(FILE *file, const char *text, int first, int indent, int width);

/* Whether what is written to `fd` is shown on a terminal whose cursor can be moved. */
bool cli_is_terminal(int fd);

/* The same, and nobody asked for no colours (NO_COLOR). */
bool cli_has_colors(int fd);

/* Columns (20 or more) and rows of the terminal of `fd`, as they are now; COLUMNS, else 80 and 24, where it is none. */
void cli_terminal_size(int fd, int *ret_columns, int *ret_rows);

/* Rows of a query as a table for people. */

struct cli_column {
    const char *name;  /* of the result's column */
    const char *title; /* as it stands above */
};

/* Prints the title line and every row on standard output. NULL is printed as nothing, a column whose name
 * ends in "_ms" as a duration. On a terminal the table is as wide as the terminal: the widest columns
 * are cut, and of a column "id" the beginning is shown. Elsewhere nothing is cut. Secrets
 * are left out (cv_redact). At most 16 columns. */
void cli_print_table(const struct cv_db_result *rows, const struct cli_column *columns,
                     size_t count);

/* Prints the column `line` of every row: JSON Lines. */
void cli_print_lines(const struct cv_db_result *rows);

/* How far a long command is, on standard error: a few lines that are redrawn in place on a terminal, a
 * plain line now and then elsewhere. The window's size is asked each time, so that a line never takes
 * more than one row. */

enum { CLI_PROGRESS_ROWS = 12 };

struct cli_progress {
    bool is_drawn; /* redrawn in place */
    bool is_told;  /* told in plain lines; neither: silent */
    bool has_blocks;
    int widths[CLI_PROGRESS_ROWS]; /* of the rows that stand above the cursor */
    int row_count;
    int64_t told_at_ms;
    struct cv_buffer frame; /* of the rows that are being put together */
    int new_widths[CLI_PROGRESS_ROWS];
    int new_count;
    int columns; /* of the terminal, for this frame */
    int rows;
};

/* `quiet`: nothing is shown. `plain`: no bars, and no plain lines either but what cli_progress_say says. */
void cli_progress_init(struct cli_progress *progress, bool quiet, bool plain);
void cli_progress_deinit(struct cli_progress *progress);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_progress, cli_progress_deinit)

/* Begins a new state of things; then a row each; then it is shown. */
void cli_progress_begin(struct cli_progress *progress);

/* `fraction` 0..1; below 0: no bar. `label` is cut at 24 columns, `note` where the line ends. */
void cli_progress_row(struct cli_progress *progress, const char *label, double fraction,
                      const char *note);

void cli_progress_end(struct cli_progress *progress);

/* A line of its own on standard error, above the rows; silent when quiet. `text` is printed without control characters. */
void cli_progress_say(struct cli_progress *progress, const char *text);

/* Removes the rows from the terminal: before something else is printed. */
void cli_progress_erase(struct cli_progress *progress);
