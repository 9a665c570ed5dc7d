#include "common/queue/migrations.h"
#include "common/queue/queue.h"

#include <openssl/evp.h>
#include <string.h>

enum { SHA256_HEX_SIZE = 65 };

/* Held by whoever migrates; a transaction's lock, so that it works through a pooler as well. The
 * number is arbitrary, it must only be this system's own. */
#define LOCK_SQL "SELECT pg_advisory_xact_lock(7203241597)"

#define EXISTS_SQL "SELECT to_regclass('public.schema_migrations') IS NOT NULL AS found"

/* Row-level security without a policy: only the owner sees the table, even where every new table
 * is granted to everybody by default. */
#define TABLE_SQL                                      \
    "CREATE TABLE public.schema_migrations ("          \
    " version int PRIMARY KEY, name text NOT NULL,"    \
    " checksum text NOT NULL,"                         \
    " applied_at timestamptz NOT NULL DEFAULT now());" \
    "ALTER TABLE public.schema_migrations ENABLE ROW LEVEL SECURITY"

static int checksum(const char *sql, char ret_hex[SHA256_HEX_SIZE], struct cv_error *error)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (!EVP_Digest(sql, strlen(sql), digest, &length, EVP_sha256(), NULL)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "no SHA-256 from libcrypto");
    }
    for (unsigned int i = 0; i < length; i++) {
        (void)snprintf(ret_hex + (size_t)2 * i, 3, "%02x", digest[i]);
    }
    return 0;
}

static int newest_known(void)
{
    int version = 0;
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        version = known->version;
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
    int result = checksum(known->sql, hex, error);
    if (result) {
        return result;
    }
    if (strcmp(hex, cv_db_text(rows, row, "checksum")) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "migration %04d_%s was changed after it was applied on %s; "
                       "put its text back and write the change as a new migration",
                       known->version, known->name, cv_db_text(rows, row, "applied_at"));
    }
    return 0;
}

/* Rows of schema_migrations, none when there is no such table yet. */
static int load_applied(struct cv_db *db, bool *ret_found, struct cv_db_result **ret_rows,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *exists = NULL;
    int result = cv_db_run(db, &exists, error, EXISTS_SQL);
    if (result) {
        return result;
    }
    bool found = cv_db_bool(exists, 0, "found");
    if (found) {
        result = cv_db_run(db, ret_rows, error,
                           "SELECT version, name, checksum, applied_at"
                           " FROM public.schema_migrations ORDER BY version");
    }
    if (result == 0) {
        *ret_found = found;
    }
    return result;
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

static int apply(struct cv_db *db, const struct cv_migration *migration, struct cv_error *error)
{
    char hex[SHA256_HEX_SIZE];
    int result = checksum(migration->sql, hex, error);
    if (result) {
        return result;
    }
    result = cv_db_script(db, migration->sql, error);
    if (result) {
        return cv_fail_context(error, result, "migration %04d_%s", migration->version,
                               migration->name);
    }
    char version[16];
    (void)snprintf(version, sizeof(version), "%d", migration->version);
    return cv_db_run(db, NULL, error,
                     "INSERT INTO public.schema_migrations (version, name, checksum)"
                     " VALUES ($1::int, $2, $3)",
                     version, migration->name, hex);
}

/* Applies the first pending migration in the open transaction; *ret_more is false when there was
 * none. */
static int apply_next(struct cv_db *db, bool *ret_more, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *applied = NULL;
    bool found = false;
    int result = cv_db_run(db, NULL, error, LOCK_SQL);
    if (result == 0) {
        result = load_applied(db, &found, &applied, error);
    }
    if (result == 0 && !found) {
        result = cv_db_script(db, TABLE_SQL, error);
    }
    for (int row = 0; result == 0 && applied && row < cv_db_rows(applied); row++) {
        result = check_applied(applied, row, error);
    }
    if (result) {
        return result;
    }
    const struct cv_migration *next = cv_migrations;
    while (next->version && is_applied(applied, next->version)) {
        next++;
    }
    if (next->version) {
        result = apply(db, next, error);
    }
    if (result == 0) {
        *ret_more = next->version != 0;
    }
    return result;
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
    int result = load_applied(db, &found, &applied, error);
    if (result) {
        return result;
    }
    int pending = 0;
    for (const struct cv_migration *known = cv_migrations; known->version; known++) {
        pending += is_applied(applied, known->version) ? 0 : 1;
    }
    *ret_status = (struct cv_migration_status){
        .applied = applied ? cv_db_rows(applied) : 0,
        .pending = pending,
    };
    return 0;
}
