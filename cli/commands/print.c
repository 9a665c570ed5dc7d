#include "cli/commands/print.h"

int cli_put_items(const struct cli_call *call, const json_t *items,
                  const struct cli_column *columns, size_t count, struct cv_error *error)
{
    if (call->json) {
        return cli_print_objects(items, error);
    }
    return json_array_size(items) > 0 ? cli_print_table(items, columns, count, error) : 0;
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
