#include "common/worker/child.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64 << 10 };

static void close_end(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

size_t cv_child_poll(const struct cv_child *child, struct pollfd polls[CV_CHILD_POLLS])
{
    size_t count = 0;
    const struct pollfd wanted[CV_CHILD_POLLS] = {
        {.fd = child->input_fd, .events = POLLOUT},
        {.fd = child->output_fd, .events = POLLIN},
        {.fd = child->error_fd, .events = POLLIN},
        {.fd = child->progress_fd, .events = POLLIN},
    };
    for (size_t i = 0; i < CV_CHILD_POLLS; i++) {
        if (wanted[i].fd >= 0) {
            polls[count++] = wanted[i];
        }
    }
    return count;
}

bool cv_child_is_over(const struct cv_child *child)
{
    return child->exited && child->output_fd < 0 && child->error_fd < 0 && child->progress_fd < 0;
}

/* ---- to the stage ---------------------------------------------------------------------------- */

static void write_payload(struct cv_child *child)
{
    while (child->input_fd >= 0) {
        size_t left = child->payload_length - child->payload_written;
        ssize_t count =
            left ? write(child->input_fd, child->payload + child->payload_written, left) : 0;
        if (count > 0) {
            child->payload_written += (size_t)count;
        } else if (left == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_end(&child->input_fd); /* all written, or the stage does not want it */
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

/* ---- from the stage -------------------------------------------------------------------------- */

/* Appends, keeping no more than the last CV_TAIL_MAX bytes. */
static void keep_tail(struct cv_buffer *tail, const char *data, size_t length)
{
    if (length > CV_TAIL_MAX) {
        data += length - CV_TAIL_MAX;
        length = CV_TAIL_MAX;
    }
    if (tail->length + length > CV_TAIL_MAX) {
        size_t drop = tail->length + length - CV_TAIL_MAX;
        (void)memmove(tail->data, tail->data + drop, tail->length - drop);
        tail->length -= drop;
        tail->data[tail->length] = '\0';
    }
    cv_buffer_append(tail, data, length);
}

static void take_progress(struct cv_child *child, const char *line)
{
    if (++child->progress_count > CV_PROGRESS_MAX) {
        /* It would keep us busy for as long as it runs. */
        close_end(&child->progress_fd);
        return;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *report = json_loads(line, 0, &reason);
    const json_t *fraction = json_object_get(report, "fraction");
    if (!json_is_number(fraction)) {
        return;
    }
    const char *doing = json_string_value(json_object_get(report, "doing"));
    child->progress.fraction = fmin(fmax(json_number_value(fraction), 0.0), 1.0);
    (void)snprintf(child->progress.doing, sizeof(child->progress.doing), "%s", doing ? doing : "");
    child->progress.is_new = true;
}

static bool may_pass_on(struct cv_child *child, const char *line)
{
    if (child->log_is_full) {
        return false;
    }
    child->lines_passed_on++;
    child->bytes_passed_on += (int64_t)strlen(line);
    child->log_is_full =
        child->lines_passed_on > CV_LINES_MAX || child->bytes_passed_on > CV_LOG_BYTES_MAX;
    if (child->log_is_full) {
        cv_log(CV_LOG_WARN, "the stage says more than %d lines or %d bytes, the rest is not shown",
               CV_LINES_MAX, CV_LOG_BYTES_MAX);
    }
    return !child->log_is_full;
}

/* The stage's own log lines are passed on as they are; what its libraries print becomes one. */
static void take_log_line(struct cv_child *child, const char *line)
{
    if (!may_pass_on(child, line)) {
        return;
    }
    json_error_t reason;
    cv_auto(json_decref) json_t *object = line[0] == '{' ? json_loads(line, 0, &reason) : NULL;
    cv_auto(json_decref) json_t *shown = NULL;
    struct cv_error error;
    cv_auto_free char *text =
        json_is_object(object) && cv_redacted_json(object, &shown, &error) == 0
            ? json_dumps(shown, JSON_COMPACT)
            : NULL;
    if (text) {
        size_t length = strlen(text);
        text[length] = '\n';
        ssize_t written = write(STDERR_FILENO, text, length + 1);
        (void)written;
    } else if (line[0]) {
        cv_log(CV_LOG_INFO, "stage: %s", line);
    }
}

typedef void take_line(struct cv_child *child, const char *line);

static void split_lines(struct cv_child *child, struct cv_lines *lines, const char *data,
                        size_t length, take_line *take)
{
    if (!lines->data) {
        lines->data = malloc(CV_LINE_MAX + 1);
        if (!lines->data) {
            return; /* a log line is lost, the tail still has it */
        }
    }
    for (size_t i = 0; i < length; i++) {
        bool ends = data[i] == '\n';
        if (!ends) {
            lines->data[lines->length++] = data[i];
        }
        if (ends || lines->length == CV_LINE_MAX) {
            lines->data[lines->length] = '\0';
            lines->length = 0;
            take(child, lines->data);
        }
    }
}

static void flush_lines(struct cv_child *child, struct cv_lines *lines, take_line *take)
{
    if (lines->length > 0) {
        split_lines(child, lines, "\n", 1, take);
    }
}

static void take_output(struct cv_child *child, const char *data, size_t length)
{
    if (child->output_too_large || child->output.length + length > CV_OUTPUT_MAX) {
        child->output_too_large = true;
        return;
    }
    cv_buffer_append(&child->output, data, length);
}

/* One chunk; false when there is nothing more to read now. */
static bool read_chunk(int *fd, char *chunk, size_t *ret_length)
{
    if (*fd < 0) {
        return false;
    }
    ssize_t count = read(*fd, chunk, CHUNK);
    if (count > 0) {
        *ret_length = (size_t)count;
        return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_end(fd);
    }
    return false;
}

void cv_child_pump(struct cv_child *child)
{
    /* So that a stage that never stops writing does not keep the supervisor from its other work. */
    enum { CHUNKS_AT_ONCE = 16 };
    char chunk[CHUNK];
    size_t length = 0;
    write_payload(child);
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->output_fd, chunk, &length); i++) {
        take_output(child, chunk, length);
    }
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->error_fd, chunk, &length); i++) {
        keep_tail(&child->error_tail, chunk, length);
        split_lines(child, &child->error_lines, chunk, length, take_log_line);
    }
    for (int i = 0; i < CHUNKS_AT_ONCE && read_chunk(&child->progress_fd, chunk, &length); i++) {
        split_lines(child, &child->progress_lines, chunk, length, take_progress);
    }
    if (child->error_fd < 0) {
        flush_lines(child, &child->error_lines, take_log_line);
    }
}
