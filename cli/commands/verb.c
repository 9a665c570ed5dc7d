#include "cli/commands/verb.h"

#include "cli/commands/commands.h"
#include "cli/commands/print.h"
#include "cli/commands/server.h"

#include <string.h>

enum {
    NAME_MAX_LENGTH = 64,
    TYPO_MAX = 2, /* edits allowed in a word of four or more letters; one in a shorter word */
};

/* ---- words ----------------------------------------------------------------------------------- */

bool cli_is_among(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *w = words; length > 0 && *w; w += strcspn(w, " "), w += *w == ' ') {
        if (strcspn(w, " ") == length && strncmp(w, word, length) == 0) {
            return true;
        }
    }
    return false;
}

void cli_extension(const char *path, char ret_extension[CLI_EXTENSION_SIZE])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    bool has_one = dot && dot > name && strlen(dot + 1) < CLI_EXTENSION_SIZE;
    (void)snprintf(ret_extension, CLI_EXTENSION_SIZE, "%s", has_one ? dot + 1 : "");
    for (char *c = ret_extension; *c; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    }
}

int cli_output_format(const struct cli_call *call, const char *path, const char *formats,
                      char ret_format[CLI_EXTENSION_SIZE])
{
    const char *format = cli_value(call, "format");
    if (format || !path) {
        (void)snprintf(ret_format, CLI_EXTENSION_SIZE, "%s", format ? format : "");
        return 0;
    }
    cli_extension(path, ret_format);
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash + 1 : path, '.');
    if (!dot || cli_is_among(formats, ret_format)) {
        return 0;
    }
    return cli_usage(call, "%s cannot be written: there is no format %s, only %s", path, dot,
                     formats);
}

const char *cli_did_you_mean(const char *words, const char *typed)
{
    static char found[NAME_MAX_LENGTH + 1];
    size_t typed_length = strlen(typed);
    size_t best = (typed_length >= 4 ? TYPO_MAX : 1) + 1;
    found[0] = '\0';
    for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ') {
        size_t length = strcspn(w, " ");
        bool is_beginning = typed_length >= 3 && strncmp(w, typed, typed_length) == 0;
        size_t far = is_beginning ? 0 : cv_edits(typed, typed_length, w, length, 1, TYPO_MAX);
        if (far < best && length <= NAME_MAX_LENGTH) {
            best = far;
            (void)snprintf(found, sizeof(found), "%.*s", (int)length, w);
        }
    }
    return found;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The verb with that name; NULL when there is none. */
static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < cli_verb_count; i++) {
        if (strcmp(cli_verbs[i].name, name) == 0) {
            return &cli_verbs[i];
        }
    }
    return NULL;
}

static const struct cli_group *find_group(const char *name)
{
    for (size_t i = 0; i < cli_group_count; i++) {
        if (strcmp(cli_groups[i].name, name) == 0) {
            return &cli_groups[i];
        }
    }
    return NULL;
}

bool cli_is_group(const char *name)
{
    return find_group(name) != NULL;
}

static bool is_of_group(const struct cli_verb *verb, const char *group)
{
    size_t length = strlen(group);
    return strncmp(verb->name, group, length) == 0 && verb->name[length] == ' ';
}

/* The option with this name, or with this letter if there is no name; NULL: there is none. */
static const struct cli_option *find_option(const struct cli_verb *verb, const char *name,
                                            char letter)
{
    for (const struct cli_option *option = verb->options; option->name; option++) {
        if (name ? strcmp(option->name, name) == 0 : option->letter == letter) {
            return option;
        }
    }
    return NULL;
}

/* ---- the command line ------------------------------------------------------------------------ */

const char *cli_value_at(const struct cli_call *call, const char *name, size_t number)
{
    for (size_t i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i].name, name) == 0 && number-- == 0) {
            return call->given[i].value;
        }
    }
    return NULL;
}

const char *cli_value(const struct cli_call *call, const char *name)
{
    for (size_t i = call->given_count; i-- > 0;) {
        if (strcmp(call->given[i].name, name) == 0) {
            return call->given[i].value;
        }
    }
    return NULL;
}

static void print_usage_line(FILE *file, const struct cli_verb *verb)
{
    (void)fprintf(file, "usage: cortana %s%s%s [OPTION…]\n", verb->name,
                  verb->arguments[0] ? " " : "", verb->arguments);
}

int cli_usage(const struct cli_call *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "cortana %s: ", call->verb->name);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    print_usage_line(stderr, call->verb);
    (void)fprintf(stderr, "see cortana %s --help\n", call->verb->name);
    return CLI_EXIT_USAGE;
}

