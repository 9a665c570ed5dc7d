#include "common/worker/context.h"

#include "common/worker/worker.h"

#include <math.h>
#include <string.h>

/* The shortest time between two progress reports; a stage may report for every frame. */
enum { PROGRESS_INTERVAL_MS = 200 };

struct cv_store *cv_stage_store(struct cv_stage_context *context)
{
    return context->store;
}

struct cv_db *cv_stage_db(struct cv_stage_context *context)
{
    return context->db;
}

const char *cv_stage_scratch(struct cv_stage_context *context)
{
    return context->scratch;
}

int cv_stage_threads(const struct cv_stage_context *context)
{
    return context->threads;
}

struct cv_cancel *cv_stage_cancel(struct cv_stage_context *context)
{
    return context->cancel;
}

void cv_stage_progress(struct cv_stage_context *context, double fraction, const char *doing)
{
    if (context->progress_fd < 0) {
        return;
    }
    const char *what = doing ? doing : "";
    int64_t now = cv_monotonic_ms();
    bool news = strncmp(what, context->progress_doing, sizeof(context->progress_doing) - 1) != 0;
    if (!news && now - context->progress_at < PROGRESS_INTERVAL_MS) {
        return;
    }
    context->progress_at = now;
    (void)snprintf(context->progress_doing, sizeof(context->progress_doing), "%s", what);
    double bounded = isfinite(fraction) ? fmin(fmax(fraction, 0.0), 1.0) : 0.0;
    json_t *line = json_pack("{s:f, s:s?}", "fraction", bounded, "doing", doing);
    cv_auto_free char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    json_decref(line);
    if (!text) {
        return;
    }
    size_t length = strlen(text);
    text[length] = '\n';
    /* A report that does not fit into the pipe is dropped; the next one replaces it. */
    ssize_t written = write(context->progress_fd, text, length + 1);
    (void)written;
}

int cv_stage_open_store(struct cv_stage_context *context, struct cv_error *error)
{
    if (context->store) {
        return 0;
    }
    CV_TRY(cv_store_open(NULL, &context->store, error));
    cv_store_set_cancel(context->store, context->cancel);
    return 0;
}

int cv_stage_record_program(struct cv_stage_context *context, const struct cv_program_end *end,
                            struct cv_error *error)
{
    json_t *noted = json_pack("{s:I, s:i, s:o}", "pid", (json_int_t)end->pid, "exit_code",
                              end->exit_code, "output", cv_json_text(end->output));
    CV_TRY_MEMORY(noted, error, "a program's end");
    json_decref(context->program);
    context->program = noted;
    return 0;
}

/* Records an object that the job read or wrote (`kind`: "input", "output"); it becomes a row of
 * task_artifacts at commit. */
static int record_artifact(struct cv_stage_context *context, const char *kind, const char *key,
                           const struct cv_object_info *info, struct cv_error *error)
{
    json_t *row = json_pack("{s:s, s:s, s:I, s:s, s:s*}", "kind", kind, "key", key, "size",
                            (json_int_t)info->size, "content_type", cv_media_type(key), "checksum",
                            info->sha256[0] ? info->sha256 : NULL);
    if (!row || json_array_append_new(context->artifacts, row) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory noting the object %s", key);
    }
    return 0;
}

static int missing_object(const char *key, struct cv_error *error)
{
    /* Users see what became of their video, and know no keys. */
    if (strncmp(key, CV_KEYS_ORIGINALS, sizeof(CV_KEYS_ORIGINALS) - 1) == 0) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND,
                       "the original is no longer in the store; put it back, or delete the video");
    }
    return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is missing in the store", key);
}

int cv_stage_open_input(struct cv_stage_context *context, const char *key,
                        struct cv_store_reader **ret_reader, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    int r = cv_store_reader_open(context->store, key, &reader, error);
    if (r != 0) {
        return r < 0 ? r : missing_object(key, error);
    }
    CV_TRY(record_artifact(context, "input", key, cv_store_reader_info(reader), error));
    *ret_reader = cv_take(reader);
    return 0;
}

static int record_output(void *opaque, const char *key, const struct cv_object_info *info,
                         struct cv_error *error)
{
    return record_artifact(opaque, "output", key, info, error);
}

static int open_uploads(struct cv_stage_context *context, struct cv_error *error)
{
    return context->uploads
               ? 0
               : cv_uploads_new(context->store, record_output, context, &context->uploads, error);
}

int cv_stage_upload(struct cv_stage_context *context, const struct cv_new_object *object,
                    struct cv_error *error)
{
    cv_auto_free void *own = (void *)object->data;
    CV_TRY(open_uploads(context, error));
    own = NULL;
    return cv_uploads_put(context->uploads, object, error);
}

int cv_stage_uploads_wait(struct cv_stage_context *context, struct cv_error *error)
{
    return context->uploads ? cv_uploads_wait(context->uploads, error) : 0;
}

