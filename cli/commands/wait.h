/* Waiting for videos and jobs, with their progress on standard error; what failed is told in the user's own names. */
#pragma once

#include "cli/commands/ingest.h"
#include "cli/commands/tell.h"

/* Waits until no video of the list is on its way any more; *ret_failed counts those that failed. A failure is told at
 * once. A database that is away for a while is waited for, and a local one started again. */
CV_MUST_CHECK int cli_wait_for_videos(struct cli_call *call, struct cli_workers *workers,
                                      const struct cli_video_list *list, size_t *ret_failed,
                                      struct cv_error *error);

/* Waits for one job; raises with its error when it fails for good or is canceled. `label` stands beside its bar, `name`
 * takes the place of the original's key in its error. */
CV_MUST_CHECK int cli_wait_for_job(struct cli_call *call, struct cli_workers *workers,
                                   const char *job_id, const char *label, const char *name,
                                   struct cv_error *error);

/* Keeps the workers and the scanner up, shows what they work on, and says a line for every video that comes in, becomes
 * ready or fails, until interrupted; 0 then. */
CV_MUST_CHECK int cli_watch_inbox(struct cli_call *call, struct cli_workers *workers,
                                  struct cv_error *error);
