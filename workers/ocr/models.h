/* Which Tesseract models are installed, and where. */
#pragma once

#include "common/base/base.h"

/* The folder of the models: TESSDATA_PREFIX, else the first of the usual places that is there. */
const char *ocr_models_path(void);

/* The name under which a model is installed in `data_path`, a part of `name`: distributions put
 * scripts beside the languages ("script/Latin" or "Latin"). CV_ERROR_INVALID_PAYLOAD where it is no
 * name of a model, or none is installed; the message then lists those that are. */
CV_MUST_CHECK int ocr_models_find(const char *data_path, const char *name, const char **ret_name,
                                  struct cv_error *error);
