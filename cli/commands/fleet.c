#include "common/queue/queue.h"

#include "cli/commands/verbs.h"

#include <poll.h>
#include <string.h>

/* ---- workers --------------------------------------------------------------------------------- */

/* Drains a worker, given by its id or the beginning of one. */
int cli_workers_drain(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT id, drain_worker(id) AS told FROM workers"
                     " WHERE state <> 'stopped' AND starts_with(id, $1)",
                     call->arguments[0]));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "there is no worker '%s'", call->arguments[0]);
    }
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *id = cv_db_text(rows, i, "id");
        CV_TRY(cli_print_outcome(
            call, json_pack("{s:s, s:s}", "worker", id, "outcome", "draining"), error,
            "worker %s claims nothing more, and goes when what it runs has ended", id));
    }
    return 0;
}

/* ---- tenants ---------------------------------------------------------------------------------- */

int cli_tenants_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {{"tenant", "TENANT"},
                                                {"stored", "STORED"},
                                                {"most", "LIMIT"},
                                                {"videos", "VIDEOS"},
                                                {"paused", "PAUSED"}};
    return CLI_SHOW(call, columns, "no tenant stores anything", error,
                    "SELECT coalesce(t.tenant_id::text, 'default') AS tenant,"
                    " pg_size_pretty(t.bytes) AS stored, pg_size_pretty(t.max_bytes) AS most,"
                    " t.videos, p.reason AS paused, t.bytes AS stored_bytes, t.max_bytes"
                    " FROM (SELECT tenant_id, tenant_bytes(tenant_id) AS bytes,"
                    " CASE WHEN tenant_id IS NULL"
                    " THEN (SELECT l.max_bytes FROM tenant_limits l WHERE l.tenant_id IS NULL)"
                    " ELSE tenant_max_bytes(tenant_id) END AS max_bytes,"
                    " (SELECT count(*) FROM videos v"
                    " WHERE coalesce(v.team_id, v.owner_id) = known.tenant_id) AS videos"
                    " FROM (SELECT coalesce(team_id, owner_id) AS tenant_id FROM videos"
                    " WHERE coalesce(team_id, owner_id) IS NOT NULL"
                    " UNION SELECT tenant_id FROM tenant_limits) AS known) AS t"
                    " LEFT JOIN paused_tenants p ON p.tenant_id = t.tenant_id"
                    " ORDER BY t.bytes DESC, t.tenant_id");
}

int cli_tenants_limit(struct cli_call *call, struct cv_error *error)
{
    const char *tenant = call->arguments[0];
    const char *size = call->arguments[1];
    bool is_default = strcmp(tenant, "default") == 0;
    bool is_none = strcmp(size, "none") == 0;
    if (!is_default && !cv_is_uuid(tenant)) {
        return cli_usage(call, "TENANT is a UUID, or default, not '%s'", tenant);
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, NULL, error,
                     "SELECT limit_tenant($1::uuid, pg_size_bytes($2))", is_default ? NULL : tenant,
                     is_none ? NULL : size));
    return cli_print_outcome(
        call, json_pack("{s:s, s:s?}", "tenant", tenant, "limit", is_none ? NULL : size), error,
        is_none ? "%s has no limit of its own%s" : "%s may store %s", tenant, is_none ? "" : size);
}

/* ---- settings of a row: NAME=VALUE… ------------------------------------------------------------ */

struct setting {
    const char *name;
    const char *column;
    const char *type;
    const char *rule; /* the allowed values, for the error message */
};

/* The settings of a kind of thing: its table, the column that names a row, and what can be set. */
struct settings {
    const char *thing;
    const char *table;
    const char *key;
    const struct setting *items;
    size_t count;
};

/* Sets one column of the row that the command names. If the database refuses the value, prints the
 * rule. */
