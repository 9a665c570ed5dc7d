#include "workers/mail/mail.h"

#include <string.h>

enum {
    WORD_MAX = 60, /* characters of an encoded word without its frame; RFC 2047 allows 75 with it */
    CHARACTER_MAX = 4 * 3, /* of a character of UTF-8 in it */
};

static bool is_plain(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c < ' ' || *c > '~') {
            return false;
        }
    }
    return !strstr(text, "=?");
}

static bool continues_character(char c)
{
    return ((unsigned char)c & 0xC0U) == 0x80;
}

void mail_write_header_text(struct cv_buffer *header, const char *text)
{
    if (is_plain(text)) {
        cv_buffer_text(header, text);
        return;
    }
    cv_buffer_text(header, "=?UTF-8?Q?");
    size_t written = 0;
    for (const char *c = text; *c; c++) {
        if (written > WORD_MAX - CHARACTER_MAX && !continues_character(*c)) {
            cv_buffer_text(header, "?=\r\n =?UTF-8?Q?");
            written = 0;
        }
        bool is_word =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        bool is_space = (unsigned char)*c <= ' ' || *c == 0x7f;
        if (is_word || is_space) {
            cv_buffer_printf(header, "%c", is_space ? '_' : *c);
        } else {
            cv_buffer_printf(header, "=%02X", (unsigned)(unsigned char)*c);
        }
        written += is_word || is_space ? 1 : 3;
    }
    cv_buffer_text(header, "?=");
}

/* ---- the body ------------------------------------------------------------------------------------ */

struct line {
    const char *text, *path; /* path: NULL, no link */
    bool is_title;
};

static struct line read_line(const json_t *lines, size_t index)
{
    const json_t *line = json_array_get(lines, index);
    const char *text = json_string_value(json_object_get(line, "text"));
    return (struct line){
        .text = text ? text : "",
        .path = json_string_value(json_object_get(line, "path")),
        .is_title = json_is_true(json_object_get(line, "is_title")),
    };
}

void mail_write_text(struct cv_buffer *body, const json_t *lines, const char *page)
{
    for (size_t i = 0; i < json_array_size(lines); i++) {
        struct line line = read_line(lines, i);
        cv_buffer_printf(body, "%s\r\n", line.text);
        if (line.path) {
            cv_buffer_printf(body, "%s%s\r\n", page, line.path);
        }
        cv_buffer_text(body, line.is_title ? "" : "\r\n");
    }
}

static void write_escaped(struct cv_buffer *body, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (strchr("&<>\"", *c)) {
            cv_buffer_printf(body, "&#%d;", *c);
        } else {
            cv_buffer_append(body, c, 1);
        }
    }
}

void mail_write_html(struct cv_buffer *body, const json_t *lines, const char *page)
{
    cv_buffer_text(body, "<!doctype html>\r\n<html><body>\r\n");
    for (size_t i = 0; i < json_array_size(lines); i++) {
        struct line line = read_line(lines, i);
        const char *tag = line.is_title ? "h3" : "p";
        cv_buffer_printf(body, "<%s dir=\"auto\">", tag);
        if (line.path) {
            cv_buffer_text(body, "<a href=\"");
            write_escaped(body, page);
            write_escaped(body, line.path);
            cv_buffer_text(body, "\">");
        }
        write_escaped(body, line.text);
        cv_buffer_printf(body, "%s</%s>\r\n", line.path ? "</a>" : "", tag);
    }
    cv_buffer_text(body, "</body></html>\r\n");
}
