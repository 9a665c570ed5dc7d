/* The outcome of a stage process: a result, or a failure, read from its output and exit status. */
#pragma once

#include "common/worker/child.h"

struct cv_verdict_result {
    json_t *result;    /* an object; NULL for a failure */
    json_t *artifacts; /* a checked list; NULL for a failure */
    json_t *program; /* the stage's report about a program that it has run, unchecked; NULL: none */
    struct cv_error failure;
};

void cv_verdict_deinit(struct cv_verdict_result *verdict);

/* Reads the output and exit status of a child that is over; `grants` are the grants of its job
 * (from cv_grants_make). Trusts nothing that cannot be checked: output that breaks the protocol is
 * CV_ERROR_STAGE_PROTOCOL, and so is an artifact that no grant covers. Never fails itself. */
void cv_verdict_read(const struct cv_child *child, const json_t *grants,
                     struct cv_verdict_result *verdict);
