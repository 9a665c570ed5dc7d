#include "cli/watch.h"

#include "common/objects/objects.h"

#include "cli/text.h"

#include <poll.h>
#include <string.h>

enum { LOOK_MS = 500 };

/* What was shown already is kept beside the videos, for as long as this connection lives. */
static int remember_all(struct cli_session *session, struct cv_error *error)
{
    return cv_db_script(
        session->db,
        "CREATE TEMP TABLE shown (id uuid PRIMARY KEY, status video_status NOT NULL);"
        " INSERT INTO shown SELECT id, status FROM videos",
        error);
}

static void print_change(const struct cv_db_result *rows, int row)
{
    const char *status = cv_db_text(rows, row, "status");
    const char *other = cv_db_text(rows, row, "twin");
    const char *reason = cv_db_text(rows, row, "reason");
    cli_put(stdout, cv_db_text(rows, row, "name"));
    if (strcmp(status, "ready") == 0) {
        (void)printf(" is ready: %s lines of text (video %.8s)\n", cv_db_text(rows, row, "lines"),
                     cv_db_text(rows, row, "id"));
    } else if (strcmp(status, "failed") == 0) {
        (void)printf(" has failed: ");
        cli_put(stdout, reason ? reason : "see cortana jobs");
        (void)putchar('\n');
    } else if (strcmp(status, "duplicate") == 0) {
        (void)printf(" is the same as ");
        cli_put(stdout, other ? other : "another video");
        (void)putchar('\n');
    } else {
        (void)printf(" is taken in\n");
    }
}

static int show_changes(struct cli_session *session, struct cv_error *error)
{
    static const char *const sql =
        "WITH changed AS (INSERT INTO shown AS s SELECT id, status FROM videos"
        " WHERE status <> 'processing' AND registered_at IS NOT NULL"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status"
        " WHERE s.status <> excluded.status RETURNING id)"
        " SELECT v.id, v.status, coalesce(v.original_name, v.id::text) AS name,"
        " (SELECT count(*) FROM segments g WHERE g.video_id = v.id) AS lines,"
        " (SELECT coalesce(o.original_name, o.id::text) FROM videos o WHERE o.id = v.duplicate_of)"
        " AS twin,"
        " (SELECT payload #>> '{error,message}' FROM jobs j WHERE j.video_id = v.id"
        " AND j.status = 'failed' ORDER BY finished_at DESC LIMIT 1) AS reason"
        " FROM changed JOIN videos v USING (id) ORDER BY v.updated_at, v.id";
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error, sql);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        print_change(rows, i);
    }
    (void)fflush(stdout);
    return result;
}

static int print_place(struct cli_session *session, struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    int result = cli_object_path(session->store, CV_OBJECT_INBOX, &path, error);
    if (result == 0) {
        bool is_path = path[0] == '/';
        (void)printf("put videos into %s%s%s; Ctrl-C stops\n",
                     is_path ? "" : cv_store_name(session->store), is_path ? "" : "/", path);
        (void)fflush(stdout);
    }
    return result;
}

int cli_watch(struct cli_session *session, struct cli_workers *workers, struct cv_cancel *cancel,
              struct cv_error *error)
{
    bool created = false;
    int result = remember_all(session, error);
    if (result == 0 && strncmp(cv_store_name(session->store), "dir:", 4) == 0) {
        /* An inbox to drop files into; a bucket's rules are nobody's to change by the way. */
        result = cv_bucket_init(session->store, 0, &created, error);
        result = result < 0 ? result : 0;
    }
    result = result ? result : cli_workers_start(workers, NULL, error);
    result = result ? result : cli_workers_start(workers, "scanner", error);
    result = result ? result : cli_workers_start(workers, "scheduler", error);
    result = result ? result : cli_workers_start(workers, "command", error);
    result = result ? result : cli_workers_start(workers, "webhook", error);
    result = result ? result : print_place(session, error);
    while (result == 0) {
        result = show_changes(session, error);
        result = result ? result : cli_workers_check(workers, error);
        struct pollfd wait = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (result == 0 && poll(&wait, 1, LOOK_MS) > 0) {
            break;
        }
    }
    return cv_cancel_level(cancel) != CV_CANCEL_NONE ? 0 : result;
}
