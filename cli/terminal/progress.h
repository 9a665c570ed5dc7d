/* How far a long command is, on standard error: a few lines that are redrawn in place on a terminal, a
 * plain line now and then elsewhere. The window's size is asked each time, so that a line never takes
 * more than one row. */
#pragma once

#include "common/base/base.h"

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
