/* A private PostgreSQL: own data directory, Unix socket only, a password for every login, never as
 * root. Where it lies: DIR/postgres; as root, when the unprivileged user cannot get there because a
 * directory above is closed, /var/lib/cortana-vision/ID (the id is kept in DIR/id).
 *
 * The callers see to it that only one process at a time starts or stops it (installation.c).
 */
#pragma once

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

/* Who logs in. The passwords lie in DIR/passwords, a file a role that only the installation's user may
 * read, in the form of libpq's password files; connection URLs name the file. */
enum cli_role {
    CLI_ROLE_SUPERUSER, /* "postgres": makes the roles and the database, then nothing */
    CLI_ROLE_OWNER,     /* "cortana_owner": of the database and its schema; no superuser */
    CLI_ROLE_OPERATOR,  /* "cortana_operator": may do what the service may */
    CLI_ROLE_FLEET,     /* "cortana_fleet": may do what workers may */
    CLI_ROLE_GATEWAY,   /* "cortana_api": takes the role that a token names */
};

struct cli_postgres {
    char home[PATH_MAX];      /* data/, socket/, log */
    char data[PATH_MAX];      /* PostgreSQL's own */
    char passwords[PATH_MAX]; /* directory of the password files */
    char socket[PATH_MAX];    /* the directory of the socket, while it runs */
    uid_t user;               /* whose it is; 0: ours */
    gid_t group;
    pid_t postmaster; /* 0: not running */
};

/* Finds the place of the installation's cluster, or chooses one and makes its directory. `notice`
 * gets a sentence for the user when it does not lie under `directory` ("" else). */
CV_MUST_CHECK int cli_postgres_locate(struct cli_postgres *postgres, const char *directory,
                                      char *notice, size_t notice_size, struct cv_error *error);

/* Makes passwords, data directory, roles and database where they are missing, starts the server and
 * waits until it answers. A data directory without a password's file is CV_ERROR_CONFIGURATION: an older
 * version made it, whose server let everybody in. May be called again when the server has died: its
 * socket lies where it lay. */
CV_MUST_CHECK int cli_postgres_start(struct cli_postgres *postgres, struct cv_cancel *cancel,
                                     struct cv_error *error);

/* Fast shutdown, awaited. */
void cli_postgres_stop(struct cli_postgres *postgres);

/* The path of a program of the newest PostgreSQL: in $PG_BIN, else Debian's. */
CV_MUST_CHECK int cli_postgres_program(const char *name, char *path, size_t size,
                                       struct cv_error *error);

/* Connection URL of its database `cortana` (of `postgres` for the superuser) as `role`; free() it. It
 * names the password's file and holds no password. */
CV_MUST_CHECK int cli_postgres_url(const struct cli_postgres *postgres, enum cli_role role,
                                   char **ret_url, struct cv_error *error);
