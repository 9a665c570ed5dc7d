#include "workers/webhook/webhook.h"

#include <curl/curl.h>
#include <string.h>
#include <time.h>

enum {
    CONNECT_MS = 10 * 1000,
    ANSWER_MAX = 64 << 10, /* what is behind that is not waited for */
    HEADER_MAX = 64 << 10, /* all lines of the answer's head */
    SECOND_MS = 1000,
};

CV_DEFINE_CLEANUP(CURL *, curl_easy_cleanup)
CV_DEFINE_CLEANUP(struct curl_slist *, curl_slist_free_all)

struct sending {
    const struct webhook_delivery *delivery;
    struct webhook_answer answer;
    size_t received, head;
    bool is_refused; /* an address that may not be called */
};

/* ---- what curl calls ------------------------------------------------------------------------- */

/* Asked for each address before it is connected to: a name may mean another one than a moment ago. */
static curl_socket_t open_socket(void *opaque, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct sending *sending = opaque;
    (void)purpose;
    if (!webhook_may_call(sending->delivery->allowed, &address->addr)) {
        sending->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* A date or seconds; what is neither is not heard. */
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

static size_t take_header(char *data, size_t size, size_t count, void *opaque)
{
    static const char name[] = "retry-after:";
    struct sending *sending = opaque;
    size_t length = size * count;
    char value[64];
    sending->head += length;
    if (sending->head > HEADER_MAX) {
        return 0;
    }
    size_t start = strlen(name);
    if (length > start && strncasecmp(data, name, start) == 0 && length - start < sizeof(value)) {
        (void)snprintf(value, sizeof(value), "%.*s", (int)(length - start), data + start);
        value[strcspn(value, "\r\n")] = '\0';
        sending->answer.retry_after_ms = parse_retry_after(value + strspn(value, " \t"));
    }
    return length;
}

static size_t take_body(char *data, size_t size, size_t count, void *opaque)
{
    struct sending *sending = opaque;
    size_t length = size * count;
    for (size_t i = 0; i < length && sending->received + i + 1 < sizeof(sending->answer.text);
         i++) {
        char c = data[i];
        sending->answer.text[sending->received + i] = c >= ' ' && c <= '~' ? c : '.';
    }
    sending->received += length;
    return sending->received > ANSWER_MAX ? 0 : length;
}

static int look_at_cancel(void *opaque, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
                          curl_off_t up)
{
    struct sending *sending = opaque;
    (void)down_all, (void)down, (void)up_all, (void)up;
    return cv_cancel_level(sending->delivery->cancel) != CV_CANCEL_NONE;
}

/* ---- one request ----------------------------------------------------------------------------- */

static int add_line(struct curl_slist **lines, struct cv_error *error, const char *format, ...)
    CV_PRINTF(3, 4);
static int add_line(struct curl_slist **lines, struct cv_error *error, const char *format, ...)
{
    cv_auto_free char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&line, format, arguments);
    va_end(arguments);
    struct curl_slist *longer = length >= 0 ? curl_slist_append(*lines, line) : NULL;
    if (!longer) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    *lines = longer;
    return 0;
}

static int make_lines(const struct webhook_delivery *delivery, struct curl_slist **lines,
                      struct cv_error *error)
{
    int result = add_line(lines, error, "content-type: application/json");
    result = result ? result : add_line(lines, error, "webhook-id: %s", delivery->id);
    result = result ? result
                    : add_line(lines, error, "webhook-timestamp: %lld",
                               (long long)delivery->timestamp_s);
    result =
        result ? result : add_line(lines, error, "webhook-signature: %s", delivery->signatures);
    return result ? result : add_line(lines, error, "Expect:");
}

static bool set_options(CURL *curl, struct sending *sending, struct curl_slist *lines)
{
    const struct webhook_delivery *delivery = sending->delivery;
    bool good = true;
#define SET(option, value) good = good && curl_easy_setopt(curl, option, value) == CURLE_OK
    SET(CURLOPT_URL, delivery->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* none: the address that is checked is the one that is spoken to */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_FORBID_REUSE, 1L);
    SET(CURLOPT_USERAGENT, "cortana-vision/" CV_VERSION);
    SET(CURLOPT_HTTPHEADER, lines);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)delivery->length);
    SET(CURLOPT_POSTFIELDS, delivery->body);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        (long)(delivery->timeout_ms < CONNECT_MS ? delivery->timeout_ms : CONNECT_MS));
    SET(CURLOPT_TIMEOUT_MS, (long)delivery->timeout_ms);
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, sending);
    SET(CURLOPT_HEADERFUNCTION, take_header);
    SET(CURLOPT_HEADERDATA, sending);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, sending);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, look_at_cancel);
    SET(CURLOPT_XFERINFODATA, sending);
    if (delivery->ca_file) {
        SET(CURLOPT_CAINFO, delivery->ca_file);
    }
#undef SET
    return good;
}

static int explain(const struct sending *sending, CURLcode code, struct cv_error *error)
{
    switch (code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return cv_fail(error, CV_ERROR_CANCELED, "stopped");
    case CURLE_OPERATION_TIMEDOUT:
        return cv_fail(error, CV_ERROR_TIMEOUT, "no answer within %lld ms",
                       (long long)sending->delivery->timeout_ms);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "the URL is none: %s",
                       curl_easy_strerror(code));
    case CURLE_OUT_OF_MEMORY:
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    default:
        if (sending->is_refused) {
            return cv_fail(error, CV_ERROR_AUTHORIZATION,
                           "the URL leads to an address that is not public: allow its network with "
                           "CORTANA_WEBHOOK_ALLOW if it is meant");
        }
        return cv_fail(error, CV_ERROR_CONNECTION, "%s", curl_easy_strerror(code));
    }
}

int webhook_send(const struct webhook_delivery *delivery, struct webhook_answer *ret_answer,
                 struct cv_error *error)
{
    struct sending sending = {.delivery = delivery};
    cv_auto(curl_slist_free_all) struct curl_slist *lines = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return cv_fail(error, CV_ERROR_INTERNAL, "libcurl does not start");
    }
    cv_auto(curl_easy_cleanup) CURL *curl = curl_easy_init();
    int result = make_lines(delivery, &lines, error);
    if (result != 0) {
        return result;
    }
    if (!curl || !set_options(curl, &sending, lines)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    int64_t began = cv_monotonic_ms();
    CURLcode code = curl_easy_perform(curl);
    sending.answer.took_ms = cv_monotonic_ms() - began;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &sending.answer.status);
    /* An answer that goes on for longer than anybody reads has been given all the same. */
    bool is_enough = code == CURLE_WRITE_ERROR && sending.received > ANSWER_MAX;
    if (code != CURLE_OK && !is_enough) {
        return explain(&sending, code, error);
    }
    *ret_answer = sending.answer;
    return 0;
}
