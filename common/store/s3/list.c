#include "common/store/s3/list.h"

#include "common/store/s3/answer.h"
#include "common/store/s3/bucket.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

/* The format of a continuation: kind, EMPTY_DIGITS and LENGTH_DIGITS hexadecimal digits, the last
 * key, the token. It tells how to request the next page (by the server's token, or by the last key
 * if a server announces more but gives no token), how many pages in a row were empty, and the last
 * key, so that a list that repeats itself is noticed. */
enum {
    BY_TOKEN = 'T',
    BY_KEY = 'K',
    EMPTY_DIGITS = 4,
    LENGTH_DIGITS = 4,
    /* A page may be empty if the server filters or if objects were deleted: Ceph sends a few in a
     * row. */
    EMPTY_PAGES_MAX = 1000,
};

struct position {
    char kind; /* '\0': the first page */
    int empty_pages;
    const char *last_key; /* not terminated: last_length bytes */
    size_t last_length;
    const char *token;
};

static int read_position(const char *continuation, struct position *ret_position,
                         struct cv_error *error)
{
    unsigned empty = 0, length = 0;
    const char *rest = continuation + 1 + EMPTY_DIGITS + LENGTH_DIGITS;
    if ((continuation[0] != BY_TOKEN && continuation[0] != BY_KEY) ||
        sscanf(continuation + 1, "%4x%4x", &empty, &length) != 2 || strlen(rest) < length) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the continuation is not one of this list");
    }
    *ret_position = (struct position){
        .kind = continuation[0],
        .empty_pages = (int)empty,
        .last_key = rest,
        .last_length = length,
        .token = rest + length,
    };
    return 0;
}

struct page {
    struct cv_object_list *list;
    size_t prefix_length; /* length of the store's prefix */
    bool is_encoded;      /* keys are percent-encoded */
    bool is_truncated;
    bool is_whole; /* the root element was a list */
    bool is_empty; /* it had no key */
    char *token;
    struct cv_buffer key; /* key of the current object, as received */
    struct cv_object_info info;
    struct cv_buffer last_key; /* last key, decoded, including the store's prefix */
};

/* Decodes encoding-type=url as servers write it: '+' is a blank. */
static void decode(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++) {
        int high = *c == '%' ? cv_hex_digit(c[1]) : -1;
        int low = high >= 0 ? cv_hex_digit(c[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high << 4 | low);
            c += 2;
        } else {
            *to++ = *c == '+' ? ' ' : *c;
        }
    }
    *to = '\0';
}

/* Parses "2026-01-31T12:00:00.123Z". */
static int64_t parse_time(const char *text)
{
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!rest) {
        return 0;
    }
    int64_t ms = (int64_t)timegm(&parts) * 1000;
    int scale = *rest == '.' ? 100 : 0;
    for (const char *digit = rest + 1; scale > 0 && isdigit((unsigned char)*digit); digit++) {
        ms += (*digit - '0') * scale;
        scale /= 10;
    }
    return ms;
}

static void copy_etag(char etag[CV_STORE_ETAG_SIZE], const char *text)
{
    size_t length = strlen(text);
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    (void)snprintf(etag, CV_STORE_ETAG_SIZE, "%.*s", (int)(quoted ? length - 2 : length),
                   quoted ? text + 1 : text);
}

/* Adds an object. Its key is decoded at the end, because EncodingType may follow the objects. */
static int add_object(struct page *page, struct cv_error *error)
{
    return page->key.failed ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a list")
                            : cv_object_list_add(page->list, page->key.data ? page->key.data : "",
                                                 &page->info, error);
}

