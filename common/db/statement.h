/* The statements that the session of one connection keeps prepared. */
#pragma once

#include <stddef.h>

/* More than any program of this project prepares. */
enum { CV_DB_PREPARED_MOST = 32 };

struct cv_db_prepared {
    /* Whether the server's session belongs to this connection alone. A pooler lends its sessions to
     * several connections. */
    enum { CV_DB_SESSION_UNKNOWN, CV_DB_SESSION_OWN, CV_DB_SESSION_POOLED } session;
    char *texts[CV_DB_PREPARED_MOST]; /* statement i is prepared under the name cv_<i> */
    size_t count;
};

/* Forgets the statements and the session; asks nothing of the server. */
void cv_db_forget_prepared(struct cv_db_prepared *prepared);
