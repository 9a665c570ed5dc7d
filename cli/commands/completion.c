#include "cli/commands/verbs.h"

#include <string.h>

/* Completion, made from the table of verbs. */

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

/* The option in front of the word that is completed; NULL: it is none that takes a value. */
static const struct cli_option *find_before(const struct cli_verb *verb, const char *word)
{
    for (const struct cli_option *option = verb->options; option->name; option++) {
        bool is_long = strncmp(word, "--", 2) == 0 && strcmp(word + 2, option->name) == 0;
        bool is_short = word[0] == '-' && word[1] == option->letter && word[1] && !word[2];
        if (option->value && (is_long || is_short)) {
            return option;
        }
    }
    return NULL;
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
    if (!verb) {
        return;
    }
    const struct cli_option *before = find_before(verb, argv[argc - 2]);
    if (before) {
        offer_values(before->completion, before->words);
    } else if (word[0] != '-') {
        offer_values(verb->completion, verb->words);
    }
    for (const struct cli_option *option = verb->options; !before && word[0] == '-' && option->name;
         option++) {
        (void)printf("--%s\t%s\n", option->name, option->help);
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
