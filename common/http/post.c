#include "common/http/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <string.h>
#include <time.h>

enum {
    CONNECT_MS = 10 * 1000,
    HEADER_MAX = 64 << 10, /* all lines of the answer's head */
    SECOND_MS = 1000,
};

CV_DEFINE_CLEANUP(struct curl_slist *, curl_slist_free_all)
CV_DEFINE_CLEANUP(curl_mime *, curl_mime_free)

struct cv_http_client {
    CURL *curl;
};

struct exchange {
    const struct cv_http_request *request;
    struct cv_http_answer answer;
    bool is_refused; /* an address that may not be called */
    CURL *curl;
    int written; /* what request->write returned last */
    struct cv_error *error;
};

static void exchange_deinit(struct exchange *exchange)
{
    cv_http_answer_deinit(&exchange->answer);
}
CV_DEFINE_CLEANUP_ADDRESS(struct exchange, exchange_deinit)

void cv_http_answer_deinit(struct cv_http_answer *answer)
{
    cv_buffer_deinit(&answer->head);
    cv_buffer_deinit(&answer->body);
}

int cv_http_client_open(struct cv_http_client **ret_client, struct cv_error *error)
{
    cv_auto(cv_http_client_close) struct cv_http_client *client = calloc(1, sizeof(*client));
    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        !(client->curl = curl_easy_init())) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for an HTTP client");
    }
    *ret_client = cv_take(client);
    return 0;
}

void cv_http_client_close(struct cv_http_client *client)
{
    if (client) {
        curl_easy_cleanup(client->curl);
        free(client);
    }
}

CV_DEFINE_CLEANUP(CURLU *, curl_url_cleanup)
CV_DEFINE_CLEANUP(char *, curl_free)

uint16_t cv_http_port(const char *url)
{
    cv_auto(curl_url_cleanup) CURLU *parts = curl_url();
    cv_auto(curl_free) char *text = NULL;
    int64_t port = 0;
    bool good = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_PORT, &text, CURLU_DEFAULT_PORT) == CURLUE_OK &&
                cv_parse_int(text, 1, UINT16_MAX, &port);
    return good ? (uint16_t)port : 0;
}

/* ---- what curl calls ------------------------------------------------------------------------- */

/* Called for each address just before the connection is made, so that the checked address is the
 * connected one. */
static curl_socket_t open_socket(void *opaque, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *exchange = opaque;
    (void)purpose;
    if (!cv_http_may_call(exchange->request->allowed, &address->addr)) {
        exchange->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Retry-After is a number of seconds or a date (RFC 9110, 10.2.3); anything else is ignored. */
static int64_t parse_retry_after(const char *value)
{
    int64_t seconds = 0;
    if (cv_parse_int(value, 0, INT32_MAX, &seconds)) {
        return seconds * SECOND_MS;
    }
    time_t at = curl_getdate(value, NULL);
    int64_t left = at < 0 ? 0 : (int64_t)at * SECOND_MS - cv_wall_ms();
    return left > 0 ? left : 0;
}

static size_t receive_header(char *data, size_t size, size_t count, void *opaque)
{
    static const char name[] = "retry-after:";
    struct exchange *exchange = opaque;
    size_t length = size * count;
    size_t start = strlen(name);
    char value[64];
    cv_buffer_append(&exchange->answer.head, data, length);
    if (exchange->answer.head.length > HEADER_MAX || exchange->answer.head.failed) {
        return 0;
    }
    if (length > start && strncasecmp(data, name, start) == 0 && length - start < sizeof(value)) {
        (void)snprintf(value, sizeof(value), "%.*s", (int)(length - start), data + start);
        value[strcspn(value, "\r\n")] = '\0';
        exchange->answer.retry_after_ms = parse_retry_after(value + strspn(value, " \t"));
    }
    return length;
}

static size_t receive_body(char *data, size_t size, size_t count, void *opaque)
{
    struct exchange *exchange = opaque;
    struct cv_buffer *body = &exchange->answer.body;
    size_t length = size * count;
    long status = 0;
    (void)curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
    if (exchange->request->write && status / 100 == 2) {
        exchange->written =
            exchange->request->write(exchange->request->opaque, data, length, exchange->error);
        return exchange->written ? 0 : length;
    }
    size_t room = exchange->request->answer_max - body->length;
    exchange->answer.is_cut = length > room;
    cv_buffer_append(body, data, length > room ? room : length);
    return body->failed || exchange->answer.is_cut ? 0 : length;
}

static int check_cancel(void *opaque, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                        curl_off_t up)
{
    const struct exchange *exchange = opaque;
    (void)down_all, (void)down, (void)up_all, (void)up;
    return cv_cancel_level(exchange->request->cancel) != CV_CANCEL_NONE;
}

/* ---- one request ----------------------------------------------------------------------------- */

static int make_lines(const struct cv_http_request *request, struct curl_slist **lines,
                      struct cv_error *error)
{
    for (size_t i = 0; request->headers[i]; i++) {
        struct curl_slist *longer = curl_slist_append(*lines, request->headers[i]);
        CV_TRY_MEMORY(longer, error, "a request");
        *lines = longer;
    }
    return 0;
}

/* The form of a request, in memory. */
static int make_form(CURL *curl, const struct cv_http_request *request, curl_mime **ret_form,
                     struct cv_error *error)
{
    cv_auto(curl_mime_free) curl_mime *form = request->form ? curl_mime_init(curl) : NULL;
    bool good = form || !request->form;
    for (size_t i = 0; good && i < request->form_count; i++) {
        const struct cv_http_part *given = &request->form[i];
        curl_mimepart *part = curl_mime_addpart(form);
        good = part && curl_mime_name(part, given->name) == CURLE_OK &&
               curl_mime_data(part, given->data, given->length) == CURLE_OK &&
               curl_mime_filename(part, given->file_name) == CURLE_OK &&
               curl_mime_type(part, given->media_type) == CURLE_OK;
    }
    CV_TRY_MEMORY(good && (!form || curl_easy_setopt(curl, CURLOPT_MIMEPOST, form) == CURLE_OK),
                  error, "a form");
    *ret_form = cv_take(form);
    return 0;
}

#define SET(option, value) good = good && curl_easy_setopt(curl, option, value) == CURLE_OK

static bool set_guards(CURL *curl, struct exchange *exchange)
{
    bool good = true;
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, exchange);
    return good;
}

static bool set_options(CURL *curl, struct exchange *exchange, struct curl_slist *lines)
{
    const struct cv_http_request *request = exchange->request;
    int64_t connect_ms = request->timeout_ms < CONNECT_MS ? request->timeout_ms : CONNECT_MS;
    bool good = set_guards(curl, exchange);
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "cortana-vision/" CV_VERSION);
    SET(CURLOPT_HTTPHEADER, lines);
    if (!request->form && (request->body || strcmp(request->method, "POST") == 0)) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length);
        SET(CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
    SET(CURLOPT_CUSTOMREQUEST, request->method);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    SET(CURLOPT_HEADERFUNCTION, receive_header);
    SET(CURLOPT_HEADERDATA, exchange);
    SET(CURLOPT_WRITEFUNCTION, receive_body);
    SET(CURLOPT_WRITEDATA, exchange);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, check_cancel);
    SET(CURLOPT_XFERINFODATA, exchange);
    if (request->ca_file) {
        SET(CURLOPT_CAINFO, request->ca_file);
    }
    return good;
}

