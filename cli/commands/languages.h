/* Names of models on a command line, and which models are installed. */
#pragma once

#include "cli/commands/print.h"

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

/* Finds what was not read of all videos, for cli_unread_text; what has the most lines first. The
 * caller frees the array. */
CV_MUST_CHECK int cli_unread_find(struct cv_db *db, json_t **ret_unread, struct cv_error *error);

/* Writes "12 lines are in Cyrillic, which no model has read: apt-get install …, then cortana
 * reindex … VIDEO" for one item; for several videos their number. `video` may be NULL. Returns
 * `text`. */
const char *cli_unread_text(const json_t *unread, const char *video,
                            char text[CLI_UNREAD_TEXT_SIZE]);
