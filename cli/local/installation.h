/* An installation in a directory: a private PostgreSQL, a store, logs, scratch. Several commands
 * may use it at once: the first one starts the server, the last one stops it.
 *
 * DIR/lock: locked while the server is started or stopped.
 *
 * DIR/users: locked (shared) by every command that uses the server.
 *
 * DIR/running: locked by `run`, of which there is only one.
 *
 * DIR/page: locked while its page is available; contains the page's address.
 *
 * DIR/store: the object store, unless DIR/store.url names another one.
 *
 * DIR/log: one log for each worker; DIR/scratch: the stages' files. */
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

/* Opens the installation, and starts its server unless it runs. `create`: makes a missing
 * installation; otherwise that is a failure that says what to do. */
CV_MUST_CHECK int cli_installation_open(struct cli_installation *installation,
                                        const char *directory, bool create,
                                        struct cv_cancel *cancel, struct cv_error *error);

/* Moves the database of an installation that nobody uses to the newest PostgreSQL that is installed:
 * see cli_postgres_upgrade(). CV_ERROR_CONFLICT: somebody uses it. */
CV_MUST_CHECK int cli_installation_upgrade(const char *directory, char kept[PATH_MAX],
                                           int *ret_version, struct cv_cancel *cancel,
                                           struct cv_error *error);

/* Locks DIR/running; fails if another `run` has locked it. */
CV_MUST_CHECK int cli_installation_lock_run(struct cli_installation *installation,
                                            struct cv_error *error);

/* Records for other commands the address of this `run`'s page, until the installation is closed. */
CV_MUST_CHECK int cli_installation_announce_page(struct cli_installation *installation,
                                                 const char *address, struct cv_error *error);

/* Finds the address of the page of this or another `run`; false: there is none. */
bool cli_installation_page(const struct cli_installation *installation,
                           char ret_address[CLI_ADDRESS_SIZE]);

/* The URL of the installation's store, which is in DIR/store.url unless it is the directory; free()
 * it. `wanted` (may be NULL) is recorded there when it is given for the first time. Another URL
 * later is CV_ERROR_CONFLICT, because the objects would not be found. */
CV_MUST_CHECK int cli_installation_store(const struct cli_installation *installation,
                                         const char *wanted, char **ret_url,
                                         struct cv_error *error);

/* Starts the server again if it has died; 0 if it runs. */
CV_MUST_CHECK int cli_installation_revive(struct cli_installation *installation,
                                          struct cv_cancel *cancel, struct cv_error *error);

/* Stops the server if nobody else uses it. */
void cli_installation_close(struct cli_installation *installation);
