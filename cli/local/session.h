/* The database and the store that a command works on. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

#include "cli/local/installation.h"
#include "cli/local/tokens.h"

/* The installation used if the command line names none. */
#define CLI_DEFAULT_DATA ".local"

struct cli_session_params {
    /* --data, or NULL: DATABASE_URL if set, else the default directory. A DATABASE_URL that `cortana
     * env` has printed names that installation. */
    const char *data;
    const char *store;  /* --store, or NULL: the installation's last store, else its directory */
    bool always_local;  /* DATABASE_URL is ignored (run) */
    bool creates;       /* a missing local installation is made */
    bool as_owner;      /* for a local installation: as the schema's owner, else as its operator */
    bool without_store; /* the command reads no objects */
    bool unmigrated;    /* the command works with pending migrations */
    int64_t
        patience_ms; /* how long to wait for a database that does not answer yet; 0: not at all */
    struct cv_cancel *cancel;
};

struct cli_session {
    struct cv_db *db;
    struct cv_store *store; /* NULL: without_store */
    char *database_url;     /* NULL: PG* of libpq */
    char *fleet_url;        /* URL for workers; NULL: that of this command */
    char *gateway_url;      /* URL for the gateway; NULL: there is none */
    char *store_url;
    char owner_id[CLI_OWNER_SIZE]; /* owner of videos that are imported; "": nobody */
    bool is_local;
    struct cli_installation installation; /* if is_local */
};

/* Opens the database and the store that the parameters and the environment name; a local
 * installation is started if it does not run, and migrated. */
CV_MUST_CHECK int cli_session_open(struct cli_session *session,
                                   const struct cli_session_params *params, struct cv_error *error);

/* Connects again after a lost connection; the server of a local installation is restarted if it has
 * died. CV_ERROR_CONNECTION if the database does not answer within `timeout_ms`. */
CV_MUST_CHECK int cli_session_recover(struct cli_session *session, int64_t timeout_ms,
                                      struct cv_cancel *cancel, struct cv_error *error);

/* Whether the environment names a database (DATABASE_URL, PG*). */
bool cli_database_is_named(void);

/* Closes the session, and stops the server if it was started. Does nothing for a session that is
 * all zero. */
void cli_session_close(struct cli_session *session);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_session, cli_session_close)

enum { CLI_UUID_SIZE = 37 };

/* Makes the path of an object of a directory store; for other stores it is the key. free() it. */
CV_MUST_CHECK int cli_object_path(const struct cv_store *store, const char *key, char **ret_path,
                                  struct cv_error *error);