int cv_stage_put(struct cv_stage_context *context, const struct cv_new_object *object,
                 struct cv_error *error)
{
    struct cv_object_info info;
    CV_TRY(cv_stage_uploads_wait(context, error));
    CV_TRY(cv_store_put(context->store, object, &info, error));
    return record_artifact(context, "output", object->key, &info, error);
}

void cv_stage_context_deinit(struct cv_stage_context *context)
{
    cv_uploads_free(context->uploads);
    cv_store_close(context->store);
    cv_db_close(context->db);
    cv_cancel_free(context->cancel);
    json_decref(context->artifacts);
}
static int compare_artifacts(const void *left, const void *right)
{
    const json_t *one = *(json_t *const *)left, *other = *(json_t *const *)right;
    int order = strcmp(json_string_value(json_object_get(one, "kind")),
                       json_string_value(json_object_get(other, "kind")));
    return order ? order
                 : strcmp(json_string_value(json_object_get(one, "key")),
                          json_string_value(json_object_get(other, "key")));
}

int cv_stage_sort_artifacts(struct cv_stage_context *context, struct cv_error *error)
{
    size_t count = json_array_size(context->artifacts);
    cv_auto_free json_t **rows = calloc(count + 1, sizeof(rows[0]));
    cv_auto(json_decref) json_t *sorted = json_array();
    CV_TRY_MEMORY(rows && sorted, error, "the artifacts");
    for (size_t i = 0; i < count; i++) {
        rows[i] = json_array_get(context->artifacts, i);
    }
    qsort(rows, count, sizeof(rows[0]), compare_artifacts);
    for (size_t i = 0; i < count; i++) {
        CV_TRY_MEMORY(json_array_append(sorted, rows[i]) == 0, error, "the artifacts");
    }
    json_decref(context->artifacts);
    context->artifacts = cv_take(sorted);
    return 0;
}

/* ---- members of a payload -------------------------------------------------------------------- */

static int bad_member(const char *key, const char *wanted, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "payload: \"%s\" must be %s", key, wanted);
}

/* Returns a member; NULL if it is missing or null. */
static const json_t *member(const json_t *payload, const char *key)
{
    const json_t *value = json_object_get(payload, key);
    return json_is_null(value) ? NULL : value;
}

int cv_payload_uuid(const json_t *payload, const char *key, const char **ret_uuid,
                    struct cv_error *error)
{
    const char *text = json_string_value(member(payload, key));
    if (!text || !cv_is_uuid(text)) {
        return bad_member(key, "a UUID", error);
    }
    *ret_uuid = text;
    return 0;
}

int cv_payload_object_key(const json_t *payload, const char *key, const char **ret_object_key,
                          struct cv_error *error)
{
    const json_t *value = member(payload, key);
    const char *text = json_string_value(value);
    if (!text) {
        return bad_member(key, "an object key", error);
    }
    struct cv_error reason;
    if (strlen(text) != json_string_length(value) || cv_store_check_key(text, &reason) < 0) {
        return bad_member(key, "a valid object key", error);
    }
    *ret_object_key = text;
    return 0;
}

static int read_int(const char *key, const json_t *value, int64_t low, int64_t high,
                    int64_t *ret_value, struct cv_error *error)
{
    /* Some clients write 10.0 for 10. */
    double real = json_is_real(value) ? json_real_value(value) : 0.5;
    bool whole = json_is_integer(value) || (real == floor(real) && fabs(real) < 9.0e15);
    int64_t number = json_is_integer(value) ? json_integer_value(value) : whole ? (int64_t)real : 0;
    if (!whole || number < low || number > high) {
        char wanted[96];
        (void)snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)low,
                       (long long)high);
        return bad_member(key, wanted, error);
    }
    *ret_value = number;
    return 0;
}

int cv_payload_int(const json_t *payload, const char *key, int64_t low, int64_t high,
                   int64_t *ret_value, struct cv_error *error)
{
    return read_int(key, member(payload, key), low, high, ret_value, error);
}

int cv_payload_int_or(const json_t *payload, const char *key, int64_t fallback, int64_t low,
                      int64_t high, int64_t *ret_value, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    if (!value) {
        *ret_value = fallback;
        return 0;
    }
    return read_int(key, value, low, high, ret_value, error);
}

int cv_payload_double_or(const json_t *payload, const char *key, double fallback, double low,
                         double high, double *ret_value, struct cv_error *error)
{
    const json_t *value = member(payload, key);
    if (!value) {
        *ret_value = fallback;
        return 0;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number >= low && number <= high)) {
        char wanted[96];
        (void)snprintf(wanted, sizeof(wanted), "a number from %g to %g", low, high);
        return bad_member(key, wanted, error);
    }
    *ret_value = number;
    return 0;
}
