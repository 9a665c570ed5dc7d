#include "cli/text.h"

#include <inttypes.h>
#include <string.h>
#include <utf8proc.h>

enum { MS_PER_SECOND = 1000, MS_PER_MINUTE = 60000, MS_PER_HOUR = 3600000, MS_PER_DAY = 86400000 };

/* Longer than any video; keeps sums of times far from overflow. */
static const int64_t time_max_ms = INT64_C(1000) * MS_PER_HOUR;

const char *cli_time(int64_t ms, char text[CLI_TIME_SIZE])
{
    int64_t hours = ms / MS_PER_HOUR;
    int minutes = (int)(ms / MS_PER_MINUTE % 60);
    int seconds = (int)(ms / MS_PER_SECOND % 60);
    if (hours > 0) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 ":%02d:%02d.%03d", hours, minutes, seconds,
                       (int)(ms % MS_PER_SECOND));
    } else {
        (void)snprintf(text, CLI_TIME_SIZE, "%d:%02d.%03d", minutes, seconds,
                       (int)(ms % MS_PER_SECOND));
    }
    return text;
}

const char *cli_duration(int64_t ms, char text[CLI_TIME_SIZE])
{
    if (ms < MS_PER_SECOND) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " ms", ms);
    } else if (ms < 2 * MS_PER_MINUTE) {
        (void)snprintf(text, CLI_TIME_SIZE, "%.1f s", (double)ms / MS_PER_SECOND);
    } else if (ms < 2 * MS_PER_HOUR) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " min", ms / MS_PER_MINUTE);
    } else if (ms < 2 * (int64_t)MS_PER_DAY) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " h", ms / MS_PER_HOUR);
    } else {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " d", ms / MS_PER_DAY);
    }
    return text;
}

/* "H:M:S.s" or "M:S.s": the parts before the last are whole numbers below 60, but the first. */
static bool parse_clock(const char *text, int64_t *ret_ms)
{
    int64_t whole = 0;
    const char *part = text;
    for (const char *colon; (colon = strchr(part, ':')); part = colon + 1) {
        char number[16];
        int64_t value = 0;
        size_t length = (size_t)(colon - part);
        if (length == 0 || length >= sizeof(number)) {
            return false;
        }
        memcpy(number, part, length);
        number[length] = '\0';
        if (!cv_parse_int(number, 0, part == text ? 1000000 : 59, &value)) {
            return false;
        }
        whole = (whole + value) * 60;
        if (whole > time_max_ms / MS_PER_SECOND) {
            return false;
        }
    }
    double seconds = 0;
    if (!cv_parse_double(part, 0, part == text ? 1e6 : 59.9999, &seconds)) {
        return false;
    }
    *ret_ms = whole * MS_PER_SECOND + (int64_t)(seconds * MS_PER_SECOND + 0.5);
    return *ret_ms <= time_max_ms;
}

bool cli_parse_time(const char *text, int64_t *ret_ms)
{
    size_t length = strlen(text);
    if (length == 0 || length >= CLI_TIME_SIZE || text[0] == '-') {
        return false;
    }
    if (strchr(text, ':')) {
        return parse_clock(text, ret_ms);
    }
    char number[CLI_TIME_SIZE];
    (void)snprintf(number, sizeof(number), "%s", text);
    bool in_ms = length > 2 && strcmp(number + length - 2, "ms") == 0;
    bool in_seconds = !in_ms && number[length - 1] == 's';
    number[length - (in_ms ? 2 : in_seconds ? 1 : 0)] = '\0';
    return in_seconds ? parse_clock(number, ret_ms) : cv_parse_int(number, 0, time_max_ms, ret_ms);
}

/* One character of `text` at *at; a blank for control characters, U+FFFD for what is not UTF-8. */
static utf8proc_int32_t next_character(const char *text, size_t length, size_t *at)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)text + *at,
                                             (utf8proc_ssize_t)(length - *at), &c);
    if (step <= 0) {
        *at += 1;
        return 0xfffd;
    }
    *at += (size_t)step;
    return c < 0x20 || (c >= 0x7f && c < 0xa0) ? ' ' : c;
}

static void put_character(FILE *file, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t length = utf8proc_encode_char(c, bytes);
    (void)fwrite(bytes, 1, length > 0 ? (size_t)length : 0, file);
}

void cli_put(FILE *file, const char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        put_character(file, next_character(text, length, &at));
    }
}

int cli_width(const char *text)
{
    int width = 0;
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        width += utf8proc_charwidth(next_character(text, length, &at));
    }
    return width;
}

/* Returns how many columns were used. */
static int put_bounded(FILE *file, const char *text, int width)
{
    size_t length = strlen(text);
    int whole = cli_width(text);
    int room = whole > width ? width - 1 : width;
    int used = 0;
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t c = next_character(text, length, &at);
        int step = utf8proc_charwidth(c);
        if (used + step > room) {
            break;
        }
        used += step;
        put_character(file, c);
    }
    if (whole > width) {
        put_character(file, 0x2026);
        used++;
    }
    return used;
}

void cli_put_cut(FILE *file, const char *text, int width)
{
    (void)put_bounded(file, text, width);
}

void cli_put_column(FILE *file, const char *text, int width)
{
    int used = put_bounded(file, text, width);
    (void)fprintf(file, "%*s", width > used ? width - used : 0, "");
}
