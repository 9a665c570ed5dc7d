/* Applying migrations, and checking whether this program and the database's schema go together (see
 * "Rolling updates" in ARCHITECTURE.md). */
#include "common/queue/migrations.h"

#include "common/queue/queue.h"

#include <openssl/evp.h>
#include <string.h>

enum {
    SHA256_HEX_SIZE = 65,
    PLATFORM_FROM = 1000, /* migrations above this number are the platform's */
};

/* Two programs may create the table at the same moment: the second waits at a unique index of the
 * system catalog until the transaction of the first ends, then fails as below and looks again. Row
 * security without a policy hides the table's rows from everybody but its owner. */
#define TABLE_SQL                                                                                \
    "DO $$ BEGIN"                                                                                \
    " WHILE to_regclass('cortana.schema_migrations') IS NULL LOOP"                               \
    "  BEGIN"                                                                                    \
    "   CREATE SCHEMA IF NOT EXISTS cortana;"                                                    \
    "   CREATE TABLE cortana.schema_migrations ("                                                \
    "    version int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,"                   \
    "    applied_at timestamptz NOT NULL DEFAULT now());"                                        \
    "   ALTER TABLE cortana.schema_migrations ENABLE ROW LEVEL SECURITY;"                        \
    "   COMMENT ON TABLE cortana.schema_migrations IS 'The migrations that have been applied.';" \
    "  EXCEPTION WHEN unique_violation OR duplicate_schema OR duplicate_table THEN NULL;"        \
    "  END;"                                                                                     \
    " END LOOP;"                                                                                 \
    "END $$"

/* Only one transaction at a time can hold this lock, and only the table's owner (or a superuser) may
 * take it: a role that may only read cannot stop a migration, as it could with an advisory lock.
 * Reading the table, as cortana.schema_state() does, does not wait for this lock. */
#define LOCK_SQL "LOCK TABLE cortana.schema_migrations IN SHARE ROW EXCLUSIVE MODE"

/* The database sets this path for new connections (see cortana.secure_database()). The connection
 * that applies the first migrations was opened before that and needs it set by hand. */
#define SEARCH_PATH_SQL \
    "SELECT set_config('search_path', 'public, cortana, extensions, pg_temp', false)"

#define SECURE_SQL "SELECT cortana.secure_database()"

static int checksum(const char *sql, char ret_hex[SHA256_HEX_SIZE], struct cv_error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (!EVP_Digest(sql, strlen(sql), digest, &length, EVP_sha256(), NULL)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "libcrypto cannot compute a SHA-256");
    }
    cv_hex(digest, length, ret_hex);
    return 0;
}

/* Of the pipeline's migrations. */
static int newest_known(void)
{
    int version = 0;
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        version = known->version < PLATFORM_FROM ? known->version : version;
    }
    return version;
}

static const struct cv_migration *find_known(int64_t version)
{
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        if (known->version == version) {
            return known;
        }
    }
    return NULL;
}

static int check_applied(const struct cv_db_result *rows, int row, struct cv_error *error)
{
    int64_t version = cv_db_int(rows, row, "version", 0);
    const struct cv_migration *known = find_known(version);
    if (!known) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "the database is newer than this program: it holds migration %lld (%s), "
                       "this program knows up to %d; use the program that made it, or a later one",
                       (long long)version, cv_db_text(rows, row, "name"), newest_known());
    }
    char hex[SHA256_HEX_SIZE];
    CV_TRY(checksum(known->sql, hex, error));
    if (strcmp(hex, cv_db_text(rows, row, "checksum")) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "migration %04d_%s was changed after it was applied on %s; "
                       "put its text back and write the change as a new migration",
                       known->version, known->name, cv_db_text(rows, row, "applied_at"));
    }
    return 0;
}

/* Whether the table of migrations exists. */
static int find_table(struct cv_db *db, bool *ret_found, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *exists = NULL;
    CV_TRY(cv_db_run(db, &exists, error,
                     "SELECT to_regclass('cortana.schema_migrations') IS NOT NULL AS found"));
    *ret_found = cv_db_bool(exists, 0, "found");
    return 0;
}

