/* Calls of the SQL functions, and texts that PostgreSQL can store. */
#include "common/queue/calls.h"

#include <string.h>
#include <utf8proc.h>

static const struct {
    const char *word;
    int outcome;
} outcomes[] = {
    {"ok", CV_QUEUE_OK},     {"t", CV_QUEUE_OK},          {"f", CV_LEASE_LOST},
    {"lost", CV_LEASE_LOST}, {"cancel", CV_QUEUE_CANCEL}, {"retry", CV_QUEUE_RETRY},
    {"failed", CV_QUEUE_OK}, {"canceled", CV_QUEUE_OK},   {"drain", CV_QUEUE_DRAIN},
};

int cv_queue_call(struct cv_db *db, const struct cv_db_statement *statement, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_query_prepared(db, statement, &rows, error));
    const char *word = cv_db_rows(rows) == 1 ? cv_db_text(rows, 0, "outcome") : NULL;
    for (size_t i = 0; word && i < CV_COUNT(outcomes); i++) {
        if (strcmp(outcomes[i].word, word) == 0) {
            return outcomes[i].outcome;
        }
    }
    return cv_fail(
        error, CV_ERROR_DATABASE,
        "a function of the queue returned %s, which this program does not know; update the "
        "program, or run cortana migrate",
        word ? word : "no row");
}

bool cv_queue_is_over(const char *state)
{
    return state && (strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 ||
                     strcmp(state, "canceled") == 0);
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
        while (((unsigned char)*text & 0xC0) == 0x80) { /* the rest of a character that was cut */
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
    CV_TRY(cv_buffer_detach(&clean, ret_text, error));
    cv_redact(*ret_text);
    return 0;
}

int cv_queue_dump(const json_t *value, char **ret_text, struct cv_error *error)
{
    if (!value) {
        *ret_text = NULL;
        return 0;
    }
    char *text = json_dumps(value, CV_JSON_KEPT | JSON_ENCODE_ANY);
    CV_TRY_MEMORY(text, error, "a JSON text");
    *ret_text = text;
    return 0;
}
