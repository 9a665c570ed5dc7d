/* What the test programs that work on a real database share. */
#pragma once

#include "common/db/db.h"

/* Opens DATABASE_URL, or ends the program with a message. `cancel` may be NULL. */
static inline struct cv_db *open_database(struct cv_cancel *cancel, int64_t statement_timeout_ms)
{
    struct cv_db_params params = {.cancel = cancel, .statement_timeout_ms = statement_timeout_ms};
    struct cv_db *db = NULL;
    struct cv_error error;
    if (cv_db_open(&params, &db, &error)) {
        (void)fprintf(stderr, "%s: %s\n", cv_error_type_name(error.type), error.message);
        exit(CV_EXIT_STOP);
    }
    return db;
}
