#include "common/base/base.h"

#include <string.h>

static const struct {
    const char *name;
    enum cv_verdict verdict;
} error_types[CV_ERROR_TYPE_COUNT] = {
    [CV_ERROR_INTERNAL] = {"InternalError", CV_VERDICT_RETRY},
    [CV_ERROR_INVALID_PAYLOAD] = {"InvalidPayload", CV_VERDICT_PERMANENT},
    [CV_ERROR_OBJECT_NOT_FOUND] = {"S3ObjectNotFound", CV_VERDICT_PERMANENT},
    [CV_ERROR_NOT_FOUND] = {"NotFound", CV_VERDICT_PERMANENT},
    [CV_ERROR_INVALID_KEY] = {"InvalidObjectKey", CV_VERDICT_PERMANENT},
    [CV_ERROR_NOT_A_VIDEO] = {"NotAVideo", CV_VERDICT_PERMANENT},
    [CV_ERROR_UNSUPPORTED_MEDIA] = {"UnsupportedMedia", CV_VERDICT_PERMANENT},
    [CV_ERROR_DECODE] = {"DecodeError", CV_VERDICT_PERMANENT},
    [CV_ERROR_OUTSIDE_VIDEO] = {"OutsideVideo", CV_VERDICT_PERMANENT},
    [CV_ERROR_ENCODE] = {"EncodeError", CV_VERDICT_PERMANENT},
    [CV_ERROR_OCR] = {"OcrError", CV_VERDICT_PERMANENT},
    [CV_ERROR_LIMIT_EXCEEDED] = {"LimitExceeded", CV_VERDICT_PERMANENT},
    [CV_ERROR_CONSTRAINT] = {"ConstraintViolation", CV_VERDICT_PERMANENT},
    [CV_ERROR_AUTHENTICATION] = {"AuthenticationFailed", CV_VERDICT_PERMANENT},
    [CV_ERROR_AUTHORIZATION] = {"AccessDenied", CV_VERDICT_PERMANENT},
    [CV_ERROR_REFUSED] = {"Refused", CV_VERDICT_PERMANENT},
    [CV_ERROR_TIMEOUT] = {"Timeout", CV_VERDICT_RETRY},
    [CV_ERROR_CONNECTION] = {"ConnectionLost", CV_VERDICT_RETRY},
    [CV_ERROR_THROTTLED] = {"Throttled", CV_VERDICT_RETRY},
    [CV_ERROR_SERVER] = {"ServerError", CV_VERDICT_RETRY},
    [CV_ERROR_IO] = {"IoError", CV_VERDICT_RETRY},
    [CV_ERROR_DISK_FULL] = {"DiskFull", CV_VERDICT_RETRY},
    [CV_ERROR_OUT_OF_MEMORY] = {"OutOfMemory", CV_VERDICT_RETRY},
    [CV_ERROR_CONFLICT] = {"Conflict", CV_VERDICT_RETRY},
    [CV_ERROR_STAGE_CRASHED] = {"StageCrashed", CV_VERDICT_RETRY},
    [CV_ERROR_STAGE_PROTOCOL] = {"StageProtocolError", CV_VERDICT_RETRY},
    [CV_ERROR_LEASE_LOST] = {"LeaseLost", CV_VERDICT_RETRY},
    [CV_ERROR_CANCELED] = {"Canceled", CV_VERDICT_PERMANENT},
    [CV_ERROR_CONFIGURATION] = {"ConfigurationError", CV_VERDICT_STOP},
    [CV_ERROR_DATABASE] = {"DatabaseError", CV_VERDICT_PERMANENT},
};