static int load_applied(struct cv_db *db, struct cv_db_result **ret_rows, struct cv_error *error)
{
    return cv_db_run(db, ret_rows, error,
                     "SELECT version, name, checksum, applied_at"
                     " FROM cortana.schema_migrations ORDER BY version");
}

static bool is_applied(const struct cv_db_result *rows, int version)
{
    for (int row = 0; rows && row < cv_db_rows(rows); row++) {
        if (cv_db_int(rows, row, "version", 0) == version) {
            return true;
        }
    }
    return false;
}

/* Whether a migration is to be in this database: all are, without the platform only the pipeline's. */
static bool is_wanted(const struct cv_migration *migration)
{
    return migration->version < PLATFORM_FROM ||
           strcmp(cv_env("CORTANA_PLATFORM", "on"), "off") != 0;
}

static bool is_pending(const struct cv_migration *migration, const struct cv_db_result *applied)
{
    return is_wanted(migration) && !is_applied(applied, migration->version);
}

int cv_roles_make(struct cv_db *db, struct cv_error *error)
{
    return cv_db_script(db, cv_roles_sql, error);
}

static int apply(struct cv_db *db, const struct cv_migration *migration, struct cv_error *error)
{
    char hex[SHA256_HEX_SIZE];
    CV_TRY(checksum(migration->sql, hex, error));
    int result = cv_db_run(db, NULL, error, SEARCH_PATH_SQL);
    if (result == 0 && migration == cv_migrations) {
        result = cv_roles_make(db, error);
    }
    result = result ? result : cv_db_script(db, migration->sql, error);
    if (result) {
        return cv_fail_context(error, result, "migration %04d_%s", migration->version,
                               migration->name);
    }
    return cv_db_run(db, NULL, error,
                     "INSERT INTO cortana.schema_migrations (version, name, checksum)"
                     " VALUES ($1::int, $2, $3)",
                     cv_db_number(migration->version).text, migration->name, hex);
}

/* Holds off every other program that migrates until the open transaction ends. */
static int lock(struct cv_db *db, struct cv_error *error)
{
    bool found = false;
    CV_TRY(find_table(db, &found, error));
    if (!found) {
        CV_TRY(cv_db_script(db, TABLE_SQL, error));
    }
    return cv_db_script(db, LOCK_SQL, error);
}

/* Applies the first pending migration in the open transaction. When no migration is pending, brings
 * the settings of the database itself up to date instead, and *ret_more is false. */
static int apply_next(struct cv_db *db, bool *ret_more, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *applied = NULL;
    CV_TRY(lock(db, error));
    CV_TRY(load_applied(db, &applied, error));
    for (int row = 0; row < cv_db_rows(applied); row++) {
        CV_TRY(check_applied(applied, row, error));
    }
    const struct cv_migration *next = cv_migrations;
    while (next->version && !is_pending(next, applied)) {
        next++;
    }
    CV_TRY(next->version ? apply(db, next, error) : cv_db_run(db, NULL, error, SECURE_SQL));
    *ret_more = next->version != 0;
    return 0;
}

int cv_migrate(struct cv_db *db, struct cv_migration_status *ret_status, struct cv_error *error)
{
    bool more = true;
    while (more) {
        int result = cv_db_begin(db, error);
        if (result == 0) {
            result = apply_next(db, &more, error);
        }
        if (result == 0) {
            result = cv_db_commit(db, error);
        }
        if (result) {
            cv_db_rollback(db);
            return result;
        }
    }
    return cv_migrate_status(db, ret_status, error);
}

