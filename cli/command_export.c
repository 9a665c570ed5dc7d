#include "cli/command.h"
#include "cli/export.h"
#include "cli/session.h"

#include <getopt.h>

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {{"data", required_argument, NULL, 'd'},
                                            {"format", required_argument, NULL, 'f'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct cli_session_params params = {.without_store = true, .cancel = cancel};
    const char *output = NULL;
    enum cli_export_format format = CLI_EXPORT_JSON;
    for (int option; (option = cli_next_option(command, argc, argv, ":ho:", options)) != -1;) {
        if (option == 'd') {
            params.data = optarg;
        } else if (option == 'o') {
            output = optarg;
        } else if (option == 'f') {
            if (!cli_export_format_parse(optarg, &format)) {
                return cli_usage(command, "--format is json, csv, srt or vtt, not %s", optarg);
            }
        } else {
            return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
        }
    }
    if (argc - optind != 1) {
        return cli_usage(command, "name one video, or last");
    }
    cv_auto(cli_session_close) struct cli_session session = {0};
    char id[CLI_UUID_SIZE];
    int result = cli_session_open(&session, &params, error);
    result = result ? result : cli_find_video(session.db, argv[optind], id, error);
    if (result || output) {
        return result ? result : cli_export_file(session.db, id, format, output, error);
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    result = cli_export(session.db, id, format, &text, error);
    if (result == 0 &&
        (fwrite(text.data, 1, text.length, stdout) != text.length || fflush(stdout))) {
        return cv_fail_errno(error, errno, "write the export");
    }
    return result;
}

const struct cli_command cli_command_export = {
    .name = "export",
    .summary = "write a video's text as JSON, CSV or subtitles",
    .help =
        "usage: cortana export VIDEO|last [--format json|csv|srt|vtt] [-o FILE] [--data DIR]\n\n"
        "VIDEO is an id, the first letters of one, or the name of the file.\n\n"
        "  --format F   json (default): video, segments and entities; csv: a row a text;\n"
        "               srt, vtt: subtitles. Times in json and csv are milliseconds\n"
        "  -o FILE      write there, whole or not at all; else to standard output\n"
        "  --data DIR   the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
