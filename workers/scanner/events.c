#include "workers/scanner/notification.h"
#include "workers/scanner/scanner.h"

#include <string.h>

enum {
    LINE_MAX_BYTES = 4 << 20, /* queues allow 256 KiB; batches of a server are a little larger */
    EVENTS_A_TIME = 8,        /* of at most 1 MiB each */
};

static int announce(void *opaque, const char *key, struct cv_error *error)
{
    const struct scanner *scanner = opaque;
    return cv_db_run(scanner->db, NULL, error, "SELECT announce_upload($1)", key);
}

static int import_line(struct scanner *scanner, const char *line, size_t length, bool *ret_readable,
                       struct cv_error *error)
{
    const struct scanner_notification notification = {
        .text = line,
        .length = length,
        .store_name = cv_store_name(scanner->store),
        .found = announce,
        .opaque = scanner,
    };
    return scanner_read_notification(&notification, ret_readable, error);
}

/* ---- from a table ---------------------------------------------------------------------------- */

/* No row is locked: if two scanners read one event, both announce the same object. */
int scanner_drain(struct scanner *scanner, struct cv_error *error)
{
    for (int count = 1; count > 0;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        CV_TRY(cv_db_run(scanner->db, &rows, error,
                         "SELECT id, event FROM object_events ORDER BY id LIMIT $1::int",
                         cv_db_number(EVENTS_A_TIME).text));
        count = cv_db_rows(rows);
        for (int i = 0; i < count; i++) {
            bool readable = false;
            const char *event = cv_db_text(rows, i, "event");
            CV_TRY(import_line(scanner, event, strlen(event), &readable, error));
            CV_TRY(cv_db_run(scanner->db, NULL, error,
                             "DELETE FROM object_events WHERE id = $1::bigint",
                             cv_db_text(rows, i, "id")));
        }
    }
    return 0;
}

/* ---- from standard input --------------------------------------------------------------------- */

/* Reads the next line without its end. A line that is too long is skipped (*ret_too_long). */
static bool read_line(FILE *file, struct cv_buffer *line, bool *ret_too_long)
{
    bool any = false;
    cv_buffer_clear(line);
    *ret_too_long = false;
    for (int c; (c = getc_unlocked(file)) != EOF;) {
        any = true;
        if (c == '\n') {
            break;
        }
        char byte = (char)c;
        if (line->length < LINE_MAX_BYTES) {
            cv_buffer_append(line, &byte, 1);
        } else {
            *ret_too_long = true;
        }
    }
    return any;
}

static bool is_blank(const struct cv_buffer *line)
{
    return line->length == 0 || strspn(line->data, " \t\r") == line->length;
}

int scanner_events(struct scanner *scanner, FILE *file, int64_t *ret_unreadable,
                   struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer line = CV_BUFFER_INIT;
    int64_t unreadable = 0;
    bool too_long = false;
    while (!cv_daemon_is_stopping(&scanner->daemon) && read_line(file, &line, &too_long)) {
        bool readable = !too_long;
        CV_TRY_MEMORY(!line.failed, error, "a notification");
        if (too_long) {
            cv_log(CV_LOG_WARN, "a line is longer than %d bytes, ignoring it", LINE_MAX_BYTES);
        } else if (!is_blank(&line)) {
            CV_TRY(import_line(scanner, line.data, line.length, &readable, error));
            CV_TRY(scanner_import(scanner, error));
        }
        unreadable += !readable;
    }
    if (ferror(file)) {
        return cv_fail(error, CV_ERROR_IO, "cannot read the notifications");
    }
    *ret_unreadable = unreadable;
    return 0;
}