static int set_one(struct cli_call *call, const struct settings *settings,
                   const struct setting *setting, const char *value, struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    bool is_list = strcmp(setting->type, "text[]") == 0;
    int result = cv_format(
        &sql, error, "UPDATE %s SET %s = %s%s%s WHERE %s = $1 RETURNING %s", settings->table,
        setting->column,
        is_list ? "string_to_array(" : "$2::text::", is_list ? "$2::text, ','" : setting->type,
        is_list ? ")" : "", settings->key, settings->key);
    result = result ? result
                    : cv_db_run(call->session.db, &rows, error, sql, call->arguments[0],
                                strcmp(value, "none") == 0 ? NULL : value);
    const char *state = result ? cv_db_sqlstate(call->session.db) : "";
    bool is_refused = strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0;
    if (is_refused) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s takes %s, not '%s'", setting->name,
                       setting->rule, value);
    }
    return result ? result : cv_db_rows(rows) == 0 ? 1 : 0;
}

/* Sets all settings of the command line or none. 1: there is no such row. */
static int set_all(struct cli_call *call, const struct settings *settings, struct cv_error *error)
{
    size_t count = settings->count;
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    for (size_t i = 0; i < count; i++) {
        cv_buffer_printf(&names, "%s%s", i ? " " : "", settings->items[i].name);
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_begin(call->session.db, error));
    for (int i = 1; i < call->count; i++) {
        char name[64] = "";
        const char *text = call->arguments[i];
        const char *equals = strchr(text, '=');
        const struct setting *setting = NULL;
        (void)snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - text) : 63, text);
        for (size_t s = 0; s < count && !setting; s++) {
            setting = strcmp(settings->items[s].name, name) == 0 ? &settings->items[s] : NULL;
        }
        if (!setting || !equals) {
            const char *near = cli_did_you_mean(names.data ? names.data : "", name);
            return cli_usage(call, "'%s' is not a setting: NAME=VALUE with one of %s%s%s%s", text,
                             names.data ? names.data : "", near[0] ? "; did you mean " : "", near,
                             near[0] ? "?" : "");
        }
        CV_TRY(set_one(call, settings, setting, equals + 1, error));
    }
    return cv_db_commit(call->session.db, error);
}

static int set_and_print(struct cli_call *call, const struct settings *settings,
                         struct cv_error *error)
{
    const char *thing = settings->thing;
    int result = set_all(call, settings, error);
    if (result == 1) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "no %s is called '%s'", thing,
                       call->arguments[0]);
    }
    return result
               ? result
               : cli_print_outcome(
                     call, json_pack("{s:s, s:s}", thing, call->arguments[0], "outcome", "set"),
                     error, "the settings of %s hold from the next claim on", call->arguments[0]);
}

/* ---- rules of job types ---------------------------------------------------------------------- */

int cli_rules_set(struct cli_call *call, struct cv_error *error)
{
    static const struct setting settings[] = {
        {"priority", "base_priority", "int", "a number from 0 to 10"},
        {"interactive", "interactive_adjustment", "int", "a number from -10 to 0"},
        {"put-off", "put_off_while_interactive", "boolean", "yes or no"},
        {"events", "status_events", "boolean", "yes or no"},
        {"weight", "cpu_weight", "int", "a number from 1 to 5"},
        {"max", "max_running", "int", "a number of jobs, 1 or more, or none"},
        {"max-per-tenant", "max_running_per_tenant", "int", "a number of jobs, 1 or more, or none"},
        {"time-limit", "time_limit", "interval", "a duration like '1 hour'"},
        {"retries", "retry_delays", "interval[]", "durations like '{1 minute,5 minutes}'"},
        {"public", "is_public", "boolean", "yes or no"},
    };
    const struct settings all = {"job type", "job_types", "name", settings, CV_COUNT(settings)};
    return set_and_print(call, &all, error);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

int cli_hosts_set(struct cli_call *call, struct cv_error *error)
{
    static const struct setting settings[] = {
        {"cpu-budget", "cpu_budget", "int", "a sum of weights, 1 or more, or none"},
    };
    const struct settings all = {"host", "hosts", "name", settings, CV_COUNT(settings)};
    return set_and_print(call, &all, error);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

enum { EVERY_MS = 30 * 1000 };

int cli_nodes_add(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    const char *types = cli_value(call, "types");
    const char *mac = cli_value(call, "mac");
    const char *script = cli_value(call, "script");
    if (!types || (mac != NULL) == (script != NULL)) {
        return cli_usage(call, types ? "one of --mac and --script says how it is woken"
                                     : "--types says for which jobs it is woken");
    }
    CV_TRY(cli_open(call, error));
    int result = cv_db_run(call->session.db, NULL, error,
                           "INSERT INTO nodes (name, host, job_types, wake_method, mac, script)"
                           " VALUES ($1, coalesce($2, $1), string_to_array($3, ','),"
                           " CASE WHEN $4::text IS NULL THEN 'script' ELSE 'wol' END, $4,"
                           " CASE WHEN $5::text IS NOT NULL THEN ARRAY[$5] END)",
                           name, cli_value(call, "host"), types, mac, script);
    if (result && strcmp(cv_db_sqlstate(call->session.db), "23505") == 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "there is a node '%s' already", name);
    }
    if (result && strncmp(cv_db_sqlstate(call->session.db), "23", 2) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD,
                       mac ? "'%s' is not a hardware address like 00:11:22:aa:bb:cc"
                           : "'%s' is not an absolute path of a program",
                       mac ? mac : script);
    }
    return result
               ? result
               : cli_print_outcome(call, json_pack("{s:s, s:s}", "node", name, "outcome", "added"),
                                   error, "node %s is woken for %s", name, types);
}