static const struct {
    int error_number;
    enum cv_error_type type;
    bool environment;
} errno_types[] = {
    {ENOENT, CV_ERROR_NOT_FOUND, false},
    {ENOMEM, CV_ERROR_OUT_OF_MEMORY, false},
    {ENOSPC, CV_ERROR_DISK_FULL, true},
    {EDQUOT, CV_ERROR_DISK_FULL, true},
    {EROFS, CV_ERROR_AUTHORIZATION, true},
    {EIO, CV_ERROR_IO, true},
    {ESTALE, CV_ERROR_IO, true},
    {EFBIG, CV_ERROR_LIMIT_EXCEEDED, false},
    {EACCES, CV_ERROR_AUTHORIZATION, false},
    {EPERM, CV_ERROR_AUTHORIZATION, false},
    {ETIMEDOUT, CV_ERROR_TIMEOUT, false},
    {ECONNRESET, CV_ERROR_CONNECTION, false},
    {ECONNREFUSED, CV_ERROR_CONNECTION, false},
    {EPIPE, CV_ERROR_CONNECTION, false},
    {EINVAL, CV_ERROR_INTERNAL, false},
    {ENAMETOOLONG, CV_ERROR_INVALID_KEY, false},
    {ECANCELED, CV_ERROR_CANCELED, false},
};

/* Replaces line ends, so that a message fits into a log line or a table cell. */
static void flatten(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' ')) {
        text[--length] = '\0';
    }
    for (char *c = text; *c; c++) {
        if (*c == '\n' || *c == '\r' || *c == '\t') {
            *c = ' ';
        }
    }
}

/* Says "the disk is full" in place of the text of ENOSPC, which system calls, FFmpeg and PostgreSQL
 * report, and in front of a message that names no disk, such as an object store's. */
static void name_disk(struct cv_error *error)
{
    static const char known[] = "No space left on device", full[] = "the disk is full";
    char whole[sizeof(error->message)];
    const char *at = strstr(error->message, known);
    if (at) {
        (void)snprintf(whole, sizeof(whole), "%.*s%s%s", (int)(at - error->message), error->message,
                       full, at + sizeof(known) - 1);
    } else if (!strcasestr(error->message, "disk")) {
        (void)snprintf(whole, sizeof(whole), "%s: %.*s", full,
                       (int)(sizeof(whole) - sizeof(full) - 2), error->message);
    } else {
        return;
    }
    (void)memcpy(error->message, whole, sizeof(whole));
}

static void raise_error(struct cv_error *error, enum cv_error_type type)
{
    if (type == CV_ERROR_DISK_FULL) {
        name_disk(error);
    }
    error->type = type;
    error->verdict = error_types[type].verdict;
    error->environment = false;
    error->retry_after_ms = 0;
    flatten(error->message);
}

int cv_fail(struct cv_error *error, enum cv_error_type type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    raise_error(error, type);
    return -1;
}

int cv_fail_errno(struct cv_error *error, int error_number, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(error->message)) {
        char text[128];
        (void)snprintf(error->message + length, sizeof(error->message) - (size_t)length, ": %s",
                       strerror_r(error_number, text, sizeof(text)));
    }

    enum cv_error_type type = CV_ERROR_IO;
    bool environment = false;
    for (size_t i = 0; i < CV_COUNT(errno_types); i++) {
        if (errno_types[i].error_number == error_number) {
            type = errno_types[i].type;
            environment = errno_types[i].environment;
        }
    }
    raise_error(error, type);
    if (environment) {
        cv_error_suspect_environment(error);
    }
    return -1;
}

void cv_error_suspect_environment(struct cv_error *error)
{
    error->environment = true;
    error->verdict = CV_VERDICT_RETRY;
}

int cv_fail_context(struct cv_error *error, int result, const char *format, ...)
{
    char whole[sizeof(error->message)];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(whole, sizeof(whole), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(whole)) {
        (void)snprintf(whole + length, sizeof(whole) - (size_t)length, ": %s", error->message);
    }
    (void)memcpy(error->message, whole, sizeof(whole));
    flatten(error->message);
    return result;
}

const char *cv_error_type_name(enum cv_error_type type)
{
    return error_types[type].name;
}

enum cv_error_type cv_error_type_from_name(const char *name)
{
    for (int type = 0; type < CV_ERROR_TYPE_COUNT; type++) {
        if (strcmp(error_types[type].name, name) == 0) {
            return (enum cv_error_type)type;
        }
    }
    return CV_ERROR_INTERNAL;
}

enum cv_verdict cv_error_type_verdict(enum cv_error_type type)
{
    return error_types[type].verdict;
}
