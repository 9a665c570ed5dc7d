/* What the parts of this folder share. */
#pragma once

#include "common/probe/probe.h"

/* How often a number found no room. */
uint64_t cv_metrics_dropped(const struct cv_metrics *metrics);

/* ---- fleet.c ---- */

/* Reads the fleet's state from the database every CORTANA_METRICS_FLEET_MS and publishes it in `probe`,
 * which must outlive it. Stopping it waits for its thread. */
struct cv_fleet;
CV_MUST_CHECK int cv_fleet_start(struct cv_probe *probe, struct cv_fleet **ret_fleet,
                                 struct cv_error *error);
void cv_fleet_stop(struct cv_fleet *fleet);
