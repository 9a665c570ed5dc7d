/* An installation in a directory: a private PostgreSQL, a store, logs, scratch. Several commands may
 * use it at once: whoever comes first starts the server, whoever goes last stops it.
 *
 *   DIR/lock     held while the server is started or stopped
 *   DIR/users    held (shared) by everybody who uses the server
 *   DIR/running  held by the one `run`
 *   DIR/page     held while its page is up; says at which address
 *   DIR/store    the object store, unless DIR/store.url names another
 *   DIR/log      one log a worker;  DIR/scratch  the stages' files
 */
#pragma once

#include "cli/local/postgres.h"

struct cli_installation {
    char directory[PATH_MAX]; /* absolute */
    struct cli_postgres postgres;
    char notice[PATH_MAX + 128]; /* a sentence for the user, or "" */
    int users;                   /* lock files; -1: not held */
    int running;
    int page;
};

enum { CLI_ADDRESS_SIZE = 64 }; /* ADDRESS:PORT */

/* Opens the installation and starts its server unless it runs. `create`: makes it when it is
 * missing; else that is a failure that says what to do. */
CV_MUST_CHECK int cli_installation_open(struct cli_installation *installation,
                                        const char *directory, bool create,
                                        struct cv_cancel *cancel, struct cv_error *error);

/* Takes the place of the one `run`; fails when another has it. */
CV_MUST_CHECK int cli_installation_lock_run(struct cli_installation *installation,
                                            struct cv_error *error);

/* Says to other commands at which address this `run` keeps the page up, until the installation is closed. */
CV_MUST_CHECK int cli_installation_announce_page(struct cli_installation *installation,
                                                 const char *address, struct cv_error *error);

/* The address of the page that this or another `run` keeps up; false: there is none. */
bool cli_installation_page(const struct cli_installation *installation,
                           char ret_address[CLI_ADDRESS_SIZE]);

/* The URL of the installation's store, noted in DIR/store.url when it is not the directory. `wanted`
 * (may be NULL) is noted by the first who gives one; another than the one in use is
 * CV_ERROR_CONFLICT, for the objects would not be found again. free() it. */
CV_MUST_CHECK int cli_installation_store(const struct cli_installation *installation,
                                         const char *wanted, char **ret_url,
                                         struct cv_error *error);

/* Starts the server again if it has died; 0 when it runs, whoever started it. */
CV_MUST_CHECK int cli_installation_revive(struct cli_installation *installation,
                                          struct cv_cancel *cancel, struct cv_error *error);

/* Stops the server if nobody else uses it. */
void cli_installation_close(struct cli_installation *installation);
