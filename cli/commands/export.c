#include "cli/commands/export.h"

#include "cli/commands/verbs.h"

#include <string.h>
#include <sys/stat.h>

enum { PIECE_SIZE = 1 << 20 };

static int write_piece(void *opaque, const char *data, size_t length, struct cv_error *error)
{
    errno = 0;
    return fwrite(data, 1, length, opaque) == length ? 0
           : errno ? cv_fail_errno(error, errno, "cannot write the file")
                   : cv_fail(error, CV_ERROR_IO, "cannot write the file");
}

int cli_write_file(const char *path, cli_fill *fill, void *opaque, struct cv_error *error)
{
    struct stat status;
    cv_auto_free char *part = NULL;
    if (strcmp(path, "-") == 0) {
        return fill(opaque, write_piece, stdout, error);
    }
    bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* /dev/stdout */
    CV_TRY(cv_format(&part, error, is_special ? "%s" : "%s.part", path));
    FILE *file = fopen(part, "we");
    CV_TRY_ERRNO(file, error, "cannot write %s", path);
    int result = fill(opaque, write_piece, file, error);
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

int cli_read_object(struct cv_store *store, const char *key, cli_write *write, void *opaque,
                    struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    cv_auto_free char *data = malloc(PIECE_SIZE);
    CV_TRY_MEMORY(data, error, "an object");
    CV_TRY(cv_store_reader_open(store, key, &reader, error));
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t length = 0;
    for (int64_t at = 0;; at += (int64_t)length) {
        CV_TRY(source.read(source.opaque, at, data, PIECE_SIZE, &length, error));
        if (length == 0) {
            return 0;
        }
        CV_TRY(write(opaque, data, length, error));
    }
}

struct text_request {
    struct cli_call *call;
    const json_t *values;
};

/* The same text from the server and from the database. */
static int write_text(void *opaque, cli_write *write, void *file, struct cv_error *error)
{
    const struct text_request *request = opaque;
    const json_t *values = request->values;
    struct cv_export_params params = {
        .bom = json_is_true(json_object_get(values, "bom")),
        .no_positions = json_is_false(json_object_get(values, "positions")),
        .source = json_string_value(json_object_get(values, "source")),
        .write = write,
        .opaque = file,
    };
    if (request->call->server) {
        return cli_ask_file(request->call, "export", values, write, file, error);
    }
    (void)cv_export_format_of(json_string_value(json_object_get(values, "format")), &params.format);
    return cv_export_video(request->call->session.db,
                           json_string_value(json_object_get(values, "id")), &params, error);
}

int cli_export_file(struct cli_call *call, json_t *values, const char *format, const char *path,
                    struct cv_error *error)
{
    struct text_request request = {call, values};
    json_t *named = json_string(format[0] ? format : "json");
    CV_TRY_MEMORY(json_object_set_new(values, "format", named) == 0, error, "a request");
    return cli_write_file(path, write_text, &request, error);
}

int cli_export(struct cli_call *call, struct cv_error *error)
{
    char format[CLI_EXTENSION_SIZE];
    const char *output = cli_value(call, "output");
    bool bom = cli_given(call, "bom");
    cv_auto(json_decref) json_t *values = NULL;
    CV_TRY(cli_output_format(call, output, CV_EXPORT_FORMATS, format));
    if ((bom && strcmp(format, "csv") != 0) ||
        (cli_given(call, "no-positions") && strcmp(format, "vtt") != 0)) {
        return cli_usage(call, bom ? "--bom belongs to --format csv"
                                   : "--no-positions belongs to --format vtt");
    }
    CV_TRY(cli_open(call, error));
    CV_TRY(cli_read_values(call, &values, error));
    return cli_export_file(call, values, format, output ? output : "-", error);
}