#undef SET

/* Whether the URL has an address instead of a name; curl writes "127.1" as an address, too. */
static bool has_address(const char *url)
{
    cv_auto(curl_url_cleanup) CURLU *parts = curl_url();
    cv_auto(curl_free) char *host = NULL;
    struct in_addr v4;
    return parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
           curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
           (host[0] == '[' || inet_pton(AF_INET, host, &v4) == 1);
}

/* A name that leads to a private address and one that does not exist are answered alike, else
 * whoever may write URLs could find out which names the operator's network has. */
static int explain_name(const struct exchange *exchange, struct cv_error *error)
{
    if (!exchange->request->allow_setting) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the URL's name leads to no address");
    }
    return cv_fail(
        error, CV_ERROR_CONNECTION,
        "the URL's name leads to no public address: it does not exist, or its network is "
        "not allowed with %s",
        exchange->request->allow_setting);
}

static int explain(const struct exchange *exchange, CURLcode code, struct cv_error *error)
{
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return cv_fail(error, CV_ERROR_CANCELED, "stopped");
    case CURLE_OPERATION_TIMEDOUT:
        return cv_fail(error, CV_ERROR_TIMEOUT, "no answer within %lld ms",
                       (long long)exchange->request->timeout_ms);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "it is not an http or https URL: %s",
                       curl_easy_strerror(code));
    case CURLE_OUT_OF_MEMORY:
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    case CURLE_COULDNT_RESOLVE_HOST:
        return explain_name(exchange, error);
    default:
        if (exchange->is_refused && !has_address(exchange->request->url)) {
            return explain_name(exchange, error);
        }
        if (exchange->is_refused) {
            return cv_fail(error, CV_ERROR_AUTHORIZATION,
                           "the URL leads to an address that is not public: allow its network "
                           "with %s if it is meant",
                           exchange->request->allow_setting);
        }
        return cv_fail(error, CV_ERROR_CONNECTION, "%s", curl_easy_strerror(code));
    }
}

int cv_http_send(struct cv_http_client *client, const struct cv_http_request *request,
                 struct cv_http_answer *ret_answer, struct cv_error *error)
{
    cv_auto(exchange_deinit) struct exchange exchange = {
        .request = request, .curl = client->curl, .error = error};
    cv_auto(curl_slist_free_all) struct curl_slist *lines = NULL;
    CV_TRY(make_lines(request, &lines, error));
    curl_easy_reset(client->curl); /* keeps the connection */
    CV_TRY_MEMORY(set_options(client->curl, &exchange, lines), error, "a request");
    cv_auto(curl_mime_free) curl_mime *form = NULL;
    CV_TRY(make_form(client->curl, request, &form, error));
    struct cv_http_answer *answer = &exchange.answer;
    int64_t began = cv_monotonic_ms();
    CURLcode code = curl_easy_perform(client->curl);
    answer->took_ms = cv_monotonic_ms() - began;
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &answer->status);
    CV_TRY_MEMORY(!answer->body.failed && !answer->head.failed, error, "an answer");
    if (exchange.written) {
        return exchange.written;
    }
    /* A longer answer than the caller reads is still a success. */
    if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && answer->is_cut)) {
        return explain(&exchange, code, error);
    }
    *ret_answer = *answer;
    answer->head = (struct cv_buffer)CV_BUFFER_INIT;
    answer->body = (struct cv_buffer)CV_BUFFER_INIT;
    return 0;
}
