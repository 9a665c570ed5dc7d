/* Commands: each is a row of a table that scripts/verbs.py makes of cli/verbs.toml, as it does their help and man
 * pages. */
#pragma once

#include "common/base/base.h"

#include "cli/local/local.h"
#include "cli/terminal/terminal.h"

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1, /* also: nothing was found */
    CLI_EXIT_USAGE = CV_EXIT_USAGE,
    CLI_EXIT_INTERRUPTED = 130, /* 128 + SIGINT, as in a shell */
};

/* What a shell completes for a value. */
enum cli_completion {
    CLI_COMPLETE_NOTHING,
    CLI_COMPLETE_FILE,
    CLI_COMPLETE_FOLDER,
    CLI_COMPLETE_VIDEO, /* "last" */
};

struct cli_option {
    const char *name;  /* without its dashes; NULL ends a list */
    char letter;       /* 0: none */
    const char *value; /* name of its value in usage, "N"; NULL: it takes none */
    const char *help;
    enum cli_completion completion;
    const char *words; /* the allowed values, separated by blanks; NULL: any */
};

/* The rights that a command needs; they also determine what is opened for it. */
enum cli_login {
    CLI_LOGIN_NONE,     /* no database */
    CLI_LOGIN_UPKEEP,   /* reads all but text, cleans up: sql/migrations/0021_upkeep_login.sql */
    CLI_LOGIN_OPERATOR, /* rights of the service: read, enqueue, change what operators change */
    CLI_LOGIN_OWNER,    /* the schema's owner */
};

struct cli_call;

struct cli_verb {
    const char *name;                 /* "search", "jobs list" */
    const char *arguments;            /* as shown in usage */
    int least, most;                  /* least and greatest number of arguments */
    const char *summary;              /* one line */
    const char *help;                 /* what --help prints */
    const struct cli_option *options; /* its own, then those of every verb of its kind */
    enum cli_completion completion;   /* completion of its arguments */
    const char *words;                /* the allowed arguments; NULL: any */
    enum cli_login login;
    bool store;      /* it reads or writes objects */
    bool unmigrated; /* it works with an older schema */
    bool local;      /* DATABASE_URL is ignored */
    bool creates;    /* makes a missing local installation */
    bool dash_words; /* "-word" is an argument unless it begins with an option's letter */
    bool remote;     /* it asks nothing but operations of the API: takes --server */

    /* Verbs that are one operation of the API (cli_request in operation.c). */
    const char *operation; /* its name; NULL: the verb is code */
    /* Its parameters, separated by blanks: SOURCE[>MEMBER][:KIND]. SOURCE is the name of an option, the
     * number of an argument, or =JSON. MEMBER "*": an object whose members they are; "options.mute": a
     * member of a member. KIND: number, ms (a time of a video), crop (of a picture), seconds, hours (both
     * of a time), flag, off (false if the option is given), unless (the option is not given), list (all
     * that are given), texts (all that are given, with commas between them), since, uuid, tenant (a UUID or "default"), limit (none: left out), json,
     * object, file (a JSON file), type (a job type), video, job, run, collection, trigger, schedule
     * (found by their name), videos (all from this argument on); else text. */
    const char *values;
    bool each; /* run once for each argument, as its first */
    /* NAME=VALUE, given behind the first argument: SETTING[>MEMBER], separated by blanks. The operation's
     * description says what a value may be: a number, a time where the member's name ends in "_ms", yes or
     * no, words with commas between them, or none. */
    const char *settings;
    const struct cli_column *columns; /* of a list */
    const struct cli_column *fields;  /* of one thing, printed one a line */
    /* More lists behind the fields or the columns, separated by blanks: operations of the same parameters,
     * or with a dot in front members of the answer. Their columns stand behind each other. */
    const char *also;
    const char *shows; /* the member of the answer that is printed; "": all of it */
    const char *done;  /* the sentence when it is done, as for cli_expand */
    const char *note;  /* on standard error, behind `done` and in its form, or for an empty list */
    const char *thing; /* what its first argument names, for "no THING is called …" */

