#include "cli/jobs.h"

#include <openssl/evp.h>
#include <string.h>

/* Old months of the timeline to the store as JSON Lines, and back. A month is dropped only when all
 * of it is in the store under the checksum that is noted. */

enum { READ_SIZE = 1 << 20, RESTORE_LINES = 1000, LINE_MAX_BYTES = 64 << 20 };

CV_DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free)

struct month {
    const char *partition;
    char key[128];
    FILE *file;
    EVP_MD_CTX *digest;
    int64_t rows;
    char sha256[CV_STORE_SHA256_SIZE];
};

static int write_line(struct month *month, const char *line, struct cv_error *error)
{
    size_t length = strlen(line);
    if (fwrite(line, 1, length, month->file) != length || fputc('\n', month->file) == EOF) {
        return cv_fail_errno(error, errno, "cannot write the archive");
    }
    if (EVP_DigestUpdate(month->digest, line, length) != 1 ||
        EVP_DigestUpdate(month->digest, "\n", 1) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    month->rows++;
    return 0;
}

static int write_month(struct cli_session *session, struct month *month, struct cv_error *error)
{
    char after[24] = "0";
    while (true) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        int result = cv_db_run(session->db, &rows, error,
                               "SELECT id, line FROM export_events($1, $2::bigint)",
                               month->partition, after);
        for (int i = 0; result == 0 && i < cv_db_rows(rows); i++) {
            result = write_line(month, cv_db_text(rows, i, "line"), error);
        }
        if (result || cv_db_rows(rows) == 0) {
            return result;
        }
        (void)snprintf(after, sizeof(after), "%s", cv_db_text(rows, cv_db_rows(rows) - 1, "id"));
    }
}

static int finish_month(struct month *month, struct cv_error *error)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (fflush(month->file) != 0) {
        return cv_fail_errno(error, errno, "cannot write the archive");
    }
    if (EVP_DigestFinal_ex(month->digest, bytes, &length) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    for (unsigned i = 0; i < length; i++) {
        (void)snprintf(month->sha256 + (size_t)i * 2, 3, "%02x", bytes[i]);
    }
    return 0;
}

static int archive_month(struct cli_session *session, const char *partition, struct cv_error *error)
{
    cv_auto_file FILE *file = tmpfile();
    cv_auto(EVP_MD_CTX_free) EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!file || !digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        return cv_fail_errno(error, errno, "cannot make a temporary file");
    }
    struct month month = {.partition = partition, .file = file, .digest = digest};
    (void)snprintf(month.key, sizeof(month.key), "archive/task_events/%s.jsonl",
                   partition + strlen("task_events_"));
    int result = write_month(session, &month, error);
    result = result ? result : finish_month(&month, error);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(file));
    const struct cv_put_params params = {.content_type = "application/jsonl",
                                         .sha256 = month.sha256};
    result =
        result ? result : cv_store_put_file(session->store, month.key, path, &params, NULL, error);
    char rows_text[24];
    (void)snprintf(rows_text, sizeof(rows_text), "%lld", (long long)month.rows);
    cv_auto(cv_db_result_free) struct cv_db_result *dropped = NULL;
    result = result ? result
                    : cv_db_run(session->db, &dropped, error,
                                "SELECT drop_archived_events($1, $2, $3::bigint, $4) AS dropped",
                                partition, month.key, rows_text, month.sha256);
    if (result) {
        return result;
    }
    if (!cv_db_bool(dropped, 0, "dropped")) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s has changed meanwhile and stays", partition);
    }
    (void)printf("%s: %lld events are in %s\n", partition, (long long)month.rows, month.key);
    return 0;
}

int cli_jobs_archive(struct cli_session *session, const struct cli_jobs_request *request,
                     struct cv_error *error)
{
    char days[24];
    (void)snprintf(days, sizeof(days), "%lld", (long long)request->days);
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

/* ---- back ------------------------------------------------------------------------------------ */

struct restore {
    struct cli_session *session;
    struct cv_buffer lines; /* of a JSON list that is still open */
    int waiting;
    int64_t restored;
};

static int send_lines(struct restore *restore, struct cv_error *error)
{
    if (restore->waiting == 0) {
        return 0;
    }
    cv_buffer_text(&restore->lines, "]");
    if (restore->lines.failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the archive's lines");
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(restore->session->db, &rows, error,
                           "SELECT restore_events($1::jsonb) AS restored", restore->lines.data);
    if (result == 0) {
        restore->restored += cv_db_int(rows, 0, "restored", 0);
        restore->waiting = 0;
        cv_buffer_clear(&restore->lines);
    }
    return result;
}

static int take_line(struct restore *restore, const char *line, size_t length,
                     struct cv_error *error)
{
    cv_buffer_text(&restore->lines, restore->waiting ? "," : "[");
    cv_buffer_append(&restore->lines, line, length);
    restore->waiting++;
    return restore->waiting == RESTORE_LINES ? send_lines(restore, error) : 0;
}

/* Hands over every whole line of `pending` and keeps the rest. */
static int take_lines(struct restore *restore, struct cv_buffer *pending, struct cv_error *error)
{
    const char *start = pending->data;
    const char *end = pending->data + pending->length;
    for (const char *stop; (stop = memchr(start, '\n', (size_t)(end - start))); start = stop + 1) {
        int result = take_line(restore, start, (size_t)(stop - start), error);
        if (result) {
            return result;
        }
    }
    pending->length = (size_t)(end - start);
    memmove(pending->data, start, pending->length);
    return pending->length > LINE_MAX_BYTES
               ? cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a line of the archive is too long")
               : 0;
}

int cli_jobs_restore(struct cli_session *session, const struct cli_jobs_request *request,
                     struct cv_error *error)
{
    const char *key = request->arguments[0];
    struct cv_object_info info;
    int result = cv_store_head(session->store, key, &info, error);
    if (result) {
        return result < 0 ? result
                          : cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "there is no %s", key);
    }
    cv_auto_free char *chunk = malloc(READ_SIZE);
    cv_auto(cv_buffer_deinit) struct cv_buffer pending = CV_BUFFER_INIT;
    struct restore restore = {.session = session, .lines = CV_BUFFER_INIT};
    for (int64_t offset = 0; chunk && result == 0 && offset < info.size;) {
        size_t got = 0;
        result = cv_store_get_range(session->store, key, offset, chunk, READ_SIZE, &got, error);
        if (result == 0 && got == 0) {
            break;
        }
        cv_buffer_append(&pending, chunk, got);
        offset += (int64_t)got;
        if (result == 0 && !pending.failed) {
            result = take_lines(&restore, &pending, error);
        }
    }
    if (result == 0 && (!chunk || pending.failed)) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the archive");
    }
    result = result ? result : send_lines(&restore, error);
    cv_buffer_deinit(&restore.lines);
    if (result == 0) {
        (void)printf("%lld events are back\n", (long long)restore.restored);
    }
    return result > 0 ? cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is gone", key) : result;
}
