/* Connects to DATABASE_URL, prints the backend's pid, and after each line on standard input runs a
 * statement and says what became of it; a lost connection is waited for. */
#include "common/db/db.h"

#include "tests/programs/connection.h"

enum { STATEMENT_TIMEOUT_MS = 500, AWAY_MS = 60 * 1000 };

static void say(const char *what, const struct cv_error *error)
{
    printf("%s %s %s\n", what, error ? cv_error_type_name(error->type) : "-",
           error ? error->message : "-");
    (void)fflush(stdout);
}

int main(void)
{
    struct cv_error error;
    cv_auto(cv_db_close) struct cv_db *db = open_database(NULL, STATEMENT_TIMEOUT_MS);
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(db, &rows, &error, "SELECT pg_backend_pid() AS pid")) {
        say("failed", &error);
        return CV_EXIT_RETRY;
    }
    printf("%s\n", cv_db_text(rows, 0, "pid"));
    (void)fflush(stdout);

    char line[16];
    while (fgets(line, sizeof(line), stdin)) {
        if (cv_db_run(db, NULL, &error, "SELECT 1") == 0) {
            say("ok", NULL);
            continue;
        }
        say("lost", &error);
        if (cv_db_reconnect(db, AWAY_MS, &error)) {
            say("gone", &error);
            return CV_EXIT_RETRY;
        }
        say("back", NULL);
    }
    return CV_EXIT_DONE;
}
