/* What each SQLSTATE means for a job. */
#include "common/db/db.h"

#include <string.h>

/* A prefix is a class (2 characters), several codes of a class (3) or one code (5); the longest match
 * decides. Codes: PostgreSQL manual, appendix A. */
static const struct {
    const char *prefix;
    enum cv_error_type type;
} meanings[] = {
    {"08", CV_ERROR_CONNECTION},       /* connection exception */
    {"21", CV_ERROR_INVALID_PAYLOAD},  /* cardinality violation */
    {"22", CV_ERROR_INVALID_PAYLOAD},  /* a value that its column cannot hold */
    {"23", CV_ERROR_CONSTRAINT},       /* integrity constraint violation */
    {"25006", CV_ERROR_SERVER},        /* read-only: this is a standby, as during a failover */
    {"25P03", CV_ERROR_CONNECTION},    /* idle in transaction for too long: the session was ended */
    {"28", CV_ERROR_AUTHENTICATION},   /* invalid authorization */
    {"3D", CV_ERROR_CONFIGURATION},    /* no such database */
    {"40", CV_ERROR_CONFLICT},         /* serialization failure, deadlock: rolled back */
    {"42", CV_ERROR_DATABASE},         /* the statement does not fit the schema */
    {"42501", CV_ERROR_AUTHORIZATION}, /* insufficient privilege */
    {"44", CV_ERROR_CONSTRAINT},       /* WITH CHECK OPTION violation */
    {"53", CV_ERROR_SERVER},           /* insufficient resources */
    {"53100", CV_ERROR_DISK_FULL},     /* disk full */
    {"53200", CV_ERROR_OUT_OF_MEMORY}, /* out of memory */
    {"53300", CV_ERROR_THROTTLED},     /* too many connections */
    {"54", CV_ERROR_LIMIT_EXCEEDED},   /* program limit exceeded */
    {"55", CV_ERROR_CONFLICT},         /* object in use, lock not available */
    {"57014", CV_ERROR_TIMEOUT},       /* statement canceled, most often by statement_timeout */
    {"57P", CV_ERROR_CONNECTION},      /* shutdown, crash, starting up, session time-out */
    {"57P04", CV_ERROR_CONFIGURATION}, /* the database was dropped */
    {"58", CV_ERROR_SERVER},           /* error of the operating system */
    {"XX", CV_ERROR_SERVER},           /* internal error */
};

enum cv_error_type cv_db_error_type(const char *sqlstate)
{
    enum cv_error_type type = CV_ERROR_DATABASE;
    size_t longest = 0;
    for (size_t i = 0; i < CV_COUNT(meanings); i++) {
        size_t length = strlen(meanings[i].prefix);
        if (length > longest && strncmp(sqlstate, meanings[i].prefix, length) == 0) {
            type = meanings[i].type;
            longest = length;
        }
    }
    return type;
}