int cli_nodes_set(struct cli_call *call, struct cv_error *error)
{
    static const struct setting settings[] = {
        {"host", "host", "text", "a name"},
        {"types", "job_types", "text[]", "job types with commas"},
        {"mac", "mac", "text", "a hardware address like 00:11:22:aa:bb:cc"},
        {"broadcast", "broadcast", "text", "an address"},
        {"port", "port", "int", "a number from 1 to 65535"},
        {"enabled", "is_enabled", "boolean", "yes or no"},
    };
    const struct settings all = {"node", "nodes", "name", settings, CV_COUNT(settings)};
    return set_and_print(call, &all, error);
}

int cli_nodes_remove(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "DELETE FROM nodes WHERE name = $1 RETURNING name", name));
    return cv_db_rows(rows) == 0
               ? cv_fail(error, CV_ERROR_NOT_FOUND, "no node is called '%s'", name)
               : cli_print_outcome(call,
                                   json_pack("{s:s, s:s}", "node", name, "outcome", "is forgotten"),
                                   error, "%s is forgotten", name);
}

int cli_nodes_wake(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    CV_TRY(cli_open(call, error));
    int result = cv_queue_wake_node(call->session.db, name, error);
    if (result == CV_QUEUE_NO_SUCH_JOB) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "there is no node '%s'", name);
    }
    return result
               ? result
               : cli_print_outcome(call, json_pack("{s:s, s:s}", "node", name, "outcome", "called"),
                                   error, "node %s is called", name);
}

static void print_woken(const char *node, const struct cv_error *failure)
{
    if (failure) {
        (void)fprintf(stderr, "node %s: %s\n", node, failure->message);
    } else {
        (void)printf("node %s is called\n", node);
        (void)fflush(stdout);
    }
}

/* Watches until interrupted; if the database is away for a while, waits for it. */
int cli_nodes_watch(struct cli_call *call, struct cv_error *error)
{
    double every = EVERY_MS / 1000.0;
    const char *text = cli_value(call, "every");
    if (text && !cv_parse_double(text, 0.1, 3600, &every)) {
        return cli_usage(call, "--every takes seconds from 0.1 to 3600, not '%s'", text);
    }
    int every_ms = (int)(every * 1000);
    int result = cli_open(call, error);
    while (result == 0) {
        struct cv_db *db = call->session.db;
        result = cv_db_is_connected(db) ? 0 : cv_db_reconnect(db, every_ms, error);
        result = result ? result : cv_queue_wake_nodes(db, print_woken, error);
        struct pollfd wait = {.fd = cv_cancel_fd(call->cancel), .events = POLLIN};
        if (cv_cancel_level(call->cancel) != CV_CANCEL_NONE) {
            return CLI_EXIT_OK;
        }
        if (result && error->verdict == CV_VERDICT_RETRY) {
            (void)fprintf(stderr, "nodes: %s\n", error->message);
            result = 0;
        }
        if (result == 0 && poll(&wait, 1, every_ms) > 0) {
            return CLI_EXIT_OK;
        }
    }
    return result;
}
