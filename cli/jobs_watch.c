#include "cli/jobs.h"
#include "cli/table.h"

#include <poll.h>
#include <string.h>

/* What is open of each type, and what runs. */
static int draw(struct cli_session *session, struct cv_error *error)
{
    static const struct cli_column count_columns[] = {
        {"job_type", "TYPE", 20},    {"ready", "READY", 8},
        {"waiting", "WAITING", 8},   {"running", "RUNNING", 8},
        {"retrying", "RETRYING", 8}, {"dead", "DEAD", 6},
        {"oldest_ms", "OLDEST", 8},  {"note", "", 0},
    };
    static const struct cli_column job_columns[] = {
        {"id", "JOB", 8},          {"job_type", "TYPE", 16}, {"percent", "DONE", 6},
        {"running_ms", "TIME", 8}, {"video", "VIDEO", 18},   {"progress_message", "DOING", 0},
    };
    cv_auto(cv_db_result_free) struct cv_db_result *counts = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *jobs = NULL;
    int result = cv_db_run(session->db, &counts, error,
                           "SELECT *, oldest_ready_seconds * 1000 AS oldest_ms,"
                           " CASE WHEN is_paused THEN 'paused' WHEN running >= max_running"
                           " THEN 'at its limit' END AS note FROM job_counts"
                           " WHERE is_paused OR ready + waiting + running + retrying + dead > 0"
                           " ORDER BY job_type");
    result = result ? result
                    : cv_db_run(session->db, &jobs, error,
                                "SELECT *, round(progress * 100) || ' %' AS percent"
                                " FROM job_overview WHERE status = 'processing'"
                                " ORDER BY started_at LIMIT 30");
    if (result == 0) {
        cli_print_table(counts, count_columns, CV_COUNT(count_columns));
        (void)putchar('\n');
        cli_print_table(jobs, job_columns, CV_COUNT(job_columns));
    }
    return result;
}

int cli_jobs_watch(struct cli_session *session, const struct cli_jobs_request *request,
                   struct cv_error *error)
{
    bool is_terminal = isatty(STDOUT_FILENO) && strcmp(cv_env("TERM", "dumb"), "dumb") != 0;
    for (int64_t drawn = 0; request->count == 0 || drawn < request->count; drawn++) {
        struct pollfd wait = {.fd = cv_cancel_fd(request->cancel), .events = POLLIN};
        if (drawn > 0 && poll(&wait, 1, (int)request->every_ms) > 0) {
            return 0; /* interrupting is how one leaves */
        }
        if (is_terminal) {
            (void)fputs("\033[H\033[J", stdout);
        } else if (drawn > 0) {
            (void)putchar('\n');
        }
        int result = draw(session, error);
        if (result) {
            return result;
        }
        (void)fflush(stdout);
    }
    return 0;
}
