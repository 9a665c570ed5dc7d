/* Waits for videos and jobs, with progress on standard error; failures are reported with the user's
 * own names. */
#pragma once

#include "cli/commands/ingest.h"
#include "cli/commands/print.h"

/* Waits until all videos of the list are ready or have failed; *ret_failed counts those that
 * failed, which are reported at once. If the database is away for a while it waits, and a local one
 * is restarted. */
CV_MUST_CHECK int cli_wait_for_videos(struct cli_call *call, struct cli_workers *workers,
                                      const struct cli_video_list *list, size_t *ret_failed,
                                      struct cv_error *error);

/* Waits until a clip (an object of the API, which is replaced by what it becomes) is done; fails with
 * its error if it fails permanently or is canceled. */
CV_MUST_CHECK int cli_wait_for_clip(struct cli_call *call, struct cli_workers *workers,
                                    json_t **clip, struct cv_error *error);

/* Keeps the workers and the scanner running and shows their work, and prints a line for every video
 * that arrives, becomes ready or fails, until interrupted; then returns 0. */
CV_MUST_CHECK int cli_watch_inbox(struct cli_call *call, struct cli_workers *workers,
                                  struct cv_error *error);
