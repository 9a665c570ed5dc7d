/* What a command is: one row of the table in verbs.c, and what every command is handed. Help, completion
 * and man pages are made from the same rows. */
#pragma once

#include "common/base/base.h"

#include "cli/local/local.h"
#include "cli/terminal/terminal.h"

enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1, /* also: nothing was found */
    CLI_EXIT_USAGE = CV_EXIT_USAGE,
    CLI_EXIT_INTERRUPTED = 130, /* 128 + SIGINT, as a shell says it */
};

/* What a shell offers in the place of a value. */
enum cli_completion {
    CLI_COMPLETE_NOTHING,
    CLI_COMPLETE_FILE,
    CLI_COMPLETE_FOLDER,
    CLI_COMPLETE_VIDEO, /* "last" */
};

struct cli_option {
    const char *name;  /* without its dashes; NULL ends a list */
    char letter;       /* 0: none */
    const char *value; /* what stands in its place, "N"; NULL: it takes none */
    const char *help;
    enum cli_completion completion;
    const char *words; /* the values that it takes, one blank between them; NULL: any */
};

/* Whose rights a command needs; also says what is opened for it. */
enum cli_login {
    CLI_LOGIN_NONE,     /* no database */
    CLI_LOGIN_UPKEEP,   /* looks, but at no text, and clears up: sql/migrations/0023_upkeep.sql */
    CLI_LOGIN_OPERATOR, /* what the service may: look, enqueue, change what operators change */
    CLI_LOGIN_OWNER,    /* the schema's owner */
};

struct cli_call;

struct cli_verb {
    const char *name;      /* "search", "jobs list" */
    const char *arguments; /* as usage shows them */
    int least, most;       /* how many arguments */
    const char *summary;   /* one line */
    const char *text;      /* more; laid out in lines of the terminal's width; may be NULL */
    const struct cli_option *options; /* its own; NULL: none */
    enum cli_completion completion;   /* of its arguments */
    const char *words;                /* its arguments are among these; NULL: any */
    enum cli_login login;
    bool store;        /* it reads or writes objects */
    bool unmigrated;   /* it copes with a schema that is behind */
    bool local;        /* never DATABASE_URL */
    bool creates;      /* makes a local installation where there is none */
    bool json;         /* takes --json */
    bool long_lasting; /* takes --quiet and --no-progress */
    bool dash_words;   /* "-word" is an argument unless it is an option's letter */
    /* Returns an exit status (0 or more), or a failure that is printed for it. */
    int (*run)(struct cli_call *call, struct cv_error *error);
};

/* Verbs of two words that begin with the same one. When the first word stands alone, the group's "list" is
 * meant. */
struct cli_group {
    const char *name;
    const char *summary;
    const char *text; /* may be NULL */
};

/* Which login of the database a command wants, as a sentence; NULL: none, or that of a local installation. */
const char *cli_login_text(const struct cli_verb *verb);

extern const struct cli_verb cli_verbs[];
extern const size_t cli_verb_count;
extern const struct cli_group cli_groups[];
extern const size_t cli_group_count;
/* Options that every command takes, that those with --json take, and that those with progress take. */
extern const struct cli_option cli_common_options[];
extern const struct cli_option cli_json_options[];
extern const struct cli_option cli_progress_options[];

enum { CLI_GIVEN_MAX = 64 };

/* One command line. */
struct cli_call {
    const struct cli_verb *verb;
    struct {
        const char *name;
        const char *value; /* "" of an option that takes none */
    } given[CLI_GIVEN_MAX];
    size_t given_count;
    char **arguments;
    int count;
    bool json;                  /* --json */
    bool quiet;                 /* --quiet */
    bool plain;                 /* --no-progress */
    struct cv_cancel *cancel;   /* aborts on SIGINT, SIGTERM and SIGHUP */
    struct cli_session session; /* after cli_open() */
};

/* The value of an option: NULL when it was not given, the last when it was given several times. */
const char *cli_value(const struct cli_call *call, const char *name);

/* The value of an option that may be given several times; NULL behind the last. */
const char *cli_value_at(const struct cli_call *call, const char *name, size_t number);

static inline bool cli_given(const struct cli_call *call, const char *name)
{
    return cli_value(call, name) != NULL;
}

/* Says on standard error what is wrong with the command line and how it is used; returns
 * CLI_EXIT_USAGE. */
int cli_usage(const struct cli_call *call, const char *format, ...) CV_PRINTF(2, 3);

/* The number that an option was given, `fallback` when it was not: 0, or CLI_EXIT_USAGE after saying so. */
CV_MUST_CHECK int cli_number(const struct cli_call *call, const char *name, int64_t least,
                             int64_t most, int64_t fallback, int64_t *ret_number);

/* Completes the environment with the installation's settings, unless --data names another (cv_settings_load). cli_open
 * does it, too. */
CV_MUST_CHECK int cli_load_settings(const struct cli_call *call, struct cv_error *error);

/* Opens what the verb's row names: call->session. */
CV_MUST_CHECK int cli_open(struct cli_call *call, struct cv_error *error);

/* The one of `words` (blanks between them) that `typed` was probably meant to be, "" when none is near. Valid until
 * the next call. */
const char *cli_did_you_mean(const char *words, const char *typed);

/* Whether `word` is one of `words`. */
bool cli_is_among(const char *words, const char *word);

/* Calls `tell` for each option that a verb takes: its own, then the common ones. */
void cli_each_option(const struct cli_verb *verb,
                     void (*tell)(void *opaque, const struct cli_option *option), void *opaque);
