#include "workers/mail/mail.h"

#include <string.h>
#include <time.h>

enum {
    CONNECT_MS = 15 * 1000,
    TIMEOUT_MS = 90 * 1000, /* for the whole exchange, within the time limit of the job type */
    REPLY_MAX = 256,        /* bytes of a reply that are shown */
};

CV_DEFINE_CLEANUP(CURL *, curl_easy_cleanup)
CV_DEFINE_CLEANUP(curl_mime *, curl_mime_free)
CV_DEFINE_CLEANUP(struct curl_slist *, curl_slist_free_all)

/* ---- what curl calls ------------------------------------------------------------------------- */

static bool is_refusal(const char *reply)
{
    return reply[0] == '4' || reply[0] == '5';
}

/* Keeps the server's last reply, in plain ASCII; after a refusal, not the goodbye. */
static size_t receive_reply(char *data, size_t size, size_t count, void *opaque)
{
    char *reply = opaque;
    size_t length = size * count;
    if (is_refusal(reply) && (length == 0 || !is_refusal(data))) {
        return length;
    }
    size_t kept = length < REPLY_MAX - 1 ? length : REPLY_MAX - 1;
    for (size_t i = 0; i < kept; i++) {
        reply[i] = data[i] >= ' ' && data[i] <= '~' ? data[i] : ' ';
    }
    while (kept > 0 && reply[kept - 1] == ' ') {
        kept--;
    }
    reply[kept] = '\0';
    return length;
}

static int check_cancel(void *opaque, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                        curl_off_t up)
{
    (void)down_all, (void)down, (void)up_all, (void)up;
    return cv_cancel_level(opaque) != CV_CANCEL_NONE;
}

/* ---- the message ----------------------------------------------------------------------------- */

static int add_header(struct curl_slist **headers, struct cv_buffer *line, struct cv_error *error)
{
    cv_auto_free char *text = NULL;
    CV_TRY(cv_buffer_detach(line, &text, error));
    struct curl_slist *longer = curl_slist_append(*headers, text);
    CV_TRY_MEMORY(longer, error, "a mail");
    *headers = longer;
    return 0;
}

#define ADD(...)                                                          \
    do {                                                                  \
        cv_auto(cv_buffer_deinit) struct cv_buffer line = CV_BUFFER_INIT; \
        cv_buffer_printf(&line, __VA_ARGS__);                             \
        CV_TRY(add_header(headers, &line, error));                        \
    } while (0)

static int make_headers(const struct mail_server *server, const json_t *mail, const char *id,
                        struct curl_slist **headers, struct cv_error *error)
{
    const char *unsubscribe = json_string_value(json_object_get(mail, "unsubscribe"));
    const char *subject = json_string_value(json_object_get(mail, "subject"));
    cv_auto(cv_buffer_deinit) struct cv_buffer subject_line = CV_BUFFER_INIT;
    time_t now = time(NULL);
    struct tm utc;
    char date[64];
    if (!gmtime_r(&now, &utc) || strftime(date, sizeof(date), "%a, %d %b %Y %T +0000", &utc) == 0) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot write the date of a mail");
    }
    ADD("From: cortana <%s>", server->sender);
    ADD("To: <%s>", json_string_value(json_object_get(mail, "to")));
    cv_buffer_text(&subject_line, "Subject: ");
    mail_write_header_text(&subject_line, subject ? subject : "");
    CV_TRY(add_header(headers, &subject_line, error));
    ADD("Date: %s", date);
    ADD("Message-ID: <%s@%s>", id, strchr(server->sender, '@') + 1);
    ADD("Auto-Submitted: auto-generated");
    if (unsubscribe) {
        ADD("List-Unsubscribe: <%s%s>", server->page, unsubscribe);
        ADD("List-Unsubscribe-Post: List-Unsubscribe=One-Click"); /* RFC 8058 */
    }
    return 0;
}

#undef ADD

static bool add_part(curl_mime *parts, const struct cv_buffer *body, const char *type)
{
    curl_mimepart *part = body->failed ? NULL : curl_mime_addpart(parts);
    return part && curl_mime_data(part, body->data, body->length) == CURLE_OK &&
           curl_mime_type(part, type) == CURLE_OK &&
           curl_mime_encoder(part, "quoted-printable") == CURLE_OK;
}

