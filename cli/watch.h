/* An installation that runs until it is told to stop, and says what becomes of its uploads. */
#pragma once

#include "cli/session.h"
#include "cli/worker_processes.h"

/* Keeps the workers and the scanner up, and prints a line for every video that comes in, becomes
 * ready or fails, until `cancel`; 0 then. */
CV_MUST_CHECK int cli_watch(struct cli_session *session, struct cli_workers *workers,
                            struct cv_cancel *cancel, struct cv_error *error);
