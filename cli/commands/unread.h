/* Lines in scripts that no model has read (unread_lines): what is said of them, with the Debian package that would read them. */
#pragma once

#include "cli/commands/tell.h"

enum { CLI_UNREAD_TEXT_SIZE = 512 };

/* Rows of a video's unread scripts, or with NULL of all videos', for cli_unread_text; the one with the most lines first. */
CV_MUST_CHECK int cli_unread_find(struct cv_db *db, const char *video_id,
                                  struct cv_db_result **ret_rows, struct cv_error *error);

/* "12 lines are in Cyrillic, which no model has read: apt-get install …, then cortana reindex … VIDEO", of one row; of
 * several videos how many they are. Returns `text`. */
const char *cli_unread_text(const struct cv_db_result *rows, int row,
                            char text[CLI_UNREAD_TEXT_SIZE]);
