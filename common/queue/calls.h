/* What the files of common/queue share: calls of the SQL functions and texts they can take. */
#pragma once

#include "common/queue/queue.h"

/* Runs a statement whose one row has a column `outcome` and returns what the word means ("ok",
 * "lost", "cancel", …; also true and false). */
CV_MUST_CHECK int cv_queue_call(struct cv_db *db, struct cv_error *error, const char *sql,
                                size_t count, const char *const *parameters);

/* cv_db_repeat with the parameters in place. */
#define cv_queue_rows(db, ret_result, error, sql, ...)                                 \
    cv_db_repeat(db, sql, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
                 (const char *const[]){__VA_ARGS__}, ret_result, error)

#define cv_queue_run(db, error, sql, ...)                                                      \
    cv_queue_call(db, error, sql, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
                  (const char *const[]){__VA_ARGS__})

/* A number as text, for a parameter. */
struct cv_queue_number {
    char text[32];
};
struct cv_queue_number cv_queue_number(int64_t value);

/* A copy (free() it) of the last `limit` bytes of `text` that PostgreSQL can store: UTF-8, what is
 * none becomes U+FFFD, and secrets redacted. NULL stays NULL. */
CV_MUST_CHECK int cv_queue_clean_text(const char *text, size_t limit, char **ret_text,
                                      struct cv_error *error);

/* JSON text (free() it) of a value; NULL stays NULL. */
CV_MUST_CHECK int cv_queue_dump(const json_t *value, char **ret_text, struct cv_error *error);

/* JSON text (free() it) of a report; NULL stays NULL. */
CV_MUST_CHECK int cv_queue_dump_report(const struct cv_attempt_report *report, char **ret_text,
                                       struct cv_error *error);
