/* The migrations that are part of this binary; made from sql/migrations and sql/platform by
 * scripts/embed_sql.py. */
#pragma once

struct cv_migration {
    int version; /* from 1; those of the platform from 1001 */
    const char *name;
    const char *sql;
};

/* Makes the roles that migrations grant to, where they are missing. */
extern const char *const cv_roles_sql;

/* In ascending order; the last entry has version 0. */
extern const struct cv_migration cv_migrations[];
