#include "common/db/connection.h"

#include <assert.h>

struct cv_db_result {
    PGresult *rows;
};

void cv_db_result_free(struct cv_db_result *result)
{
    if (result) {
        PQclear(result->rows);
        free(result);
    }
}

int cv_db_take_rows(PGresult **rows, struct cv_db_result **ret_result, struct cv_error *error)
{
    if (!ret_result) {
        return 0;
    }
    struct cv_db_result *result = calloc(1, sizeof(*result));
    if (!result) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for rows");
    }
    result->rows = cv_take(*rows);
    *ret_result = result;
    return 0;
}

int cv_db_query(struct cv_db *db, const char *sql, size_t count, const char *const *parameters,
                struct cv_db_result **ret_result, struct cv_error *error)
{
    cv_auto(PQclear) PGresult *rows = NULL;
    struct cv_db_request request = {CV_DB_STATEMENT, sql, NULL, count, parameters};
    int failure = cv_db_execute(db, &request, NULL, &rows, error);
    return failure ? failure : cv_db_take_rows(&rows, ret_result, error);
}

int cv_db_rows(const struct cv_db_result *result)
{
    return PQntuples(result->rows);
}

const char *cv_db_text(const struct cv_db_result *result, int row, const char *column)
{
    int index = PQfnumber(result->rows, column);
    assert(index >= 0 && "no such column");
    assert(row >= 0 && row < PQntuples(result->rows));
    return PQgetisnull(result->rows, row, index) ? NULL : PQgetvalue(result->rows, row, index);
}

int64_t cv_db_int(const struct cv_db_result *result, int row, const char *column, int64_t fallback)
{
    const char *text = cv_db_text(result, row, column);
    return text ? strtoll(text, NULL, 10) : fallback;
}

double cv_db_double(const struct cv_db_result *result, int row, const char *column, double fallback)
{
    const char *text = cv_db_text(result, row, column);
    return text ? strtod(text, NULL) : fallback;
}

bool cv_db_bool(const struct cv_db_result *result, int row, const char *column)
{
    const char *text = cv_db_text(result, row, column);
    return text && text[0] == 't';
}
