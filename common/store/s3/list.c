#include "common/store/s3_store.h"
#include "common/store/s3_xml.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

/* A continuation of ours begins with what it is: the server's token, or, where a server says that
 * there is more but not how to ask for it, the last key. */
enum { BY_TOKEN = 'T', BY_KEY = 'K' };

struct page {
    struct cv_object_list *list;
    size_t prefix_length; /* of the store */
    bool is_encoded;      /* keys are percent-encoded */
    bool is_truncated;
    bool is_whole; /* the root element was a list */
    char *token;
    struct cv_buffer key; /* of the object that is being read, as it was sent */
    struct cv_object_info info;
    struct cv_buffer last_key; /* decoded, with the store's prefix */
};

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

/* encoding-type=url, as servers do it: '+' is a blank. */
static void decode(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++) {
        int high = *c == '%' ? hex_digit(c[1]) : -1;
        int low = high >= 0 ? hex_digit(c[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high << 4 | low);
            c += 2;
        } else {
            *to++ = *c == '+' ? ' ' : *c;
        }
    }
    *to = '\0';
}

/* "2026-01-31T12:00:00.123Z" */
static int64_t parse_time(const char *text)
{
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!rest) {
        return 0;
    }
    int64_t ms = (int64_t)timegm(&parts) * 1000;
    double fraction = 0;
    if (*rest == '.') {
        fraction = strtod(rest, NULL);
    }
    return ms + (int64_t)(fraction * 1000 + 0.5);
}

static void copy_etag(char etag[CV_STORE_ETAG_SIZE], const char *text)
{
    size_t length = strlen(text);
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    (void)snprintf(etag, CV_STORE_ETAG_SIZE, "%.*s", (int)(quoted ? length - 2 : length),
                   quoted ? text + 1 : text);
}

/* EncodingType may stand behind the objects, so that keys are decoded at the end. */
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
        return cv_format(&page->token, error, "%c%s", BY_TOKEN, text);
    } else if (strcmp(path, "ListBucketResult") == 0) {
        page->is_whole = true;
    }
    return 0;
}

/* Decodes the keys, takes the store's prefix off and drops what is no key of ours. */
static int finish_keys(struct page *page, struct cv_error *error)
{
    struct cv_object_list *list = page->list;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct cv_object_entry entry = list->entries[i];
        if (page->is_encoded) {
            decode(entry.key);
        }
        if (i + 1 == list->count) {
            cv_buffer_text(&page->last_key, entry.key);
        }
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
    list->count = kept;
    if (page->is_truncated && !page->token && page->last_key.length > 0) {
        return cv_format(&page->token, error, "%c%s", BY_KEY, page->last_key.data);
    }
    return page->last_key.failed ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a list")
                                 : 0;
}

static void page_deinit(struct page *page)
{
    free(page->token);
    cv_buffer_deinit(&page->key);
    cv_buffer_deinit(&page->last_key);
}
CV_DEFINE_CLEANUP_ADDRESS(struct page, page_deinit)

static int read_page(struct page *page, struct cv_s3_request *request, struct cv_error *error)
{
    int result =
        cv_s3_xml_read(request->text.data, request->text.length, read_element, page, error);
    if (result == 0 && !page->is_whole) {
        result = cv_fail(error, CV_ERROR_CONNECTION, "the server's answer is no list");
    }
    return result;
}

/* A list that was cut short or mangled is asked for again. */
static int check_page(struct cv_s3_request *request, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    cv_auto(page_deinit) struct page page = {.list = &list};
    return read_page(&page, request, error);
}

int cv_s3_list(struct cv_store *store, const char *prefix, const char *start_after,
               const char *continuation, size_t limit, struct cv_object_list *ret_list,
               struct cv_error *error)
{
    struct cv_s3_client *client = cv_s3_of(store)->client;
    const char *own = cv_s3_client_config(client)->prefix;
    cv_auto(cv_s3_request_deinit) struct cv_s3_request request;
    int result = cv_s3_request_init(&request, client, "GET", NULL, error);
    if (result) {
        return result;
    }
    cv_s3_pairs_add(&request.query, "list-type", "2");
    cv_s3_pairs_add(&request.query, "encoding-type", "url");
    cv_s3_pairs_format(&request.query, "max-keys", "%zu", limit);
    cv_s3_pairs_format(&request.query, "prefix", "%s%s", own, prefix);
    if (continuation && continuation[0] == BY_TOKEN) {
        cv_s3_pairs_add(&request.query, "continuation-token", continuation + 1);
    } else if (continuation && continuation[0]) {
        cv_s3_pairs_add(&request.query, "start-after", continuation + 1);
    } else if (start_after) {
        cv_s3_pairs_format(&request.query, "start-after", "%s%s", own, start_after);
    }
    request.check = check_page;
    result = cv_s3_perform(client, &request, error);
    cv_auto(page_deinit) struct page page = {.list = ret_list, .prefix_length = strlen(own)};
    result = result ? result : read_page(&page, &request, error);
    result = result ? result : finish_keys(&page, error);
    if (result == 0 && page.is_truncated) {
        ret_list->continuation = cv_take(page.token);
    }
    return result;
}
