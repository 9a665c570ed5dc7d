/* Text for people: times, and columns of a terminal. What comes from videos, files and payloads is
 * printed without control characters, so that it cannot command the terminal. */
#pragma once

#include "common/base/base.h"

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

/* The same at the end of a buffer. */
void cli_append_cut(struct cv_buffer *buffer, const char *text, int width);

/* Prints `text` in exactly `width` columns: cut with "…", or filled with blanks. */
void cli_put_column(FILE *file, const char *text, int width);

/* Prints `text` in lines of at most `width` columns, and a line end. The first line has `first` columns
 * behind it, the others begin with `indent` blanks. Line ends in the text are kept. */
void cli_put_wrapped(FILE *file, const char *text, int first, int indent, int width);

/* Whether what is written to `fd` is shown on a terminal whose cursor can be moved. */
bool cli_is_terminal(int fd);

/* The same, and nobody asked for no colours (NO_COLOR). */
bool cli_has_colors(int fd);

/* Whether the locale's characters include the blocks that bars are made of. */
bool cli_has_blocks(void);

/* Columns (20 or more) and rows of the terminal of `fd`, as they are now; COLUMNS, else 80 and 24, where it is none. */
void cli_terminal_size(int fd, int *ret_columns, int *ret_rows);
