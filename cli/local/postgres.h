/* A private PostgreSQL: its own data directory, only a Unix socket, a password for every login,
 * never as root. It is in DIR/postgres. If the command runs as root and the unprivileged user
 * cannot reach that directory, it is in /var/lib/cortana-vision/ID (the id is in DIR/id). Callers
 * ensure that only one process at a time starts or stops it (installation.c). */
#pragma once

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

/* The login roles. Each role's password is in a file in DIR/passwords, in the format of libpq's
 * password files, which only the installation's user may read; connection URLs name the file. */
enum cli_role {
    CLI_ROLE_SUPERUSER, /* "postgres": only makes the roles and the database */
    CLI_ROLE_OWNER,     /* "cortana_owner": owns the database and its schema; not a superuser */
    CLI_ROLE_OPERATOR,  /* "cortana_operator": has the rights of the service */
    CLI_ROLE_FLEET,     /* "cortana_fleet": has the rights of workers */
    CLI_ROLE_GATEWAY,   /* "cortana_api": assumes the role that a token names */
};

struct cli_postgres {
    char home[PATH_MAX];      /* data/, socket/, log */
    char data[PATH_MAX];      /* PostgreSQL's data directory */
    char passwords[PATH_MAX]; /* directory of the password files */
    char socket[PATH_MAX];    /* directory of the socket while it runs */
    uid_t user;               /* owner; 0: this process's user */
    gid_t group;
    pid_t postmaster; /* 0: not running */
    off_t log_start;  /* where in its log the server was started last */
};

/* Finds the directory of the installation's cluster, or chooses and makes one. `notice` gets a
 * sentence for the user if it is not under `directory` (else ""). */
CV_MUST_CHECK int cli_postgres_locate(struct cli_postgres *postgres, const char *directory,
                                      char *notice, size_t notice_size, struct cv_error *error);

/* Makes missing passwords, data directory, roles and database, starts the server and waits until it
 * answers: the version that made the data directory, for a new one the newest that is installed.
 * CV_ERROR_CONFIGURATION if that version is not installed. May be called again when the server has died; the
 * socket's path stays the same. */
CV_MUST_CHECK int cli_postgres_start(struct cli_postgres *postgres, struct cv_cancel *cancel,
                                     struct cv_error *error);

/* Stops the server by a fast shutdown, and waits for it. */
void cli_postgres_stop(struct cli_postgres *postgres);

/* Whether a newer PostgreSQL is installed than the one that made the data directory; fills both
 * versions. */
bool cli_postgres_is_old(const struct cli_postgres *postgres, int *ret_version, int *ret_newest);

enum { CLI_POSTGRES_IS_NEWEST = 1 };

/* Moves the data to the newest PostgreSQL that is installed, while nobody uses the server. The old
 * data is left in the folder `kept`; *ret_version is the new version. Free space for a second copy
 * is needed. CLI_POSTGRES_IS_NEWEST: no newer one is installed. */
CV_MUST_CHECK int cli_postgres_upgrade(struct cli_postgres *postgres, char kept[PATH_MAX],
                                       int *ret_version, struct cv_cancel *cancel,
                                       struct cv_error *error);

/* Finds a program of PostgreSQL: in $PG_BIN, or else in Debian's directories, there of `version`,
 * or of the newest if that is not installed. */
CV_MUST_CHECK int cli_postgres_program(const char *name, int version, char *path, size_t size,
                                       struct cv_error *error);

/* Makes the connection URL of its database `cortana` (`postgres` for the superuser) for `role`;
 * free() it. It contains the path of the password file, but no password. */
CV_MUST_CHECK int cli_postgres_url(const struct cli_postgres *postgres, enum cli_role role,
                                   char **ret_url, struct cv_error *error);
