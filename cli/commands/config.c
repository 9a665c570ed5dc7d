/* cortana config: shows the settings in force, and their sources. */
#include "cli/commands/verbs.h"

#include <string.h>

enum { NAME_COLUMN = 28 };

int cli_load_settings(const struct cli_call *call, struct cv_error *error)
{
    return call->verb->local || cli_given(call, "data") ? 0 : cv_settings_load(error);
}

struct listing {
    const struct cli_call *call;
    bool all;
    int found;
};

/* The visible part of a value: a database's address without its password; nothing of other secrets.
 * free() it. */
static char *show_value(const char *name, const char *value)
{
    bool is_url = strcmp(name, "DATABASE_URL") == 0;
    char *shown = strdup(cv_setting_is_secret(name) && !is_url ? "(hidden)" : value);
    if (shown) {
        cv_redact(shown);
    }
    return shown;
}

static void tell_setting(void *opaque, const char *name)
{
    struct listing *listing = opaque;
    const char *value = cv_env(name, NULL);
    const char *source = value ? cv_setting_source(name) : "default";
    if (!value && !listing->all) {
        return;
    }
    cv_auto_free char *shown = value ? show_value(name, value) : NULL;
    listing->found++;
    if (listing->call->json) {
        json_t *row = json_pack("{s:s, s:s?, s:s}", "name", name, "value", shown, "source", source);
        cv_auto_free char *line = row ? json_dumps(row, JSON_COMPACT) : NULL;
        json_decref(row);
        (void)puts(line ? line : "{}");
        return;
    }
    cli_put_column(stdout, name, NAME_COLUMN);
    (void)putchar(' ');
    cli_put(stdout, shown ? shown : "");
    (void)fputs(shown ? "  (" : "(", stdout);
    cli_put(stdout, source);
    (void)puts(")");
}

int cli_config(struct cli_call *call, struct cv_error *error)
{
    struct listing listing = {.call = call, .all = cli_given(call, "all")};
    CV_TRY(cli_load_settings(call, error));
    cv_settings_each(tell_setting, &listing);
    if (listing.found == 0) {
        cli_note(call, "nothing is set: everything has its default");
    }
    return CLI_EXIT_OK;
}
