/* Mails: what a mail says, as MIME, and the server that takes it. */
#pragma once

#include "common/base/base.h"

#include <curl/curl.h>
#include <jansson.h>

/* What SMTP_URL says. */
struct mail_server {
    char *url;             /* without user, password and query */
    char *user, *password; /* NULL: it asks for none */
    char *sender;          /* an e-mail address */
    char *page;            /* where links lead to, without a slash at the end */
    uint16_t port;
    bool is_loopback; /* TLS is used if it is offered, and not required */
};
void mail_server_deinit(struct mail_server *server);
CV_DEFINE_CLEANUP_ADDRESS(struct mail_server, mail_server_deinit)

/* Reads smtp://[USER:PASSWORD@]HOST[:PORT]?page=URL[&from=ADDRESS], or smtps. CV_ERROR_CONFIGURATION
 * says what is wrong with it, without showing it. The caller deinits the server. */
CV_MUST_CHECK int mail_server_read(const char *setting, struct mail_server *ret_server,
                                   struct cv_error *error);

/* Whether a text can be an e-mail address, and nothing that would end a command or a header. */
bool mail_is_address(const char *text);

/* Appends a text as it stands in a header: plain ASCII as it is, anything else as encoded words (RFC
 * 2047). Control characters become spaces, so that no text can begin a header of its own. */
void mail_write_header_text(struct cv_buffer *header, const char *text);

/* Appends the lines of a mail, [{text, path?, is_title?}], as plain text or as HTML. */
void mail_write_text(struct cv_buffer *body, const json_t *lines, const char *page);
void mail_write_html(struct cv_buffer *body, const json_t *lines, const char *page);

/* Hands a mail to the server: {to, subject, lines, unsubscribe?}, as mail_to_send() returns it. `id` is
 * the same in every attempt. CV_ERROR_SERVER, CV_ERROR_CONNECTION or CV_ERROR_TIMEOUT: a later attempt
 * may succeed; CV_ERROR_REFUSED or CV_ERROR_AUTHENTICATION: it will not. */
CV_MUST_CHECK int mail_send(const struct mail_server *server, const json_t *mail, const char *id,
                            struct cv_cancel *cancel, struct cv_error *error);
