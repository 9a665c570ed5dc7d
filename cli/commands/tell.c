#include "cli/commands/tell.h"

/* Reads the rows of the listing's query as objects; the caller frees *ret_items. */
static int query_items(struct cli_call *call, const struct cli_listing *listing, json_t **ret_items,
                       struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_format(&sql, error, "SELECT coalesce(json_agg(q), '[]') AS items FROM (%s) AS q",
                     listing->sql));
    struct cv_db_statement statement = {sql, listing->parameter_count, listing->parameters};
    CV_TRY(cv_db_query(call->session.db, &statement, &rows, error));
    *ret_items = json_loads(cv_db_text(rows, 0, "items"), 0, NULL);
    CV_TRY_MEMORY(*ret_items, error, "rows");
    return 0;
}

int cli_put_items(const struct cli_call *call, const json_t *items,
                  const struct cli_column *columns, size_t count, struct cv_error *error)
{
    if (call->json) {
        return cli_print_objects(items, error);
    }
    return json_array_size(items) > 0 ? cli_print_table(items, columns, count, error) : 0;
}

int cli_list(struct cli_call *call, const struct cli_listing *listing, struct cv_error *error)
{
    cv_auto(json_decref) json_t *items = NULL;
    CV_TRY(query_items(call, listing, &items, error));
    CV_TRY(cli_put_items(call, items, listing->columns, listing->count, error));
    return (int)json_array_size(items);
}

int cli_show(struct cli_call *call, const struct cli_listing *listing, const char *none,
             struct cv_error *error)
{
    int result = cli_open(call, error);
    result = result ? result : cli_list(call, listing, error);
    if (result == 0 && none) {
        cli_print_note(call, "%s", none);
    }
    return result < 0 ? result : CLI_EXIT_OK;
}

int cli_print_outcome(const struct cli_call *call, json_t *object, struct cv_error *error,
                      const char *format, ...)
{
    cv_auto(json_decref) json_t *given = object;
    CV_TRY_MEMORY(given, error, "the answer");
    if (call->json) {
        cv_auto_free char *text = json_dumps(given, JSON_COMPACT);
        CV_TRY_MEMORY(text, error, "the answer");
        (void)puts(text);
        return CLI_EXIT_OK;
    }
    if (!call->quiet) {
        va_list arguments;
        va_start(arguments, format);
        (void)vprintf(format, arguments);
        va_end(arguments);
        (void)putchar('\n');
    }
    return CLI_EXIT_OK;
}

void cli_put_failure(const struct cli_call *call, const char *type, const char *message)
{
    json_t *object =
        call->json ? json_pack("{s:{s:s*, s:s}}", "error", "type", type, "message", message) : NULL;
    cv_auto_free char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    cli_put(stderr, line ? line : message);
    (void)fputc('\n', stderr);
}

void cli_print_note(const struct cli_call *call, const char *format, ...)
{
    if (call->json || call->quiet) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}
