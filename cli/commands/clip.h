/* Clips, cut by clip_generate jobs. */
#pragma once

#include "cli/commands/print.h"

#define CLI_CLIP_FORMATS "mp4 webm gif jpg"

enum { CLI_CLIP_PADDING_MS = 2000 }; /* default of padding_ms */

/* Has a clip made (`values` are the parameters of the operation: request_clip, quote or reel) and waits for it;
 * *ret_clip is the clip as the API shows it, which the caller frees. The same request again gives the
 * same clip at no cost. A local installation's worker is started if it does not run. */
CV_MUST_CHECK int cli_clip_make(struct cli_call *call, struct cli_workers *workers,
                                const char *operation, const json_t *values, json_t **ret_clip,
                                struct cv_error *error);

/* The object's key of a clip that a database has answered with; free() it. NULL: out of memory. */
char *cli_clip_key(const json_t *clip);
