#include "cli/jobs.h"

#include <openssl/evp.h>
#include <string.h>

/* Old months of the timeline, and ended jobs, to the store as JSON Lines. Rows are dropped only when
 * all of them are in the store under the checksum that is noted. jobs_restore.c brings them back. */

CV_DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free)

/* ---- a file of lines ------------------------------------------------------------------------- */

struct archive {
    FILE *file;
    EVP_MD_CTX *digest;
    int64_t lines;
    char sha256[CV_STORE_SHA256_SIZE];
};

static void archive_deinit(struct archive *archive)
{
    if (archive->file) {
        (void)fclose(archive->file);
    }
    EVP_MD_CTX_free(archive->digest);
}
CV_DEFINE_CLEANUP_ADDRESS(struct archive, archive_deinit)

static int archive_init(struct archive *archive, struct cv_error *error)
{
    archive->file = tmpfile();
    if (!archive->file) {
        return cv_fail_errno(error, errno, "cannot make a temporary file");
    }
    archive->digest = EVP_MD_CTX_new();
    if (!archive->digest || EVP_DigestInit_ex(archive->digest, EVP_sha256(), NULL) != 1) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "cannot compute SHA-256");
    }
    return 0;
}

/* The column `line` of all rows. */
static int archive_write(struct archive *archive, const struct cv_db_result *rows,
                         struct cv_error *error)
{
    for (int i = 0; i < cv_db_rows(rows); i++) {
        const char *line = cv_db_text(rows, i, "line");
        if (!line) {
            return cv_fail(error, CV_ERROR_CONFLICT, "a row that was to be archived is gone");
        }
        size_t length = strlen(line);
        if (fwrite(line, 1, length, archive->file) != length || fputc('\n', archive->file) == EOF) {
            return cv_fail_errno(error, errno, "cannot write the archive");
        }
        if (EVP_DigestUpdate(archive->digest, line, length) != 1 ||
            EVP_DigestUpdate(archive->digest, "\n", 1) != 1) {
            return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
        }
        archive->lines++;
    }
    return 0;
}

static int archive_finish(struct archive *archive, struct cv_error *error)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (fflush(archive->file) != 0) {
        return cv_fail_errno(error, errno, "cannot write the archive");
    }
    if (EVP_DigestFinal_ex(archive->digest, bytes, &length) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    for (unsigned i = 0; i < length; i++) {
        (void)snprintf(archive->sha256 + (size_t)i * 2, 3, "%02x", bytes[i]);
    }
    return 0;
}

static int archive_put(const struct archive *archive, struct cv_store *store, const char *key,
                       struct cv_error *error)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(archive->file));
    const struct cv_put_params params = {.content_type = "application/jsonl",
                                         .sha256 = archive->sha256};
    return cv_store_put_file(store, key, path, &params, NULL, error);
}

/* ---- months of the timeline ------------------------------------------------------------------ */

static int write_month(struct cli_session *session, const char *partition, struct archive *archive,
                       struct cv_error *error)
{
    char after[24] = "0";
    while (true) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        int result =
            cv_db_run(session->db, &rows, error,
                      "SELECT id, line FROM export_events($1, $2::bigint)", partition, after);
        result = result ? result : archive_write(archive, rows, error);
        if (result || cv_db_rows(rows) == 0) {
            return result;
        }
        (void)snprintf(after, sizeof(after), "%s", cv_db_text(rows, cv_db_rows(rows) - 1, "id"));
    }
}

static int archive_month(struct cli_session *session, const char *partition, struct cv_error *error)
{
    cv_auto(archive_deinit) struct archive archive = {0};
    char key[128];
    (void)snprintf(key, sizeof(key), "archive/task_events/%s.jsonl",
                   partition + strlen("task_events_"));
    int result = archive_init(&archive, error);
    result = result ? result : write_month(session, partition, &archive, error);
    result = result ? result : archive_finish(&archive, error);
    result = result ? result : archive_put(&archive, session->store, key, error);
    char lines[24];
    (void)snprintf(lines, sizeof(lines), "%lld", (long long)archive.lines);
    cv_auto(cv_db_result_free) struct cv_db_result *dropped = NULL;
    result = result ? result
                    : cv_db_run(session->db, &dropped, error,
                                "SELECT drop_archived_events($1, $2, $3::bigint, $4) AS dropped",
                                partition, key, lines, archive.sha256);
    if (result) {
        return result;
    }
    if (!cv_db_bool(dropped, 0, "dropped")) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s has changed meanwhile and stays", partition);
    }
    (void)printf("%s: %s events are in %s\n", partition, lines, key);
    return 0;
}

