#include "common/store/backend.h"
#include "common/store/keys.h"
#include "common/store/store.h"

#include <openssl/evp.h>
#include <string.h>
#include <utf8proc.h>

int cv_store_list(struct cv_store *store, const struct cv_listing *listing,
                  struct cv_object_list *ret_page, struct cv_error *error)
{
    struct cv_listing given = *listing;
    given.start_after = given.continuation ? NULL : given.start_after;
    given.limit = given.limit > 0 ? given.limit : CV_STORE_PAGE_MAX;
    if (given.limit > CV_STORE_PAGE_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a page of a list has up to %d entries",
                       CV_STORE_PAGE_MAX);
    }
    if (strnlen(given.prefix, CV_STORE_KEY_MAX + 1) > CV_STORE_KEY_MAX ||
        (given.start_after &&
         strnlen(given.start_after, CV_STORE_KEY_MAX + 1) > CV_STORE_KEY_MAX)) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "prefix or start of a list exceeds a key");
    }
    cv_auto(cv_object_list_deinit) struct cv_object_list page = {0};
    CV_TRY(cv_store_judge(store->backend->list(store, &given, &page, error), error));
    *ret_page = page;
    page = (struct cv_object_list){0};
    return 0;
}

void cv_object_list_deinit(struct cv_object_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].key);
    }
    free(list->entries);
    free(list->continuation);
    *list = (struct cv_object_list){0};
}

int cv_object_list_add(struct cv_object_list *list, const char *key,
                       const struct cv_object_info *info, struct cv_error *error)
{
    char *copy = CV_MAKE_ROOM(list->entries, list->count) ? strdup(key) : NULL;
    CV_TRY_MEMORY(copy, error, "a list of objects");
    struct cv_object_entry *entry = &list->entries[list->count++];
    *entry =
        (struct cv_object_entry){.key = copy, .size = info->size, .modified_ms = info->modified_ms};
    memcpy(entry->etag, info->etag, sizeof(entry->etag));
    return 0;
}

/* ---- what users note on an object ---------------------------------------------------------------- */

void cv_metadata_deinit(struct cv_metadata *metadata)
{
    for (size_t i = 0; i < metadata->count; i++) {
        free(metadata->entries[i].name);
        free(metadata->entries[i].value);
    }
    free(metadata->entries);
    *metadata = (struct cv_metadata){0};
}

static struct cv_metadata_entry *find(const struct cv_metadata *metadata, const char *name)
{
    for (size_t i = 0; i < metadata->count; i++) {
        if (strcmp(metadata->entries[i].name, name) == 0) {
            return &metadata->entries[i];
        }
    }
    return NULL;
}

const char *cv_metadata_get(const struct cv_metadata *metadata, const char *name)
{
    const struct cv_metadata_entry *entry = find(metadata, name);
    return entry ? entry->value : NULL;
}

static bool is_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    return length > 0 && length <= CV_STORE_METADATA_NAME_MAX && name[length] == '\0';
}

/* Printable UTF-8; an HTTP header would lose blanks at the ends. */
static bool is_value(const char *value)
{
    size_t length = strlen(value);
    if (length > 0 && (value[0] == ' ' || value[length - 1] == ' ')) {
        return false;
    }
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)value + at,
                                                 (utf8proc_ssize_t)(length - at), &c);
        if (step <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0)) {
            return false;
        }
        at += (size_t)step;
    }
    return true;
}

static size_t total_size(const struct cv_metadata *metadata, const char *except)
{
    size_t total = 0;
    for (size_t i = 0; i < metadata->count; i++) {
        const struct cv_metadata_entry *entry = &metadata->entries[i];
        if (strcmp(entry->name, except) != 0) {
            total += strlen(entry->name) + strlen(entry->value);
        }
    }
    return total;
}

static int check(const struct cv_metadata *metadata, const char *name, const char *value,
                 struct cv_error *error)
{
    if (!is_name(name)) {
        return cv_fail(error, CV_ERROR_CONSTRAINT,
                       "metadata names are 1 to %d of a-z, 0-9, '-' and '_'",
                       CV_STORE_METADATA_NAME_MAX);
    }
    if (!is_value(value)) {
        return cv_fail(
            error, CV_ERROR_CONSTRAINT,
            "the value of metadata %s is not printable UTF-8, or begins or ends with a blank",
            name);
    }
    if (total_size(metadata, name) + strlen(name) + strlen(value) > CV_STORE_METADATA_MAX) {
        return cv_fail(error, CV_ERROR_CONSTRAINT, "metadata of more than %d bytes",
                       CV_STORE_METADATA_MAX);
    }
    return 0;
}

