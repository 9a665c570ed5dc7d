#include "cli/jobs.h"

#include <string.h>

/* Lines of an archive that jobs_archive.c wrote, back into the tables. */

enum {
    READ_SIZE = 1 << 20,
    SEND_LINES = 1000,
    SEND_BYTES = 8 << 20, /* a job's line holds the tails of all its attempts */
    LINE_MAX_BYTES = 64 << 20,
};

struct restore {
    struct cli_session *session;
    bool is_of_jobs;
    struct cv_buffer lines; /* of a JSON list that is still open */
    int waiting;
    int64_t restored;
    int64_t left_out;
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
    int result =
        cv_db_run(restore->session->db, &rows, error,
                  restore->is_of_jobs
                      ? "SELECT restored, left_out FROM restore_jobs($1::jsonb)"
                      : "SELECT restored, 0 AS left_out FROM restore_events($1::jsonb) AS restored",
                  restore->lines.data);
    if (result == 0) {
        restore->restored += cv_db_int(rows, 0, "restored", 0);
        restore->left_out += cv_db_int(rows, 0, "left_out", 0);
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
    return restore->waiting == SEND_LINES || restore->lines.length >= SEND_BYTES
               ? send_lines(restore, error)
               : 0;
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

static int restore_object(struct restore *restore, const char *key, int64_t size,
                          struct cv_error *error)
{
    cv_auto_free char *chunk = malloc(READ_SIZE);
    cv_auto(cv_buffer_deinit) struct cv_buffer pending = CV_BUFFER_INIT;
    int result = 0;
    for (int64_t offset = 0; chunk && result == 0 && offset < size;) {
        size_t got = 0;
        result =
            cv_store_get_range(restore->session->store, key, offset, chunk, READ_SIZE, &got, error);
        if (result == 0 && got == 0) {
            break;
        }
        cv_buffer_append(&pending, chunk, got);
        offset += (int64_t)got;
        if (result == 0 && !pending.failed) {
            result = take_lines(restore, &pending, error);
        }
    }
    if (result == 0 && (!chunk || pending.failed)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the archive");
    }
    if (result == 0 && pending.length > 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "%s ends in the middle of a line", key);
    }
    return result ? result : send_lines(restore, error);
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
    struct restore restore = {
        .session = session,
        .is_of_jobs = strncmp(key, CLI_JOB_ARCHIVES, strlen(CLI_JOB_ARCHIVES)) == 0,
        .lines = CV_BUFFER_INIT,
    };
    result = restore_object(&restore, key, info.size, error);
    cv_buffer_deinit(&restore.lines);
    if (result) {
        return result > 0 ? cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is gone", key) : result;
    }
    (void)printf("%lld %s are back\n", (long long)restore.restored,
                 restore.is_of_jobs ? "jobs" : "events");
    if (restore.left_out > 0) {
        (void)printf("%lld jobs of videos that were deleted are left out\n",
                     (long long)restore.left_out);
    }
    return 0;
}
