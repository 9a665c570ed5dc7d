#include "cli/commands/verbs.h"

#include <string.h>

/* Completion and man pages, made from the table of verbs. */

/* ---- lists of words -------------------------------------------------------------------------- */

/* Prints the words that may follow `cortana` or a group's name, each with a blank. */
static void print_names(FILE *file, const char *group)
{
    size_t length = group ? strlen(group) : 0;
    for (size_t i = 0; i < cli_verb_count; i++) {
        const char *name = cli_verbs[i].name;
        if (group && strncmp(name, group, length) == 0 && name[length] == ' ') {
            (void)fprintf(file, "%s ", name + length + 1);
        } else if (!group && !strchr(name, ' ')) {
            (void)fprintf(file, "%s ", name);
        }
    }
    for (size_t i = 0; !group && i < cli_group_count; i++) {
        (void)fprintf(file, "%s ", cli_groups[i].name);
    }
}

static void print_option_name(void *opaque, const struct cli_option *option)
{
    (void)fprintf(opaque, "--%s ", option->name);
    if (option->letter) {
        (void)fprintf(opaque, "-%c ", option->letter);
    }
}

/* Whether the verb is the default of a group; `group` gets its first word: "jobs" for "jobs list". */
static bool is_default(size_t verb, char group[64])
{
    size_t length = strcspn(cli_verbs[verb].name, " ");
    (void)snprintf(group, 64, "%.*s", (int)length, cli_verbs[verb].name);
    return cli_verbs[verb].name[length] == ' ' &&
           (verb == 0 || strncmp(cli_verbs[verb - 1].name, cli_verbs[verb].name, length + 1) != 0);
}

/* ---- bash and zsh ---------------------------------------------------------------------------- */

struct cases {
    FILE *file;
    const char *verb;
};

/* Prints a line of a shell's case: verb, option and the values to complete. */
static void print_value_case(void *opaque, const struct cli_option *option)
{
    const struct cases *cases = opaque;
    if (!option->value) {
        return;
    }
    (void)fprintf(cases->file, "    '%s --%s'", cases->verb, option->name);
    if (option->letter) {
        (void)fprintf(cases->file, "|'%s -%c'", cases->verb, option->letter);
    }
    if (option->words) {
        (void)fprintf(cases->file, ") _cortana_words '%s'; return ;;\n", option->words);
    } else if (option->completion == CLI_COMPLETE_FILE) {
        (void)fputs(") _cortana_files; return ;;\n", cases->file);
    } else if (option->completion == CLI_COMPLETE_FOLDER) {
        (void)fputs(") _cortana_folders; return ;;\n", cases->file);
    } else {
        (void)fprintf(cases->file, ") _cortana_words '%s'; return ;;\n",
                      option->completion == CLI_COMPLETE_VIDEO ? "last" : "");
    }
}

static void print_verb_cases(FILE *file)
{
    (void)fputs("_cortana_values() { # the verb, the option in front of the word\n"
                "    case \"$1 $2\" in\n",
                file);
    for (size_t i = 0; i < cli_verb_count; i++) {
        struct cases cases = {.file = file, .verb = cli_verbs[i].name};
        cli_each_option(&cli_verbs[i], print_value_case, &cases);
    }
    (void)fputs("    esac\n    return 1\n}\n\n_cortana_verb() { # the words: which verb\n"
                "    case \"$1\" in\n",
                file);
    for (size_t i = 0; i < cli_group_count; i++) {
        (void)fprintf(file, "    %s) case \"$2\" in ''|-*) echo ", cli_groups[i].name);
        for (size_t v = 0; v < cli_verb_count; v++) {
            char group[64];
            if (is_default(v, group) && strcmp(group, cli_groups[i].name) == 0) {
                (void)fprintf(file, "'%s'", cli_verbs[v].name);
            }
        }
        (void)fputs(" ;; *) echo \"$1 $2\" ;; esac ;;\n", file);
    }
    (void)fputs("    ls) echo 'videos list' ;;\n    rm) echo delete ;;\n    *) echo \"$1\" ;;\n"
                "    esac\n}\n\n_cortana_rest() { # the verb, the word: options, arguments\n"
                "    case \"$1\" in\n",
                file);
    for (size_t i = 0; i < cli_verb_count; i++) {
        const struct cli_verb *verb = &cli_verbs[i];
        (void)fprintf(file, "    '%s')\n        case \"$2\" in\n        -*) _cortana_words '",
                      verb->name);
        cli_each_option(verb, print_option_name, file);
        (void)fprintf(file, "' ;;\n        *) %s%s%s ;;\n        esac ;;\n",
                      verb->words                               ? "_cortana_words '"
                      : verb->completion == CLI_COMPLETE_FILE   ? "_cortana_files"
                      : verb->completion == CLI_COMPLETE_FOLDER ? "_cortana_folders"
                      : verb->completion == CLI_COMPLETE_VIDEO  ? "_cortana_words last"
                                                                : ":",
                      verb->words ? verb->words : "", verb->words ? "'" : "");
    }
    (void)fputs("    esac\n}\n\n", file);
}

