#include "cli/local/session.h"

#include "common/queue/queue.h"

#include <string.h>

bool cli_database_is_named(void)
{
    static const char *const names[] = {"DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGSERVICE",
                                        "PGDATABASE"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (cv_env(names[i], NULL)) {
            return true;
        }
    }
    return false;
}

/* Finds the local installation whose server DATABASE_URL names, as `cortana env` prints it, by the
 * file of its password, so that commands start it when it does not run. False: it names another
 * server. */
static bool find_named_installation(char directory[PATH_MAX])
{
    static const char passwords[] = "/passwords/";
    const char *file = strstr(cv_env("DATABASE_URL", ""), "passfile=/");
    const char *end = file ? strstr(file, passwords) : NULL;
    if (!end) {
        return false;
    }
    file += strlen("passfile=");
    (void)snprintf(directory, PATH_MAX, "%.*s/postgres/data", (int)(end - file), file);
    bool is_there = access(directory, F_OK) == 0;
    (void)snprintf(directory, PATH_MAX, "%.*s", (int)(end - file), file);
    return is_there;
}

static int open_local(struct cli_session *session, const struct cli_session_params *params,
                      const char *directory, struct cv_error *error)
{
    CV_TRY(cli_installation_open(&session->installation, directory,
                                 params->always_local || params->creates, params->cancel, error));
    session->is_local = true;
    const struct cli_postgres *postgres = &session->installation.postgres;
    const enum cli_role role = params->as_owner ? CLI_ROLE_OWNER : CLI_ROLE_OPERATOR;
    CV_TRY(cli_postgres_url(postgres, role, &session->database_url, error));
    CV_TRY(cli_postgres_url(postgres, CLI_ROLE_FLEET, &session->fleet_url, error));
    CV_TRY(cli_postgres_url(postgres, CLI_ROLE_GATEWAY, &session->gateway_url, error));
    return cli_installation_store(&session->installation, params->store, &session->store_url,
                                  error);
}

static int open_remote(struct cli_session *session, const struct cli_session_params *params,
                       struct cv_error *error)
{
    const char *database = cv_env("DATABASE_URL", NULL);
    const char *store = cv_env("STORE_URL", NULL);
    if (!store && !cv_env("S3_BUCKET", NULL) && !params->without_store) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "the environment names a database but no store: set STORE_URL to s3://BUCKET or "
            "dir:PATH");
    }
    CV_TRY(database ? cv_format(&session->database_url, error, "%s", database) : 0);
    return !store ? 0 : cv_format(&session->store_url, error, "%s", store);
}

/* Migrates the schema of a local installation as its owner; the first command after an update does
 * it. */
static int migrate_local(struct cli_session *session, struct cv_cancel *cancel,
                         struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    struct cv_migration_status status;
    CV_TRY(cli_postgres_url(&session->installation.postgres, CLI_ROLE_OWNER, &url, error));
    const struct cv_db_params params = {.conninfo = url, .cancel = cancel};
    CV_TRY(cv_db_open(&params, &db, error));
    return cv_migrate(db, &status, error);
}

static int check_schema(struct cli_session *session, struct cv_error *error)
{
    char reason[CV_SCHEMA_REASON_SIZE];
    int result = cv_queue_check_schema(session->db, reason, error);
    return result == CV_QUEUE_SCHEMA ? cv_fail(error, CV_ERROR_CONFIGURATION, "%s", reason)
                                     : result;
}

static int open_all(struct cli_session *session, const struct cli_session_params *params,
                    struct cv_error *error)
{
    char named[PATH_MAX];
    bool by_environment = !params->always_local && !params->data && cli_database_is_named();
    bool remote = by_environment && !find_named_installation(named);
    const char *directory = by_environment ? named : params->data ? params->data : CLI_DEFAULT_DATA;
    CV_TRY(remote ? open_remote(session, params, error)
                  : open_local(session, params, directory, error));
    if (session->is_local && !params->unmigrated) {
        CV_TRY(migrate_local(session, params->cancel, error));
    }
    const struct cv_db_params db_params = {
        .conninfo = session->database_url,
        .application_name = "cortana",
        .cancel = params->cancel,
        .patience_ms = params->patience_ms,
    };
    int result = cv_db_open(&db_params, &session->db, error);
    if (result) {
        return cv_fail_context(error, result, "open the database");
    }
    if (!session->is_local && !params->unmigrated) {
        CV_TRY(check_schema(session, error));
    }
    if (!params->without_store) {
        CV_TRY(cv_store_open(session->store_url, &session->store, error));
    }
    return 0;
}

int cli_session_open(struct cli_session *session, const struct cli_session_params *params,
                     struct cv_error *error)
{
    *session = (struct cli_session){0};
    int result = open_all(session, params, error);
    if (result) {
        cli_session_close(session);
    }
    return result;
}

int cli_session_recover(struct cli_session *session, int64_t timeout_ms, struct cv_cancel *cancel,
                        struct cv_error *error)
{
    CV_TRY(session->is_local ? cli_installation_revive(&session->installation, cancel, error) : 0);
    return cv_db_reconnect(session->db, timeout_ms, error);
}

void cli_session_close(struct cli_session *session)
{
    cv_db_close(session->db);
    cv_store_close(session->store);
    if (session->is_local) {
        cli_installation_close(&session->installation);
    }
    free(session->database_url);
    free(session->fleet_url);
    free(session->gateway_url);
    free(session->store_url);
    *session = (struct cli_session){0};
}

/* ---- names ----------------------------------------------------------------------------------- */

int cli_object_path(const struct cv_store *store, const char *key, char **ret_path,
                    struct cv_error *error)
{
    const char *directory = cv_store_directory(store);
    return directory ? cv_format(ret_path, error, "%s/%s", directory, key)
                     : cv_format(ret_path, error, "%s", key);
}