int cli_number(const struct cli_call *call, const char *name, int64_t least, int64_t most,
               int64_t fallback, int64_t *ret_number)
{
    const char *text = cli_value(call, name);
    *ret_number = fallback;
    if (!text || cv_parse_int(text, least, most, ret_number)) {
        return 0;
    }
    return cli_usage(call, "--%s takes a number from %lld to %lld, not '%s'", name,
                     (long long)least, (long long)most, text);
}

static int refuse_option(const struct cli_call *call, const char *typed, const char *name)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    for (const struct cli_option *option = call->verb->options; option->name; option++) {
        cv_buffer_printf(&names, "%s ", option->name);
    }
    const char *near = name && names.data ? cli_did_you_mean(names.data, name) : "";
    return cli_usage(call, "there is no option %s%s%s%s", typed, near[0] ? ": did you mean --" : "",
                     near, near[0] ? "?" : "");
}

static int set_option(struct cli_call *call, const struct cli_option *option, const char *value)
{
    if (option->words && value[0] != '\0' && !cli_is_among(option->words, value)) {
        const char *near = cli_did_you_mean(option->words, value);
        return cli_usage(call, "--%s takes one of: %s; not '%s'%s%s%s", option->name, option->words,
                         value, near[0] ? ": did you mean " : "", near, near[0] ? "?" : "");
    }
    if (option->words && value[0] == '\0') {
        return cli_usage(call, "--%s takes one of: %s", option->name, option->words);
    }
    if (call->given_count == CLI_GIVEN_MAX) {
        return cli_usage(call, "there are more than %d options", CLI_GIVEN_MAX);
    }
    call->given[call->given_count].name = option->name;
    call->given[call->given_count++].value = value;
    return 0;
}

/* Reads argv[at], "--name", "--name=value", "--name value", "-n value", "-nvalue" or letters of options that take
 * none; *ret_used is how many of argv that were. */
static int read_option(struct cli_call *call, int argc, char **argv, int at, int *ret_used)
{
    const char *typed = argv[at];
    bool is_long = typed[1] == '-';
    const char *equals = is_long ? strchr(typed, '=') : NULL;
    char name[NAME_MAX_LENGTH + 1] = "";
    if (is_long) {
        (void)snprintf(name, sizeof(name), "%.*s",
                       equals ? (int)(equals - typed - 2) : NAME_MAX_LENGTH, typed + 2);
    }
    const struct cli_option *option = find_option(call->verb, is_long ? name : NULL, typed[1]);
    *ret_used = 1;
    if (!option) {
        return refuse_option(call, typed, is_long ? name : NULL);
    }
    if (!option->value) {
        if (equals) {
            return cli_usage(call, "--%s takes no value", option->name);
        }
        int status = set_option(call, option, "");
        if (status == 0 && !is_long && typed[2] != '\0') { /* -qn is -q -n */
            char rest[NAME_MAX_LENGTH + 1];
            (void)snprintf(rest, sizeof(rest), "-%s", typed + 2);
            char *more[] = {rest, at + 1 < argc ? argv[at + 1] : NULL, NULL};
            status = read_option(call, at + 1 < argc ? 2 : 1, more, 0, ret_used);
        }
        return status;
    }
    const char *value = is_long ? (equals ? equals + 1 : NULL) : typed[2] ? typed + 2 : NULL;
    if (!value && at + 1 == argc) {
        return cli_usage(call, "--%s needs a value: %s", option->name, option->value);
    }
    *ret_used = value ? 1 : 2;
    return set_option(call, option, value ? value : argv[at + 1]);
}

/* Whether "-word" is a word of a search; "-n" and "-n5" stay options. */
static bool is_dash_word(const struct cli_verb *verb, const char *text)
{
    if (!verb->dash_words || text[1] == '-' || text[1] == '\0' || text[2] == '\0') {
        return false;
    }
    return text[2 + strspn(text + 2, "0123456789")] != '\0';
}

/* Fills `call`; the arguments are moved to the front of argv. 0, or an exit status. */
static int read_line(struct cli_call *call, int argc, char **argv)
{
    bool is_over = false;
    call->arguments = argv;
    for (int i = 0; i < argc;) {
        int used = 1;
        bool is_option = !is_over && argv[i][0] == '-' && argv[i][1] != '\0';
        if (is_option && strcmp(argv[i], "--") == 0) {
            is_over = true;
        } else if (is_option && !is_dash_word(call->verb, argv[i])) {
            CV_TRY(read_option(call, argc, argv, i, &used));
        } else {
            argv[call->count++] = argv[i];
        }
        i += used;
    }
    return 0;
}

