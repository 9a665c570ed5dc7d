#include "gateway/session.h"

#include "gateway/media.h"

enum { BETWEEN_MS = 10 * 1000 };

void session_record(struct session *session, const struct exchange *exchange)
{
    bool is_media = exchange->operation == &media_operation;
    bool is_search = !is_media && exchange->operation && exchange->operation->rate == RATE_SEARCH;
    if (exchange->answer.status < 400 && (is_media || is_search)) {
        atomic_store(is_media ? &session->played_ms : &session->searched_ms, cv_monotonic_ms());
    }
}

void session_report(struct session *session, struct cv_db *db)
{
    struct cv_error error;
    int64_t searched_ms = atomic_load(&session->searched_ms);
    int64_t played_ms = atomic_load(&session->played_ms);
    int64_t used_ms = played_ms > searched_ms ? played_ms : searched_ms, now = cv_monotonic_ms();
    if (used_ms == session->told_ms || now < session->next_ms || !db || !cv_db_is_connected(db)) {
        return;
    }
    session->next_ms = now + BETWEEN_MS;
    session->told_ms = used_ms;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (cv_db_run(db, &rows, &error,
                  "SELECT touch_session(nullif($1, '')::uuid, $2, '60 seconds') AS id"
                  " WHERE NOT pg_is_in_recovery()",
                  session->id, played_ms > searched_ms ? "play" : "search") != 0) {
        cv_log_error(&error, "the session of those who search and play");
    } else if (cv_db_rows(rows) > 0) {
        (void)snprintf(session->id, sizeof(session->id), "%s", cv_db_text(rows, 0, "id"));
    }
}
