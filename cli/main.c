#include "cli/command.h"

#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <string.h>

static const struct cli_command *const commands[] = {
    &cli_command_run,       &cli_command_search,   &cli_command_export,     &cli_command_clip,
    &cli_command_jobs,      &cli_command_runs,     &cli_command_workflows,  &cli_command_rules,
    &cli_command_schedules, &cli_command_triggers, &cli_command_webhooks,   &cli_command_workers,
    &cli_command_nodes,     &cli_command_migrate,  &cli_command_doctor,     &cli_command_delete,
    &cli_command_gc,        &cli_command_bucket,   &cli_command_embeddings, &cli_command_reindex,
    &cli_command_commands,
};

/* For the signal handler; set once, before it is installed. */
static struct cv_cancel *cancel_on_signal;

static void on_signal(int number)
{
    (void)number;
    cv_cancel_request(cancel_on_signal, CV_CANCEL_ABORT);
}

static void print_help(FILE *file)
{
    (void)fprintf(file, "cortana " CV_VERSION " makes the text on screen in videos searchable\n\n"
                        "usage: cortana COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < CV_COUNT(commands); i++) {
        (void)fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    (void)fprintf(file,
                  "\ncortana COMMAND --help says more. All commands but run work on the database "
                  "of\nDATABASE_URL (or PG*) and the store of STORE_URL, else on the installation "
                  "that run made\nin " CLI_DEFAULT_DATA " (--data DIR for another).\n");
}

int cli_help(const struct cli_command *command)
{
    (void)fputs(command->help, stdout);
    return CLI_EXIT_OK;
}

int cli_usage(const struct cli_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "cortana %s: ", command->name);
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n%.*s\nsee cortana %s --help\n", (int)strcspn(command->help, "\n"),
                  command->help, command->name);
    va_end(arguments);
    return CLI_EXIT_USAGE;
}

int cli_next_option(const struct cli_command *command, int argc, char **argv,
                    const char *short_options, const struct option *options)
{
    opterr = 0;
    int option = getopt_long(argc, argv, short_options, options, NULL);
    if (option == 'h') {
        (void)cli_help(command);
    } else if (option == '?') {
        (void)cli_usage(command, "unknown option %s", argv[optind - 1]);
    } else if (option == ':') {
        (void)cli_usage(command, "option %s needs a value", argv[optind - 1]);
        option = '?';
    }
    return option;
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < CV_COUNT(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int catch_signals(struct cv_cancel *cancel, struct cv_error *error)
{
    cancel_on_signal = cancel;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < CV_COUNT(numbers); i++) {
        if (sigaction(numbers[i], &action, NULL)) {
            return cv_fail_errno(error, errno, "catch signals");
        }
    }
    /* A closed pipe at our output is a failed write, not the end of a process with a cluster. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return cv_fail_errno(error, errno, "ignore SIGPIPE");
    }
    return 0;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    struct cv_error error;
    cv_auto(cv_cancel_free) struct cv_cancel *cancel = NULL;
    int result = cv_cancel_new(&cancel, &error);
    if (result == 0) {
        result = catch_signals(cancel, &error);
    }
    if (result == 0) {
        result = command->run(command, argc, argv, cancel, &error);
    }
    if (result >= 0) {
        return result;
    }
    if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
        return CLI_EXIT_INTERRUPTED;
    }
    cv_redact(error.message);
    (void)fprintf(stderr, "cortana %s: %s: %s\n", command->name, cv_error_type_name(error.type),
                  error.message);
    return CLI_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    /* Only the character set: numbers stay as the formats want them. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)puts("cortana " CV_VERSION);
        return CLI_EXIT_OK;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (!command) {
        (void)fprintf(stderr, "cortana: there is no command '%s'\n\n", argv[1]);
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    int status = run_command(command, argc - 1, argv + 1);
    if (fflush(stdout) || ferror(stdout)) {
        return status == CLI_EXIT_OK ? CLI_EXIT_FAILED : status;
    }
    return status;
}
