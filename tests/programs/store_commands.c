/* The store's calls for the system tests: each line of standard input is one call as a JSON object
 * ({"do": "put", "key": …}), each line of standard output its outcome. STORE_URL says which store.
 *
 *   head get range put put_file delete delete_many copy move list presign bucket
 *   upload download        many puts, many gets at once
 *   open read close        a reader; `read` answers with the bytes' SHA-256
 *
 * Outcomes: {"result": 0 or an outcome, …} or {"error": type, "retryable": …, "message": …}. */
#include "common/base/base.h"
#include "common/store/store.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <string.h>

enum { KEYS_MAX = 4096 };

static struct cv_store *store;
static struct cv_store_reader *reader;

static const char *text_of(const json_t *call, const char *name)
{
    return json_string_value(json_object_get(call, name));
}

static int64_t number_of(const json_t *call, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(call, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static void to_hex(const unsigned char *bytes, char hex[65])
{
    for (int i = 0; i < 32; i++) {
        (void)snprintf(hex + (size_t)i * 2, 3, "%02x", bytes[i]);
    }
}

static void add_info(json_t *answer, const struct cv_object_info *info)
{
    json_object_set_new(answer, "size", json_integer(info->size));
    json_object_set_new(answer, "modified_ms", json_integer(info->modified_ms));
    json_object_set_new(answer, "etag", json_string(info->etag));
    json_object_set_new(answer, "sha256", json_string(info->sha256));
}

static void add_bytes(json_t *answer, const void *data, size_t size)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    char hex[65] = "";
    if (EVP_Digest(data, size, bytes, NULL, EVP_sha256(), NULL) == 1) {
        to_hex(bytes, hex);
    }
    json_object_set_new(answer, "size", json_integer((json_int_t)size));
    json_object_set_new(answer, "sha256", json_string(hex));
    json_t *text = size <= 4096 ? json_stringn(data, size) : NULL;
    if (text) {
        json_object_set_new(answer, "text", text);
    }
}

static int call_head(const json_t *call, json_t *answer, struct cv_error *error)
{
    struct cv_object_info info;
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    int result = cv_store_head_metadata(store, text_of(call, "key"), &info, &metadata, error);
    if (result == 0) {
        add_info(answer, &info);
        json_t *notes = json_object();
        for (size_t i = 0; i < metadata.count; i++) {
            json_object_set_new(notes, metadata.entries[i].name,
                                json_string(metadata.entries[i].value));
        }
        json_object_set_new(answer, "metadata", notes);
    }
    return result;
}

static int call_get(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    int result = cv_store_get(store, text_of(call, "key"),
                              (size_t)number_of(call, "limit", 64 << 20), &data, &size, error);
    if (result == 0) {
        add_bytes(answer, data, size);
    }
    return result;
}

static int call_range(const json_t *call, json_t *answer, struct cv_error *error)
{
    size_t length = (size_t)number_of(call, "length", 1);
    cv_auto_free char *data = malloc(length + 1);
    size_t read = 0;
    int result = cv_store_get_range(store, text_of(call, "key"), number_of(call, "offset", 0), data,
                                    length, &read, error);
    if (result == 0) {
        add_bytes(answer, data, read);
    }
    return result;
}

static int call_put(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(call, "metadata"), name, value)
    {
        int result = cv_metadata_set(&metadata, name, json_string_value(value), error);
        if (result) {
            return result;
        }
    }
    const char *path = text_of(call, "path");
    const char *text = text_of(call, "text");
    const struct cv_new_object object = {
        .key = text_of(call, "key"),
        .data = text,
        .size = text ? strlen(text) : 0,
        .path = path,
        .sha256 = text_of(call, "expect_sha256"),
        .metadata = &metadata,
    };
    struct cv_object_info info;
    int result = cv_store_put(store, &object, &info, error);
    if (result == 0) {
        add_info(answer, &info);
    }
    return result;
}

static int call_delete(const json_t *call, json_t *answer, struct cv_error *error)
{
    (void)answer;
    return cv_store_delete(store, text_of(call, "key"), error);
}

static int call_delete_many(const json_t *call, json_t *answer, struct cv_error *error)
{
    (void)answer;
    static const char *keys[KEYS_MAX];
    const json_t *list = json_object_get(call, "keys");
    size_t count = json_array_size(list) < KEYS_MAX ? json_array_size(list) : KEYS_MAX;
    for (size_t i = 0; i < count; i++) {
        keys[i] = json_string_value(json_array_get(list, i));
    }
    return cv_store_delete_many(store, keys, count, error);
}

