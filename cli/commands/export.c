#include "cli/commands/export.h"

#include "cli/commands/verbs.h"

#include <string.h>
#include <sys/stat.h>

/* Written beside its place and renamed: a file is whole or not there. */
static int write_file(const char *path, const struct cv_buffer *text, struct cv_error *error)
{
    struct stat status;
    cv_auto_free char *part = NULL;
    bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* /dev/stdout */
    int result = cv_format(&part, error, is_special ? "%s" : "%s.part", path);
    if (result) {
        return result;
    }
    FILE *file = fopen(part, "we");
    if (!file) {
        return cv_fail_errno(error, errno, "cannot write %s", path);
    }
    size_t written = fwrite(text->data, 1, text->length, file);
    int error_number = errno;
    if (fclose(file) || written != text->length ||
        (!is_special && rename(part, path) && (error_number = errno))) {
        if (!is_special) {
            (void)unlink(part);
        }
        return cv_fail_errno(error, error_number, "cannot write %s", path);
    }
    return 0;
}

int cli_export_file(struct cv_db *db, const char *video_id, const struct cv_export_params *params,
                    const char *path, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    int result = cv_export_text(db, video_id, params, &text, error);
    if (result) {
        return result;
    }
    if (strcmp(path, "-") != 0) {
        return write_file(path, &text, error);
    }
    (void)fwrite(text.data ? text.data : "", 1, text.length, stdout); /* main sees failures */
    return 0;
}

int cli_export(struct cli_call *call, struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    const char *format = cli_value(call, "format");
    const char *output = cli_value(call, "output");
    const char *dot = output ? strrchr(output, '.') : NULL;
    struct cv_export_params params = {.bom = cli_given(call, "bom"),
                                      .no_positions = cli_given(call, "no-positions")};
    if (format) {
        (void)cv_export_format_of(format, &params.format); /* checked with the options */
    } else if (dot) {
        (void)cv_export_format_of(dot + 1, &params.format); /* else JSON */
    }
    if ((params.bom && params.format != CV_EXPORT_CSV) ||
        (params.no_positions && params.format != CV_EXPORT_VTT)) {
        return cli_usage(call, params.bom ? "--bom belongs to --format csv"
                                          : "--no-positions belongs to --format vtt");
    }
    int result = cli_open(call, error);
    result = result ? result : cli_find_video(call->session.db, call->arguments[0], id, error);
    return result ? result
                  : cli_export_file(call->session.db, id, &params, output ? output : "-", error);
}
