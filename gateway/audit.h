/* The audit log's part of a request: what the database notes of it (api.record). A change is noted in its own
 * transaction by the pool; what was refused is noted by a thread of its own, ten rows a minute for a caller, so that
 * nobody's refusals cost others anything.
 */
#pragma once

#include "common/probe/probe.h"

#include "gateway/exchange.h"

struct audit;

struct audit_params {
    struct cv_cancel *cancel; /* an abort ends statements */
    struct limits *limits;
    struct cv_metrics *metrics; /* may be NULL */
};

/* The row for an exchange that has this answer, a JSON list of one; NULL: no memory. The caller frees it. */
char *audit_row(const struct exchange *exchange, const struct answer *answer);

CV_MUST_CHECK int audit_start(const struct audit_params *params, struct audit **ret_audit,
                              struct cv_error *error);

/* Writes what is queued, while the database is there, and ends. */
void audit_stop(struct audit *audit);
CV_DEFINE_CLEANUP(struct audit *, audit_stop)

/* Queues the row of an exchange that was refused, or changed something without the database. From any thread. */
void audit_note(struct audit *audit, const struct exchange *exchange);
