/* The text of a line's picture, with the place of each word. */
#pragma once

#include "workers/ocr/reading/choose_models.h"
#include "workers/ocr/reading/engine.h"
#include "workers/ocr/reading/missing_models.h"
#include "workers/ocr/reading/models.h"
#include "workers/ocr/reading/reader.h"
#include "workers/ocr/reading/word_boxes.h"
