/* Names of models on a command line. */
#pragma once

#include "common/base/base.h"

#include <jansson.h>

/* What a stage takes (workers/ocr). */
enum { CLI_LANGUAGES_MAX = 8, CLI_LANGUAGE_NAME_MAX = 55 };

/* Of these a stage takes as many as are installed, where nobody names any. */
#define CLI_LANGUAGES_DEFAULT "eng+deu+fra"

#define CLI_LANGUAGES_USAGE "takes names of models like eng+deu or script/Japanese"

/* "eng+script/Japanese" to a list of names. What a name may hold is what Tesseract's files are called,
 * alone or in its folder `script`. NULL when the text is none, or there is no memory. */
json_t *cli_parse_languages(const char *text);
