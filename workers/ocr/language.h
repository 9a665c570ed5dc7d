/* Which of a job's languages a line is in, where several may read it: the model that read it says
 * little, for the English one reads German well and the other way round. */
#pragma once

#include "common/base/base.h"

/* The index of the model whose language the text most likely is; `count` when nobody can say: no
 * letters, a language that is none of theirs, or models of scripts. By Compact Language Detector 2,
 * which needs a few words to be sure and is right for most lines of two. */
size_t ocr_language_of(const char *text, const char *const *models, size_t count);
