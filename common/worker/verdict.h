/* What a stage process has brought: a result, or a failure read from its words and its exit. */
#pragma once

#include "common/worker/child.h"

struct cv_verdict_result {
    json_t *result;    /* an object, NULL for a failure */
    json_t *artifacts; /* a checked list, NULL for a failure */
    json_t *program;   /* what the stage says of a program it has run, unchecked; NULL: nothing */
    struct cv_error failure;
};

void cv_verdict_deinit(struct cv_verdict_result *verdict);

/* Reads the output and exit status of a child that is over, whose job has these grants (of cv_grants_make).
 * Believes nothing that cannot be checked: whatever breaks the protocol is CV_ERROR_STAGE_PROTOCOL, and so is an
 * artifact that no grant covers. Never fails itself. */
void cv_verdict_read(const struct cv_child *child, const json_t *grants,
                     struct cv_verdict_result *verdict);
