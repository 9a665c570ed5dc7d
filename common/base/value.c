#include "common/base/base.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

bool cv_make_room(void *items, size_t count, size_t item_size)
{
    enum { FIRST = 8 };
    if (count > 0 && (count < FIRST || (count & (count - 1)) != 0)) {
        return true;
    }
    void *array;
    memcpy(&array, items, sizeof(array));
    array = reallocarray(array, count > 0 ? 2 * count : FIRST, item_size);
    if (array) {
        memcpy(items, &array, sizeof(array));
    }
    return array != NULL;
}

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t cv_monotonic_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t cv_pause_ms(int tries, int64_t first_ms, int64_t most_ms)
{
    int64_t full = first_ms;
    for (int i = 0; i < tries && full < most_ms; i++) {
        full *= 2;
    }
    full = full < most_ms ? full : most_ms;
    return full / 2 + (int64_t)arc4random_uniform((uint32_t)(full - full / 2) + 1);
}

int64_t cv_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

char *cv_format_timestamp(int64_t wall_ms, char text[CV_TIMESTAMP_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm calendar;
    if (!gmtime_r(&seconds, &calendar)) {
        text[0] = '\0';
        return text;
    }
    size_t length = strftime(text, CV_TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &calendar);
    (void)snprintf(text + length, CV_TIMESTAMP_SIZE - length, ".%03dZ", (int)(wall_ms % 1000));
    return text;
}

bool cv_parse_int(const char *text, int64_t low, int64_t high, int64_t *ret_value)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '-') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool cv_parse_double(const char *text, double low, double high, double *ret_value)
{
    if (!isdigit((unsigned char)text[0]) && text[0] != '-' && text[0] != '.') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(value) || value < low || value > high) {
        return false;
    }
    *ret_value = value;
    return true;
}

bool cv_is_uuid(const char *text)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (!text || strlen(text) != sizeof(shape) - 1) {
        return false;
    }
    for (size_t i = 0; shape[i]; i++) {
        if (shape[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i])) {
            return false;
        }
    }
    return true;
}

const char *cv_env(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && value[0] ? value : fallback;
}

int cv_env_int(const char *name, int64_t fallback, int64_t low, int64_t high, int64_t *ret_value,
               struct cv_error *error)
{
    const char *text = cv_env(name, NULL);
    if (!text) {
        *ret_value = fallback;
        return 0;
    }
    if (!cv_parse_int(text, low, high, ret_value)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s must be a whole number from %lld to %lld",
                       name, (long long)low, (long long)high);
    }
    return 0;
}

int cv_write_all(int fd, const void *data, size_t length)
{
    const char *bytes = data;
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno != EINTR) {
            return -1;
        }
        bytes += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

json_t *cv_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value) {
        return value;
    }
    cv_auto_free char *ascii = strdup(text);
    if (!ascii) {
        return NULL;
    }
    for (char *c = ascii; *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    return json_string(ascii);
}

/* ---- encodings ------------------------------------------------------------------------------- */

void cv_hex(const void *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < count; i++) {
        text[i * 2] = digits[from[i] >> 4];
        text[i * 2 + 1] = digits[from[i] & 15];
    }
    text[count * 2] = '\0';
}

void cv_random_hex(size_t count, char *text)
{
    unsigned char bytes[64];
    arc4random_buf(bytes, sizeof(bytes));
    cv_hex(bytes, count < sizeof(bytes) ? count : sizeof(bytes), text);
    explicit_bzero(bytes, sizeof(bytes));
}

int cv_hex_digit(char digit)
{
    return isdigit((unsigned char)digit)    ? digit - '0'
           : isxdigit((unsigned char)digit) ? (digit | 32) - 'a' + 10
                                            : -1;
}

void cv_percent_encode(struct cv_buffer *buffer, const char *text, bool keep_slash)
{
    static const char unreserved[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    while (*text) {
        size_t plain = strspn(text, unreserved);
        cv_buffer_append(buffer, text, plain);
        text += plain;
        if (*text == '/' && keep_slash) {
            cv_buffer_text(buffer, "/");
            text++;
        } else if (*text) {
            cv_buffer_printf(buffer, "%%%02X", (unsigned char)*text++);
        }
    }
}

const char cv_base64url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void cv_base64url(struct cv_buffer *buffer, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t bits = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);
        for (size_t n = 0; n < 4 && n <= left; n++) {
            cv_buffer_append(buffer, &cv_base64url_digits[bits >> (18 - 6 * n) & 63], 1);
        }
    }
}

bool cv_base64url_decode(const char *text, size_t length, unsigned char *bytes, size_t *ret_length)
{
    uint32_t bits = 0;
    int count = 0;
    size_t made = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = text[i] ? strchr(cv_base64url_digits, text[i]) : NULL;
        if (!digit) {
            return false;
        }
        bits = (bits << 6 | (uint32_t)(digit - cv_base64url_digits)) & 0xffff;
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes[made++] = (unsigned char)(bits >> count);
        }
    }
    *ret_length = made;
    return count < 6 && (bits & ((1u << count) - 1)) == 0;
}

bool cv_json_is_shallow(const char *text, size_t length, int depth_max)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (in_string) {
            in_string = text[i] != '"';
            i += text[i] == '\\';
        } else {
            in_string = text[i] == '"';
            depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
            if (depth > depth_max) {
                return false;
            }
        }
    }
    return true;
}
