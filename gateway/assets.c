#include "gateway/assets.h"

#include "gateway/caller.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { POLICY_SIZE = 1400, ORIGIN_SIZE = 300 };

/* Scripts and styles are only allowed from here. Pictures and sound may also be made by the page
 * itself (blob:), as hls.js does to pass segments to the player, or come from a bucket, which also
 * receives uploads. Only lit-html may make nodes from texts. */
static char policy[POLICY_SIZE];
/* The same for what other pages may have in an <iframe>. */
static char embed_policy[POLICY_SIZE];

static void write_policy(char text[POLICY_SIZE], const char *origin, const char *ancestors)
{
    (void)snprintf(
        text, POLICY_SIZE,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:%s; "
        "media-src 'self' blob:%s; connect-src 'self'%s; font-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors %s; require-trusted-types-for 'script'; "
        "trusted-types lit-html",
        origin, origin, origin, ancestors);
}

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
    write_policy(policy, origin, "'none'");
    write_policy(embed_policy, origin, "*");
}

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
    for (const char *const *screen = asset_screens; *screen && !is_screen; screen++) {
        size_t own = strlen(*screen);
        is_screen = length >= own && strncmp(path, *screen, own) == 0 &&
                    (length == own || path[own] == '/');
    }
    return is_screen ? find_file("/index.html", strlen("/index.html")) : find_file(path, length);
}

static bool accepts_gzip(const struct exchange *exchange)
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
    bool is_packed = accepts_gzip(exchange) && asset->packed_length < asset->plain_length;
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

/* ---- what strangers see of a link ------------------------------------------------------------- */

enum { SITE_SIZE = 300 };

#define SHARE_PAGE(of_path)                                                          \
    {                                                                                \
        .name = "share_page", .method = "GET", .path = of_path, .rules = &code_rule, \
        .sql = "SELECT 200 AS status, NULL AS etag, NULL AS headers,"                \
               " api.share_page($1::jsonb) AS body",                                 \
        .rule_count = 1, .time_limit_ms = 5000, .steps = {                           \
            STEP_ADMIT_NEWCOMER,                                                     \
            STEP_BODY,                                                               \
            STEP_CHECK,                                                              \
            STEP_SITE,                                                               \
            STEP_DATABASE,                                                           \
            STEP_SHARED                                                              \
        }                                                                            \
    }

static const struct rule code_rule = {
    .name = "code", .place = PLACE_PATH, .required = true, .shortest = 1, .longest = 200};
static const struct operation share_pages[] = {SHARE_PAGE("/s/{code}"),
                                               SHARE_PAGE("/embed/{code}")};

const struct operation *assets_share_page(const char *target)
{
    for (size_t i = 0; i < CV_COUNT(share_pages); i++) {
        if (strncmp(target, share_pages[i].path, strcspn(share_pages[i].path, "{")) == 0) {
            return &share_pages[i];
        }
    }
    return NULL;
}

void assets_name_site(struct exchange *exchange)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:[]";
    const char *host = exchange_header(exchange, "Host");
    bool is_good = host && strlen(host) < SITE_SIZE && strspn(host, letters) == strlen(host);
    if (json_object_set_new(exchange->values, "site",
                            json_sprintf("http%s://%s", exchange->admission->is_http ? "" : "s",
                                         is_good ? host : "")) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}

void assets_answer_shared(struct exchange *exchange)
{
    static const char end_of_head[] = "</head>";
    struct answer *answer = &exchange->answer;
    cv_auto(json_decref) json_t *body = answer_json(answer);
    const char *head = json_string_value(json_object_get(body, "head"));
    const struct asset *asset = find_file("/shared.html", strlen("/shared.html"));
    const char *page = asset ? (const char *)asset->plain : "";
    const char *at =
        asset ? memmem(page, asset->plain_length, end_of_head, strlen(end_of_head)) : NULL;
    bool is_embedded = exchange->operation == &share_pages[1];
    char *text = NULL;
    struct cv_error error;
    if (!head || !at ||
        cv_format(&text, &error, "%.*s%s%.*s", (int)(at - page), page, head,
                  (int)(asset->plain_length - (size_t)(at - page)), at) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
        return;
    }
    answer_set_body(answer, text);
    answer->status = json_is_true(json_object_get(body, "is_there")) ? 200 : 404;
    answer->content_type = asset->type;
    answer_set_header(answer, "Content-Security-Policy", is_embedded ? embed_policy : policy);
}
