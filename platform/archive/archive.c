#include "cli/commands/export.h"
#include "cli/commands/verbs.h"

#include <string.h>

/* Archives old months of the timeline and ended jobs in the store as JSON Lines. Rows are dropped
 * only when all of them are in the store with the recorded checksum. Restoring brings them back. */

/* Archives of ended jobs have this prefix; all others are of the timeline. */
#define JOB_ARCHIVES "archive/jobs/"

enum {
    DAYS_DEFAULT = 90,
    DAYS_MAX = 100 * 366,
    SEND_LINES = 1000,
    SEND_BYTES = 8 << 20, /* bytes sent at once; a job's line has the tails of all its attempts */
    LINE_MAX_BYTES = 64 << 20,
};

/* ---- a file of lines ------------------------------------------------------------------------- */

struct archive {
    FILE *file;
    struct cv_sha256 *digest;
    int64_t lines;
    char sha256[CV_STORE_SHA256_SIZE];
};

static void archive_deinit(struct archive *archive)
{
    if (archive->file) {
        (void)fclose(archive->file);
    }
    cv_sha256_free(archive->digest);
}
CV_DEFINE_CLEANUP_ADDRESS(struct archive, archive_deinit)

/* Writes the column `line` of all rows. */
static int archive_write(struct archive *archive, const struct cv_db_result *rows,
                         struct cv_error *error)
{
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *line = cv_db_text(rows, i, "line");
        if (!line) {
            return cv_fail(error, CV_ERROR_CONFLICT, "a row that was to be archived is gone");
        }
        size_t length = strlen(line);
        CV_TRY_ERRNO(fwrite(line, 1, length, archive->file) == length &&
                         fputc('\n', archive->file) != EOF,
                     error, "cannot write the archive");
        CV_TRY(cv_sha256_add(archive->digest, line, length, error));
        CV_TRY(cv_sha256_add(archive->digest, "\n", 1, error));
        archive->lines++;
    }
    return 0;
}

/* Makes a file of the rows of a statement that takes two values and the id behind which it goes on. */
static int archive_fill(struct archive *archive, struct cli_session *session, const char *sql,
                        const char *one, const char *two, struct cv_error *error)
{
    char after[24] = "0";
    int count = 1;
    archive->file = tmpfile();
    CV_TRY_ERRNO(archive->file, error, "cannot make a temporary file");
    CV_TRY(cv_sha256_new(&archive->digest, error));
    while (count > 0) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(session->db, &rows, error, sql, one, two, after));
        CV_TRY(archive_write(archive, rows, error));
        count = cv_db_rows(rows);
        if (count > 0) {
            (void)snprintf(after, sizeof(after), "%s", cv_db_text(rows, count - 1, "id"));
        }
    }
    CV_TRY_ERRNO(fflush(archive->file) == 0, error, "cannot write the archive");
    return cv_sha256_text(archive->digest, archive->sha256, error);
}

static int archive_put(const struct archive *archive, struct cv_store *store, const char *key,
                       struct cv_error *error)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(archive->file));
    const struct cv_new_object object = {.key = key, .path = path, .sha256 = archive->sha256};
    return cv_store_put(store, &object, NULL, error);
}

/* ---- months of the timeline ------------------------------------------------------------------ */

static int archive_month(struct cli_session *session, const char *partition, struct cv_error *error)
{
    cv_auto(archive_deinit) struct archive archive = {0};
    char key[128];
    (void)snprintf(key, sizeof(key), "archive/task_events/%s.jsonl",
                   partition + strlen("task_events_"));
    CV_TRY(archive_fill(&archive, session,
                        "SELECT id, line FROM export_events($1, $3::bigint) WHERE $2::text IS NULL",
                        partition, NULL, error));
    CV_TRY(archive_put(&archive, session->store, key, error));
    char lines[24];
    (void)snprintf(lines, sizeof(lines), "%lld", (long long)archive.lines);
    cv_auto(cv_db_result_free) struct cv_db_result *dropped = NULL;
    CV_TRY(cv_db_run(session->db, &dropped, error,
                     "SELECT drop_archived_events($1, $2, $3::bigint, $4) AS dropped", partition,
                     key, lines, archive.sha256));
    if (!cv_db_bool(dropped, 0, "dropped")) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s has changed meanwhile and stays", partition);
    }
    char events[CLI_COUNTED_SIZE];
    (void)printf("%s: %s in %s\n", partition,
                 cli_counted(archive.lines, "event is", "events are", events), key);
    return 0;
}

