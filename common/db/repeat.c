/* Statements that a session keeps prepared. */
#include "common/db/connection.h"

#include <string.h>

enum { NAME_SIZE = 16, DOES_NOT_FIT = 1 };

/* What a kept statement fails with that has outlived its tables or its session: run anew, its text
 * may well succeed. */
static const char *const stale[] = {
    "26000", /* no such prepared statement: somebody has reset the session */
    "42P05", /* there is one of this name already: somebody else's */
    "0A000", /* "cached plan must not change result type" */
    "42804", /* a function returns other columns than when the plan was made */
};

void cv_db_forget_repeated(struct cv_db *db)
{
    for (size_t i = 0; i < db->repeated_count; i++) {
        free(db->repeated[i]);
    }
    db->repeated_count = 0;
}

static bool is_stale(const char *sqlstate)
{
    for (size_t i = 0; i < CV_COUNT(stale); i++) {
        if (strcmp(sqlstate, stale[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A pooler hands out numbers of its own, for it has to know whom to cancel. */
static int find_way(struct cv_db *db, struct cv_error *error)
{
    if (db->way != CV_DB_WAY_UNKNOWN) {
        return 0;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, "SELECT pg_backend_pid() AS pid");
    if (result) {
        return result;
    }
    db->way =
        cv_db_int(rows, 0, "pid", 0) == PQbackendPID(db->connection) ? CV_DB_DIRECT : CV_DB_POOLED;
    return 0;
}

/* The number of the kept statement, or DOES_NOT_FIT. */
static int keep(struct cv_db *db, const char *sql, size_t *ret_index, struct cv_error *error)
{
    for (size_t i = 0; i < db->repeated_count; i++) {
        if (strcmp(db->repeated[i], sql) == 0) {
            *ret_index = i;
            return 0;
        }
    }
    if (db->repeated_count == CV_DB_REPEATED_MOST) {
        return DOES_NOT_FIT;
    }
    cv_auto_free char *copy = strdup(sql);
    if (!copy) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a statement");
    }
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "cv_%zu", db->repeated_count);
    cv_auto(PQclear) PGresult *answer = NULL;
    struct cv_db_request request = {.kind = CV_DB_PREPARE, .sql = sql, .name = name};
    int result = cv_db_execute(db, &request, NULL, &answer, error);
    if (result) {
        return result;
    }
    *ret_index = db->repeated_count;
    db->repeated[db->repeated_count++] = cv_take(copy);
    return 0;
}

static int run_kept(struct cv_db *db, const char *sql, size_t count, const char *const *parameters,
                    struct cv_db_result **ret_result, struct cv_error *error)
{
    size_t index = 0;
    int result = keep(db, sql, &index, error);
    if (result == DOES_NOT_FIT) {
        return cv_db_query(db, sql, count, parameters, ret_result, error);
    }
    if (result) {
        return result;
    }
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "cv_%zu", index);
    cv_auto(PQclear) PGresult *rows = NULL;
    struct cv_db_request request = {CV_DB_PREPARED, NULL, name, count, parameters};
    result = cv_db_execute(db, &request, NULL, &rows, error);
    return result ? result : cv_db_take_rows(&rows, ret_result, error);
}

int cv_db_repeat(struct cv_db *db, const char *sql, size_t count, const char *const *parameters,
                 struct cv_db_result **ret_result, struct cv_error *error)
{
    if (cv_db_in_transaction(db)) {
        return cv_db_query(db, sql, count, parameters, ret_result, error);
    }
    int result = find_way(db, error);
    if (result) {
        return result;
    }
    if (db->way == CV_DB_POOLED) {
        return cv_db_query(db, sql, count, parameters, ret_result, error);
    }
    result = run_kept(db, sql, count, parameters, ret_result, error);
    if (result < 0 && cv_db_is_connected(db) && is_stale(db->sqlstate)) {
        cv_db_forget_repeated(db);
        result = cv_db_script(db, "DEALLOCATE ALL", error);
        return result ? result : cv_db_query(db, sql, count, parameters, ret_result, error);
    }
    return result;
}
