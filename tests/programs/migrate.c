/* Migrates DATABASE_URL and prints {"applied", "pending"}; with --status only looks. */
#include "common/queue/queue.h"

#include <string.h>

static int run(bool only_status, struct cv_migration_status *ret_status, struct cv_error *error)
{
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    int result = cv_db_open(&(struct cv_db_params){0}, &db, error);
    if (result) {
        return result;
    }
    return only_status ? cv_migrate_status(db, ret_status, error)
                       : cv_migrate(db, ret_status, error);
}

int main(int argc, char **argv)
{
    struct cv_migration_status status;
    struct cv_error error;
    if (run(argc > 1 && strcmp(argv[1], "--status") == 0, &status, &error)) {
        (void)fprintf(stderr, "%s: %s\n", cv_error_type_name(error.type), error.message);
        return CV_EXIT_PERMANENT;
    }
    printf("{\"applied\": %d, \"pending\": %d}\n", status.applied, status.pending);
    return CV_EXIT_DONE;
}
