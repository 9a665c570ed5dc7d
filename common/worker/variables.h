/* Decides which environment variables a process that the worker starts may see. */
#pragma once

#include "common/worker/worker.h"

/* In addition to enum cv_stage_needs: the process accesses the store itself, as a broker does. */
enum { CV_NEEDS_STORE_ACCESS = 1 << 16 };

/* Whether a process with these needs may see "NAME=value". */
bool cv_variables_admits(const char *entry, unsigned needs);

/* Removes all other variables from this process' environment and overwrites their values, so that they
 * are not found in its memory either. */
void cv_variables_wipe(unsigned needs);
