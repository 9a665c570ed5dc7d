/* drain-jobs WORKER TYPE LIMIT single|batch: claims and completes jobs of DATABASE_URL until there
 * are none, and prints the id of each job whose completion was accepted. */
#include "common/queue/queue.h"

#include "tests/programs/connection.h"

#include <string.h>

enum { LEASE_MS = 60 * 1000 };

static int complete_one_by_one(struct cv_db *db, const struct cv_job_list *list,
                               struct cv_error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        int result = cv_queue_complete(db, &list->jobs[i], NULL, NULL, error);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            printf("%s\n", list->jobs[i].id);
        }
    }
    return 0;
}

static int complete_all(struct cv_db *db, const char *worker, const struct cv_job_list *list,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(db, &rows, error,
                     "SELECT complete_jobs(array_agg(id), array_agg(lease_token)) AS completed"
                     " FROM jobs WHERE status = 'processing' AND locked_by = $1",
                     worker));
    if (cv_db_int(rows, 0, "completed", 0) != (int64_t)list->count) {
        return cv_fail(error, CV_ERROR_LEASE_LOST, "not all of %zu jobs were completed",
                       list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        printf("%s\n", list->jobs[i].id);
    }
    return 0;
}

static int drain(struct cv_db *db, char **arguments, int limit, struct cv_error *error)
{
    while (true) {
        cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
        const struct cv_claim_params params = {arguments[1], arguments[2], limit, LEASE_MS};
        int result = cv_queue_claim(db, &params, &list, error);
        if (result == CV_QUEUE_EMPTY) {
            return 0;
        }
        if (result == 0) {
            result = strcmp(arguments[4], "single") == 0
                         ? complete_one_by_one(db, &list, error)
                         : complete_all(db, arguments[1], &list, error);
        }
        if (result) {
            return result;
        }
    }
}

int main(int argc, char **argv)
{
    int64_t limit = 0;
    if (argc != 5 || !cv_parse_int(argv[3], 1, 1000, &limit)) {
        (void)fprintf(stderr, "usage: drain-jobs WORKER TYPE LIMIT single|batch\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, 0);
    if (drain(db, argv, (int)limit, &error)) {
        (void)fprintf(stderr, "%s: %s\n", cv_error_type_name(error.type), error.message);
        return CV_EXIT_PERMANENT;
    }
    return CV_EXIT_DONE;
}
