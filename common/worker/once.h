/* Runs a stage by hand, as `NAME --once < payload.json`. */
#pragma once

#include "common/worker/options.h"

/* Runs the stage once: payload on standard input, one JSON object on standard output; returns the
 * exit status. Makes a scratch directory and a broker unless a supervisor has made them. */
int cv_worker_once(const struct cv_stage *stage, const struct cv_worker_options *options);
