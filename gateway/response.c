#include "gateway/response.h"

#include "gateway/relay.h"

#include <string.h>
#include <unistd.h>

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

bool response_is_stream(const struct exchange *exchange)
{
    return exchange->operation && exchange->operation->handler == HANDLER_EVENTS &&
           exchange->answer.status == 200;
}

/* draft-ietf-httpapi-ratelimit-headers: what the caller's bucket holds, and what is left in it. */
static bool add_rate(struct MHD_Response *response, const struct rate_state *rate)
{
    char text[96];
    if (!rate->is_bounded) {
        return true;
    }
    const char *name = rate_class_name(rate->class);
    (void)snprintf(text, sizeof(text), "\"%s\";q=%d;w=%d", name, rate->burst, rate->window_s);
    bool good = add_header(response, "RateLimit-Policy", text);
    (void)snprintf(text, sizeof(text), "\"%s\";r=%d;t=%d", name, rate->left, rate->retry_s);
    return good && add_header(response, "RateLimit", text);
}

bool response_add_headers(struct MHD_Response *response, const struct exchange *exchange)
{
    const struct answer *answer = &exchange->answer;
    char retry_after[16] = "";
    const char *name;
    json_t *value;
    bool good = true;
    if (answer->retry_after_s) {
        (void)snprintf(retry_after, sizeof(retry_after), "%d", answer->retry_after_s);
    }
    json_object_foreach(answer->headers, name, value)
    {
        good =
            good && json_is_string(value) && add_header(response, name, json_string_value(value));
    }
    return good && add_rate(response, &exchange->rate) &&
           add_header(response, "Content-Type",
                      answer->is_problem             ? "application/problem+json"
                      : answer->content_type         ? answer->content_type
                      : answer->object_type[0]       ? answer->object_type
                      : response_is_stream(exchange) ? "text/event-stream"
                      : answer->length               ? "application/json"
                                                     : "") &&
           add_header(response, "X-Accel-Buffering", response_is_stream(exchange) ? "no" : "") &&
           add_header(response, "X-Request-Id", exchange->id) &&
           add_header(response, "ETag", answer->etag) &&
           add_header(response, "Retry-After", retry_after) &&
           add_header(response, "Allow", answer->methods) &&
           add_header(response, "Set-Cookie",
                      exchange->cookie && answer->status < 300 ? exchange->cookie : "") &&
           add_header(response, "WWW-Authenticate", answer->status == 401 ? "Bearer" : "") &&
           add_header(response, "Cache-Control",
                      answer->is_problem      ? "no-store"
                      : answer->cache_control ? answer->cache_control
                      : answer->etag[0]       ? "private, no-cache"
                                              : "no-store") &&
           add_header(response, "X-Content-Type-Options", "nosniff") &&
           add_header(response, "X-Robots-Tag", "noindex") &&
           add_header(response, "Referrer-Policy", "same-origin") &&
           add_header(response, "Cross-Origin-Opener-Policy", "same-origin") &&
           add_header(response, "Connection", exchange->is_body_too_long ? "close" : "");
}

bool response_is_named(const char *given, const char *etag)
{
    etag += strncmp(etag, "W/", 2) == 0 ? 2 : 0;
    return etag[0] && (strcmp(given, "*") == 0 || strstr(given, etag) != NULL);
}

bool response_is_known(const struct exchange *exchange)
{
    const char *given = exchange_header(exchange, "If-None-Match");
    unsigned status = exchange->answer.status;
    return given && !exchange->is_write && (status == 200 || status == 206) &&
           (!exchange->operation || exchange->operation->may_be_known) &&
           response_is_named(given, exchange->answer.etag);
}

struct MHD_Response *response_make(struct answer *answer)
{
    static char empty[1];
    struct MHD_Response *response = NULL;
    if (answer->has_fd) {
        response = MHD_create_response_from_fd_at_offset64(answer->length, answer->fd,
                                                           (uint64_t)answer->offset);
        answer->has_fd = !response; /* closed with the response */
    } else {
        bool is_own = !answer->fixed_body && answer->body; /* then the library frees it */
        const void *body = answer->fixed_body ? (const void *)answer->fixed_body : answer->body;
        response = MHD_create_response_from_buffer(answer->length, body ? (void *)body : empty,
                                                   is_own ? MHD_RESPMEM_MUST_FREE
                                                          : MHD_RESPMEM_PERSISTENT);
        answer->body = response && is_own ? NULL : answer->body;
    }
    return response;
}

void response_forget_body(struct answer *answer)
{
    free(cv_take(answer->body));
    if (answer->has_fd) {
        (void)close(answer->fd);
        answer->has_fd = false;
    }
    relay_free(cv_take(answer->relay));
    answer->content_type = NULL;
    answer->object_type[0] = '\0';
    json_object_del(answer->headers, "Content-Range");
    answer->length = 0;
}
