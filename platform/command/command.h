/* The command stage: {"command", "args"}. Runs the one program that job_definitions names for the
 * command, with exactly the arguments that its template yields, without a shell, reports what it prints, and
 * keeps the files that it writes for the steps that follow. */
#pragma once

#include "common/worker/worker.h"

/* Result: {"summary": …} with what the program printed: a JSON object as it is, anything else as
 * {"output": …}. */
CV_MUST_CHECK int command_run(struct cv_stage_context *context, const json_t *payload,
                              json_t **ret_result, struct cv_error *error);
