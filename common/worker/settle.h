/* Telling the database what became of a job. */
#pragma once

#include "common/worker/supervisor.h"

/* One try, if it is time, to tell the database what became of the slot's job. The slot is free
 * afterwards, or its next try is set. */
void cv_slot_settle(struct cv_supervisor *supervisor, int index);
