/* Reports the outcome of a job to the database. */
#pragma once

#include "common/worker/supervisor.h"

/* If it is time, tries once to report the outcome of the slot's job. Then the slot is free, or the
 * time of the next try is set. */
void cv_slot_settle(struct cv_supervisor *supervisor, int index);