static int read_element(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct page *page = opaque;
    static const char contents[] = "ListBucketResult/Contents";
    if (strncmp(path, contents, sizeof(contents) - 1) == 0) {
        const char *name = path + sizeof(contents) - 1;
        if (strcmp(name, "/Key") == 0) {
            cv_buffer_clear(&page->key);
            cv_buffer_text(&page->key, text);
        } else if (strcmp(name, "/Size") == 0) {
            if (!cv_parse_int(text, 0, INT64_MAX, &page->info.size)) {
                return cv_fail(error, CV_ERROR_SERVER, "the list has an object without a size");
            }
        } else if (strcmp(name, "/ETag") == 0) {
            copy_etag(page->info.etag, text);
        } else if (strcmp(name, "/LastModified") == 0) {
            page->info.modified_ms = parse_time(text);
        } else if (name[0] == '\0') {
            int result = add_object(page, error);
            page->info = (struct cv_object_info){0};
            return result;
        }
    } else if (strcmp(path, "ListBucketResult/IsTruncated") == 0) {
        page->is_truncated = strcmp(text, "true") == 0;
    } else if (strcmp(path, "ListBucketResult/EncodingType") == 0) {
        page->is_encoded = strcmp(text, "url") == 0;
    } else if (strcmp(path, "ListBucketResult/NextContinuationToken") == 0) {
        free(page->token);
        return cv_format(&page->token, error, "%s", text);
    } else if (strcmp(path, "ListBucketResult") == 0) {
        page->is_whole = true;
    }
    return 0;
}

/* Checks the byte order: each key must follow the one before, across pages, too. */
static int check_order(const char *before, size_t length, const char *key, struct cv_error *error)
{
    size_t own = strlen(key);
    int order = memcmp(before, key, length < own ? length : own);
    if (order < 0 || (order == 0 && length < own)) {
        return 0;
    }
    return cv_fail(error, CV_ERROR_SERVER,
                   "the object store's list goes in circles: after %.*s it shows %s", (int)length,
                   before, key);
}

/* Decodes the keys, removes the store's prefix and drops keys that are not valid in a store. */
static int finish_keys(struct page *page, const struct position *position, struct cv_error *error)
{
    struct cv_object_list *list = page->list;
    size_t kept = 0;
    int result = 0;
    cv_buffer_append(&page->last_key, position->last_key, position->last_length);
    for (size_t i = 0; i < list->count; i++) {
        struct cv_object_entry entry = list->entries[i];
        if (page->is_encoded) {
            decode(entry.key);
        }
        if (result == 0 && page->last_key.length > 0) {
            result = check_order(page->last_key.data, page->last_key.length, entry.key, error);
        }
        cv_buffer_clear(&page->last_key);
        cv_buffer_text(&page->last_key, entry.key);
        struct cv_error ignored;
        bool is_ours = strlen(entry.key) >= page->prefix_length;
        char *key = is_ours ? entry.key + page->prefix_length : entry.key;
        if (!is_ours || cv_store_check_key(key, &ignored)) {
            free(entry.key);
            continue;
        }
        memmove(entry.key, key, strlen(key) + 1);
        list->entries[kept++] = entry;
    }
    page->is_empty = list->count == 0;
    list->count = kept;
    CV_TRY_MEMORY(!page->last_key.failed, error, "a list");
    return result;
}

/* Makes the continuation for the next page; NULL after the last page. */
static int make_continuation(const struct page *page, const struct position *position,
                             char **ret_continuation, struct cv_error *error)
{
    int empty_pages = page->is_empty ? position->empty_pages + 1 : 0;
    bool is_same = position->kind == BY_TOKEN && page->token && page->is_empty &&
                   strcmp(position->token, page->token) == 0;
    if (!page->is_truncated || (!page->token && page->last_key.length == 0)) {
        *ret_continuation = NULL;
        return 0;
    }
    if (page->last_key.length > CV_S3_KEY_ENCODED_MAX) {
        return cv_fail(error, CV_ERROR_SERVER, "the object store's list has a key of %zu bytes",
                       page->last_key.length);
    }
    if (is_same || empty_pages > EMPTY_PAGES_MAX) {
        return cv_fail(error, CV_ERROR_SERVER,
                       is_same ? "the object store's list goes in circles: an empty page says to "
                                 "ask for the same page again"
                               : "the object store's list does not end: %d empty pages in a row",
                       empty_pages);
    }
    return cv_format(ret_continuation, error, "%c%04x%04zx%s%s", page->token ? BY_TOKEN : BY_KEY,
                     (unsigned)empty_pages, page->last_key.length,
                     page->last_key.length > 0 ? page->last_key.data : "",
                     page->token ? page->token : "");
}

