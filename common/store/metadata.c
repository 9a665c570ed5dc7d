#include "common/store/backend.h"

#include <string.h>
#include <utf8proc.h>

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

int cv_store_check_put(const struct cv_put_params *params, struct cv_error *error)
{
    for (const char *c = params->content_type; c && *c; c++) {
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) {
            return cv_fail(error, CV_ERROR_INTERNAL, "content type holds a control character");
        }
    }
    if (params->content_type && strlen(params->content_type) >= CV_STORE_TYPE_SIZE) {
        return cv_fail(error, CV_ERROR_INTERNAL, "content type is longer than %d bytes",
                       CV_STORE_TYPE_SIZE - 1);
    }
    static const struct cv_metadata none = {0};
    const struct cv_metadata *metadata = params->metadata ? params->metadata : &none;
    for (size_t i = 0; i < metadata->count; i++) {
        CV_TRY(check(metadata, metadata->entries[i].name, metadata->entries[i].value, error));
    }
    return 0;
}
