#include "workers/scheduler/scheduler.h"

int scheduler_fire(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(part->db, &rows, error, "SELECT * FROM scheduler_tick()"));
    int64_t fired = cv_db_int(rows, 0, "fired", 0);
    int64_t dispatched = cv_db_int(rows, 0, "dispatched", 0);
    int64_t failed = cv_db_int(rows, 0, "failed", 0);
    if (fired > 0 || dispatched > 0) {
        cv_log(CV_LOG_INFO, "%lld instants of schedules, %lld events", (long long)fired,
               (long long)dispatched);
    }
    if (failed > 0) {
        cv_log(CV_LOG_WARN, "%lld triggers failed: cortana triggers says why", (long long)failed);
    }
    *ret_wait_ms = cv_db_int(rows, 0, "wait_ms", INT64_MAX);
    return 0;
}
