/* Names of models on a command line, and which models are installed. */
#pragma once

#include "cli/commands/tell.h"

/* What a stage takes (workers/ocr). */
enum { CLI_LANGUAGES_MAX = 8, CLI_LANGUAGE_NAME_MAX = 55 };

/* Of these a stage takes as many as are installed, where nobody names any. */
#define CLI_LANGUAGES_DEFAULT "eng+deu+fra"

/* The value of --languages, "eng+script/Japanese", as a list of names (NULL when it was not given; the caller's). Names
 * that are none, and with `here` models that are not installed on this machine, are CLI_EXIT_USAGE. */
CV_MUST_CHECK int cli_read_languages(const struct cli_call *call, bool here,
                                     json_t **ret_languages);

/* Whether there is a model of that name on this machine: in TESSDATA_PREFIX, else where Debian has them. */
bool cli_model_is_installed(const char *name);

/* The Debian package that brings a model: "tesseract-ocr-chi-sim", "tesseract-ocr-script-jpan"; returns `text`. */
const char *cli_model_package(const char *name, char text[96]);

/* The names of all models that are installed, a blank between them. */
void cli_installed_models(struct cv_buffer *names);

/* Lines in scripts that no model has read (unread_lines): what is said of them, with the Debian package that would read them. */

enum { CLI_UNREAD_TEXT_SIZE = 512 };

/* Rows of a video's unread scripts, or with NULL of all videos', for cli_unread_text; the one with the most lines first. */
CV_MUST_CHECK int cli_unread_find(struct cv_db *db, const char *video_id,
                                  struct cv_db_result **ret_rows, struct cv_error *error);

/* "12 lines are in Cyrillic, which no model has read: apt-get install …, then cortana reindex … VIDEO", of one row; of
 * several videos how many they are. Returns `text`. */
const char *cli_unread_text(const struct cv_db_result *rows, int row,
                            char text[CLI_UNREAD_TEXT_SIZE]);
