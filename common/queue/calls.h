/* What the files of common/queue share: calls of the SQL functions, and texts that PostgreSQL can
 * store. */
#pragma once

#include "common/queue/queue.h"

/* Runs a statement that returns one row with a column `outcome`: a word ("ok", "lost", "cancel", …)
 * or a boolean. Returns the enum cv_queue_outcome that it stands for. */
CV_MUST_CHECK int cv_queue_call(struct cv_db *db, const struct cv_db_statement *statement,
                                struct cv_error *error);

/* cv_queue_call with the parameters in place. */
#define cv_queue_run(db, error, sql, ...) \
    cv_queue_call(db, CV_DB_STATEMENT(sql, ##__VA_ARGS__), error)

/* cv_db_query_prepared with the parameters in place. */
#define cv_queue_rows(db, ret_result, error, sql, ...) \
    cv_db_query_prepared(db, CV_DB_STATEMENT(sql, ##__VA_ARGS__), ret_result, error)

/* A copy (free() it) of the last `limit` bytes of `text` that PostgreSQL can store: bytes that are not
 * UTF-8 become U+FFFD, and secrets are redacted. NULL stays NULL. */
CV_MUST_CHECK int cv_queue_clean_text(const char *text, size_t limit, char **ret_text,
                                      struct cv_error *error);

/* JSON text (free() it) of a value; NULL stays NULL. */
CV_MUST_CHECK int cv_queue_dump(const json_t *value, char **ret_text, struct cv_error *error);
