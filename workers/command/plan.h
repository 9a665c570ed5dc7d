/* The program, arguments and environment that a payload stands for. */
#pragma once

#include "common/base/base.h"
#include "common/db/db.h"

#include <jansson.h>

struct command_plan {
    char *program;      /* an absolute path */
    char **argv;        /* NULL-terminated */
    char **environment; /* NULL-terminated */
    int64_t time_limit_ms;
};

void command_plan_deinit(struct command_plan *plan);
CV_DEFINE_CLEANUP_ADDRESS(struct command_plan, command_plan_deinit)

/* Asks the database (plan_command), which validates the payload again; a refusal is
 * CV_ERROR_INVALID_PAYLOAD. The program "cortana" is the one installed beside this worker. The
 * environment is PATH, LANG, HOME and TMPDIR (`scratch`), and the variables of this process that
 * the definition names. */
CV_MUST_CHECK int command_plan_make(struct cv_db *db, const json_t *payload, const char *scratch,
                                    struct command_plan *ret_plan, struct cv_error *error);
