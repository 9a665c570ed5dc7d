/* Which Tesseract models are installed, and where. */
#pragma once

#include "workers/ocr/reading/engine.h"

/* The folder of the models: TESSDATA_PREFIX, else the first of the usual places that exists. */
const char *ocr_models_path(void);

/* The name under which a model is installed in `data_path`, a part of `name`: distributions put
 * scripts beside the languages ("script/Latin" or "Latin"). CV_ERROR_INVALID_PAYLOAD where it is no
 * name of a model, or none is installed; the message then lists those that are. */
CV_MUST_CHECK int ocr_models_find(const char *data_path, const char *name, const char **ret_name,
                                  struct cv_error *error);

/* Whether the model is installed that tells scripts apart and reads nothing. */
CV_MUST_CHECK int ocr_models_has_osd(bool *ret_installed, struct cv_error *error);

/* The models of a job that names none. Free with ocr_defaults_deinit. */
struct ocr_defaults {
    char *text; /* what the names point into; NULL: constants; owned */
    const char *names[OCR_LANGUAGES_MAX];
    size_t count;
};

/* Those of CORTANA_LANGUAGES ("eng+deu"), which all have to be installed; without it those of English,
 * German and French that are, with a warning of the others. CV_ERROR_CONFIGURATION says what is
 * missing. */
CV_MUST_CHECK int ocr_defaults_init(struct ocr_defaults *ret_defaults, struct cv_error *error);
void ocr_defaults_deinit(struct ocr_defaults *defaults);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_defaults, ocr_defaults_deinit)
