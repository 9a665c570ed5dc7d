/* The page in the browser that `cortana run` keeps up: its links, and opening what was found in it or in a player. */
#pragma once

#include "cli/commands/verb.h"

enum { CLI_LINK_HOURS = 1 }; /* a link signs its reader in for as long */

/* A moment of a video that a search has found. */
struct cli_moment {
    const char *video_id;
    const char *key;   /* of the original */
    const char *query; /* what was searched for: the page marks it */
    int64_t at_ms;
};

/* The link that opens the page, signed in; at `moment` unless that is NULL. 0, or 1 when no page is up; free() it. */
CV_MUST_CHECK int cli_page_link(const struct cli_call *call, const struct cli_moment *moment,
                                char **ret_link, struct cv_error *error);

/* Shows a moment to the person: the page, when one is up, in the browser, or its link where there is no desktop; else
 * the original in a player. CV_ERROR_CONFIGURATION when there is neither. */
CV_MUST_CHECK int cli_open_moment(struct cli_call *call, const struct cli_moment *moment,
                                  struct cv_error *error);
