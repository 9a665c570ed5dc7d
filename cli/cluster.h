/* A private PostgreSQL: own data directory, Unix socket only, open to its owner alone, never as
 * root. Where it lies: DIR/postgres; as root, when the unprivileged user cannot get there because a
 * directory above is closed, /var/lib/cortana-vision/ID (the id is kept in DIR/id).
 *
 * The callers see to it that only one process at a time starts or stops it (installation.c).
 */
#pragma once

#include "common/base/base.h"

#include <limits.h>
#include <sys/types.h>

struct cli_cluster {
    char home[PATH_MAX];   /* data/, socket/, log */
    char data[PATH_MAX];   /* PostgreSQL's own */
    char socket[PATH_MAX]; /* the directory of the socket, while it runs */
    uid_t user;            /* whose it is; 0: ours */
    gid_t group;
    pid_t postmaster; /* 0: not running */
};

/* Finds the place of the installation's cluster, or chooses one and makes its directory. `notice`
 * gets a sentence for the user when it does not lie under `directory` ("" else). */
CV_MUST_CHECK int cli_cluster_locate(struct cli_cluster *cluster, const char *directory,
                                     char *notice, size_t notice_size, struct cv_error *error);

/* Looks whether it runs; fills `postmaster` and `socket`. What a crash left behind is no server. */
bool cli_cluster_is_running(struct cli_cluster *cluster);

/* Makes the data directory when there is none, starts the server and waits until it answers. */
CV_MUST_CHECK int cli_cluster_start(struct cli_cluster *cluster, struct cv_cancel *cancel,
                                    struct cv_error *error);

/* Fast shutdown, awaited. */
void cli_cluster_stop(struct cli_cluster *cluster);

/* Connection URL of its database `cortana`; free() it. */
CV_MUST_CHECK int cli_cluster_url(const struct cli_cluster *cluster, const char *database,
                                  char **ret_url, struct cv_error *error);