/* Prints what bash and zsh have in common; each defines _cortana_words, _cortana_files and
 * _cortana_folders. */
static void print_shell_cases(FILE *file)
{
    print_verb_cases(file);
    (void)fputs("_cortana_groups() { # a group's verbs; fails when it is none\n"
                "    case \"$1\" in\n",
                file);
    for (size_t i = 0; i < cli_group_count; i++) {
        (void)fprintf(file, "    %s) _cortana_words '", cli_groups[i].name);
        print_names(file, cli_groups[i].name);
        (void)fputs("--help' ;;\n", file);
    }
    (void)fputs("    *) return 1 ;;\n    esac\n}\n\n"
                "_cortana_complete() { # how many words there are, the words behind cortana\n"
                "    local count=$1 first=$2 second=$3 before=$4 word=$5 verb\n"
                "    if [ \"$count\" -le 1 ]; then\n        _cortana_words '",
                file);
    print_names(file, NULL);
    (void)fputs("help --help --version'\n        return\n    fi\n"
                "    if [ \"$first\" = help ]; then\n        _cortana_words '",
                file);
    print_names(file, NULL);
    (void)fputs("exit-codes'\n        return\n    fi\n"
                "    if [ \"$count\" -eq 2 ] && _cortana_groups \"$first\"; then return; fi\n"
                "    verb=$(_cortana_verb \"$first\" \"$second\")\n"
                "    _cortana_values \"$verb\" \"$before\" && return\n"
                "    _cortana_rest \"$verb\" \"$word\"\n"
                "}\n\n",
                file);
}

static void print_bash(FILE *file)
{
    (void)fputs("# bash completion of cortana: source <(cortana completion bash)\n\n"
                "_cortana_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$_cortana_word\")); }\n"
                "_cortana_files() { COMPREPLY=($(compgen -f -- \"$_cortana_word\")); compopt -o "
                "filenames; }\n"
                "_cortana_folders() { COMPREPLY=($(compgen -d -- \"$_cortana_word\")); compopt -o "
                "filenames; }\n\n",
                file);
    print_shell_cases(file);
    (void)fputs(
        "_cortana() {\n"
        "    _cortana_word=${COMP_WORDS[COMP_CWORD]}\n"
        "    COMPREPLY=()\n"
        "    _cortana_complete \"$COMP_CWORD\" \"${COMP_WORDS[1]}\" \"${COMP_WORDS[2]}\" \\\n"
        "        \"${COMP_WORDS[COMP_CWORD-1]}\" \"$_cortana_word\"\n"
        "}\ncomplete -F _cortana cortana\n",
        file);
}

static void print_zsh(FILE *file)
{
    (void)fputs(
        "#compdef cortana\n# zsh completion of cortana: source <(cortana completion zsh)\n\n"
        "_cortana_words() { compadd -- ${=1}; }\n"
        "_cortana_files() { _files; }\n"
        "_cortana_folders() { _files -/; }\n\n",
        file);
    print_shell_cases(file);
    (void)fputs("_cortana() {\n"
                "    _cortana_complete $((CURRENT - 1)) \"${words[2]}\" \"${words[3]}\" \\\n"
                "        \"${words[CURRENT-1]}\" \"${words[CURRENT]}\"\n"
                "}\ncompdef _cortana cortana\n",
                file);
}

/* ---- fish ------------------------------------------------------------------------------------ */