static int check_arguments(const struct cli_call *call)
{
    const struct cli_verb *verb = call->verb;
    if (call->count < verb->least) {
        return call->count == 0 || verb->least == verb->most
                   ? cli_usage(call, "it needs %s", verb->arguments)
                   : cli_usage(call, "it needs more than '%s'", call->arguments[0]);
    }
    if (call->count > verb->most) {
        return cli_usage(call, "'%s' is one argument too many", call->arguments[verb->most]);
    }
    for (int i = 0; verb->words && i < call->count; i++) {
        if (!cli_is_among(verb->words, call->arguments[i])) {
            const char *near = cli_did_you_mean(verb->words, call->arguments[i]);
            return cli_usage(call, "'%s' is not one of: %s%s%s%s", call->arguments[i], verb->words,
                             near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
        }
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* An installation starts the migration together with the database, which may take this long until
 * it answers: PostgreSQL's image makes its cluster at the first start. */
enum { DATABASE_STARTS_MS = 2 * 60 * 1000 };

int cli_open(struct cli_call *call, struct cv_error *error)
{
    const struct cli_verb *verb = call->verb;
    const struct cli_session_params params = {
        .data = cli_value(call, "data"),
        .store = cli_value(call, "store"),
        .as_owner = verb->login == CLI_LOGIN_OWNER,
        .always_local = verb->local,
        .creates = verb->creates,
        /* A search reads no objects, unless it plays a hit. */
        .without_store = !verb->store && !cli_given(call, "open"),
        .unmigrated = verb->unmigrated,
        .patience_ms = verb->login == CLI_LOGIN_OWNER ? DATABASE_STARTS_MS : 0,
        .cancel = call->cancel,
    };
    const char *server = cli_value(call, "server");
    if (!server) {
        CV_TRY(cli_load_settings(call, error));
        server = cli_is_remote(verb) && !params.data ? cv_env("CORTANA_SERVER", NULL) : NULL;
    }
    return server ? cli_server_open(server, call->cancel, &call->server, error)
                  : cli_session_open(&call->session, &params, error);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void print_all_help(FILE *file)
{
    (void)fputs("cortana " CV_VERSION " makes the text on screen in videos searchable\n\n", file);
    (void)fputs(cli_help, file);
}

static void print_exit_codes(FILE *file)
{
    (void)fputs("0    it is done; or whoever read the output has closed it (| head)\n"
                "1    it failed, or search found nothing; one line on standard error says why\n"
                "64   the command line is wrong; nothing was done\n"
                "130  interrupted (Ctrl-C); what is done stays, the same command carries on\n\n"
                "A worker's --once: 0 done, 65 failed for good, 75 failed but may succeed later,\n"
                "78 this installation cannot work.\n",
                file);
}

/* ---- choosing the command -------------------------------------------------------------------- */

static const struct {
    const char *name, *meaning;
} aliases[] = {{"ls", "videos"}, {"rm", "delete"}};

/* Appends all words that may follow `cortana`, including "help". */
static void append_names(struct cv_buffer *names, const char *group)
{
    for (size_t i = 0; i < cli_verb_count; i++) {
        const char *name = cli_verbs[i].name;
        if (group && is_of_group(&cli_verbs[i], group)) {
            cv_buffer_printf(names, "%s ", name + strlen(group) + 1);
        } else if (!group && !strchr(name, ' ')) {
            cv_buffer_printf(names, "%s ", name);
        }
    }
    for (size_t i = 0; !group && i < cli_group_count; i++) {
        cv_buffer_printf(names, "%s ", cli_groups[i].name);
    }
}

static int refuse_command(const char *group, const char *typed)
{
    if (typed[0] == '-') {
        (void)fprintf(stderr, "cortana: %s stands behind the command: cortana COMMAND %s\n", typed,
                      typed);
        return CLI_EXIT_USAGE;
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer names = CV_BUFFER_INIT;
    append_names(&names, group);
    const char *near = names.data ? cli_did_you_mean(names.data, typed) : "";
    (void)fprintf(stderr, "cortana: there is no command '%s%s%s'%s%s%s%s%s\n", group ? group : "",
                  group ? " " : "", typed, near[0] ? ": did you mean cortana " : "",
                  near[0] && group ? group : "", near[0] && group ? " " : "", near,
                  near[0] ? "?" : "");
    (void)fprintf(stderr, "usage: cortana %s%sCOMMAND, one of: %s\n", group ? group : "",
                  group ? " " : "", names.data ? names.data : "");
    return CLI_EXIT_USAGE;
}

static const char *meaning_of(const char *name)
{
    for (size_t i = 0; i < CV_COUNT(aliases); i++) {
        name = strcmp(name, aliases[i].name) == 0 ? aliases[i].meaning : name;
    }
    return name;
}

const struct cli_verb *cli_find_verb(int argc, char **argv, int *ret_used)
{
    char name[NAME_MAX_LENGTH * 2];
    const char *first = meaning_of(argv[0]);
    const struct cli_verb *verb = find_verb(first);
    bool is_named = !verb && cli_is_group(first) && argc > 1 && argv[1][0] != '-';
    *ret_used = is_named ? 2 : 1;
    (void)snprintf(name, sizeof(name), "%s %s", first, is_named ? argv[1] : "list");
    return verb ? verb : find_verb(name);
}

/* The same; prints what is wrong if there is none. */
static const struct cli_verb *choose(int argc, char **argv, int *ret_used)
{
    const char *first = meaning_of(argv[0]);
    const struct cli_verb *verb = cli_find_verb(argc, argv, ret_used);
    if (!verb && !cli_is_group(first)) {
        (void)refuse_command(NULL, argv[0]);
    } else if (!verb && *ret_used == 2) {
        (void)refuse_command(first, argv[1]);
    } else if (!verb) {
        (void)fprintf(stderr,
                      "cortana: '%s' is the first word of a command\nusage: cortana %s COMMAND; "
                      "see cortana %s --help\n",
                      first, first, first);
    }
    return verb;
}

static int help(int argc, char **argv)
{
    if (argc == 0) {
        print_all_help(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[0], "exit-codes") == 0) {
        print_exit_codes(stdout);
        return CLI_EXIT_OK;
    }
    const struct cli_group *group = argc == 1 ? find_group(argv[0]) : NULL;
    if (group) {
        (void)fputs(group->help, stdout);
        return CLI_EXIT_OK;
    }
    int used = 0;
    const struct cli_verb *verb = choose(argc, argv, &used);
    if (verb) {
        (void)fputs(verb->help, stdout);
    }
    return verb ? CLI_EXIT_OK : CLI_EXIT_USAGE;
}

static void print_failure(const struct cli_call *call, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_redact(error->message);
    (void)fflush(stdout);
    if (!call->json) {
        cv_buffer_printf(&text, "cortana %s: ", call->verb->name);
    }
    cv_buffer_text(&text, error->message);
    cli_put_failure(call, cv_error_type_name(error->type),
                    text.failed ? error->message : text.data);
}

static int run_verb(const struct cli_verb *verb, int argc, char **argv, struct cv_cancel *cancel)
{
    struct cv_error error;
    struct cli_call call = {.verb = verb, .cancel = cancel};
    int status = read_line(&call, argc, argv);
    if (status == 0 && cli_given(&call, "help")) {
        (void)fputs(verb->help, stdout);
        return CLI_EXIT_OK;
    }
    status = status ? status : check_arguments(&call);
    if (status) {
        return status;
    }
    call.json = cli_given(&call, "json");
    call.quiet = cli_given(&call, "quiet");
    call.plain = cli_given(&call, "no-progress");
    int result = verb->run(&call, &error);
    if (result < 0 && cv_cancel_level(cancel) != CV_CANCEL_NONE) {
        result = CLI_EXIT_INTERRUPTED;
    } else if (result < 0) {
        print_failure(&call, &error);
        result = CLI_EXIT_FAILED;
    }
    cli_session_close(&call.session);
    cli_server_close(call.server);
    return result;
}

int cli_main(int argc, char **argv, struct cv_cancel *cancel)
{
    if (argc < 2) {
        print_all_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
        strcmp(argv[1], "version") == 0) {
        (void)puts("cortana " CV_VERSION);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "complete") == 0) {
        cli_complete(argc - 2, argv + 2);
        return CLI_EXIT_OK;
    }
    /* `cortana jobs --help` is about all of them. */
    const struct cli_group *group = find_group(argv[1]);
    if (group && argc == 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        (void)fputs(group->help, stdout);
        return CLI_EXIT_OK;
    }
    int used = 0;
    const struct cli_verb *verb = choose(argc - 1, argv + 1, &used);
    return verb ? run_verb(verb, argc - 1 - used, argv + 1 + used, cancel) : CLI_EXIT_USAGE;
}
