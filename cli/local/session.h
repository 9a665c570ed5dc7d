/* The database and the store that a command works on. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

#include "cli/local/installation.h"
#include "cli/local/tokens.h"

/* The installation that a command works on when nobody names another. */
#define CLI_DEFAULT_DATA ".local"

struct cli_session_params {
    const char *data;    /* --data, or NULL: DATABASE_URL if set, else the default directory */
    const char *store;   /* --store, or NULL: what the installation has had, else its directory */
    bool always_local;   /* never DATABASE_URL (run) */
    bool creates;        /* a local installation that is not there yet is made */
    bool as_owner;       /* of a local installation: as the schema's owner, else as its operator */
    bool without_store;  /* the command reads no objects */
    bool unmigrated;     /* the command copes with pending migrations */
    int64_t patience_ms; /* how long to wait for a database that is not there yet; 0: not at all */
    struct cv_cancel *cancel;
};

struct cli_session {
    struct cv_db *db;
    struct cv_store *store; /* NULL: without_store */
    char *database_url;     /* NULL: libpq's own PG* */
    char *fleet_url;        /* what workers log in with; NULL: as we do */
    char *gateway_url;      /* what the gateway logs in with; NULL: there is none */
    char *store_url;
    char owner_id[CLI_OWNER_SIZE]; /* whose the videos are that are taken in; "": nobody's */
    bool is_local;
    struct cli_installation installation; /* when is_local */
};

/* Opens what the parameters and the environment name; a local installation is started when it is
 * not running, and migrated. */
CV_MUST_CHECK int cli_session_open(struct cli_session *session,
                                   const struct cli_session_params *params, struct cv_error *error);

/* Connects again after a lost connection; the server of a local installation is started again when it has died.
 * CV_ERROR_CONNECTION when the database is not there after `timeout_ms`. */
CV_MUST_CHECK int cli_session_recover(struct cli_session *session, int64_t timeout_ms,
                                      struct cv_cancel *cancel, struct cv_error *error);

/* Whether the environment names a database (DATABASE_URL, PG*). */
bool cli_database_is_named(void);

/* Closes, and stops what was started. Harmless on a session that is all zero. */
void cli_session_close(struct cli_session *session);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_session, cli_session_close)

/* The id of a video that a person names: a UUID, the beginning of one (4 digits or more), a file's
 * name, or "last". Raises CV_ERROR_NOT_FOUND, or CV_ERROR_CONFLICT when several fit. */
enum { CLI_UUID_SIZE = 37 };
CV_MUST_CHECK int cli_find_video(struct cv_db *db, const char *name, char ret_id[CLI_UUID_SIZE],
                                 struct cv_error *error);

/* The path of an object of a directory store, its key for other stores; free() it. */
CV_MUST_CHECK int cli_object_path(const struct cv_store *store, const char *key, char **ret_path,
                                  struct cv_error *error);
