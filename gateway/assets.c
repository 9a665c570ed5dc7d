#include "gateway/assets.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { POLICY_SIZE = 1400, ORIGIN_SIZE = 300 };

/* Scripts and styles are only allowed from here. Pictures and sound may also be made by the page
 * itself (blob:), as hls.js does to pass segments to the player, or come from a bucket, which also
 * receives uploads. Only lit-html may make nodes from texts. */
static char policy[POLICY_SIZE];

void assets_start(const char *bucket_url)
{
    char origin[ORIGIN_SIZE] = "";
    const char *host = bucket_url ? strstr(bucket_url, "://") : NULL;
    if (host) {
        size_t length = (size_t)(host - bucket_url) + 3 + strcspn(host + 3, "/?#;, ");
        if (length + 2 <= sizeof(origin)) {
            (void)snprintf(origin, sizeof(origin), " %.*s", (int)length, bucket_url);
        }
    }
    (void)snprintf(
        policy, sizeof(policy),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:%s; "
        "media-src 'self' blob:%s; connect-src 'self'%s; font-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types lit-html",
        origin, origin, origin);
}

/* First parts of the paths of screens; the page interprets the rest. */
static const char *const screens[] = {
    "/videos",  "/upload",    "/alerts",    "/overview", "/jobs",        "/queues",    "/runs",
    "/workers", "/failures",  "/schedules", "/webhooks", "/performance", "/resources", "/tenants",
    "/rules",   "/workflows", "/commands",  "/audit",    "/keys"};

static const struct asset *find_file(const char *path, size_t length)
{
    size_t low = 0;
    size_t high = asset_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct asset *asset = &assets[middle];
        int order = strncmp(path, asset->path, length);
        order = order == 0 && asset->path[length] ? -1 : order;
        if (order == 0) {
            return asset;
        }
        low = order > 0 ? middle + 1 : low;
        high = order < 0 ? middle : high;
    }
    return NULL;
}

static const struct asset *find(const char *path, size_t length)
{
    bool is_screen = length == 1;
    for (size_t i = 0; i < CV_COUNT(screens) && !is_screen; i++) {
        size_t own = strlen(screens[i]);
        is_screen = length >= own && strncmp(path, screens[i], own) == 0 &&
                    (length == own || path[own] == '/');
    }
    return is_screen ? find_file("/index.html", strlen("/index.html")) : find_file(path, length);
}

static bool takes_gzip(const struct exchange *exchange)
{
    const char *accepted = exchange_header(exchange, "Accept-Encoding");
    const char *gzip = accepted ? strstr(accepted, "gzip") : NULL;
    return gzip && strncmp(gzip, "gzip;q=0", 8) != 0;
}

static json_t *headers_of(const struct asset *asset, bool is_packed)
{
    json_t *headers = json_pack("{s:s}", "Vary", "Accept-Encoding");
    if (headers && is_packed) {
        (void)json_object_set_new(headers, "Content-Encoding", json_string("gzip"));
    }
    if (headers && strncmp(asset->type, "text/html", 9) == 0) {
        (void)json_object_set_new(headers, "Content-Security-Policy", json_string(policy));
    }
    return headers;
}

static void answer_with(struct exchange *exchange, const struct asset *asset, int status)
{
    struct answer *answer = &exchange->answer;
    bool is_packed = takes_gzip(exchange) && asset->packed_length < asset->plain_length;
    answer->status = status;
    answer->content_type = asset->type;
    answer->fixed_body = is_packed ? asset->packed : asset->plain;
    answer->length = is_packed ? asset->packed_length : asset->plain_length;
    answer->headers = headers_of(asset, is_packed);
    /* Weak, because it is the same text whether compressed or not. */
    (void)snprintf(answer->etag, sizeof(answer->etag), "W/\"%s\"", asset->etag);
}

bool assets_answer(struct exchange *exchange, const char *method)
{
    struct answer *answer = &exchange->answer;
    const struct asset *asset = find(exchange->target, strcspn(exchange->target, "?"));
    if (!asset) {
        return false;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        (void)snprintf(answer->methods, sizeof(answer->methods), "GET, HEAD");
        exchange_refuse(exchange, REFUSE_METHOD, "this is a file of the page: it can be read");
        return true;
    }
    answer_with(exchange, asset, 200);
    return true;
}

bool assets_answer_missing(struct exchange *exchange)
{
    const char *accepted = exchange_header(exchange, "Accept");
    bool is_person = exchange->access != ACCESS_WRITE && accepted &&
                     strstr(accepted, "text/html") && strncmp(exchange->target, "/api/", 5) != 0;
    if (is_person) {
        answer_with(exchange, find_file("/index.html", strlen("/index.html")), 404);
    }
    return is_person;
}
