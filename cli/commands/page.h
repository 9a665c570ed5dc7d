/* The web page of a running `cortana run`: its links, and opening a found moment in the browser or
 * in a player. */
#pragma once

#include "cli/commands/verb.h"

/* A moment of a video that a search has found. */
struct cli_moment {
    const char *video_id;
    const char *query; /* the search; the page highlights it */
    int64_t at_ms;
};

/* Makes a link that opens the page and signs the user in, five times within an hour, at `moment`
 * unless that is NULL; free() it. 0, or 1 if no page is available. */
CV_MUST_CHECK int cli_page_link(const struct cli_call *call, const struct cli_moment *moment,
                                char **ret_link, struct cv_error *error);

/* Shows a moment to the user: on the page of the server or installation if one is available, else the original in a player.
 * Without a desktop (DISPLAY, WAYLAND_DISPLAY) prints the link, or the file and the time.
 * CV_ERROR_CONFIGURATION if neither is possible. */
CV_MUST_CHECK int cli_open_moment(struct cli_call *call, const struct cli_moment *moment,
                                  struct cv_error *error);
