#include "common/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- buffers --------------------------------------------------------------------------------- */

enum { BUFFER_START = 256 };

void cv_buffer_deinit(struct cv_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct cv_buffer)CV_BUFFER_INIT;
}

/* Makes room for `extra` more bytes and a NUL. */
static bool reserve(struct cv_buffer *buffer, size_t extra)
{
    if (buffer->failed || extra > SIZE_MAX / 2 - buffer->length) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->length + extra + 1;
    if (needed <= buffer->capacity) {
        return true;
    }
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : BUFFER_START;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void cv_buffer_append(struct cv_buffer *buffer, const void *data, size_t length)
{
    if (!reserve(buffer, length)) {
        return;
    }
    if (length > 0) {
        memcpy(buffer->data + buffer->length, data, length);
    }
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void cv_buffer_text(struct cv_buffer *buffer, const char *text)
{
    cv_buffer_append(buffer, text, strlen(text));
}

CV_PRINTF(2, 0)
static void buffer_vprintf(struct cv_buffer *buffer, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) {
        buffer->failed = true;
    } else if (reserve(buffer, (size_t)length)) {
        (void)vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void cv_buffer_printf(struct cv_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
}

void cv_buffer_clear(struct cv_buffer *buffer)
{
    buffer->length = 0;
    if (buffer->data) {
        buffer->data[0] = '\0';
    }
}

int cv_buffer_detach(struct cv_buffer *buffer, char **ret_text, struct cv_error *error)
{
    cv_buffer_append(buffer, "", 0);
    if (buffer->failed) {
        cv_buffer_deinit(buffer);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for text");
    }
    *ret_text = buffer->data;
    *buffer = (struct cv_buffer)CV_BUFFER_INIT;
    return 0;
}

int cv_format(char **ret_text, struct cv_error *error, const char *format, ...)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer buffer = CV_BUFFER_INIT;
    va_list arguments;
    va_start(arguments, format);
    buffer_vprintf(&buffer, format, arguments);
    va_end(arguments);
    return cv_buffer_detach(&buffer, ret_text, error);
}

/* ---- a file as a byte source ----------------------------------------------------------------- */

static int read_file(void *opaque, int64_t offset, void *data, size_t length, size_t *ret_read,
                     struct cv_error *error)
{
    ssize_t got = pread(*(const int *)opaque, data, length, (off_t)offset);
    CV_TRY_ERRNO(got >= 0, error, "cannot read an opened file");
    *ret_read = (size_t)got;
    return 0;
}

int cv_file_source_open(const char *path, int *ret_fd, struct cv_byte_source *ret_source,
                        struct cv_error *error)
{
    struct stat status;
    cv_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    CV_TRY_ERRNO(fd >= 0 && fstat(fd, &status) == 0, error, "cannot open %s", path);
    *ret_fd = cv_take_fd(&fd);
    *ret_source = (struct cv_byte_source){ret_fd, status.st_size, read_file};
    return 0;
}