static void page_deinit(struct page *page)
{
    free(page->token);
    cv_buffer_deinit(&page->key);
    cv_buffer_deinit(&page->last_key);
}
CV_DEFINE_CLEANUP_ADDRESS(struct page, page_deinit)

static int read_page(struct page *page, const char *text, size_t length, struct cv_error *error)
{
    CV_TRY(cv_s3_xml_read(text, length, read_element, page, error));
    if (!page->is_whole) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the server's answer is not a list");
    }
    return 0;
}

/* Checks an answer: a truncated or damaged list is requested again. */
static int check_page(struct cv_s3_request *request, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    cv_auto(page_deinit) struct page page = {.list = &list};
    return read_page(&page, request->text.data, request->text.length, error);
}

/* Parses where the page starts. */
static int find_position(const char *continuation, const char *start, struct position *ret_position,
                         struct cv_error *error)
{
    *ret_position = (struct position){.last_key = start, .last_length = strlen(start), .token = ""};
    return continuation ? read_position(continuation, ret_position, error) : 0;
}

int cv_s3_list_read(const struct cv_s3_list_answer *answer, struct cv_object_list *ret_list,
                    struct cv_error *error)
{
    struct position position;
    CV_TRY(find_position(answer->continuation, answer->start, &position, error));
    cv_auto(page_deinit) struct page page = {.list = ret_list,
                                             .prefix_length = strlen(answer->store_prefix)};
    CV_TRY(read_page(&page, answer->text, answer->length, error));
    CV_TRY(finish_keys(&page, &position, error));
    return make_continuation(&page, &position, &ret_list->continuation, error);
}

static void ask_for_page(struct cv_s3_request *request, const char *prefix, size_t limit,
                         const struct position *position)
{
    cv_s3_pairs_add(&request->query, "list-type", "2");
    cv_s3_pairs_add(&request->query, "encoding-type", "url");
    cv_s3_pairs_format(&request->query, "max-keys", "%zu", limit);
    cv_s3_pairs_add(&request->query, "prefix", prefix);
    if (position->kind == BY_TOKEN) {
        cv_s3_pairs_add(&request->query, "continuation-token", position->token);
    } else if (position->last_length > 0) {
        cv_s3_pairs_format(&request->query, "start-after", "%.*s", (int)position->last_length,
                           position->last_key);
    }
    request->check = check_page;
}

int cv_s3_list(struct cv_store *store, const struct cv_listing *listing,
               struct cv_object_list *ret_list, struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    const char *own = cv_s3_client_config(client)->prefix;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    cv_auto_free char *start = NULL;
    cv_auto_free char *whole_prefix = NULL;
    struct position position;
    CV_TRY(cv_s3_request_init(&request, client, "GET", NULL, error));
    const char *after = listing->start_after;
    CV_TRY(cv_format(&start, error, "%s%s", after ? own : "", after ? after : ""));
    CV_TRY(cv_format(&whole_prefix, error, "%s%s", own, listing->prefix));
    CV_TRY(find_position(listing->continuation, start, &position, error));
    ask_for_page(&request, whole_prefix, listing->limit, &position);
    CV_TRY(cv_s3_perform(client, &request, error));
    const struct cv_s3_list_answer answer = {
        .text = request.text.data,
        .length = request.text.length,
        .store_prefix = own,
        .start = start,
        .continuation = listing->continuation,
    };
    return cv_s3_list_read(&answer, ret_list, error);
}