int cv_migrate_status(struct cv_db *db, struct cv_migration_status *ret_status,
                      struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *applied = NULL;
    bool found = false;
    CV_TRY(find_table(db, &found, error));
    if (found) {
        CV_TRY(load_applied(db, &applied, error));
    }
    int pending = 0;
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        pending += is_pending(known, applied) ? 1 : 0;
    }
    *ret_status = (struct cv_migration_status){
        .applied = applied ? cv_db_rows(applied) : 0,
        .pending = pending,
    };
    return 0;
}

/* ---- does this program fit the schema? ------------------------------------------------------- */

/* A schema without this function is older than every program that calls cv_queue_check_schema. */
#define STATE_EXISTS_SQL "SELECT to_regprocedure('cortana.schema_state()') IS NOT NULL AS found"

/* Of the platform, migrations are missing only where others of it were applied. */
#define STATE_SQL                                                           \
    "SELECT s.oldest_program, s.reason,"                                    \
    "       'cortana' = ANY (current_schemas(false)) AS is_on_path,"        \
    "       (SELECT min(k) FROM unnest($1::int[]) AS k"                     \
    "        WHERE k <> ALL (coalesce(s.versions, '{}'))"                   \
    "          AND (k < $2::int OR $2::int < ANY (s.versions))) AS missing" \
    " FROM cortana.schema_state() AS s"

static int known_versions(struct cv_buffer *ret_list, struct cv_error *error)
{
    cv_buffer_text(ret_list, "{");
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        cv_buffer_printf(ret_list, "%s%d", known == cv_migrations ? "" : ",", known->version);
    }
    cv_buffer_text(ret_list, "}");
    return ret_list->failed
               ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the list of migrations")
               : 0;
}

/* A connection that began before the database's search_path was set is replaced. */
static int load_state(struct cv_db *db, const char *versions, struct cv_db_result **ret_state,
                      struct cv_error *error)
{
    enum { RENEW_MS = 2000 };
    CV_TRY(cv_db_run(db, ret_state, error, STATE_SQL, versions, cv_db_number(PLATFORM_FROM).text));
    if (cv_db_bool(*ret_state, 0, "is_on_path")) {
        return 0;
    }
    cv_db_result_free(*ret_state);
    *ret_state = NULL;
    CV_TRY(cv_db_renew(db, RENEW_MS, error));
    return cv_db_run(db, ret_state, error, STATE_SQL, versions, cv_db_number(PLATFORM_FROM).text);
}

int cv_queue_check_schema(struct cv_db *db, char reason[CV_SCHEMA_REASON_SIZE],
                          struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer versions = CV_BUFFER_INIT;
    cv_auto(cv_db_result_free) struct cv_db_result *exists = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *state = NULL;
    CV_TRY(known_versions(&versions, error));
    CV_TRY(cv_db_run(db, &exists, error, STATE_EXISTS_SQL));
    if (!cv_db_bool(exists, 0, "found")) {
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database has no schema, or one that is older than this program: run "
                       "cortana migrate");
        return CV_QUEUE_SCHEMA;
    }
    CV_TRY(load_state(db, versions.data, &state, error));
    int64_t missing = cv_db_int(state, 0, "missing", 0);
    int64_t oldest = cv_db_int(state, 0, "oldest_program", 0);
    if (missing) {
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database's schema is older than this program: migration %04lld_%s is "
                       "missing; run cortana migrate",
                       (long long)missing, find_known(missing)->name);
        return CV_QUEUE_SCHEMA;
    }
    if (!cv_db_bool(state, 0, "is_on_path")) {
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database does not set search_path for its connections, because it was "
                       "copied or restored from a dump: run cortana migrate");
        return CV_QUEUE_SCHEMA;
    }
    if (oldest && !find_known(oldest)) {
        const char *why = cv_db_text(state, 0, "reason");
        (void)snprintf(reason, CV_SCHEMA_REASON_SIZE,
                       "the database's schema is too new for this program: it needs programs that "
                       "know migration %lld (%s), this program knows up to %d; update this program",
                       (long long)oldest, why ? why : "", newest_known());
        return CV_QUEUE_SCHEMA;
    }
    return 0;
}
