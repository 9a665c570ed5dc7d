/* What the endpoint says, read. */
#pragma once

#include "common/embed/embed.h"

/* Vectors of a body in one of the two forms; `count` of them are expected. */
CV_MUST_CHECK int cv_embed_read_answer(const char *body, size_t length, size_t count,
                                       struct cv_embeddings *ret_embeddings,
                                       struct cv_error *error);
