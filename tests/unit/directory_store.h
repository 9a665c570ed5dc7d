/* A directory store in a new directory, for each test. */
#pragma once

#include "common/store/dir/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

struct fixture {
    char root[64];    /* the test's own directory */
    char objects[96]; /* the store in it */
    struct cv_store *store;
};

static struct cv_error error;

static inline int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    (void)snprintf(fixture->root, sizeof(fixture->root), "/tmp/cv-store-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    (void)snprintf(fixture->objects, sizeof(fixture->objects), "%s/some/objects", fixture->root);
    char url[128];
    (void)snprintf(url, sizeof(url), "dir:%s", fixture->objects);
    assert_int_equal(cv_store_open(url, &fixture->store, &error), 0);
    *state = fixture;
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *status, int type,
                               struct FTW *level)
{
    (void)status;
    (void)type;
    (void)level;
    return remove(path);
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    cv_store_close(fixture->store);
    assert_int_equal(nftw(fixture->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(fixture);
    return 0;
}

static inline int put_bytes(struct cv_store *store, const char *key, const void *data, size_t size)
{
    const struct cv_new_object object = {.key = key, .data = data, .size = size};
    return cv_store_put(store, &object, NULL, &error);
}

static inline void put_text(struct cv_store *store, const char *key, const char *text)
{
    if (put_bytes(store, key, text, strlen(text))) {
        fail_msg("%s: %s", key, error.message);
    }
}

static inline void assert_text(struct cv_store *store, const char *key, const char *expected)
{
    cv_auto_free void *data = NULL;
    size_t size = 0;
    assert_int_equal(cv_store_get(store, key, 1 << 20, &data, &size, &error), 0);
    assert_string_equal(data, expected);
    assert_int_equal(size, strlen(expected));
}

static inline size_t count_objects(struct cv_store *store, const char *prefix)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    assert_int_equal(cv_store_list(store, &(struct cv_listing){.prefix = prefix}, &list, &error),
                     0);
    return list.count;
}

static inline int count_incoming(const struct fixture *fixture)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", fixture->objects, CV_DIRECTORY_INCOMING);
    DIR *stream = opendir(path);
    assert_non_null(stream);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(stream));) {
        count += entry->d_name[0] != '.';
    }
    closedir(stream);
    return count;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
