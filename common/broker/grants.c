#include "common/broker/broker.h"

#include <string.h>

/* Appends a member of the payload, or of an object of a list, as one segment of a key. */
static bool append_member(struct cv_buffer *text, const json_t *payload, size_t index,
                          const char *name, size_t length)
{
    char member[64];
    if (length >= sizeof(member)) {
        return false;
    }
    memcpy(member, name, length);
    member[length] = '\0';
    char *dot = strchr(member, '.');
    if (dot) {
        *dot = '\0';
        payload = json_array_get(json_object_get(payload, member), index);
    }
    const json_t *value = json_object_get(payload, dot ? dot + 1 : member);
    const char *segment = json_string_value(value);
    struct cv_error ignored;
    if (!segment || strlen(segment) != json_string_length(value) || strpbrk(segment, "/*") ||
        cv_store_check_key(segment, &ignored) < 0) {
        return false;
    }
    cv_buffer_text(text, segment);
    return true;
}

static bool expand(const char *keys, const json_t *payload, size_t index, struct cv_buffer *text)
{
    for (const char *at = keys; *at;) {
        size_t plain = strcspn(at, "{");
        cv_buffer_append(text, at, plain);
        at += plain;
        if (*at == '{') {
            size_t length = strcspn(at + 1, "}");
            if (!append_member(text, payload, index, at + 1, length)) {
                return false;
            }
            at += length + 2;
        }
    }
    return true;
}

/* How many patterns a grant becomes: one, or as many as the list has objects that it names. */
static size_t count_patterns(const char *keys, const json_t *payload)
{
    char list[64];
    size_t before = strcspn(keys, "{"), length = strcspn(keys + before, ".}");
    if (keys[before + length] != '.' || length < 1 || length >= sizeof(list)) {
        return 1;
    }
    (void)snprintf(list, sizeof(list), "%.*s", (int)length - 1, keys + before + 1);
    return json_array_size(json_object_get(payload, list));
}

static int append_grants(json_t *grants, const struct cv_grant *grant, const json_t *payload,
                         struct cv_error *error)
{
    size_t count = count_patterns(grant->keys, payload);
    for (size_t i = 0; i < count; i++) {
        cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
        if (expand(grant->keys, payload, i, &text) &&
            (text.failed || !cv_grants_allow(grants, grant->access, text.data))) {
            CV_TRY_MEMORY(!text.failed &&
                              json_array_append_new(
                                  grants, json_pack("[i, s]", (int)grant->access, text.data)) == 0,
                          error, "a job's grants");
        }
    }
    return 0;
}

int cv_grants_make(const struct cv_grant *table, const json_t *payload, json_t **ret_grants,
                   struct cv_error *error)
{
    cv_auto(json_decref) json_t *grants = json_array();
    CV_TRY_MEMORY(grants, error, "a job's grants");
    for (const struct cv_grant *grant = table; grant && grant->access; grant++) {
        CV_TRY(append_grants(grants, grant, payload, error));
    }
    *ret_grants = cv_take(grants);
    return 0;
}

/* The pattern of the grant at `index` if it allows all of `access`; else NULL. */
static const char *pattern_of(const json_t *grants, size_t index, unsigned access)
{
    const json_t *grant = json_array_get(grants, index);
    unsigned given = (unsigned)json_integer_value(json_array_get(grant, 0));
    return (given & access) == access ? json_string_value(json_array_get(grant, 1)) : NULL;
}

static bool matches(const char *pattern, const char *key)
{
    const char *star = strchr(pattern, '*');
    if (!star) {
        return strcmp(pattern, key) == 0;
    }
    size_t before = (size_t)(star - pattern), behind = strlen(star + 1), length = strlen(key);
    return length >= before + behind && strncmp(pattern, key, before) == 0 &&
           strcmp(star + 1, key + length - behind) == 0;
}

bool cv_grants_allow(const json_t *grants, unsigned access, const char *key)
{
    for (size_t i = 0; i < json_array_size(grants); i++) {
        const char *pattern = pattern_of(grants, i, access);
        if (pattern && matches(pattern, key)) {
            return true;
        }
    }
    return false;
}

bool cv_grants_allow_list(const json_t *grants, const char *prefix)
{
    for (size_t i = 0; i < json_array_size(grants); i++) {
        const char *pattern = pattern_of(grants, i, CV_GRANT_READ);
        size_t length = pattern ? strlen(pattern) : 0;
        if (length > 0 && pattern[length - 1] == '*' && strncmp(pattern, prefix, length - 1) == 0) {
            return true;
        }
    }
    return false;
}
