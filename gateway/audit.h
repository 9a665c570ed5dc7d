/* Writes a request to the audit log (api.record). The pool records a change in the change's own
 * transaction. Refused requests are recorded by a separate thread, at most ten rows per minute for
 * each caller, so that their number cannot slow down others. */
#pragma once

#include "common/probe/probe.h"

#include "gateway/exchange.h"

struct audit;

struct audit_params {
    struct cv_cancel *cancel; /* an abort ends statements */
    struct limits *limits;
    struct cv_metrics *metrics; /* may be NULL */
};

/* The row for an exchange and its answer, a JSON list with one element; NULL: no memory. The
 * caller frees it. */
char *audit_row(const struct exchange *exchange);

CV_MUST_CHECK int audit_start(const struct audit_params *params, struct audit **ret_audit,
                              struct cv_error *error);

/* Writes the queued rows if the database is available, and ends the thread. */
void audit_stop(struct audit *audit);
CV_DEFINE_CLEANUP(struct audit *, audit_stop)

/* Queues the row of an exchange that was refused, or that changed something without the database.
 * Any thread may call it. */
void audit_record(struct audit *audit, const struct exchange *exchange);
