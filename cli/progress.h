/* Waits until videos are ready or failed, and shows how far each stage is: bars that are redrawn on
 * a terminal, a line for each change elsewhere. */
#pragma once

#include "cli/ingest.h"
#include "cli/worker_processes.h"

/* Returns 0 when no video of the list is on its way any more; *ret_failed counts failed ones. A
 * failed job is told at once, with its error. */
CV_MUST_CHECK int cli_wait_for_videos(struct cli_session *session, struct cli_workers *workers,
                                      const struct cli_video_list *list, struct cv_cancel *cancel,
                                      size_t *ret_failed, struct cv_error *error);
