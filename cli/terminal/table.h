/* Rows of a query as a table for people. */
#pragma once

#include "common/db/db.h"

struct cli_column {
    const char *name;  /* of the result's column */
    const char *title; /* as it stands above */
    int width;         /* cut and filled to it; 0: the last column, cut at the end of the line */
};

/* Prints the title line and every row; NULL is printed as nothing, a column whose name ends in
 * "_ms" as a duration, and of a column "id" the beginning. */
void cli_print_table(const struct cv_db_result *rows, const struct cli_column *columns,
                     size_t count);
