#include "tests/unit/directory_store.h"

enum { BIG = 8 << 20 };

static int put_file(struct cv_store *store, const char *key, const char *path)
{
    const struct cv_new_object object = {.key = key, .path = path};
    return cv_store_put(store, &object, NULL, &error);
}

static int list_page(struct cv_store *store, struct cv_listing listing, struct cv_object_list *list)
{
    return cv_store_list(store, &listing, list, &error);
}

static void test_keys_that_break_the_rules_are_refused(void **state)
{
    struct fixture *fixture = *state;
    char longest[CV_STORE_KEY_MAX + 1], too_long[CV_STORE_KEY_MAX + 2];
    memset(longest, 'k', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memset(too_long, 'k', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    assert_int_equal(cv_store_check_key(longest, &error), 0);

    const char *const hostile[] = {
        "",      "/",         "/etc/passwd", "..",       "../x",         "a/../b",
        "a/..",  "./a",       "a/.",         "a//b",     "a/",           "/a",
        "a\nb",  "a\x7f",     "a\x01",       "\xc2\x85", "\xff",         "a\xc0\xaf..",
        longest, ".incoming", ".incoming/x", too_long,   "a\xed\xa0\x80"};
    for (size_t i = 0; i < CV_COUNT(hostile); i++) {
        assert_int_equal(put_bytes(fixture->store, hostile[i], "x", 1), -1);
        assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
        assert_int_equal(cv_store_head(fixture->store, hostile[i], NULL, &error), -1);
        assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
        assert_int_equal(cv_store_delete(fixture->store, hostile[i], &error), -1);
        struct cv_store_reader *reader = NULL;
        assert_int_equal(cv_store_reader_open(fixture->store, hostile[i], &reader, &error), -1);
    }
    static const char *const strange[] = {
        "...", "a b", "..a/b..", "%2e%2e/x", "\xc3\xa9/\xe2\x82\xac", "-rf", "a\\b", ".hidden"};
    for (size_t i = 0; i < CV_COUNT(strange); i++) {
        put_text(fixture->store, strange[i], strange[i]);
        assert_text(fixture->store, strange[i], strange[i]);
    }
}

static void test_key_of_many_segments_works(void **state)
{
    struct fixture *fixture = *state;
    char key[CV_STORE_KEY_MAX + 1];
    for (size_t i = 0; i < CV_STORE_KEY_MAX - 1; i += 2) {
        key[i] = 'd';
        key[i + 1] = '/';
    }
    key[CV_STORE_KEY_MAX - 1] = '\0';
    put_text(fixture->store, key, "deep");
    assert_text(fixture->store, key, "deep");
    struct cv_object_list list;
    assert_int_equal(list_page(fixture->store, (struct cv_listing){.prefix = ""}, &list), 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.entries[0].key, key);
    cv_object_list_deinit(&list);
    assert_int_equal(cv_store_delete(fixture->store, key, &error), 0);
    char first[160];
    (void)snprintf(first, sizeof(first), "%s/d", fixture->objects);
    assert_int_equal(access(first, F_OK), -1);
}

static void test_links_are_not_followed(void **state)
{
    struct fixture *fixture = *state;
    char outside[128];
    char link[160];
    (void)snprintf(outside, sizeof(outside), "%s/outside", fixture->root);
    assert_int_equal(mkdir(outside, 0700), 0);
    char secret[160];
    (void)snprintf(secret, sizeof(secret), "%s/secret", outside);
    cv_auto_file FILE *file = fopen(secret, "w");
    assert_non_null(file);
    (void)snprintf(link, sizeof(link), "%s/way", fixture->objects);
    assert_int_equal(symlink(outside, link), 0);
    (void)snprintf(link, sizeof(link), "%s/file", fixture->objects);
    assert_int_equal(symlink(secret, link), 0);
    (void)snprintf(link, sizeof(link), "%s/pipe", fixture->objects);
    assert_int_equal(mkfifo(link, 0600), 0);

    assert_int_equal(cv_store_head(fixture->store, "way/secret", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(cv_store_head(fixture->store, "file", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(cv_store_head(fixture->store, "pipe", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(put_bytes(fixture->store, "way/new", "x", 1), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(cv_store_delete(fixture->store, "way/secret", &error), 0);
    assert_int_equal(access(secret, F_OK), 0);
    assert_int_equal(count_objects(fixture->store, ""), 0);

    put_text(fixture->store, "file", "an object in place of the link");
    assert_int_equal(lstat(secret, &(struct stat){0}), 0);
    assert_text(fixture->store, "file", "an object in place of the link");
}

static void test_object_and_directory_of_one_name_are_refused(void **state)
{
    struct fixture *fixture = *state;
    put_text(fixture->store, "a/b", "x");
    assert_int_equal(put_bytes(fixture->store, "a", "x", 1), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(put_bytes(fixture->store, "a/b/c", "x", 1), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(cv_store_head(fixture->store, "a", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(cv_store_head(fixture->store, "a/b/c", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(count_incoming(fixture), 0);
}

static void test_info_digest_and_etag(void **state)
{
    struct fixture *fixture = *state;
    static const char digest[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct cv_object_info first;
    struct cv_new_object object = {.key = "v/a.mp4", .data = "abc", .size = 3, .sha256 = digest};
    assert_int_equal(cv_store_put(fixture->store, &object, &first, &error), 0);
    assert_int_equal(first.size, 3);
    assert_string_equal(first.sha256, digest);
    struct cv_object_info again;
    assert_int_equal(cv_store_head(fixture->store, "v/a.mp4", &again, &error), 0);
    assert_memory_equal(&first, &again, sizeof(first));

    put_text(fixture->store, "v/a.mp4", "abd");
    assert_int_equal(cv_store_head(fixture->store, "v/a.mp4", &again, &error), 0);
    assert_string_not_equal(first.etag, again.etag);

    object.sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
    object.data = "zzz";
    assert_int_equal(cv_store_put(fixture->store, &object, NULL, &error), -1);
    assert_int_equal(error.type, CV_ERROR_CONFLICT);
    assert_text(fixture->store, "v/a.mp4", "abd");
    assert_int_equal(count_incoming(fixture), 0);
}

static void test_digest_is_dropped_when_the_file_was_edited(void **state)
{
    struct fixture *fixture = *state;
    struct cv_object_info before;
    put_text(fixture->store, "k", "abc");
    assert_int_equal(cv_store_head(fixture->store, "k", &before, &error), 0);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/k", fixture->objects);
    cv_auto_fd int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "d", 1), 1);
    struct cv_object_info after;
    assert_int_equal(cv_store_head(fixture->store, "k", &after, &error), 0);
    assert_string_equal(after.sha256, "");
    assert_string_not_equal(before.etag, after.etag);
}

static void test_big_and_empty_objects_and_ranges(void **state)
{
    struct fixture *fixture = *state;
    cv_auto_free unsigned char *data = malloc(BIG);
    assert_non_null(data);
    for (size_t i = 0; i < BIG; i++) {
        data[i] = (unsigned char)(i * 2654435761U >> 13);
    }
    assert_int_equal(put_bytes(fixture->store, "big", data, BIG), 0);
    unsigned char part[1000];
    size_t read = 0;
    assert_int_equal(
        cv_store_get_range(fixture->store, "big", 1234567, part, sizeof(part), &read, &error), 0);
    assert_int_equal(read, sizeof(part));
    assert_memory_equal(part, data + 1234567, sizeof(part));
    assert_int_equal(
        cv_store_get_range(fixture->store, "big", BIG - 10, part, sizeof(part), &read, &error), 0);
    assert_int_equal(read, 10);
    assert_int_equal(
        cv_store_get_range(fixture->store, "big", (int64_t)BIG + 7, part, 5, &read, &error), 0);
    assert_int_equal(read, 0);
    assert_int_equal(cv_store_get_range(fixture->store, "big", -1, part, 5, &read, &error), -1);

    void *whole = NULL;
    size_t size = 0;
    assert_int_equal(cv_store_get(fixture->store, "big", BIG - 1, &whole, &size, &error), -1);
    assert_int_equal(error.type, CV_ERROR_LIMIT_EXCEEDED);
    assert_int_equal(cv_store_get(fixture->store, "big", BIG, &whole, &size, &error), 0);
    assert_memory_equal(whole, data, BIG);
    free(whole);

    char path[160];
    (void)snprintf(path, sizeof(path), "%s/big", fixture->objects);
    assert_int_equal(put_file(fixture->store, "copy", path), 0);
    struct cv_object_info one, other;
    assert_int_equal(cv_store_head(fixture->store, "big", &one, &error), 0);
    assert_int_equal(cv_store_head(fixture->store, "copy", &other, &error), 0);
    assert_string_equal(one.sha256, other.sha256);

    put_text(fixture->store, "empty", "");
    assert_text(fixture->store, "empty", "");
    assert_int_equal(put_file(fixture->store, "x", "/nonexistent"), -1);
    assert_int_equal(error.type, CV_ERROR_IO);
    assert_int_equal(put_file(fixture->store, "x", "/"), -1);
    assert_int_equal(cv_store_get(fixture->store, "none", 1, &whole, &size, &error),
                     CV_STORE_NOT_FOUND);
}

static void test_reader_keeps_the_object_it_opened(void **state)
{
    struct fixture *fixture = *state;
    put_text(fixture->store, "k", "the first text");
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    assert_int_equal(cv_store_reader_open(fixture->store, "k", &reader, &error), 0);
    put_text(fixture->store, "k", "a second, longer text");
    assert_int_equal(cv_store_delete(fixture->store, "k", &error), 0);
    struct cv_byte_source source = cv_store_reader_source(reader);
    assert_int_equal(source.size, 14);
    assert_int_equal(cv_store_reader_info(reader)->size, 14);
    char text[32] = "";
    size_t read = 0;
    assert_int_equal(source.read(source.opaque, 4, text, sizeof(text), &read, &error), 0);
    assert_int_equal(read, 10);
    assert_string_equal(text, "first text");
}

/* In byte order; '-' and '.' stand before '/', '0' behind it. */
static const char *const listed[] = {
    "A",  "a-b",   "a.txt", "a/b-c",         "a/b/1",        "a/b/2",   "a/b0",      "a/c",
    "a0", "b/x/y", "b/xz",  "frames/10.jpg", "frames/2.jpg", "frames2", "\xc3\xa9t", "\xe2\x82\xac",
};

static void put_listed(struct cv_store *store)
{
    for (size_t i = CV_COUNT(listed); i-- > 0;) {
        put_text(store, listed[i], "x");
    }
}

static void test_list_is_in_byte_order_page_by_page(void **state)
{
    struct cv_store *store = ((struct fixture *)*state)->store;
    put_listed(store);
    for (size_t limit = 1; limit <= CV_COUNT(listed) + 1; limit++) {
        size_t at = 0;
        cv_auto_free char *continuation = NULL;
        do {
            struct cv_object_list list;
            assert_int_equal(
                list_page(
                    store,
                    (struct cv_listing){.prefix = "", .continuation = continuation, .limit = limit},
                    &list),
                0);
            assert_true(list.count <= limit);
            for (size_t i = 0; i < list.count; i++) {
                assert_string_equal(list.entries[i].key, listed[at++]);
                assert_int_equal(list.entries[i].size, 1);
            }
            free(continuation);
            continuation = cv_take(list.continuation);
            cv_object_list_deinit(&list);
        } while (continuation);
        assert_int_equal(at, CV_COUNT(listed));
    }
}

static void test_list_by_prefix(void **state)
{
    struct cv_store *store = ((struct fixture *)*state)->store;
    put_listed(store);
    static const struct {
        const char *prefix, *after;
        size_t count;
    } cases[] = {
        {"a/", NULL, 5},  {"a/b", NULL, 4},     {"a", NULL, 8},  {"frames/", NULL, 2},
        {"zzz", NULL, 0}, {"a/b/", "a/b/1", 1}, {"", "a/b", 13}, {"", "a/", 13},
        {"../", NULL, 0}, {"/", NULL, 0},
    };
    for (size_t i = 0; i < CV_COUNT(cases); i++) {
        struct cv_object_list list;
        assert_int_equal(list_page(store,
                                   (struct cv_listing){.prefix = cases[i].prefix,
                                                       .continuation = cases[i].after},
                                   &list),
                         0);
        assert_int_equal(list.count, cases[i].count);
        assert_null(list.continuation);
        cv_object_list_deinit(&list);
    }
    struct cv_object_list list;
    assert_int_equal(
        list_page(store, (struct cv_listing){.prefix = "a/", .start_after = "a/b/1", .limit = 2},
                  &list),
        0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.entries[0].key, "a/b/2");
    struct cv_object_info info;
    assert_int_equal(cv_store_head(store, "a/b/2", &info, &error), 0);
    assert_string_equal(list.entries[0].etag, info.etag);
    assert_int_equal(list.entries[0].modified_ms, info.modified_ms);
    assert_non_null(list.continuation);
    cv_object_list_deinit(&list);
    assert_int_equal(list_page(store, (struct cv_listing){.prefix = "", .limit = 1001}, &list), -1);
}

static void test_metadata_is_kept(void **state)
{
    struct fixture *fixture = *state;
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    assert_int_equal(cv_metadata_set(&metadata, "owner-id", "someone", &error), 0);
    assert_int_equal(cv_metadata_set(&metadata, "title", "caf\xc3\xa9, 2nd take", &error), 0);
    assert_int_equal(cv_metadata_set(&metadata, "owner-id", "me", &error), 0);
    assert_int_equal(metadata.count, 2);
    char long_value[CV_STORE_METADATA_MAX + 1];
    memset(long_value, 'x', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    static const char *const names[] = {"", "Owner", "a b", "a\n", "\xc3\xa9", "a:"};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        assert_int_equal(cv_metadata_set(&metadata, names[i], "x", &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONSTRAINT);
    }
    const char *const values[] = {" x", "x ", "a\r\nb", "\xff", long_value};
    for (size_t i = 0; i < CV_COUNT(values); i++) {
        assert_int_equal(cv_metadata_set(&metadata, "x", values[i], &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONSTRAINT);
    }
    struct cv_new_object object = {.key = "in/a", .data = "x", .size = 1, .metadata = &metadata};
    assert_int_equal(cv_store_put(fixture->store, &object, NULL, &error), 0);
    cv_auto(cv_metadata_deinit) struct cv_metadata found = {0};
    struct cv_object_info info;
    assert_int_equal(cv_store_head_metadata(fixture->store, "in/a", &info, &found, &error), 0);
    assert_int_equal(info.size, 1);
    assert_int_equal(found.count, 2);
    assert_string_equal(cv_metadata_get(&found, "owner-id"), "me");
    assert_string_equal(cv_metadata_get(&found, "title"), "caf\xc3\xa9, 2nd take");
    assert_null(cv_metadata_get(&found, "other"));
    assert_int_equal(cv_store_head_metadata(fixture->store, "none", NULL, &found, &error),
                     CV_STORE_NOT_FOUND);
}

static void test_create_only_keeps_what_is_there(void **state)
{
    struct fixture *fixture = *state;
    for (int named = 0; named < 2; named++) {
        ((struct cv_directory_store *)fixture->store)->named_only = named;
        const char *key = named ? "dir/b" : "dir/a";
        struct cv_new_object once = {.key = key, .data = "x", .size = 1, .create_only = true};
        assert_int_equal(cv_store_put(fixture->store, &once, NULL, &error), 0);
        once.data = "y";
        assert_int_equal(cv_store_put(fixture->store, &once, NULL, &error), CV_STORE_EXISTS);
        assert_text(fixture->store, key, "x");
    }
    struct cv_new_object once = {.key = "dir", .data = "y", .size = 1, .create_only = true};
    assert_int_equal(cv_store_put(fixture->store, &once, NULL, &error), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(count_incoming(fixture), 0);
}

/* It is refused before anything is sent: nothing listens at this endpoint. */
static void test_a_bucket_refuses_create_only(void **state)
{
    (void)state;
    struct cv_store *bucket = NULL;
    assert_int_equal(setenv("S3_ENDPOINT", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("S3_ACCESS_KEY_ID", "id", 1), 0);
    assert_int_equal(setenv("S3_SECRET_ACCESS_KEY", "secret", 1), 0);
    assert_int_equal(cv_store_open("s3://bucket", &bucket, &error), 0);
    const struct cv_new_object once = {.key = "a", .data = "x", .size = 1, .create_only = true};
    assert_int_equal(cv_store_put(bucket, &once, NULL, &error), -1);
    assert_int_equal(error.type, CV_ERROR_INTERNAL);
    cv_store_close(bucket);
    assert_int_equal(unsetenv("S3_ACCESS_KEY_ID"), 0); /* other tests have no credentials */
    assert_int_equal(unsetenv("S3_SECRET_ACCESS_KEY"), 0);
}

static int move_object(struct cv_store *store, const char *from, const char *to,
                       const char *if_etag, struct cv_object_info *ret_info)
{
    const struct cv_object_move move = {from, to, if_etag};
    return cv_store_move(store, &move, ret_info, &error);
}

static void test_move(void **state)
{
    struct fixture *fixture = *state;
    struct cv_store *store = fixture->store;
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    assert_int_equal(cv_metadata_set(&metadata, "owner", "me", &error), 0);
    struct cv_new_object object = {.key = "in/me/a", .data = "text", .size = 4};
    object.metadata = &metadata;
    struct cv_object_info put, info;
    assert_int_equal(cv_store_put(store, &object, &put, &error), 0);
    assert_int_equal(move_object(store, "in/me/a", "b/c", "other", NULL), CV_STORE_CHANGED);
    assert_int_equal(cv_store_head(store, "b/c", NULL, &error), CV_STORE_NOT_FOUND);
    assert_int_equal(move_object(store, "in/me/a", "b/c", put.etag, &info), 0);
    assert_string_equal(info.sha256, put.sha256);
    assert_int_equal(move_object(store, "in/me/a", "b/d/e", NULL, NULL), CV_STORE_NOT_FOUND);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/in", fixture->objects);
    assert_int_equal(access(path, F_OK), -1);
    cv_auto(cv_metadata_deinit) struct cv_metadata found = {0};
    assert_int_equal(cv_store_head_metadata(store, "b/c", &info, &found, &error), 0);
    assert_string_equal(cv_metadata_get(&found, "owner"), "me");
    assert_text(store, "b/c", "text");
    assert_int_equal(move_object(store, "b/c", "b", NULL, NULL), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(move_object(store, "b/c", "b/c", NULL, NULL), -1);
    assert_int_equal(move_object(store, "b/c", ".incoming/x", NULL, NULL), -1);
    assert_text(store, "b/c", "text");
}

static void test_delete_many_tries_all(void **state)
{
    struct fixture *fixture = *state;
    put_text(fixture->store, "d/1", "x");
    put_text(fixture->store, "d/2", "x");
    const char *const keys[] = {"d/1", "d/none", "../x", "d/2"};
    assert_int_equal(cv_store_delete_many(fixture->store, keys, CV_COUNT(keys), &error), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    assert_int_equal(count_objects(fixture->store, "d/"), 0);
    assert_int_equal(cv_store_delete_many(fixture->store, keys, 2, &error), 0);
    const struct cv_bucket_request request = {.method = "GET", .subresource = "cors"};
    struct cv_bucket_answer answer;
    assert_int_equal(cv_store_bucket_request(fixture->store, &request, &answer, &error),
                     CV_STORE_UNSUPPORTED);
}

static int note_stored(void *opaque, const char *key, const struct cv_object_info *info,
                       struct cv_error *problem)
{
    struct cv_buffer *text = opaque;
    (void)problem;
    cv_buffer_printf(text, "%s:%lld ", key, (long long)info->size);
    return 0;
}

static void test_downloads_come_in_order(void **state)
{
    struct fixture *fixture = *state;
    static const char *const keys[] = {"a", "none", "b/c", "../x", "a"};
    static const char *const expected[] = {"one", NULL, "second", NULL, "one"};
    static const int results[] = {0, CV_STORE_NOT_FOUND, 0, -1, 0};
    cv_auto(cv_downloads_free) struct cv_downloads *downloads = NULL;
    void *data = NULL;
    size_t size = 0;
    put_text(fixture->store, "a", "one");
    put_text(fixture->store, "b/c", "second");
    assert_int_equal(cv_downloads_new(fixture->store, keys, CV_COUNT(keys), 6, &downloads, &error),
                     0);
    for (size_t i = 0; i < CV_COUNT(keys); i++) {
        assert_int_equal(cv_downloads_next(downloads, &data, &size, &error), results[i]);
        if (expected[i]) {
            assert_int_equal(size, strlen(expected[i]));
            assert_string_equal(data, expected[i]);
            free(data);
        }
    }
    assert_int_equal(cv_downloads_next(downloads, &data, &size, &error), -1);
    cv_auto(cv_downloads_free) struct cv_downloads *narrow = NULL;
    assert_int_equal(cv_downloads_new(fixture->store, keys + 2, 1, 5, &narrow, &error), 0);
    assert_int_equal(cv_downloads_next(narrow, &data, &size, &error), -1);
    assert_int_equal(error.type, CV_ERROR_LIMIT_EXCEEDED);
}

static int upload_bytes(struct cv_uploads *uploads, const char *key, char *data, size_t size)
{
    const struct cv_new_object object = {.key = key, .data = data, .size = size};
    return cv_uploads_put(uploads, &object, &error);
}

static void test_uploads_are_told_in_order(void **state)
{
    struct fixture *fixture = *state;
    cv_auto(cv_buffer_deinit) struct cv_buffer told = CV_BUFFER_INIT;
    cv_auto(cv_uploads_free) struct cv_uploads *uploads = NULL;
    assert_int_equal(cv_uploads_new(fixture->store, note_stored, &told, &uploads, &error), 0);
    for (int i = 0; i < 12; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "up/%02d", i);
        assert_int_equal(upload_bytes(uploads, key, strdup("text"), (size_t)i % 4), 0);
    }
    assert_int_equal(upload_bytes(uploads, "../x", strdup("x"), 1), -1);
    assert_int_equal(error.type, CV_ERROR_INVALID_KEY);
    const struct cv_new_object missing = {.key = "f", .path = "/nonexistent"};
    assert_int_equal(cv_uploads_put(uploads, &missing, &error), -1);
    assert_int_equal(cv_uploads_wait(uploads, &error), 0);
    assert_int_equal(strncmp(told.data, "up/00:0 up/01:1 up/02:2 ", 24), 0);
    assert_non_null(strstr(told.data, "up/11:3 "));
    assert_text(fixture->store, "up/10", "te");
}

static void test_delete_takes_empty_directories_along(void **state)
{
    struct fixture *fixture = *state;
    put_text(fixture->store, "v/1/a", "x");
    put_text(fixture->store, "v/2/b/c", "x");
    assert_int_equal(cv_store_delete(fixture->store, "v/2/b/c", &error), 0);
    assert_int_equal(cv_store_delete(fixture->store, "v/2/b/c", &error), 0);
    assert_int_equal(cv_store_delete(fixture->store, "v/1", &error), 0);
    assert_text(fixture->store, "v/1/a", "x");
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/v/2", fixture->objects);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_urls(void **state)
{
    struct fixture *fixture = *state;
    struct cv_store *store = NULL;
    /* Else the last resort, an instance's metadata, may know credentials. */
    assert_int_equal(setenv("AWS_EC2_METADATA_DISABLED", "true", 1), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    static const char *const wrong[] = {"s3://bucket", "http://x/y", "dir:", "dir:/proc/1/none"};
    for (size_t i = 0; i < CV_COUNT(wrong); i++) {
        assert_int_equal(cv_store_open(wrong[i], &store, &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
    }
    assert_int_equal(unsetenv("STORE_URL"), 0);
    assert_int_equal(cv_store_open(NULL, &store, &error), -1);
    assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
    assert_int_equal(setenv("STORE_URL", fixture->objects, 1), 0);
    assert_int_equal(cv_store_open(NULL, &store, &error), 0);
    assert_string_equal(cv_store_name(store), cv_store_name(fixture->store));

    cv_auto_free char *url = NULL;
    struct cv_signed_url allowed = {.key = "a b/\xc3\xa9#?.mp4", .method = "GET", .seconds = 60};
    assert_int_equal(cv_store_presign(store, &allowed, &url, &error), 0);
    char expected[256];
    (void)snprintf(expected, sizeof(expected), "file://%s/a%%20b/%%C3%%A9%%23%%3F.mp4",
                   fixture->objects);
    assert_string_equal(url, expected);
    char *none = NULL;
    allowed.method = "PUT";
    assert_int_equal(cv_store_presign(store, &allowed, &none, &error), -1);
    assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
    cv_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_keys_that_break_the_rules_are_refused),
        TEST(test_key_of_many_segments_works),
        TEST(test_links_are_not_followed),
        TEST(test_object_and_directory_of_one_name_are_refused),
        TEST(test_info_digest_and_etag),
        TEST(test_digest_is_dropped_when_the_file_was_edited),
        TEST(test_big_and_empty_objects_and_ranges),
        TEST(test_reader_keeps_the_object_it_opened),
        TEST(test_list_is_in_byte_order_page_by_page),
        TEST(test_list_by_prefix),
        TEST(test_metadata_is_kept),
        TEST(test_create_only_keeps_what_is_there),
        TEST(test_a_bucket_refuses_create_only),
        TEST(test_move),
        TEST(test_delete_many_tries_all),
        TEST(test_downloads_come_in_order),
        TEST(test_uploads_are_told_in_order),
        TEST(test_delete_takes_empty_directories_along),
        TEST(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