static int archive_months(struct cli_session *session, const char *days, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(session->db, &rows, error, "SELECT event_partitions_before($1::int) AS name",
                     days));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        CV_TRY(archive_month(session, cv_db_text(rows, i, "name"), error));
    }
    if (cv_db_rows(rows) == 0) {
        (void)puts("nothing is old enough");
    }
    return 0;
}

/* ---- ended jobs ------------------------------------------------------------------------------ */

/* A row of jobs_to_archive(). */
struct batch {
    const char *runs; /* texts of uuid[] */
    const char *jobs;
    const char *fingerprint;
    const char *day; /* of the last of them */
};

/* Archives a batch. The object's name is derived from its bytes, so that a batch whose rows could
 * not be dropped is stored only once if it is archived again. */
static int archive_batch(struct cli_session *session, const struct batch *batch,
                         struct cv_error *error)
{
    enum { NAME_DIGITS = 16 };
    cv_auto(archive_deinit) struct archive archive = {0};
    CV_TRY(archive_fill(&archive, session,
                        "SELECT n AS id, line FROM export_jobs($1::uuid[], $2::uuid[], $3::int)",
                        batch->runs, batch->jobs, error));
    char key[128];
    (void)snprintf(key, sizeof(key), JOB_ARCHIVES "%s-%.*s.jsonl", batch->day, NAME_DIGITS,
                   archive.sha256);
    CV_TRY(archive_put(&archive, session->store, key, error));
    cv_auto(cv_db_result_free) struct cv_db_result *dropped = NULL;
    CV_TRY(cv_db_run(session->db, &dropped, error,
                     "SELECT drop_archived_jobs($1::uuid[], $2::uuid[], $3, $4, $5)"
                     " AS dropped, cardinality($2::uuid[]) AS jobs",
                     batch->runs, batch->jobs, batch->fingerprint, key, archive.sha256));
    if (!cv_db_bool(dropped, 0, "dropped")) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "some of these jobs have changed meanwhile, and all of them stay: again");
    }
    char jobs[CLI_COUNTED_SIZE];
    (void)printf("%s in %s\n",
                 cli_counted(cv_db_int(dropped, 0, "jobs", 0), "job is", "jobs are", jobs), key);
    return 0;
}

static int archive_jobs(struct cli_session *session, const char *days, struct cv_cancel *cancel,
                        struct cv_error *error)
{
    for (int batches = 0;; batches++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(session->db, &rows, error,
                         "SELECT run_ids, job_ids, fingerprint,"
                         " to_char(finished_until AT TIME ZONE 'UTC', 'YYYY_MM_DD') AS day"
                         " FROM jobs_to_archive($1::int) WHERE cardinality(job_ids) > 0",
                         days));
        if (cv_db_rows(rows) == 0) {
            if (batches == 0) {
                (void)puts("nothing is old enough");
            }
            return 0;
        }
        if (cv_cancel_level(cancel) != CV_CANCEL_NONE) {
            return cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
        const struct batch batch = {
            .runs = cv_db_text(rows, 0, "run_ids"),
            .jobs = cv_db_text(rows, 0, "job_ids"),
            .fingerprint = cv_db_text(rows, 0, "fingerprint"),
            .day = cv_db_text(rows, 0, "day"),
        };
        CV_TRY(archive_batch(session, &batch, error));
    }
}

int cli_jobs_archive(struct cli_call *call, struct cv_error *error)
{
    int64_t number = 0;
    char days[24];
    CV_TRY(cli_number(call, "days", 0, DAYS_MAX, DAYS_DEFAULT, &number));
    (void)snprintf(days, sizeof(days), "%lld", (long long)number);
    CV_TRY(cli_open(call, error));
    return cli_given(call, "jobs") ? archive_jobs(&call->session, days, call->cancel, error)
                                   : archive_months(&call->session, days, error);
}