static int call_move(const json_t *call, json_t *answer, struct cv_error *error)
{
    struct cv_object_info info;
    const struct cv_object_move move = {text_of(call, "from"), text_of(call, "to"),
                                        text_of(call, "if_etag")};
    int result = cv_store_move(store, &move, &info, error);
    if (result == 0) {
        add_info(answer, &info);
    }
    return result;
}

static int call_list(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    const char *prefix = text_of(call, "prefix");
    const struct cv_listing listing = {
        .prefix = prefix ? prefix : "",
        .start_after = text_of(call, "start_after"),
        .continuation = text_of(call, "continuation"),
        .limit = (size_t)number_of(call, "limit", 1000),
    };
    int result = cv_store_list(store, &listing, &list, error);
    if (result) {
        return result;
    }
    json_t *entries = json_array();
    for (size_t i = 0; i < list.count; i++) {
        const struct cv_object_entry *entry = &list.entries[i];
        json_array_append_new(entries,
                              json_pack("{s:s, s:I, s:I, s:s}", "key", entry->key, "size",
                                        (json_int_t)entry->size, "modified_ms",
                                        (json_int_t)entry->modified_ms, "etag", entry->etag));
    }
    json_object_set_new(answer, "entries", entries);
    json_object_set_new(answer, "continuation",
                        list.continuation ? json_string(list.continuation) : json_null());
    return 0;
}

static int note_stored(void *opaque, const char *key, const struct cv_object_info *info,
                       struct cv_error *error)
{
    (void)error;
    return json_array_append_new(opaque, json_pack("[s, I]", key, (json_int_t)info->size));
}

/* {"prefix", "count", "size"}: that many objects at once; or {"path"}: a file under "prefix". */
static int call_upload(const json_t *call, json_t *answer, struct cv_error *error)
{
    json_t *stored = json_array();
    json_object_set_new(answer, "stored", stored);
    cv_auto(cv_uploads_free) struct cv_uploads *uploads = NULL;
    int result = cv_uploads_new(store, note_stored, stored, &uploads, error);
    size_t size = (size_t)number_of(call, "size", 1000);
    for (int i = 0; result == 0 && i < number_of(call, "count", 0); i++) {
        char key[256];
        (void)snprintf(key, sizeof(key), "%s%04d", text_of(call, "prefix"), i);
        char *data = malloc(size + 1);
        if (data) {
            memset(data, 'a' + i % 26, size);
        }
        const struct cv_new_object object = {.key = key, .data = data, .size = size};
        result = cv_uploads_put(uploads, &object, error);
    }
    if (result == 0 && text_of(call, "path")) {
        const struct cv_new_object object = {.key = text_of(call, "prefix"),
                                             .path = text_of(call, "path")};
        result = cv_uploads_put(uploads, &object, error);
    }
    struct cv_error other;
    int waited = uploads ? cv_uploads_wait(uploads, &other) : 0;
    if (result == 0 && waited < 0) {
        *error = other;
        result = waited;
    }
    return result;
}

/* {"keys", "limit", "wanted"}: the first `wanted` of many gets at once, as {"found": [{"sha256", …},
 * {"error"} or null for what is missing]}. */
static int call_download(const json_t *call, json_t *answer, struct cv_error *error)
{
    const char *keys[KEYS_MAX];
    const json_t *list = json_object_get(call, "keys");
    size_t count = json_array_size(list) < KEYS_MAX ? json_array_size(list) : KEYS_MAX;
    for (size_t i = 0; i < count; i++) {
        keys[i] = json_string_value(json_array_get(list, i));
    }
    cv_auto(cv_downloads_free) struct cv_downloads *downloads = NULL;
    json_t *found = json_array();
    json_object_set_new(answer, "found", found);
    int result = cv_downloads_new(store, keys, count, (size_t)number_of(call, "limit", 64 << 20),
                                  &downloads, error);
    for (int64_t i = 0; result == 0 && i < number_of(call, "wanted", (int64_t)count); i++) {
        cv_auto_free void *data = NULL;
        size_t size = 0;
        struct cv_error other;
        int got = cv_downloads_next(downloads, &data, &size, &other);
        json_t *one = got > 0 ? json_null() : json_object();
        if (got == 0) {
            add_bytes(one, data, size);
        } else if (got < 0) {
            json_object_set_new(one, "error", json_string(cv_error_type_name(other.type)));
        }
        json_array_append_new(found, one);
    }
    return result;
}

static int call_presign(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_auto_free char *url = NULL;
    const struct cv_signed_url allowed = {
        .key = text_of(call, "key"),
        .method = text_of(call, "method"),
        .seconds = number_of(call, "seconds", 60),
    };
    int result = cv_store_presign(store, &allowed, &url, error);
    if (result == 0) {
        json_object_set_new(answer, "url", json_string(url));
    }
    return result;
}

