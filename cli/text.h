/* Text for people: times, and tables that fit a terminal. What comes from videos, files and payloads
 * is printed without control characters, so that it cannot command the terminal. */
#pragma once

#include "common/base/base.h"

enum { CLI_TIME_SIZE = 32 };

/* Milliseconds as "1:02:03.456" or "2:03.456"; returns `text`. */
const char *cli_time(int64_t ms, char text[CLI_TIME_SIZE]);

/* A duration in few letters: "340 ms", "12.5 s", "3 min", "2 h", "5 d"; returns `text`. */
const char *cli_duration(int64_t ms, char text[CLI_TIME_SIZE]);

/* "1500" (ms), "1.5s", "0:01.5", "1:02:03.5" to milliseconds. */
CV_MUST_CHECK bool cli_parse_time(const char *text, int64_t *ret_ms);

/* Prints text with every control character replaced by a blank. */
void cli_put(FILE *file, const char *text);

/* Columns that a text takes on a terminal. */
int cli_width(const char *text);

/* Prints `text` in at most `width` columns, the last of them "…" where it was cut. */
void cli_put_cut(FILE *file, const char *text, int width);

/* Prints `text` in exactly `width` columns: cut with "…", or filled with blanks. */
void cli_put_column(FILE *file, const char *text, int width);
