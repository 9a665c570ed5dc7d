/* Rows of a query as a table for people. */
#pragma once

#include "common/db/db.h"

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
