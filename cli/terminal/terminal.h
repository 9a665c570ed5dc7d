/* Terminal output for people: times, text without control characters, tables, progress. */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"

/* Times and columns of a terminal. Text from videos, files and payloads is printed without control
 * characters, so that it cannot control the terminal. */

enum { CLI_TIME_SIZE = 32 };

/* Formats milliseconds as "1:02:03.456" or "2:03.456"; returns `text`. */
const char *cli_time(int64_t ms, char text[CLI_TIME_SIZE]);

/* Formats a duration briefly: "340 ms", "12.5 s", "3 min", "2 h", "5 d"; returns `text`. */
const char *cli_duration(int64_t ms, char text[CLI_TIME_SIZE]);

/* Formats a number of things: "1 line is left", "2 lines are left", without the number `one` and
 * `many`; returns `text`. */
enum { CLI_COUNTED_SIZE = 96 };
const char *cli_counted(int64_t number, const char *one, const char *many,
                        char text[CLI_COUNTED_SIZE]);

/* Parses a time or a duration as video tools do, to milliseconds: "3" and "3.4" are seconds;
 * "0:03.4" and "1:02:03.5" a clock; "1m2s", "90s" and "3400ms" have units. False if it is neither. */
CV_MUST_CHECK bool cli_parse_time(const char *text, int64_t *ret_ms);

/* Prints text with every control character replaced by a blank. */
void cli_put(FILE *file, const char *text);

/* The number of columns of a text on a terminal. */
int cli_width(const char *text);

/* Prints `text` in at most `width` columns; if it was cut, the last one is "…". */
void cli_put_cut(FILE *file, const char *text, int width);

/* Prints `text` in exactly `width` columns: cut with "…", or padded with blanks. */
void cli_put_column(FILE *file, const char *text, int width);

/* Whether `fd` is a terminal whose cursor can be moved. */
bool cli_is_terminal(int fd);

/* Whether standard output is such a terminal, and colours are not switched off (NO_COLOR). */
bool cli_has_colors(void);

/* The current columns (20 or more) and rows of the terminal `fd`; if it is not a terminal, COLUMNS,
 * or else 80, and 24. */
void cli_terminal_size(int fd, int *ret_columns, int *ret_rows);

/* Texts and tables that are made from JSON objects. */

/* A member of the object, or of the objects and lists in it: "error.message", "items.0". Borrowed;
 * NULL: there is none. */
json_t *cli_find_member(const json_t *object, const char *path);

/* Appends `pattern` to `text`, with members of `object` in place of {…}:
 *   {name}, {error.message}   a value; a list is joined with commas; a number of a name that ends in
 *                             "_ms" is a duration
 *   {created_at:ago}          how long ago a time was; {…:time} the time in UTC; {progress:percent};
 *                             {bytes:size}; {seconds:s} a duration; {n:round}; {t_ms:clock} as cli_time();
 *                             {list:length}; {id:whole} also where ids are short
 *   {jobs:count job/jobs}     cli_counted()
 *   [text|text|…]             the first of these texts of which every {…} is there (not null)
 *   {?name}, {!name}          print nothing; there if the value is (not) there, and is not false
 *   {name=word}, {!name=word} print nothing; there if the value is (not) this word
 * `is_short`: of an id (a name "id" or "…_id") only the beginning. A failed allocation fails
 * `text`. */
void cli_expand(struct cv_buffer *text, const char *pattern, const json_t *object, bool is_short);

struct cli_column {
    const char *name;  /* a member of the rows, or a pattern with {…} or […] */
    const char *title; /* title of the table's column; NULL ends a list of columns */
};

/* Prints a title line and every object of the array `rows` on standard output. On a terminal the
 * table is as wide as the terminal: the widest columns are cut, and of an id only the beginning is
 * shown. Elsewhere nothing is cut. Secrets are removed (cv_redact). At most 16 columns. */
CV_MUST_CHECK int cli_print_table(const json_t *rows, const struct cli_column *columns,
                                  size_t count, struct cv_error *error);

/* Prints each object of the array in a line of its own, without secrets. */
CV_MUST_CHECK int cli_print_objects(const json_t *rows, struct cv_error *error);

/* The progress of a long command on standard error: on a terminal a few lines that are redrawn in
 * place, otherwise a plain line from time to time. The window's size is read for each frame, so
 * that a line never takes more than one row. */

enum { CLI_PROGRESS_ROWS = 12 };

struct cli_progress {
    bool is_drawn; /* rows are redrawn in place */
    bool is_told;  /* plain lines are printed; neither: silent */
    bool has_blocks;
    int widths[CLI_PROGRESS_ROWS]; /* widths of the rows above the cursor */
    int row_count;
    int64_t told_at_ms;
    struct cv_buffer frame; /* text of the new rows */
    int new_widths[CLI_PROGRESS_ROWS];
    int new_count;
    int columns; /* the terminal's columns, for this frame */
    int rows;
};

/* `quiet`: nothing is shown. `plain`: no bars, and no lines except those of cli_progress_say. */
void cli_progress_init(struct cli_progress *progress, bool quiet, bool plain);
void cli_progress_deinit(struct cli_progress *progress);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_progress, cli_progress_deinit)

/* Starts a new frame; add its rows with cli_progress_row, then show it. */
void cli_progress_begin(struct cli_progress *progress);

/* Adds a row. `fraction` 0..1; below 0: no bar. `label` is cut at 24 columns, `note` at the end of
 * the line. */
void cli_progress_row(struct cli_progress *progress, const char *label, double fraction,
                      const char *note);

void cli_progress_end(struct cli_progress *progress);

/* Prints a line on standard error, above the rows; silent if quiet. Control characters are removed
 * from `text`. */
void cli_progress_say(struct cli_progress *progress, const char *text);

/* Removes the rows from the terminal, before something else is printed. */
void cli_progress_erase(struct cli_progress *progress);