static int call_bucket(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_auto(cv_bucket_answer_deinit) struct cv_bucket_answer given = {0};
    const struct cv_bucket_request request = {text_of(call, "method"), text_of(call, "subresource"),
                                              text_of(call, "body")};
    int result = cv_store_bucket_request(store, &request, &given, error);
    if (result == 0) {
        json_object_set_new(answer, "status", json_integer(given.status));
        json_object_set_new(answer, "body", json_string(given.text));
    }
    return result;
}

static int call_open(const json_t *call, json_t *answer, struct cv_error *error)
{
    cv_store_reader_close(reader);
    reader = NULL;
    int result = cv_store_reader_open(store, text_of(call, "key"), &reader, error);
    if (result == 0) {
        add_info(answer, cv_store_reader_info(reader));
    }
    return result;
}

/* {"offset", "length", "step"}: reads from offset on, step bytes at a time, and keeps none. */
static int call_read(const json_t *call, json_t *answer, struct cv_error *error)
{
    int64_t offset = number_of(call, "offset", 0);
    size_t length = (size_t)number_of(call, "length", 1);
    size_t step = (size_t)number_of(call, "step", 1 << 20);
    cv_auto_free char *data = malloc(step);
    EVP_MD_CTX *whole = EVP_MD_CTX_new();
    int result = data && whole && EVP_DigestInit_ex(whole, EVP_sha256(), NULL) == 1 ? 0 : -1;
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t done = 0;
    for (size_t read = 1; result == 0 && read > 0 && done < length; done += read) {
        size_t wanted = length - done < step ? length - done : step;
        result = source.read(source.opaque, offset + (int64_t)done, data, wanted, &read, error);
        if (result == 0 && EVP_DigestUpdate(whole, data, read) != 1) {
            result = -1;
        }
    }
    unsigned char bytes[EVP_MAX_MD_SIZE];
    if (result == 0 && EVP_DigestFinal_ex(whole, bytes, NULL) == 1) {
        char hex[65];
        to_hex(bytes, hex);
        json_object_set_new(answer, "size", json_integer((json_int_t)done));
        json_object_set_new(answer, "sha256", json_string(hex));
    }
    EVP_MD_CTX_free(whole);
    return result;
}

/* Not getrusage: its figure includes the process that started this one. */
static int64_t peak_kib(void)
{
    cv_auto_file FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long peak = 0;
    while (file && fgets(line, sizeof(line), file)) {
        (void)sscanf(line, "VmHWM: %lld kB", &peak);
    }
    return peak;
}

static int call_close(const json_t *call, json_t *answer, struct cv_error *error)
{
    (void)call;
    (void)error;
    cv_store_reader_close(reader);
    reader = NULL;
    json_object_set_new(answer, "peak_kib", json_integer(peak_kib()));
    return 0;
}

static const struct {
    const char *name;
    int (*function)(const json_t *call, json_t *answer, struct cv_error *error);
} calls[] = {
    {"head", call_head},         {"get", call_get},         {"range", call_range},
    {"put", call_put},           {"delete", call_delete},   {"delete_many", call_delete_many},
    {"move", call_move},         {"list", call_list},       {"upload", call_upload},
    {"download", call_download}, {"presign", call_presign}, {"bucket", call_bucket},
    {"open", call_open},         {"read", call_read},       {"close", call_close},
};

static int do_call(const json_t *call, json_t *answer, struct cv_error *error)
{
    const char *name = text_of(call, "do");
    for (size_t i = 0; name && i < CV_COUNT(calls); i++) {
        if (strcmp(calls[i].name, name) == 0) {
            return calls[i].function(call, answer, error);
        }
    }
    return cv_fail(error, CV_ERROR_INTERNAL, "no such call: %s", name ? name : "none");
}

static void answer_line(const char *line)
{
    struct cv_error error;
    cv_auto(json_decref) json_t *call = json_loads(line, 0, NULL);
    cv_auto(json_decref) json_t *answer = json_object();
    int result = do_call(call, answer, &error);
    if (result < 0) {
        json_object_set_new(answer, "error", json_string(cv_error_type_name(error.type)));
        json_object_set_new(answer, "retryable", json_boolean(error.verdict == CV_VERDICT_RETRY));
        json_object_set_new(answer, "message", json_string(error.message));
    } else {
        json_object_set_new(answer, "result", json_integer(result));
    }
    (void)json_dumpf(answer, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
}

int main(void)
{
    struct cv_error error;
    if (cv_store_open(NULL, &store, &error)) {
        cv_log_error(&error, "open the store");
        return CV_EXIT_STOP;
    }
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        answer_line(line);
    }
    free(line);
    cv_store_reader_close(reader);
    cv_store_close(store);
    return 0;
}
