#include "cli/commands/export.h"

#include "cli/commands/operation.h"
#include "cli/commands/verbs.h"

#include <string.h>
#include <sys/stat.h>

static int write_piece(void *opaque, const char *text, size_t length, struct cv_error *error)
{
    errno = 0;
    return fwrite(text, 1, length, opaque) == length
               ? 0
               : cv_fail_errno(error, errno, "cannot write the export");
}

/* Writes a new file and renames it, so that the file is always complete. */
static int write_file(struct cv_db *db, const char *video_id, struct cv_export_params *params,
                      const char *path, struct cv_error *error)
{
    struct stat status;
    cv_auto_free char *part = NULL;
    bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* /dev/stdout */
    CV_TRY(cv_format(&part, error, is_special ? "%s" : "%s.part", path));
    FILE *file = fopen(part, "we");
    CV_TRY_ERRNO(file, error, "cannot write %s", path);
    params->opaque = file;
    int result = cv_export_video(db, video_id, params, error);
    if (fclose(file) && result == 0) {
        result = cv_fail_errno(error, errno, "cannot write %s", path);
    }
    if (result == 0 && !is_special && rename(part, path)) {
        result = cv_fail_errno(error, errno, "cannot write %s", path);
    }
    if (result && !is_special) {
        (void)unlink(part);
    }
    return result;
}

int cli_export_file(struct cv_db *db, const char *video_id, const struct cv_export_params *params,
                    const char *path, struct cv_error *error)
{
    struct cv_export_params own = *params;
    own.write = write_piece;
    own.opaque = stdout;
    return strcmp(path, "-") == 0 ? cv_export_video(db, video_id, &own, error)
                                  : write_file(db, video_id, &own, path, error);
}

int cli_export(struct cli_call *call, struct cv_error *error)
{
    char id[CLI_UUID_SIZE];
    char format[CLI_EXTENSION_SIZE];
    const char *output = cli_value(call, "output");
    struct cv_export_params params = {.bom = cli_given(call, "bom"),
                                      .no_positions = cli_given(call, "no-positions")};
    CV_TRY(cli_output_format(call, output, CV_EXPORT_FORMATS, format));
    (void)cv_export_format_of(format, &params.format); /* else JSON */
    if ((params.bom && params.format != CV_EXPORT_CSV) ||
        (params.no_positions && params.format != CV_EXPORT_VTT)) {
        return cli_usage(call, params.bom ? "--bom belongs to --format csv"
                                          : "--no-positions belongs to --format vtt");
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_find(call, "video", call->arguments[0], id, error));
    return cli_export_file(call->session.db, id, &params, output ? output : "-", error);
}
