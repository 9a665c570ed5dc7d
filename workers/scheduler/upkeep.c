#include "common/queue/queue.h"

#include "workers/scheduler/scheduler.h"

enum {
    TASKS_A_ROUND = 32,    /* more than there are, so that all due tasks run and the loop ends */
    NODES_MS = 30 * 1000,  /* between two checks whether nodes must be woken */
    REPORT_MS = 60 * 1000, /* stale after five minutes, like a worker */
};

static void tell_node(void *opaque, const char *node, const struct cv_error *failure)
{
    (void)opaque;
    if (failure) {
        cv_log(CV_LOG_WARN, "node %s: %s", node, failure->message);
    } else {
        cv_log(CV_LOG_INFO, "node %s is called", node);
    }
}

/* One statement per task: each is its own transaction, and its lock keeps other schedulers from
 * running the task at the same time. */
static int do_tasks(struct scheduler_part *part, struct cv_error *error)
{
    for (int i = 0; i < TASKS_A_ROUND; i++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        if (cv_daemon_is_stopping(part->daemon)) {
            return 0;
        }
        int result =
            cv_db_run(part->db, &rows, error,
                      "SELECT u.task, t.took_ms, t.last_error FROM run_upkeep() AS u (task)"
                      " LEFT JOIN upkeep_tasks t ON t.name = u.task");
        if (result != 0) {
            return result;
        }
        const char *task = cv_db_text(rows, 0, "task");
        if (!task) {
            return 0;
        }
        cv_log(CV_LOG_DEBUG, "upkeep: %s", task);
    }
    return 0;
}

/* Logs the last failure of each task, which is stored in the task's row. Called once per round. */
static int tell_failures(struct scheduler_part *part, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(part->db, &rows, error,
                     "SELECT name, last_error FROM upkeep_tasks WHERE last_error IS NOT NULL"
                     " ORDER BY name"));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        cv_log(CV_LOG_WARN, "upkeep: %s: %s", cv_db_text(rows, i, "name"),
               cv_db_text(rows, i, "last_error"));
    }
    return 0;
}

int scheduler_keep(struct scheduler_part *part, int64_t *ret_wait_ms, struct cv_error *error)
{
    int64_t now = cv_monotonic_ms();
    CV_TRY(do_tasks(part, error));
    if (!part->is_once && now >= part->daemon->report_at) {
        CV_TRY(cv_daemon_report(part->daemon, part->db, SCHEDULER_JOB_TYPE, REPORT_MS, error));
        CV_TRY(tell_failures(part, error));
    }
    if (now >= part->nodes_at) {
        part->nodes_at = now + NODES_MS;
        CV_TRY(cv_queue_wake_nodes(part->db, tell_node, NULL, error));
    }
    *ret_wait_ms = INT64_MAX;
    return 0;
}
