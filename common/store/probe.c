#include "common/store/backend.h"

#include <string.h>
#include <sys/random.h>

enum {
    LEFT_MS = 60 * 60 *
              1000, /* a probe takes seconds: what is older was left by a process that was killed */
    LEFT_MAX = 100, /* objects that one probe removes at most */
};

/* The reason of a refusal stands in the answer's text, so that nothing is asked for by a HEAD. */
static int look(struct cv_store *store, struct cv_object_list *list, struct cv_error *error)
{
    int result = store->backend->check_place ? store->backend->check_place(store, error) : 0;
    result = cv_store_judge(result, error);
    return result ? result : cv_store_list(store, CV_KEYS_PROBES, NULL, LEFT_MAX, list, error);
}

static int remove_left(struct cv_store *store, const struct cv_object_list *list,
                       struct cv_error *error)
{
    int64_t left_ms = cv_wall_ms() - LEFT_MS;
    int result = 0;
    for (size_t i = 0; result == 0 && i < list->count; i++) {
        const struct cv_object_entry *entry = &list->entries[i];
        result = entry->modified_ms < left_ms ? cv_store_delete(store, entry->key, error) : 0;
    }
    return result;
}

static int write_and_read(struct cv_store *store, const char *key, const char *text,
                          struct cv_error *error)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    CV_TRY(cv_store_put(store, key, text, strlen(text), NULL, NULL, error));
    int result = cv_store_get(store, key, strlen(text), &data, &size, error);
    if (result == CV_STORE_NOT_FOUND ||
        (result == 0 && (size != strlen(text) || memcmp(data, text, size) != 0))) {
        result = cv_fail(error, CV_ERROR_SERVER, "%s does not give back what was put into it",
                         cv_store_name(store));
        result = cv_store_judge(result, error);
    }
    return result;
}

int cv_store_probe(struct cv_store *store, enum cv_store_access access, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    int result = look(store, &list, error);
    if (result || access == CV_STORE_READ) {
        return result;
    }
    uint64_t random = 0;
    char key[sizeof(CV_KEYS_PROBES) + 16];
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return cv_fail_errno(error, errno, "make a key for a probe of the store");
    }
    (void)snprintf(key, sizeof(key), CV_KEYS_PROBES "%016llx", (unsigned long long)random);
    result = write_and_read(store, key, key, error);
    struct cv_error other;
    int deleted = cv_store_delete(store, key, &other);
    if (result == 0 && deleted) {
        *error = other;
        result = deleted;
    }
    return result ? result : remove_left(store, &list, error);
}
