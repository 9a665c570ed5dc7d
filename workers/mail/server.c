#include "workers/mail/mail.h"

#include <arpa/inet.h>
#include <string.h>

CV_DEFINE_CLEANUP(CURLU *, curl_url_cleanup)
CV_DEFINE_CLEANUP(char *, curl_free)

void mail_server_deinit(struct mail_server *server)
{
    curl_free(server->url);
    curl_free(server->user);
    curl_free(server->password);
    curl_free(server->sender);
    curl_free(server->page);
    *server = (struct mail_server){0};
}

/* The decoded value of a member of a query; NULL: it has no such member. */
static char *find_member(const char *query, const char *name)
{
    size_t length = strlen(name);
    for (const char *part = query; part && *part;
         part += strcspn(part, "&"), part += *part == '&') {
        if (strncmp(part, name, length) == 0 && part[length] == '=') {
            const char *value = part + length + 1;
            return curl_easy_unescape(NULL, value, (int)strcspn(value, "&"), NULL);
        }
    }
    return NULL;
}

bool mail_is_address(const char *text)
{
    const char *at = strchr(text, '@');
    bool is_good = at && at > text && at[1];
    for (const char *c = text; is_good && *c; c++) {
        is_good = (unsigned char)*c > ' ' && !strchr("<>\x7f", *c);
    }
    return is_good;
}

static bool is_loopback(const char *host)
{
    struct in_addr v4;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

static int read_query(const char *query, struct mail_server *server, struct cv_error *error)
{
    server->page = find_member(query, "page");
    server->sender = find_member(query, "from");
    if (!server->page ||
        (strncmp(server->page, "https://", 8) != 0 && strncmp(server->page, "http://", 7) != 0)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "SMTP_URL does not say where the page is: add ?page=https://HOST");
    }
    size_t length = strlen(server->page);
    server->page[length - (server->page[length - 1] == '/')] = '\0';
    if (!server->sender && server->user) {
        server->sender = curl_easy_unescape(NULL, server->user, 0, NULL);
    }
    if (!server->sender || !mail_is_address(server->sender)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "SMTP_URL does not say who sends: add &from=ADDRESS, an e-mail address");
    }
    return 0;
}

static bool take_part(CURLU *url, CURLUPart part, char **ret_text)
{
    (void)curl_url_get(url, part, ret_text, CURLU_URLDECODE);
    return curl_url_set(url, part, NULL, 0) == CURLUE_OK;
}

static bool read_parts(CURLU *url, const char *setting, struct mail_server *server)
{
    cv_auto(curl_free) char *scheme = NULL, *host = NULL, *port = NULL;
    int64_t number = 0;
    bool is_read = curl_url_set(url, CURLUPART_URL, setting, 0) == CURLUE_OK &&
                   curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                   (strcmp(scheme, "smtp") == 0 || strcmp(scheme, "smtps") == 0) &&
                   curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                   curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                   cv_parse_int(port, 1, UINT16_MAX, &number) &&
                   take_part(url, CURLUPART_PASSWORD, &server->password) &&
                   take_part(url, CURLUPART_USER, &server->user);
    server->port = (uint16_t)number;
    server->is_loopback = is_read && is_loopback(host);
    return is_read;
}

int mail_server_read(const char *setting, struct mail_server *ret_server, struct cv_error *error)
{
    cv_auto(mail_server_deinit) struct mail_server server = {0};
    cv_auto(curl_url_cleanup) CURLU *url = curl_url();
    cv_auto(curl_free) char *query = NULL;
    CV_TRY_MEMORY(url, error, "SMTP_URL");
    if (!setting || !read_parts(url, setting, &server)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "SMTP_URL is not %s",
                       setting ? "a URL with smtp:// or smtps:// and a host; in user and password, "
                                 "write other characters than letters and digits as %XX"
                               : "set");
    }
    (void)curl_url_get(url, CURLUPART_QUERY, &query, 0);
    CV_TRY(read_query(query, &server, error));
    CV_TRY_MEMORY(curl_url_set(url, CURLUPART_QUERY, NULL, 0) == CURLUE_OK &&
                      curl_url_get(url, CURLUPART_URL, &server.url, 0) == CURLUE_OK,
                  error, "SMTP_URL");
    *ret_server = server;
    server = (struct mail_server){0};
    return 0;
}
