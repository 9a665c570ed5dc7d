/* Whether this program and the database's schema go together; see "Rolling updates" in
 * ARCHITECTURE.md. */
#include "common/queue/migrations.h"
#include "common/queue/queue.h"

#include <string.h>

/* A database from before the function has no answer, and none that is of use. */
#define EXISTS_SQL "SELECT to_regprocedure('public.schema_state()') IS NOT NULL AS found"

#define STATE_SQL                                                     \
    "SELECT s.oldest_program, s.reason,"                              \
    "       (SELECT max(v) FROM unnest(s.versions) AS v) AS newest,"  \
    "       (SELECT min(k) FROM unnest($1::int[]) AS k"               \
    "        WHERE k <> ALL (coalesce(s.versions, '{}'))) AS missing" \
    " FROM public.schema_state() AS s"

static int known_versions(struct cv_buffer *ret_list, int *ret_newest, struct cv_error *error)
{
    cv_buffer_text(ret_list, "{");
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        cv_buffer_printf(ret_list, "%s%d", known == cv_migrations ? "" : ",", known->version);
        *ret_newest = known->version;
    }
    cv_buffer_text(ret_list, "}");
    return ret_list->failed ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory") : 0;
}

static const char *migration_name(int64_t version)
{
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        if (known->version == version) {
            return known->name;
        }
    }
    return "";
}

int cv_queue_check_schema(struct cv_db *db, char reason[CV_SCHEMA_REASON_SIZE],
                          struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer versions = CV_BUFFER_INIT;
    cv_auto(cv_db_result_free) struct cv_db_result *exists = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *state = NULL;
    int own = 0;
    int result = known_versions(&versions, &own, error);
    result = result ? result : cv_db_run(db, &exists, error, EXISTS_SQL);
    if (result) {
        return result;
    }
    if (!cv_db_bool(exists, 0, "found")) {
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database has no schema, or one of before this program's release: run "
                       "cortana migrate");
        return CV_QUEUE_SCHEMA;
    }
    result = cv_db_run(db, &state, error, STATE_SQL, versions.data);
    if (result) {
        return result;
    }
    int64_t missing = cv_db_int(state, 0, "missing", 0);
    int64_t oldest = cv_db_int(state, 0, "oldest_program", 0);
    if (missing) {
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database's schema is older than this program: migration %04lld_%s is "
                       "missing; run cortana migrate",
                       (long long)missing, migration_name(missing));
        return CV_QUEUE_SCHEMA;
    }
    if (oldest > own) {
        const char *why = cv_db_text(state, 0, "reason");
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database's schema has left this program behind: it wants programs that "
                       "know migration %lld (%s), this one knows up to %d; update it",
                       (long long)oldest, why ? why : "", own);
        return CV_QUEUE_SCHEMA;
    }
    return 0;
}