int cv_metadata_set(struct cv_metadata *metadata, const char *name, const char *value,
                    struct cv_error *error)
{
    CV_TRY(check(metadata, name, value, error));
    cv_auto_free char *value_copy = strdup(value);
    cv_auto_free char *name_copy = strdup(name);
    struct cv_metadata_entry *entry = find(metadata, name);
    if (!entry && value_copy && name_copy && CV_MAKE_ROOM(metadata->entries, metadata->count)) {
        entry = &metadata->entries[metadata->count++];
        *entry = (struct cv_metadata_entry){.name = cv_take(name_copy)};
    }
    CV_TRY_MEMORY(entry && value_copy, error, "metadata");
    free(entry->value);
    entry->value = cv_take(value_copy);
    return 0;
}

int cv_store_check_put(const struct cv_new_object *object, struct cv_error *error)
{
    static const struct cv_metadata none = {0};
    const struct cv_metadata *metadata = object->metadata ? object->metadata : &none;
    for (size_t i = 0; i < metadata->count; i++) {
        CV_TRY(check(metadata, metadata->entries[i].name, metadata->entries[i].value, error));
    }
    return 0;
}

/* ---- SHA-256 ------------------------------------------------------------------------------------- */

int cv_sha256_new(struct cv_sha256 **ret_sha256, struct cv_error *error)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(digest);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "cannot compute SHA-256");
    }
    *ret_sha256 = (struct cv_sha256 *)digest;
    return 0;
}

void cv_sha256_free(struct cv_sha256 *sha256)
{
    EVP_MD_CTX_free((EVP_MD_CTX *)sha256);
}

int cv_sha256_add(struct cv_sha256 *sha256, const void *data, size_t size, struct cv_error *error)
{
    return size == 0 || EVP_DigestUpdate((EVP_MD_CTX *)sha256, data, size) == 1
               ? 0
               : cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
}

int cv_sha256_text(struct cv_sha256 *sha256, char text[CV_STORE_SHA256_SIZE],
                   struct cv_error *error)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_DigestFinal_ex((EVP_MD_CTX *)sha256, bytes, &length) != 1) {
        return cv_fail(error, CV_ERROR_INTERNAL, "cannot compute SHA-256");
    }
    cv_hex(bytes, length, text);
    return 0;
}

/* ---- what is kept for some days ------------------------------------------------------------------ */

enum {
    LOG_DAYS = 30,
    OUTPUT_DAYS = 90, /* as long as `cortana jobs archive` leaves a job in the tables */
    DAYS_MAX = 36500, /* a century */
    DAY_MS = 24 * 60 * 60 * 1000,
};

int cv_store_job_log_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_LOG_DAYS", LOG_DAYS, 0, DAYS_MAX, ret_days, error);
}

int cv_store_output_days(int64_t *ret_days, struct cv_error *error)
{
    return cv_env_int("CORTANA_OUTPUT_DAYS", OUTPUT_DAYS, 0, DAYS_MAX, ret_days, error);
}

void cv_store_job_log_key(const char *job_id, char key[CV_STORE_JOB_LOG_KEY_SIZE])
{
    (void)snprintf(key, CV_STORE_JOB_LOG_KEY_SIZE, "%s%s.json", CV_KEYS_JOB_LOGS, job_id);
}

static int remove_old(struct cv_store *store, const struct cv_object_list *page, int64_t before_ms,
                      struct cv_cancel *cancel, int64_t *removed, struct cv_error *error)
{
    for (size_t i = 0; i < page->count && cv_cancel_level(cancel) == CV_CANCEL_NONE; i++) {
        if (page->entries[i].modified_ms < before_ms) {
            CV_TRY(cv_store_delete(store, page->entries[i].key, error));
            ++*removed;
        }
    }
    return 0;
}

int cv_store_expire(struct cv_store *store, const char *prefix, int64_t days,
                    struct cv_cancel *cancel, int64_t *ret_removed, struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    int64_t before_ms = cv_wall_ms() - days * DAY_MS;
    *ret_removed = 0;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list page = {.count = 0};
        const struct cv_listing listing = {.prefix = prefix, .continuation = continuation};
        CV_TRY(cv_store_list(store, &listing, &page, error));
        CV_TRY(remove_old(store, &page, before_ms, cancel, ret_removed, error));
        free(continuation);
        continuation = cv_take(page.continuation);
    } while (continuation && cv_cancel_level(cancel) == CV_CANCEL_NONE);
    return 0;
}