/* ---- restoring rows -------------------------------------------------------------------------- */

struct restore {
    struct cli_session *session;
    bool is_of_jobs;
    struct cv_buffer lines;   /* lines of a JSON list that is not closed yet */
    struct cv_buffer pending; /* the beginning of a line */
    int waiting;
    int64_t restored;
    int64_t left_out;
};

static void restore_deinit(struct restore *restore)
{
    cv_buffer_deinit(&restore->lines);
    cv_buffer_deinit(&restore->pending);
}
CV_DEFINE_CLEANUP_ADDRESS(struct restore, restore_deinit)

static int send_lines(struct restore *restore, struct cv_error *error)
{
    if (restore->waiting == 0) {
        return 0;
    }
    cv_buffer_text(&restore->lines, "]");
    CV_TRY_MEMORY(!restore->lines.failed, error, "the archive's lines");
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(
        cv_db_run(restore->session->db, &rows, error,
                  restore->is_of_jobs
                      ? "SELECT restored, left_out FROM restore_jobs($1::jsonb)"
                      : "SELECT restored, 0 AS left_out FROM restore_events($1::jsonb) AS restored",
                  restore->lines.data));
    restore->restored += cv_db_int(rows, 0, "restored", 0);
    restore->left_out += cv_db_int(rows, 0, "left_out", 0);
    restore->waiting = 0;
    cv_buffer_clear(&restore->lines);
    return 0;
}

static int import_line(struct restore *restore, const char *line, size_t length,
                       struct cv_error *error)
{
    cv_buffer_text(&restore->lines, restore->waiting ? "," : "[");
    cv_buffer_append(&restore->lines, line, length);
    restore->waiting++;
    return restore->waiting == SEND_LINES || restore->lines.length >= SEND_BYTES
               ? send_lines(restore, error)
               : 0;
}

/* Passes on every complete line, and keeps the rest. */
static int import_lines(void *opaque, const char *data, size_t length, struct cv_error *error)
{
    struct restore *restore = opaque;
    struct cv_buffer *pending = &restore->pending;
    cv_buffer_append(pending, data, length);
    CV_TRY_MEMORY(!pending->failed, error, "the archive");
    const char *start = pending->data;
    const char *end = pending->data + pending->length;
    for (const char *stop; (stop = memchr(start, '\n', (size_t)(end - start))); start = stop + 1) {
        CV_TRY(import_line(restore, start, (size_t)(stop - start), error));
    }
    pending->length = (size_t)(end - start);
    memmove(pending->data, start, pending->length);
    return pending->length > LINE_MAX_BYTES
               ? cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a line of the archive is too long")
               : 0;
}

int cli_jobs_restore(struct cli_call *call, struct cv_error *error)
{
    const char *key = call->arguments[0];
    cv_auto(restore_deinit) struct restore restore = {
        .session = &call->session,
        .is_of_jobs = strncmp(key, JOB_ARCHIVES, strlen(JOB_ARCHIVES)) == 0,
        .lines = CV_BUFFER_INIT,
        .pending = CV_BUFFER_INIT,
    };
    CV_TRY(cli_open(call, error));
    int result = cli_read_object(call->session.store, key, import_lines, &restore, error);
    if (result) {
        return result < 0 ? result
                          : cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                                    "there is no archive '%s' in the store", key);
    }
    if (restore.pending.length > 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s ends in the middle of a line", key);
    }
    CV_TRY(send_lines(&restore, error));
    char counted[CLI_COUNTED_SIZE];
    (void)puts(cli_counted(restore.restored, restore.is_of_jobs ? "job is back" : "event is back",
                           restore.is_of_jobs ? "jobs are back" : "events are back", counted));
    if (restore.left_out > 0) {
        (void)puts(cli_counted(restore.left_out, "job of a video that was deleted is left out",
                               "jobs of videos that were deleted are left out", counted));
    }
    return 0;
}
