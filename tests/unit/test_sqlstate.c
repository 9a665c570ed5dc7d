#include "common/db/db.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* What a job may expect of the codes that PostgreSQL really sends. */
static const struct {
    const char *sqlstate;
    enum cv_error_type type;
    enum cv_verdict verdict;
} cases[] = {
    {"08000", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"08006", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"08P01", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"57P01", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"57P02", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"57P03", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"57P05", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"25P03", CV_ERROR_CONNECTION, CV_VERDICT_RETRY},
    {"40001", CV_ERROR_CONFLICT, CV_VERDICT_RETRY},
    {"40P01", CV_ERROR_CONFLICT, CV_VERDICT_RETRY},
    {"55P03", CV_ERROR_CONFLICT, CV_VERDICT_RETRY},
    {"57014", CV_ERROR_TIMEOUT, CV_VERDICT_RETRY},
    {"53300", CV_ERROR_THROTTLED, CV_VERDICT_RETRY},
    {"53200", CV_ERROR_OUT_OF_MEMORY, CV_VERDICT_RETRY},
    {"53100", CV_ERROR_DISK_FULL, CV_VERDICT_RETRY},
    {"53000", CV_ERROR_SERVER, CV_VERDICT_RETRY},
    {"25006", CV_ERROR_SERVER, CV_VERDICT_RETRY},
    {"58030", CV_ERROR_SERVER, CV_VERDICT_RETRY},
    {"XX000", CV_ERROR_SERVER, CV_VERDICT_RETRY},
    {"23502", CV_ERROR_CONSTRAINT, CV_VERDICT_PERMANENT},
    {"23503", CV_ERROR_CONSTRAINT, CV_VERDICT_PERMANENT},
    {"23505", CV_ERROR_CONSTRAINT, CV_VERDICT_PERMANENT},
    {"23514", CV_ERROR_CONSTRAINT, CV_VERDICT_PERMANENT},
    {"44000", CV_ERROR_CONSTRAINT, CV_VERDICT_PERMANENT},
    {"22001", CV_ERROR_INVALID_PAYLOAD, CV_VERDICT_PERMANENT},
    {"22P02", CV_ERROR_INVALID_PAYLOAD, CV_VERDICT_PERMANENT},
    {"21000", CV_ERROR_INVALID_PAYLOAD, CV_VERDICT_PERMANENT},
    {"28000", CV_ERROR_AUTHENTICATION, CV_VERDICT_PERMANENT},
    {"28P01", CV_ERROR_AUTHENTICATION, CV_VERDICT_PERMANENT},
    {"42501", CV_ERROR_AUTHORIZATION, CV_VERDICT_PERMANENT},
    {"42P01", CV_ERROR_DATABASE, CV_VERDICT_PERMANENT},
    {"42883", CV_ERROR_DATABASE, CV_VERDICT_PERMANENT},
    {"54000", CV_ERROR_LIMIT_EXCEEDED, CV_VERDICT_PERMANENT},
    {"0A000", CV_ERROR_DATABASE, CV_VERDICT_PERMANENT},
    {"P0001", CV_ERROR_DATABASE, CV_VERDICT_PERMANENT},
    {"3D000", CV_ERROR_CONFIGURATION, CV_VERDICT_STOP},
    {"57P04", CV_ERROR_CONFIGURATION, CV_VERDICT_STOP},
    {"", CV_ERROR_DATABASE, CV_VERDICT_PERMANENT},
};

static void test_meanings(void **state)
{
    (void)state;
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        enum cv_error_type type = cv_db_error_type(cases[i].sqlstate);
        if (type != cases[i].type || cv_error_type_verdict(type) != cases[i].verdict) {
            fail_msg("%s is %s", cases[i].sqlstate, cv_error_type_name(type));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meanings),
    };
    return cmocka_run_group_tests_name("sqlstate", tests, NULL, NULL);
}