/* The same text twice, of which a mail program shows what it likes better. */
static bool make_body(CURL *curl, const json_t *lines, const char *page, curl_mime *whole)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT, html = CV_BUFFER_INIT;
    cv_auto(curl_mime_free) curl_mime *both = curl_mime_init(curl);
    curl_mimepart *part = curl_mime_addpart(whole);
    mail_write_text(&text, lines, page);
    mail_write_html(&html, lines, page);
    if (!both || !part || !add_part(both, &text, "text/plain; charset=utf-8") ||
        !add_part(both, &html, "text/html; charset=utf-8") ||
        curl_mime_subparts(part, both) != CURLE_OK) {
        return false;
    }
    both = NULL; /* of `whole` now */
    return curl_mime_type(part, "multipart/alternative") == CURLE_OK;
}

/* ---- the exchange ------------------------------------------------------------------------------ */

#define SET(option, value) good = good && curl_easy_setopt(curl, option, value) == CURLE_OK

static bool set_options(CURL *curl, const struct mail_server *server, char *reply,
                        struct cv_cancel *cancel)
{
    bool good = true;
    const char *ca_file = cv_env("CORTANA_CA_FILE", NULL);
    SET(CURLOPT_URL, server->url);
    SET(CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_USE_SSL, (long)(server->is_loopback ? CURLUSESSL_TRY : CURLUSESSL_ALL));
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
    SET(CURLOPT_USERNAME, server->user);
    SET(CURLOPT_PASSWORD, server->password);
    SET(CURLOPT_MAIL_FROM, server->sender);
    SET(CURLOPT_HEADERFUNCTION, receive_reply);
    SET(CURLOPT_HEADERDATA, reply);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, check_cancel);
    SET(CURLOPT_XFERINFODATA, cancel);
    return good && (!ca_file || curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file) == CURLE_OK);
}

static bool set_mail(CURL *curl, struct curl_slist *recipients, struct curl_slist *headers,
                     curl_mime *body)
{
    bool good = recipients != NULL;
    SET(CURLOPT_MAIL_RCPT, recipients);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_MIMEPOST, body);
    return good;
}

#undef SET

static int explain(CURLcode code, long status, const char *reply, struct cv_error *error)
{
    if (code == CURLE_ABORTED_BY_CALLBACK) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped");
    }
    if (status / 100 == 4) {
        return cv_fail(error, CV_ERROR_SERVER, "the mail server does not take it now: %s", reply);
    }
    if (code == CURLE_LOGIN_DENIED) {
        return cv_fail(error, CV_ERROR_AUTHENTICATION,
                       "the mail server refuses the user and the password in SMTP_URL: %s", reply);
    }
    if (status / 100 == 5) {
        return cv_fail(error, CV_ERROR_REFUSED, "the mail server refuses it: %s", reply);
    }
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a mail");
    case CURLE_OPERATION_TIMEDOUT:
        return cv_fail(error, CV_ERROR_TIMEOUT, "the mail server does not answer in time");
    case CURLE_USE_SSL_FAILED:
        return cv_fail(error, CV_ERROR_CONNECTION,
                       "the mail server offers no STARTTLS, and nothing is sent without TLS: write "
                       "smtps:// in SMTP_URL if it has another port for that");
    case CURLE_PEER_FAILED_VERIFICATION:
        return cv_fail(error, CV_ERROR_CONNECTION,
                       "the certificate of the mail server is not trusted, or is for another name "
                       "than SMTP_URL says: CORTANA_CA_FILE names a file with that of its issuer");
    default:
        return cv_fail(error, CV_ERROR_CONNECTION, "the mail server of SMTP_URL: %s",
                       curl_easy_strerror(code));
    }
}

int mail_send(const struct mail_server *server, const json_t *mail, const char *id,
              struct cv_cancel *cancel, struct cv_error *error)
{
    char reply[REPLY_MAX] = "";
    long status = 0;
    cv_auto(curl_slist_free_all) struct curl_slist *headers = NULL, *recipients = NULL;
    cv_auto(curl_easy_cleanup) CURL *curl = curl_easy_init();
    cv_auto(curl_mime_free) curl_mime *body = curl ? curl_mime_init(curl) : NULL;
    const char *to = json_string_value(json_object_get(mail, "to"));
    if (!to || !mail_is_address(to)) {
        return cv_fail(error, CV_ERROR_REFUSED, "the e-mail address of the recipient is none");
    }
    CV_TRY_MEMORY(body, error, "a mail");
    recipients = curl_slist_append(NULL, to);
    CV_TRY(make_headers(server, mail, id, &headers, error));
    CV_TRY_MEMORY(make_body(curl, json_object_get(mail, "lines"), server->page, body) &&
                      set_options(curl, server, reply, cancel) &&
                      set_mail(curl, recipients, headers, body),
                  error, "a mail");
    CURLcode code = curl_easy_perform(curl);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return code == CURLE_OK ? 0 : explain(code, status, reply, error);
}
