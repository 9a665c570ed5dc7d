/* Names of models on a command line, and which models are installed. */
#pragma once

#include "cli/commands/tell.h"

/* The limits of a stage (workers/ocr). */
enum { CLI_LANGUAGES_MAX = 8, CLI_LANGUAGE_NAME_MAX = 55 };

/* Reads --languages, "eng+script/Japanese", as a list of names that the caller owns (NULL if it was
 * not given). Invalid names, and with `here` models that are not installed on this machine, are
 * CLI_EXIT_USAGE. */
CV_MUST_CHECK int cli_read_languages(const struct cli_call *call, bool here,
                                     json_t **ret_languages);

/* Whether a model is installed on this machine: in TESSDATA_PREFIX, or else in Debian's directory. */
bool cli_model_is_installed(const char *name);

/* The Debian package of a model: "tesseract-ocr-chi-sim", "tesseract-ocr-script-jpan"; returns
 * `text`. */
const char *cli_model_package(const char *name, char text[96]);

/* Appends a blank and the Debian package of each model that is usually installed (scripts/packages), and is not here. */
void cli_missing_packages(struct cv_buffer *packages);

/* Appends the names of all installed models, separated by blanks. */
void cli_installed_models(struct cv_buffer *names);

/* Text about lines in scripts that no model has read (unread_lines), with the Debian package of a
 * suitable model. */

enum { CLI_UNREAD_TEXT_SIZE = 512 };

/* Finds the unread scripts of a video, or with NULL of all videos, for cli_unread_text; the one
 * with the most lines first. */
CV_MUST_CHECK int cli_unread_find(struct cv_db *db, const char *video_id,
                                  struct cv_db_result **ret_rows, struct cv_error *error);

/* Writes "12 lines are in Cyrillic, which no model has read: apt-get install …, then cortana
 * reindex … VIDEO" for one row; for several videos their number. Returns `text`. */
const char *cli_unread_text(const struct cv_db_result *rows, int row,
                            char text[CLI_UNREAD_TEXT_SIZE]);
