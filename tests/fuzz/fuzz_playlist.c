/* The check of HLS over objects that anybody may have written. The input is several objects, parted by
 * lines of four equals signs, in the order of `names`; they lie in a store in memory. */
#include "common/store/backend.h"

#include "workers/transcode/hls/check/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VIDEO "0f0e0d0c-0000-4000-8000-000000000001"

static const char parting[] = "\n====\n";
static const char *const names[] = {
    "videos/proxy/" VIDEO "/index.m3u8",
    "videos/proxy/" VIDEO "/a.m3u8",
    "videos/proxy/" VIDEO "/a_keys.m3u8",
    "videos/proxy/" VIDEO "/sound.m3u8",
    "thumbs/" VIDEO "/thumbnails.vtt",
    "thumbs/" VIDEO "/poster.jpg",
    "videos/proxy/" VIDEO "/segment_a_00000.ts",
    "videos/proxy/" VIDEO "/init_a.mp4",
    "videos/proxy/" VIDEO "/segment_a_00000.m4s",
};

/* What the check asks of a store: to open, to read, and to list. A directory would cost more than the check. */
struct object {
    struct cv_store_reader reader; /* the object is always open */
    const uint8_t *data;
    size_t size;
};

static struct object objects[CV_COUNT(names)];

static int read_object(struct cv_store_reader *reader, int64_t offset, void *data, size_t length,
                       size_t *ret_read, struct cv_error *error)
{
    (void)error;
    const struct object *object = (const struct object *)reader;
    size_t from = (uint64_t)offset < object->size ? (size_t)offset : object->size;
    *ret_read = length < object->size - from ? length : object->size - from;
    if (*ret_read > 0) {
        (void)memcpy(data, object->data + from, *ret_read);
    }
    return 0;
}

static void close_object(struct cv_store_reader *reader)
{
    (void)reader;
}

static const struct cv_store_reader_backend reading = {.read = read_object, .close = close_object};

static int open_object(struct cv_store *store, const char *key, struct cv_store_reader **ret_reader,
                       struct cv_error *error)
{
    (void)store, (void)error;
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (strcmp(names[i], key) == 0) {
            objects[i].reader = (struct cv_store_reader){
                .backend = &reading,
                .info = {.size = (int64_t)objects[i].size, .etag = "any"},
            };
            *ret_reader = &objects[i].reader;
            return 0;
        }
    }
    return CV_STORE_NOT_FOUND;
}

/* All objects in one page. */
static int list_objects(struct cv_store *store, const struct cv_listing *listing,
                        struct cv_object_list *ret_list, struct cv_error *error)
{
    (void)store;
    int result = 0;
    for (size_t i = 0; result == 0 && i < CV_COUNT(names); i++) {
        const struct cv_object_info info = {.size = (int64_t)objects[i].size, .etag = "any"};
        if (strncmp(names[i], listing->prefix, strlen(listing->prefix)) == 0) {
            result = cv_object_list_add(ret_list, names[i], &info, error);
        }
    }
    return result;
}

static const struct cv_store_backend memory = {.open_reader = open_object, .list = list_objects};
static char store_name[] = "memory";
static struct cv_store store = {.backend = &memory, .name = store_name};

static void ignore(void *opaque, const char *where, const char *what)
{
    (void)opaque;
    if (strlen(where) + strlen(what) == 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        const uint8_t *next = memmem(at, (size_t)(end - at), parting, sizeof(parting) - 1);
        objects[i].data = at;
        objects[i].size = (size_t)((next ? next : end) - at);
        at = next ? next + sizeof(parting) - 1 : end;
    }
    struct cv_hls_summary summary;
    if (cv_hls_check(&store, VIDEO, NULL, ignore, NULL, &summary, &error) != 0 &&
        error.type == CV_ERROR_INTERNAL) {
        abort();
    }
    return 0;
}
