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
