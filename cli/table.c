#include "cli/table.h"

#include "cli/text.h"

#include <string.h>

enum { LINE_COLUMNS = 100, GAP = 2 };

static bool is_duration(const char *name)
{
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, "_ms") == 0;
}

static void put_cell(const struct cli_column *column, const char *text, int used)
{
    if (column->width) {
        cli_put_column(stdout, text, column->width);
        (void)printf("%*s", GAP, "");
    } else {
        cli_put_cut(stdout, text, LINE_COLUMNS - used > GAP ? LINE_COLUMNS - used : GAP);
    }
}

void cli_print_table(const struct cv_db_result *rows, const struct cli_column *columns,
                     size_t count)
{
    for (int row = -1; row < cv_db_rows(rows); row++) {
        int used = 0;
        for (size_t i = 0; i < count; i++) {
            const char *name = columns[i].name;
            char short_text[CLI_TIME_SIZE];
            const char *text = columns[i].title;
            if (row >= 0) {
                text = cv_db_text(rows, row, name);
                if (text && strcmp(name, "id") == 0) {
                    (void)snprintf(short_text, sizeof(short_text), "%.*s", columns[i].width, text);
                    text = short_text; /* its beginning, to be copied */
                } else if (text && is_duration(name)) {
                    text = cli_duration(cv_db_int(rows, row, name, 0), short_text);
                }
            }
            put_cell(&columns[i], text ? text : "", used);
            used += columns[i].width + GAP;
        }
        (void)putchar('\n');
    }
}
