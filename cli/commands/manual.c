#include "cli/commands/verbs.h"

#include <string.h>

/* Completion and man pages, made from the table of verbs. */

/* ---- completion ------------------------------------------------------------------------------ */

/* A candidate, and what it means, behind a tab. */
static void offer(const char *name, const char *meaning)
{
    (void)printf("%s\t%s\n", name, meaning);
}

static void offer_values(enum cli_completion completion, const char *words)
{
    static const char *const found[] = {[CLI_COMPLETE_FILE] = ":files",
                                        [CLI_COMPLETE_FOLDER] = ":folders",
                                        [CLI_COMPLETE_VIDEO] = "last"};
    for (const char *word = words; word && *word;) {
        size_t length = strcspn(word, " ");
        (void)printf("%.*s\n", (int)length, word);
        word += length + (word[length] == ' ');
    }
    if (completion != CLI_COMPLETE_NOTHING) {
        (void)puts(found[completion]);
    }
}

/* Offers the words that may follow `cortana`, or a group's name. */
static void offer_names(const char *group)
{
    size_t length = group ? strlen(group) : 0;
    for (size_t i = 0; i < cli_verb_count; i++) {
        const char *name = cli_verbs[i].name;
        if (group ? strncmp(name, group, length) == 0 && name[length] == ' ' : !strchr(name, ' ')) {
            offer(group ? name + length + 1 : name, cli_verbs[i].summary);
        }
    }
    for (size_t i = 0; !group && i < cli_group_count; i++) {
        offer(cli_groups[i].name, cli_groups[i].summary);
    }
    offer("--help", "print this help");
}

static void offer_option(void *opaque, const struct cli_option *option)
{
    (void)opaque;
    (void)printf("--%s\t%s\n", option->name, option->help);
}

/* The option in front of the word that is completed. */
struct before {
    const char *word;
    const struct cli_option *option; /* NULL: it is none that takes a value */
};

static void match_before(void *opaque, const struct cli_option *option)
{
    struct before *before = opaque;
    const char *word = before->word;
    bool is_long = strncmp(word, "--", 2) == 0 && strcmp(word + 2, option->name) == 0;
    bool is_short = word[0] == '-' && word[1] == option->letter && word[1] && !word[2];
    before->option = option->value && (is_long || is_short) ? option : before->option;
}

void cli_complete(int argc, char **argv)
{
    int used = 0;
    const char *word = argc > 0 ? argv[argc - 1] : "";
    if (argc < 2 || strcmp(argv[0], "help") == 0) {
        offer_names(NULL);
        offer("help", "say more about a command");
        return;
    }
    if (argc == 2 && cli_is_group(argv[0])) {
        offer_names(argv[0]);
        return;
    }
    const struct cli_verb *verb = cli_find_verb(argc - 1, argv, &used);
    struct before before = {.word = argv[argc - 2]};
    if (!verb) {
        return;
    }
    cli_each_option(verb, match_before, &before);
    if (before.option) {
        offer_values(before.option->completion, before.option->words);
    } else if (word[0] == '-') {
        cli_each_option(verb, offer_option, NULL);
    } else {
        offer_values(verb->completion, verb->words);
    }
}

/* Each script asks `cortana complete WORD…`, whose last word is the one that is typed. */
static const char bash[] =
    "# bash completion of cortana: source <(cortana completion bash)\n\n"
    "_cortana() {\n"
    "    local IFS=$'\\n' word=${COMP_WORDS[COMP_CWORD]}\n"
    "    local found=($(\"${COMP_WORDS[0]}\" complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" "
    "2>/dev/null))\n"
    "    case \"${found[0]}\" in\n"
    "    :files) COMPREPLY=($(compgen -f -- \"$word\")); compopt -o filenames ;;\n"
    "    :folders) COMPREPLY=($(compgen -d -- \"$word\")); compopt -o filenames ;;\n"
    "    *) COMPREPLY=($(compgen -W \"${found[*]%%$'\\t'*}\" -- \"$word\")) ;;\n"
    "    esac\n"
    "}\ncomplete -F _cortana cortana\n";

static const char zsh[] =
    "#compdef cortana\n# zsh completion of cortana: source <(cortana completion zsh)\n\n"
    "_cortana() {\n"
    "    local -a found\n"
    "    found=(${(f)\"$(${words[1]} complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
    "    case \"${found[1]}\" in\n"
    "    :files) _files ;;\n"
    "    :folders) _files -/ ;;\n"
    "    *) compadd -- ${found%%$'\\t'*} ;;\n"
    "    esac\n"
    "}\ncompdef _cortana cortana\n";

static const char fish[] =
    "# fish completion of cortana: cortana completion fish | source\n\n"
    "function __cortana\n"
    "    set -l found (cortana complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)\n"
    "    switch \"$found[1]\"\n"
    "        case :files\n            __fish_complete_path (commandline -ct)\n"
    "        case :folders\n            __fish_complete_directories (commandline -ct)\n"
    "        case '*'\n            printf '%s\\n' $found\n"
    "    end\n"
    "end\ncomplete -c cortana -f -a '(__cortana)'\n";

int cli_completion(struct cli_call *call, struct cv_error *error)
{
    (void)error;
    const char *shell = call->arguments[0];
    (void)fputs(strcmp(shell, "bash") == 0 ? bash : strcmp(shell, "zsh") == 0 ? zsh : fish, stdout);
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
