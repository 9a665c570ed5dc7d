#include "cli/terminal/table.h"

#include "cli/terminal/text.h"

#include <assert.h>
#include <string.h>

enum {
    GAP = 2,          /* blanks between columns */
    COLUMNS_MAX = 16, /* of one table */
    ID_LETTERS = 8,   /* of a UUID; enough to name it again */
    WIDTH_LEAST = 6,  /* a column is not made narrower */
};

static bool is_duration(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, "_ms") == 0;
}

/* A cell as it is shown; `row` -1 is the title. `buffer` may be where the text lies. */
static const char *cell_text(const struct cv_db_result *rows, int row,
                             const struct cli_column *column, bool is_short,
                             char buffer[CLI_TIME_SIZE])
{
    if (row < 0) {
        return column->title;
    }
    const char *text = cv_db_text(rows, row, column->name);
    if (text && is_short && strcmp(column->name, "id") == 0) {
        (void)snprintf(buffer, CLI_TIME_SIZE, "%.*s", ID_LETTERS, text);
        return buffer;
    }
    if (text && is_duration(column->name)) {
        return cli_duration(cv_db_int(rows, row, column->name, 0), buffer);
    }
    return text ? text : "";
}

/* Takes columns from the widest until the line fits. */
static void fit(int widths[COLUMNS_MAX], size_t count, int line)
{
    int sum = (int)(count - 1) * GAP;
    for (size_t i = 0; i < count; i++) {
        sum += widths[i];
    }
    while (sum > line) {
        size_t widest = 0;
        for (size_t i = 1; i < count; i++) {
            widest = widths[i] >= widths[widest] ? i : widest;
        }
        if (widths[widest] <= WIDTH_LEAST) {
            break;
        }
        widths[widest]--;
        sum--;
    }
}

void cli_print_table(const struct cv_db_result *rows, const struct cli_column *columns,
                     size_t count)
{
    bool is_terminal = isatty(STDOUT_FILENO) == 1;
    int widths[COLUMNS_MAX] = {0};
    char buffer[CLI_TIME_SIZE];
    assert(count <= COLUMNS_MAX);
    for (int row = -1; row < cv_db_rows(rows); row++) {
        for (size_t i = 0; i < count; i++) {
            int width = cli_width(cell_text(rows, row, &columns[i], is_terminal, buffer));
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    if (is_terminal) {
        int line = 0;
        int height = 0;
        cli_terminal_size(STDOUT_FILENO, &line, &height);
        fit(widths, count, line);
    }
    for (int row = -1; row < cv_db_rows(rows); row++) {
        for (size_t i = 0; i < count; i++) {
            cv_auto_free char *text =
                strdup(cell_text(rows, row, &columns[i], is_terminal, buffer));
            if (!text) {
                return;
            }
            cv_redact(text);
            if (i + 1 == count) {
                cli_put_cut(stdout, text, widths[i]);
            } else {
                cli_put_column(stdout, text, widths[i]);
                (void)printf("%*s", GAP, "");
            }
        }
        (void)putchar('\n');
    }
}

void cli_print_lines(const struct cv_db_result *rows)
{
    for (int row = 0; row < cv_db_rows(rows); row++) {
        cv_auto_free char *line = strdup(cv_db_text(rows, row, "line"));
        if (line) {
            cv_redact(line);
            (void)puts(line);
        }
    }
}
