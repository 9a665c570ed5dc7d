#include "common/queue/calls.h"

#include <string.h>
#include <utf8proc.h>

/* Of each stream of a stage process; enough for a traceback, little enough for a million rows. */
enum { TAIL_BYTES = 8 * 1024 };

CV_DEFINE_CLEANUP(json_t *, json_decref)

static const struct {
    const char *word;
    int outcome;
} outcomes[] = {
    {"ok", CV_QUEUE_OK},
    {"t", CV_QUEUE_OK},
    {"f", CV_LEASE_LOST},
    {"lost", CV_LEASE_LOST},
    {"cancel", CV_QUEUE_CANCEL},
    {"retry", CV_QUEUE_RETRY},
    {"failed", CV_QUEUE_OK},
    {"canceled", CV_QUEUE_OK},
    {"requested", CV_QUEUE_OK},
    {"queued", CV_QUEUE_OK},
    {"duplicate", CV_QUEUE_DUPLICATE},
    {"not_found", CV_QUEUE_NO_SUCH_JOB},
    {"wrong_state", CV_QUEUE_WRONG_STATE},
    {"drain", CV_QUEUE_DRAIN},
};

int cv_queue_call(struct cv_db *db, struct cv_error *error, const char *sql, size_t count,
                  const char *const *parameters)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_repeat(db, sql, count, parameters, &rows, error);
    if (result) {
        return result;
    }
    const char *word = cv_db_rows(rows) == 1 ? cv_db_text(rows, 0, "outcome") : NULL;
    for (size_t i = 0; word && i < CV_COUNT(outcomes); i++) {
        if (strcmp(outcomes[i].word, word) == 0) {
            return outcomes[i].outcome;
        }
    }
    return cv_fail(error, CV_ERROR_DATABASE, "the queue answers %s; program and database differ",
                   word ? word : "nothing");
}

struct cv_queue_number cv_queue_number(int64_t value)
{
    struct cv_queue_number number;
    (void)snprintf(number.text, sizeof(number.text), "%lld", (long long)value);
    return number;
}

int cv_queue_clean_text(const char *text, size_t limit, char **ret_text, struct cv_error *error)
{
    if (!text) {
        *ret_text = NULL;
        return 0;
    }
    size_t length = strlen(text);
    if (length > limit) {
        text += length - limit;
        while (((unsigned char)*text & 0xC0) == 0x80) { /* the rest of a character cut in two */
            text++;
        }
        length = strlen(text);
    }
    cv_auto(cv_buffer_deinit) struct cv_buffer clean = CV_BUFFER_INIT;
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t character;
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text + at,
                                                 (utf8proc_ssize_t)(length - at), &character);
        if (size > 0) {
            cv_buffer_append(&clean, text + at, (size_t)size);
            at += (size_t)size;
        } else {
            cv_buffer_text(&clean, "\xEF\xBF\xBD");
            at++;
        }
    }
    int result = cv_buffer_take(&clean, ret_text, error);
    if (result == 0) {
        cv_redact(*ret_text);
    }
    return result;
}

int cv_queue_dump(const json_t *value, char **ret_text, struct cv_error *error)
{
    if (!value) {
        *ret_text = NULL;
        return 0;
    }
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a JSON text");
    }
    *ret_text = text;
    return 0;
}

static int set_tail(json_t *object, const char *key, const char *text, struct cv_error *error)
{
    cv_auto_free char *clean = NULL;
    int result = cv_queue_clean_text(text, TAIL_BYTES, &clean, error);
    if (result == 0 && clean && json_object_set_new(object, key, json_string(clean))) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a report");
    }
    return result;
}

int cv_queue_dump_report(const struct cv_attempt_report *report, char **ret_text,
                         struct cv_error *error)
{
    if (!report) {
        *ret_text = NULL;
        return 0;
    }
    cv_auto(json_decref) json_t *object =
        json_pack("{s:i, s:f, s:I}", "exit_code", report->exit_code, "cpu_seconds",
                  report->cpu_seconds, "peak_memory_bytes", (json_int_t)report->peak_memory_bytes);
    if (!object ||
        (report->pid > 0 && json_object_set_new(object, "pid", json_integer(report->pid)))) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a report");
    }
    int result = set_tail(object, "stdout_tail", report->stdout_tail, error);
    if (result == 0) {
        result = set_tail(object, "stderr_tail", report->stderr_tail, error);
    }
    return result ? result : cv_queue_dump(object, ret_text, error);
}