    /* Runs the command. Returns an exit status (0 or more), or a failure, which the caller prints. */
    int (*run)(struct cli_call *call, struct cv_error *error);
};

/* A group: verbs of two words that begin with the same word. The first word alone means the group's
 * "list". */
struct cli_group {
    const char *name;
    const char *summary;
    const char *help; /* what --help prints */
};

bool cli_is_group(const char *name);

/* The verb that the first words name; *ret_used is their number. NULL: there is none. */
const struct cli_verb *cli_find_verb(int argc, char **argv, int *ret_used);

/* For the scripts of shells: prints what may stand in the place of the last word, a line each, with
 * what it means behind a tab; ":files" or ":folders" for those. */
void cli_complete(int argc, char **argv);

extern const struct cli_verb cli_verbs[];
extern const size_t cli_verb_count;
extern const struct cli_group cli_groups[];
extern const size_t cli_group_count;
extern const char cli_help[]; /* of all commands */

static inline bool cli_is_remote(const struct cli_verb *verb)
{
    return verb->remote || verb->operation;
}

struct cli_server;

enum { CLI_GIVEN_MAX = 64 };

/* One command line. */
struct cli_call {
    const struct cli_verb *verb;
    struct {
        const char *name;
        const char *value; /* "" for an option without value */
    } given[CLI_GIVEN_MAX];
    size_t given_count;
    char **arguments;
    int count;
    bool json;                  /* --json */
    bool quiet;                 /* --quiet */
    bool plain;                 /* --no-progress */
    struct cv_cancel *cancel;   /* aborts on SIGINT, SIGTERM and SIGHUP */
    struct cli_session session; /* after cli_open(); without database if there is a server */
    struct cli_server *server;  /* after cli_open(), with --server */
    int64_t status;             /* of the last answer (cli_ask), as of HTTP */
};

/* The value of an option: NULL if it was not given, the last one if it was given several times. */
const char *cli_value(const struct cli_call *call, const char *name);

/* One of the values of an option that may be given several times; NULL after the last. */
const char *cli_value_at(const struct cli_call *call, const char *name, size_t number);

static inline bool cli_given(const struct cli_call *call, const char *name)
{
    return cli_value(call, name) != NULL;
}

/* Prints on standard error what is wrong with the command line, and its usage; returns
 * CLI_EXIT_USAGE. */
int cli_usage(const struct cli_call *call, const char *format, ...) CV_PRINTF(2, 3);

/* Reads an option's number, `fallback` if it was not given: 0, or CLI_EXIT_USAGE after printing the
 * error. */
CV_MUST_CHECK int cli_number(const struct cli_call *call, const char *name, int64_t least,
                             int64_t most, int64_t fallback, int64_t *ret_number);

/* Adds the installation's settings to the environment, unless --data names another one
 * (cv_settings_load). cli_open does this, too. */
CV_MUST_CHECK int cli_load_settings(const struct cli_call *call, struct cv_error *error);

/* Opens call->session as the verb's row requires. */
CV_MUST_CHECK int cli_open(struct cli_call *call, struct cv_error *error);

/* The one of `words` (separated by blanks) that is most similar to `typed`; "" if none is similar.
 * Valid until the next call. */
const char *cli_did_you_mean(const char *words, const char *typed);

/* Whether `word` is one of `words`. */
bool cli_is_among(const char *words, const char *word);

enum { CLI_EXTENSION_SIZE = 16 };

/* The extension of a file's name in small letters; "" if it has none or a longer one. */
void cli_extension(const char *path, char ret_extension[CLI_EXTENSION_SIZE]);

/* Chooses the format of an output file: --format if it was given, else the file's extension.
 * `path` may be NULL (no file). *ret_format is one of `formats` (separated by blanks); "" if neither
 * says it. An extension that is none of them is CLI_EXIT_USAGE, after printing which there are. */
CV_MUST_CHECK int cli_output_format(const struct cli_call *call, const char *path,
                                    const char *formats, char ret_format[CLI_EXTENSION_SIZE]);
