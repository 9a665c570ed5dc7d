#include "common/queue/queue.h"

#include "workers/scanner/scanner.h"

enum { LEAVE_MS = 2 * 1000 }; /* for the last word, to a database that may be gone */

static int report(struct cv_db *db, const char *state, struct cv_error *error)
{
    char host[CV_WORKER_HOST_SIZE];
    char id[CV_WORKER_ID_SIZE];
    cv_queue_name_worker(host, sizeof(host), id, sizeof(id));
    const struct cv_worker_state row = {
        .id = id, .host = host, .job_type = "scanner", .state = state};
    return cv_queue_report_worker(db, &row, error);
}

int scanner_report(struct scanner *scanner, struct cv_error *error)
{
    int64_t now = cv_monotonic_ms();
    if (!scanner->is_loop ||
        (scanner->is_reported && now - scanner->reported_ms < scanner->heartbeat_ms)) {
        return 0;
    }
    int result = report(scanner->db, "running", error);
    if (result < 0) {
        return result;
    }
    scanner->is_reported = true;
    scanner->reported_ms = now;
    if (result == CV_QUEUE_DRAIN) {
        cv_log(CV_LOG_INFO, "told to go");
        cv_cancel_request(scanner->cancel, CV_CANCEL_DRAIN);
    }
    return 0;
}

/* By a connection of its own: whoever was told to abort has none that answers. */
void scanner_leave(struct scanner *scanner)
{
    const struct cv_db_params params = {.application_name = "scanner-worker",
                                        .connect_timeout_ms = LEAVE_MS,
                                        .statement_timeout_ms = LEAVE_MS};
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    struct cv_error error;
    if (scanner->is_reported &&
        (cv_db_open(&params, &db, &error) < 0 || report(db, "stopped", &error) < 0)) {
        cv_log(CV_LOG_DEBUG, "cannot say goodbye: %s", error.message);
    }
}
