#include "cli/commands/verbs.h"

#include <string.h>

enum { EVENTS_MAX = 16 };

CV_DEFINE_CLEANUP(struct cv_db *, cv_db_rollback)

int cli_webhooks_list(struct cli_call *call, struct cv_error *error)
{
    static const struct cli_column columns[] = {
        {"name", "WEBHOOK"}, {"url", "URL"}, {"events", "EVENTS"}, {"state", "LAST"}};
    return CLI_SHOW(call, columns, NULL, error,
                    "SELECT *, CASE WHEN disabled_at IS NOT NULL"
                    " THEN concat_ws(': ', 'off', disabled_reason)"
                    " ELSE concat_ws(': ', last_status, last_error) END AS state"
                    " FROM webhook_overview ORDER BY name");
}

/* Prints only the secret on standard output, so that it can be piped; the explanation goes to
 * standard error. */
static int tell_secret(struct cli_call *call, const char *name, const char *secret,
                       const char *note, struct cv_error *error)
{
    CV_TRY(cli_tell(call, json_pack("{s:s, s:s}", "webhook", name, "secret", secret), error, "%s",
                    secret));
    cli_note(call, "%s", note);
    return 0;
}

/* Adds the webhook and a trigger for each event in one transaction. */
int cli_webhooks_add(struct cli_call *call, struct cv_error *error)
{
    const char *name = call->arguments[0];
    const char *tenant = cli_value(call, "tenant");
    if (cli_value_at(call, "event", EVENTS_MAX)) {
        return cli_usage(call, "more than %d events", EVENTS_MAX);
    }
    CV_TRY(cli_open(call, error));
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_rollback) struct cv_db *db = call->session.db; /* does nothing after a commit */
    CV_TRY(cv_db_begin(db, error));
    CV_TRY(cv_db_run(db, &rows, error, "SELECT add_webhook($1, $2, $3::uuid, $4, $5) AS secret",
                     name, call->arguments[1], tenant, cli_value(call, "description"),
                     cli_value(call, "secret")));
    size_t count = 0;
    for (const char *event; (event = cli_value_at(call, "event", count)); count++) {
        CV_TRY(cv_db_run(db, NULL, error,
                         "INSERT INTO job_triggers (name, event, action, target, tenant_id)"
                         " VALUES (concat('webhook:', $1::text, ':', $2::text), $2, 'webhook',"
                         " $1, $3::uuid)",
                         name, event, tenant));
    }
    CV_TRY(cv_db_commit(db, error));
    char note[256];
    (void)snprintf(note, sizeof(note),
                   "%.100s is called for %zu events; the secret above is for its receiver", name,
                   count);
    return tell_secret(call, name, cv_db_text(rows, 0, "secret"), note, error);
}

int cli_webhooks_rotate(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *keep = cli_value(call, "keep");
    CV_TRY(cli_open(call, error));
    keep = keep ? keep : "24 hours";
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT rotate_webhook($1, $2::interval, $3) AS secret", call->arguments[0],
                     keep, cli_value(call, "secret")));
    char note[256];
    (void)snprintf(note, sizeof(note), "messages are signed with the old secrets, too, for %s",
                   keep);
    return tell_secret(call, call->arguments[0], cv_db_text(rows, 0, "secret"), note, error);
}

int cli_webhooks_test(struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cli_open(call, error));
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT job_id FROM send_webhook($1, 'webhook.test',"
                     " '{\"message\": \"a test\"}', p_priority => 10)",
                     call->arguments[0]));
    const char *id = cv_db_text(rows, 0, "job_id");
    int result = cli_tell(call, json_pack("{s:s}", "job", id), error, "job %s", id);
    cli_note(call, "cortana jobs show %.8s says what became of it", id);
    return result;
}

int cli_webhooks_disable(struct cli_call *call, struct cv_error *error)
{
    const char *reason = cli_value(call, "reason");
    return cli_change(call,
                      "SELECT disable_webhook(name, nullif($2, '')) FROM webhooks WHERE name = $1",
                      call->arguments[0], reason ? reason : "", "webhook", "is off", error);
}

int cli_webhooks_enable(struct cli_call *call, struct cv_error *error)
{
    return cli_change(call, "SELECT enable_webhook(name) FROM webhooks WHERE name = $1",
                      call->arguments[0], NULL, "webhook", "is on", error);
}

int cli_webhooks_remove(struct cli_call *call, struct cv_error *error)
{
    return cli_change(call,
                      "WITH triggers AS (DELETE FROM job_triggers WHERE action = 'webhook'"
                      " AND target = $1) DELETE FROM webhooks WHERE name = $1 RETURNING name",
                      call->arguments[0], NULL, "webhook", "is removed, with its triggers", error);
}