/* Prints a text in single quotes for fish. */
static void put_fish(FILE *file, const char *text)
{
    (void)fputc('\'', file);
    for (const char *c = text; *c; c++) {
        (void)fprintf(file, *c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    (void)fputc('\'', file);
}

static void print_fish_option(void *opaque, const struct cli_option *option)
{
    const struct cases *cases = opaque;
    FILE *file = cases->file;
    size_t first = strcspn(cases->verb, " ");
    (void)fprintf(file, "complete -c cortana -n '__fish_seen_subcommand_from %.*s", (int)first,
                  cases->verb);
    if (cases->verb[first]) {
        (void)fprintf(file, "; and __fish_seen_subcommand_from %s", cases->verb + first + 1);
    }
    (void)fprintf(file, "' -l %s", option->name);
    if (option->letter) {
        (void)fprintf(file, " -s %c", option->letter);
    }
    if (option->value) {
        bool is_path =
            option->completion == CLI_COMPLETE_FILE || option->completion == CLI_COMPLETE_FOLDER;
        (void)fputs(is_path ? " -r" : " -x", file);
    }
    if (option->words) {
        (void)fputs(" -a ", file);
        put_fish(file, option->words);
    }
    (void)fputs(" -d ", file);
    put_fish(file, option->help);
    (void)fputc('\n', file);
}

static void print_fish(FILE *file)
{
    (void)fputs("# fish completion of cortana: cortana completion fish | source\n\n"
                "complete -c cortana -f\n",
                file);
    for (size_t i = 0; i < cli_group_count; i++) {
        (void)fprintf(file, "complete -c cortana -n __fish_use_subcommand -a %s -d ",
                      cli_groups[i].name);
        put_fish(file, cli_groups[i].summary);
        (void)fputc('\n', file);
    }
    for (size_t i = 0; i < cli_verb_count; i++) {
        const struct cli_verb *verb = &cli_verbs[i];
        size_t first = strcspn(verb->name, " ");
        struct cases cases = {.file = file, .verb = verb->name};
        if (verb->name[first]) {
            (void)fprintf(file,
                          "complete -c cortana -n '__fish_seen_subcommand_from %.*s' -a %s -d ",
                          (int)first, verb->name, verb->name + first + 1);
        } else {
            (void)fprintf(file, "complete -c cortana -n __fish_use_subcommand -a %s -d ",
                          verb->name);
        }
        put_fish(file, verb->summary);
        (void)fputc('\n', file);
        if (verb->completion == CLI_COMPLETE_FILE || verb->completion == CLI_COMPLETE_FOLDER) {
            (void)fprintf(file, "complete -c cortana -n '__fish_seen_subcommand_from %.*s' -F\n",
                          (int)first, verb->name);
        } else if (verb->words) {
            (void)fprintf(file, "complete -c cortana -n '__fish_seen_subcommand_from %.*s' -a ",
                          (int)first, verb->name);
            put_fish(file, verb->words);
            (void)fputc('\n', file);
        }
        cli_each_option(verb, print_fish_option, &cases);
    }
}

int cli_completion(struct cli_call *call, struct cv_error *error)
{
    (void)error;
    const char *shell = call->arguments[0];
    (strcmp(shell, "bash") == 0  ? print_bash
     : strcmp(shell, "zsh") == 0 ? print_zsh
                                 : print_fish)(stdout);
    return CLI_EXIT_OK;
}

/* ---- man pages ------------------------------------------------------------------------------- */

/* Prints text for roff: backslashes are doubled, a line must not begin with a dot or an apostrophe,
 * and dashes are ones that can be copied. */
static void put_roff(FILE *file, const char *text)
{
    bool is_start = true;
    for (const char *c = text; *c; c++) {
        if (is_start && (*c == '.' || *c == '\'')) {
            (void)fputs("\\&", file);
        }
        if (*c == '\\') {
            (void)fputs("\\e", file);
        } else if (*c == '-') {
            (void)fputs("\\-", file);
        } else if (*c == '\n' && c[1] == '\n') {
            (void)fputs("\n.PP\n", file);
            c++;
        } else if (*c == '\n') {
            (void)fputs("\n.br\n", file);
        } else {
            (void)fputc(*c, file);
        }
        is_start = *c == '\n';
    }
    (void)fputc('\n', file);
}

static void put_man_option(void *opaque, const struct cli_option *option)
{
    FILE *file = opaque;
    (void)fputs(".TP\n\\fB", file);
    if (option->letter) {
        (void)fprintf(file, "\\-%c\\fR, \\fB", option->letter);
    }
    (void)fputs("\\-\\-", file);
    for (const char *c = option->name; *c; c++) {
        (void)fprintf(file, *c == '-' ? "\\%c" : "%c", *c);
    }
    (void)fprintf(file, "\\fR%s%s%s\n", option->value ? " \\fI" : "",
                  option->value ? option->value : "", option->value ? "\\fR" : "");
    put_roff(file, option->help);
}

static void put_man_head(FILE *file, const char *name, const char *summary)
{
    (void)fprintf(file,
                  ".TH CORTANA%s 1 \"\" \"cortana-vision " CV_VERSION
                  "\" \"User Commands\"\n.SH NAME\n",
                  name[0] ? "-COMMAND" : "");
    (void)fputs("cortana", file);
    for (const char *c = name; *c; c++) {
        (void)fputs(*c == ' ' ? "\\-" : (char[]){*c, '\0'}, file);
    }
    (void)fputs(" \\- ", file);
    put_roff(file, summary);
}

static void put_verb(FILE *file, const struct cli_verb *verb)
{
    (void)fprintf(file, ".SH SYNOPSIS\n\\fBcortana %s\\fR ", verb->name);
    (void)fprintf(file, "%s%s[OPTION…]\n.SH DESCRIPTION\n", verb->arguments,
                  verb->arguments[0] ? " " : "");
    put_roff(file, verb->text ? verb->text : verb->summary);
    const char *login = cli_login_text(verb);
    if (login) {
        (void)fputs(".PP\n", file);
        put_roff(file, login);
    }
    (void)fputs(".SH OPTIONS\n", file);
    cli_each_option(verb, put_man_option, file);
    (void)fputs(".SH EXIT STATUS\n0 done, 1 failed or nothing found, 64 wrong usage, 130 "
                "interrupted.\n.SH SEE ALSO\n.BR cortana (1)\n",
                file);
}

static void put_all(FILE *file)
{
    put_man_head(file, "", "makes the text on screen in videos searchable");
    (void)fputs(".SH SYNOPSIS\n\\fBcortana\\fR COMMAND [ARGUMENT…] [OPTION…]\n.SH COMMANDS\n",
                file);
    for (size_t i = 0; i < cli_verb_count; i++) {
        (void)fprintf(file, ".TP\n\\fB%s\\fR %s\n", cli_verbs[i].name, cli_verbs[i].arguments);
        put_roff(file, cli_verbs[i].summary);
    }
    (void)fputs(
        ".SH ENVIRONMENT\nDATABASE_URL (or PG*) and STORE_URL name the database and the store "
        "of all commands but run; else they work on the installation that run made "
        "in " CLI_DEFAULT_DATA ".\nNO_COLOR: no colours.\n.SH EXIT STATUS\n"
        "0 done, 1 failed or nothing found, 64 wrong usage, 130 interrupted.\n",
        file);
}

static int write_page(const char *folder, const struct cli_verb *verb, struct cv_error *error)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/cortana%s%s.1", folder, verb ? "-" : "",
                   verb ? verb->name : "");
    for (char *c = strrchr(path, '/'); *c; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    FILE *file = fopen(path, "we");
    CV_TRY_ERRNO(file, error, "cannot write %s", path);
    if (verb) {
        char name[64];
        (void)snprintf(name, sizeof(name), " %s", verb->name);
        put_man_head(file, name, verb->summary);
        put_verb(file, verb);
    } else {
        put_all(file);
    }
    bool is_bad = ferror(file) != 0;
    if (fclose(file) || is_bad) {
        return cv_fail_errno(error, errno, "cannot write %s", path);
    }
    return 0;
}

int cli_manual(struct cli_call *call, struct cv_error *error)
{
    if (call->count == 0) {
        put_all(stdout);
        return CLI_EXIT_OK;
    }
    CV_TRY(write_page(call->arguments[0], NULL, error));
    for (size_t i = 0; i < cli_verb_count; i++) {
        CV_TRY(write_page(call->arguments[0], &cli_verbs[i], error));
    }
    return 0;
}
