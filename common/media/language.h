/* Names of languages as files have them. */
#pragma once

/* The code of three letters (ISO 639-3) for "de", "deu", "ger" of ISO 639-2's older list, which containers use, or "german";
 * lower case. Other codes of three letters are returned as they are; "" for what is no code, and for "und". */
const char *cv_language_code(const char *name);

/* The same with two letters where there are such (ISO 639-1), as BCP 47 wants it. Both return texts that stay. */
const char *cv_language_tag(const char *name);
