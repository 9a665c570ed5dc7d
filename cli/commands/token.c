/* cortana token: a token for the HTTP API, signed with the secret that the gateway checks it with. */
#include "cli/commands/verbs.h"

#include <string.h>

enum { TEAMS_MAX = 32, HOURS = 1 };

int cli_token(struct cli_call *call, struct cv_error *error)
{
    const char *teams[TEAMS_MAX + 1] = {0};
    const char *role = cli_value(call, "role") ? cli_value(call, "role") : "editor";
    const char *data = cli_value(call, "data");
    struct cli_token token = {.user = cli_value(call, "user"), .teams = teams, .role = role};
    CV_TRY(cli_load_settings(call, error));
    CV_TRY(cli_number(call, "hours", 1, CLI_HOURS_MAX, HOURS, &token.hours));
    if (!token.user && strcmp(role, "service") != 0) {
        return cli_usage(call, "--user says whose token it is; only --role service needs none");
    }
    if (token.user && !cv_is_uuid(token.user)) {
        return cli_usage(call, "--user takes a UUID, not '%s'", token.user);
    }
    for (size_t i = 0; i < TEAMS_MAX && (teams[i] = cli_value_at(call, "team", i)); i++) {
        if (!cv_is_uuid(teams[i])) {
            return cli_usage(call, "--team takes a UUID, not '%s'", teams[i]);
        }
    }
    bool is_local =
        data || (!cv_env("CORTANA_JWT_SECRET", NULL) && !cv_env("CORTANA_JWT_SECRET_FILE", NULL));
    if (!is_local) {
        token.audience = cv_env("CORTANA_JWT_AUDIENCE", NULL);
        token.issuer = cv_env("CORTANA_JWT_ISSUER", NULL);
    }
    cv_auto_free char *secret = NULL;
    cv_auto_free char *text = NULL;
    CV_TRY(cli_tokens_secret(data ? data : CLI_DEFAULT_DATA, is_local, &secret, error));
    CV_TRY(cli_tokens_make(&token, secret, &text, error));
    return cli_tell(call, json_pack("{s:s}", "token", text), error, "%s", text);
}
