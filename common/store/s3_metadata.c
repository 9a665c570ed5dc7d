#include "common/store/s3_metadata.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#define OPENING "=?UTF-8?"
#define CLOSING "?="

static bool is_plain(const char *value)
{
    for (const char *c = value; *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            return false;
        }
    }
    return strncasecmp(value, OPENING, strlen(OPENING)) != 0;
}

int cv_s3_metadata_encode(const char *value, char **ret_text, struct cv_error *error)
{
    if (is_plain(value)) {
        return cv_format(ret_text, error, "%s", value);
    }
    size_t length = strlen(value);
    cv_auto_free char *base64 = malloc(length / 3 * 4 + 5);
    if (!base64) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for metadata");
    }
    (void)EVP_EncodeBlock((unsigned char *)base64, (const unsigned char *)value, (int)length);
    return cv_format(ret_text, error, OPENING "B?%s" CLOSING, base64);
}

static void decode_base64(char *text, size_t length)
{
    size_t padding = 0;
    while (padding < length && padding < 2 && text[length - 1 - padding] == '=') {
        padding++;
    }
    cv_auto_free char *copy = strndup(text, length);
    int got = copy
                  ? EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)copy, (int)length)
                  : -1;
    text[got >= (int)padding ? (size_t)got - padding : 0] = '\0';
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

static void decode_quoted(char *text, size_t length)
{
    size_t to = 0;
    for (size_t at = 0; at < length; at++) {
        bool is_code = text[at] == '=' && at + 2 < length;
        int high = is_code ? hex_digit(text[at + 1]) : -1;
        int low = is_code ? hex_digit(text[at + 2]) : -1;
        if (high >= 0 && low >= 0) {
            text[to++] = (char)(high << 4 | low);
            at += 2;
        } else {
            text[to++] = text[at] == '_' ? ' ' : text[at];
        }
    }
    text[to] = '\0';
}

void cv_s3_metadata_decode(char *text)
{
    size_t length = strlen(text);
    size_t head = strlen(OPENING) + 2;
    size_t tail = strlen(CLOSING);
    if (length < head + tail || strncasecmp(text, OPENING, strlen(OPENING)) != 0 ||
        text[head - 1] != '?' || strcmp(text + length - tail, CLOSING) != 0) {
        return;
    }
    char kind = (char)toupper((unsigned char)text[head - 2]);
    size_t inner = length - head - tail;
    memmove(text, text + head, inner);
    text[inner] = '\0';
    if (kind == 'B') {
        decode_base64(text, inner);
    } else if (kind == 'Q') {
        decode_quoted(text, inner);
    }
}
