#include "gateway/response.h"

#include "common/store/store.h"

#include <string.h>
#include <unistd.h>

/* ---- an object that passes through --------------------------------------------------------------- */

enum {
    PIECE_BYTES = 256 * 1024, /* bytes per client; a request to the bucket takes some 5 ms */
    BLOCK_BYTES = 32 * 1024,  /* the library's buffer */
};

struct relay {
    struct exchange *exchange;
    bool (*hand_over)(struct exchange *);
    char *key;
    int64_t at, end; /* range of the object that is not read yet */
    char *piece;     /* NULL: none */
    size_t given, filled;
    bool has_failed;
};

int relay_begin(struct exchange *exchange, const char *key, int64_t offset, int64_t length,
                struct cv_error *error)
{
    cv_auto_free struct relay *relay = calloc(1, sizeof(*relay));
    char *own_key = relay ? strdup(key) : NULL;
    CV_TRY_MEMORY(own_key, error, "an object");
    *relay =
        (struct relay){.exchange = exchange, .key = own_key, .at = offset, .end = offset + length};
    exchange->answer.relay = cv_take(relay);
    return 0;
}

void relay_free(struct relay *relay)
{
    if (relay) {
        free(relay->key);
        free(relay->piece);
        free(relay);
    }
}

int relay_read(struct cv_store *store, struct exchange *exchange, struct cv_error *error)
{
    struct relay *relay = exchange->answer.relay;
    size_t wanted = relay->end - relay->at < PIECE_BYTES ? (size_t)(relay->end - relay->at)
                                                         : (size_t)PIECE_BYTES;
    relay->piece = malloc(wanted);
    relay->given = 0;
    relay->filled = 0;
    CV_TRY_MEMORY(relay->piece, error, "an object");
    int result = cv_store_get_range(store, relay->key, relay->at, relay->piece, wanted,
                                    &relay->filled, error);
    relay->at += (int64_t)relay->filled;
    /* If fewer bytes came, the object was replaced: the connection is closed before the announced
     * length. */
    relay->has_failed = result != 0 || relay->filled < wanted;
    return result;
}

/* Passes bytes to the library; runs in a server thread. */
static ssize_t give(void *opaque, uint64_t position, char *data, size_t size)
{
    struct relay *relay = opaque;
    (void)position;
    if (relay->has_failed) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (relay->piece) {
        size_t left = relay->filled - relay->given;
        size_t length = left < size ? left : size;
        (void)memcpy(data, relay->piece + relay->given, length);
        relay->given += length;
        if (relay->given == relay->filled) {
            free(cv_take(relay->piece));
        }
        return (ssize_t)length;
    }
    if (relay->at == relay->end) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    relay->has_failed = true; /* until the piece has been read */
    return relay->hand_over(relay->exchange) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
}

struct MHD_Response *relay_respond(struct exchange *exchange, bool (*hand_over)(struct exchange *))
{
    struct relay *relay = exchange->answer.relay;
    relay->hand_over = hand_over;
    return MHD_create_response_from_callback((uint64_t)(relay->end - relay->at), BLOCK_BYTES, give,
                                             relay, NULL);
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

bool response_is_stream(const struct exchange *exchange)
{
    return *exchange->at == STEP_STREAM;
}

/* draft-ietf-httpapi-ratelimit-headers: the size of the caller's bucket, and the requests left in
 * it. */
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

/* Nothing but the page's own files, which bring their policy, runs in the page's origin. A browser
 * shows a film that is opened by itself in a document of its own, which loads the film once more as
 * one of the same origin. */
static const char *policy_of(const struct answer *answer)
{
    bool is_film = answer->content_type && strncmp(answer->content_type, "video/", 6) == 0;
    return is_film ? "default-src 'none'; media-src 'self'; sandbox allow-same-origin"
                   : "default-src 'none'; sandbox";
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
    if (!json_object_get(answer->headers, "Content-Security-Policy")) {
        good = add_header(response, "Content-Security-Policy", policy_of(answer));
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
           add_header(response, "Cross-Origin-Resource-Policy", "same-origin") &&
           add_header(response, "Connection", exchange->is_body_dropped ? "close" : "");
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
    return given && exchange->access != ACCESS_WRITE && (status == 200 || status == 206) &&
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
        answer->has_fd = !response; /* the library closes it with the response */
    } else {
        bool is_own = !answer->fixed_body && answer->body; /* if so, the library frees it */
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
    json_object_del(answer->headers, "Content-Range");
    answer->length = 0;
}
