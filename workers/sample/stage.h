/* The sample stage: from an original to the frames worth reading. */
#pragma once

#include "common/worker/worker.h"

extern const struct cv_stage sample_stage;
