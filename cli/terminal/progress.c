#include "cli/terminal/progress.h"

#include "cli/terminal/text.h"

#include <string.h>

enum {
    LABEL_LEAST = 14, /* columns: the longest name of a stage */
    LABEL_MAX = 24,
    BAR_MAX = 30,
    BAR_LEAST = 8,         /* columns; a shorter bar says less than the number beside it */
    NOTE_WANTED = 24,      /* columns that are left to the note before the bar gets any */
    PERCENT_COLUMNS = 7,   /* " 100 % " */
    TELL_EVERY_MS = 30000, /* plain lines: a log of an hour has 120 of them */
};

void cli_progress_init(struct cli_progress *progress, bool quiet, bool plain)
{
    *progress = (struct cli_progress){
        .is_drawn = !quiet && !plain && cli_is_terminal(STDERR_FILENO),
        .has_blocks = cli_has_blocks(),
        .told_at_ms = cv_monotonic_ms(),
        .frame = CV_BUFFER_INIT,
    };
    progress->is_told = !quiet && !progress->is_drawn;
    if (plain) {
        progress->told_at_ms = INT64_MAX / 2; /* never again */
    }
}

void cli_progress_deinit(struct cli_progress *progress)
{
    cv_buffer_deinit(&progress->frame);
}

void cli_progress_begin(struct cli_progress *progress)
{
    cv_buffer_clear(&progress->frame);
    progress->new_count = 0;
    cli_terminal_size(STDERR_FILENO, &progress->columns, &progress->rows);
}

static void append_bar(struct cli_progress *progress, double fraction, int width)
{
    int filled = (int)(fraction * width + 0.5);
    const char *full = progress->has_blocks ? "█" : "#";
    const char *empty = progress->has_blocks ? "░" : "-";
    for (int i = 0; i < width; i++) {
        cv_buffer_text(&progress->frame, i < filled ? full : empty);
    }
}

void cli_progress_row(struct cli_progress *progress, const char *label, double fraction,
                      const char *note)
{
    /* The last column stays free: a line that fills the row makes some terminals wrap. */
    int left = progress->columns - 1;
    int label_width = cli_width(label);
    label_width = label_width < LABEL_LEAST ? LABEL_LEAST
                  : label_width > LABEL_MAX ? LABEL_MAX
                                            : label_width;
    label_width = label_width > left / 2 ? left / 2 : label_width;
    int bar = left - label_width - PERCENT_COLUMNS - 2 - NOTE_WANTED;
    bar = bar > BAR_MAX ? BAR_MAX : bar;
    if (progress->new_count == CLI_PROGRESS_ROWS || progress->new_count >= progress->rows - 1) {
        return;
    }
    size_t start = progress->frame.length;
    cli_append_cut(&progress->frame, label, label_width);
    if (progress->is_drawn) {
        for (int i = cli_width(label); i < label_width; i++) {
            cv_buffer_text(&progress->frame, " ");
        }
        left -= label_width;
    }
    if (fraction >= 0) {
        cv_buffer_text(&progress->frame, " ");
        if (progress->is_drawn && bar >= BAR_LEAST) {
            append_bar(progress, fraction, bar);
            left -= bar;
        }
        cv_buffer_printf(&progress->frame, "%4d %% ", (int)(fraction * 100));
        left -= PERCENT_COLUMNS + 1;
    }
    if (note[0] != '\0' && left > 1) {
        cv_buffer_text(&progress->frame, " ");
        cli_append_cut(&progress->frame, note, progress->is_drawn ? left - 1 : INT16_MAX);
    }
    size_t width = progress->frame.failed ? 0 : (size_t)cli_width(progress->frame.data + start);
    cv_buffer_text(&progress->frame, progress->is_drawn ? "\033[K\n" : "\n");
    if (!progress->frame.failed) {
        progress->new_widths[progress->new_count++] = (int)width;
    }
}

/* The rows that the lines take now: after the window was made narrower, a line may take several. */
static int rows_above(const struct cli_progress *progress)
{
    int columns = 0;
    int height = 0;
    int rows = 0;
    cli_terminal_size(STDERR_FILENO, &columns, &height);
    for (int i = 0; i < progress->row_count; i++) {
        rows += progress->widths[i] > columns ? (progress->widths[i] + columns - 1) / columns : 1;
    }
    return rows;
}

void cli_progress_erase(struct cli_progress *progress)
{
    if (progress->row_count > 0) {
        (void)fprintf(stderr, "\033[%dA\r\033[J", rows_above(progress));
        (void)fflush(stderr);
    }
    progress->row_count = 0;
}

void cli_progress_end(struct cli_progress *progress)
{
    int64_t now_ms = cv_monotonic_ms();
    if (progress->frame.failed || progress->new_count == 0) {
        return;
    }
    if (progress->is_drawn) {
        /* Over what stands there, and what is left of it is erased row by row: tmux keeps a copy of a
         * screen that is erased from its first row on. */
        int rows = rows_above(progress);
        int left_over = rows - progress->new_count;
        if (rows > 0) {
            (void)fprintf(stderr, "\033[%dA\r", rows);
        }
        (void)fputs(progress->frame.data, stderr);
        for (int i = 0; i < left_over; i++) {
            (void)fputs("\033[K\n", stderr);
        }
        if (left_over > 0) {
            (void)fprintf(stderr, "\033[%dA", left_over);
        }
        memcpy(progress->widths, progress->new_widths, sizeof(progress->widths));
        progress->row_count = progress->new_count;
    } else if (progress->is_told && now_ms >= progress->told_at_ms + TELL_EVERY_MS) {
        (void)fputs(progress->frame.data, stderr);
        progress->told_at_ms = now_ms;
    }
    (void)fflush(stderr);
}

void cli_progress_say(struct cli_progress *progress, const char *text)
{
    if (!progress->is_drawn && !progress->is_told) {
        return;
    }
    cli_progress_erase(progress);
    cli_put(stderr, text);
    (void)fputc('\n', stderr);
    (void)fflush(stderr);
}