static int archive_months(struct cli_session *session, const char *days, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT event_partitions_before($1::int) AS name", days);
    for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
        result = archive_month(session, cv_db_text(rows, i, "name"), error);
    }
    if (result == 0 && cv_db_rows(rows) == 0) {
        (void)puts("nothing is old enough");
    }
    return result;
}

/* ---- ended jobs ------------------------------------------------------------------------------ */

/* The row of jobs_to_archive(). */
struct batch {
    const char *runs; /* texts of uuid[] */
    const char *jobs;
    const char *fingerprint;
    const char *day; /* of the last of them */
};

static int write_batch(struct cli_session *session, const struct batch *batch,
                       struct archive *archive, struct cv_error *error)
{
    char after[24] = "0";
    while (true) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        int result = cv_db_run(session->db, &rows, error,
                               "SELECT n, line FROM export_jobs($1::uuid[], $2::uuid[], $3::int)",
                               batch->runs, batch->jobs, after);
        result = result ? result : archive_write(archive, rows, error);
        if (result || cv_db_rows(rows) == 0) {
            return result;
        }
        (void)snprintf(after, sizeof(after), "%s", cv_db_text(rows, cv_db_rows(rows) - 1, "n"));
    }
}

/* A file's name comes from its bytes, so that a batch whose rows could not be dropped lies there
 * once when it is archived again. */
static int archive_batch(struct cli_session *session, const struct batch *batch,
                         struct cv_error *error)
{
    enum { NAME_DIGITS = 16 };
    cv_auto(archive_deinit) struct archive archive = {0};
    int result = archive_init(&archive, error);
    result = result ? result : write_batch(session, batch, &archive, error);
    result = result ? result : archive_finish(&archive, error);
    char key[128];
    (void)snprintf(key, sizeof(key), CLI_JOB_ARCHIVES "%s-%.*s.jsonl", batch->day, NAME_DIGITS,
                   archive.sha256);
    result = result ? result : archive_put(&archive, session->store, key, error);
    cv_auto(cv_db_result_free) struct cv_db_result *dropped = NULL;
    result = result ? result
                    : cv_db_run(session->db, &dropped, error,
                                "SELECT drop_archived_jobs($1::uuid[], $2::uuid[], $3, $4, $5)"
                                " AS dropped, cardinality($2::uuid[]) AS jobs",
                                batch->runs, batch->jobs, batch->fingerprint, key, archive.sha256);
    if (result) {
        return result;
    }
    if (!cv_db_bool(dropped, 0, "dropped")) {
        return cv_fail(error, CV_ERROR_CONFLICT,
                       "some of these jobs have changed meanwhile, and all of them stay: again");
    }
    (void)printf("%s jobs are in %s\n", cv_db_text(dropped, 0, "jobs"), key);
    return 0;
}

static int archive_jobs(struct cli_session *session, const char *days, struct cv_cancel *cancel,
                        struct cv_error *error)
{
    for (int batches = 0;; batches++) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        int result = cv_db_run(session->db, &rows, error,
                               "SELECT run_ids, job_ids, fingerprint,"
                               " to_char(finished_until AT TIME ZONE 'UTC', 'YYYY_MM_DD') AS day"
                               " FROM jobs_to_archive($1::int) WHERE cardinality(job_ids) > 0",
                               days);
        if (result || cv_db_rows(rows) == 0) {
            if (result == 0 && batches == 0) {
                (void)puts("nothing is old enough");
            }
            return result;
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
        result = archive_batch(session, &batch, error);
        if (result) {
            return result;
        }
    }
}

int cli_jobs_archive(struct cli_session *session, const struct cli_jobs_request *request,
                     struct cv_error *error)
{
    char days[24];
    (void)snprintf(days, sizeof(days), "%lld", (long long)request->days);
    return request->is_of_jobs ? archive_jobs(session, days, request->cancel, error)
                               : archive_months(session, days, error);
}
