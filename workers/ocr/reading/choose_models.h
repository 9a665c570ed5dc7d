/* Which models read a video, found by reading it: nobody has to say its languages. A reader begins with the usual
 * models; what these make of the lines tells languages of Latin letters (by the detector of languages), and lines of
 * which they are unsure are read by a model of each other script. Whoever reads begins again when the models change, so
 * that the text is the same as if the languages had been named. One thread. */
#pragma once

#include "workers/ocr/pictures/pictures.h"
#include "workers/ocr/reading/engine.h"

struct ocr_choice;

/* `may_add`: models that are installed may be added to those of the engine; else only their order is chosen. */
CV_MUST_CHECK int ocr_choice_new(bool may_add, struct ocr_choice **ret_choice,
                                 struct cv_error *error);
void ocr_choice_free(struct ocr_choice *choice);
CV_DEFINE_CLEANUP(struct ocr_choice *, ocr_choice_free)

/* Adds a line and what the engine made of it. */
CV_MUST_CHECK int ocr_choice_add_line(struct ocr_choice *choice, const struct ocr_crop *crop,
                                      const struct ocr_reading *reading, struct cv_error *error);

/* CV_OCR_OTHER_MODELS: the engine has other models now, and everything has to be read again. */
enum { CV_OCR_OTHER_MODELS = 1 };

/* Chooses the models by the lines of the engine's choice, if there are enough, or if `is_end` says that there is no more; an engine
 * without a choice keeps its models. They change a few times at most, and the lines are forgotten then. */
CV_MUST_CHECK int ocr_choose_models(struct ocr_engine *engine, bool is_end, struct cv_error *error);
