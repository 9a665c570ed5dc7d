/* A stage by hand, as `NAME --once < payload.json` runs it. */
#pragma once

#include "common/worker/options.h"

/* Runs the stage once: payload on standard input, one JSON object on standard output; returns the exit status. Where no
 * supervisor has made a scratch directory and a broker, it makes both. */
int cv_worker_once(const struct cv_stage *stage, const struct cv_worker_options *options);
