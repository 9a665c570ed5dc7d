/* The check of HLS over objects that anybody may have written. The input is several objects, parted by
 * lines of four equals signs, in the order of `names`; they lie in a store in a directory. */
#include "workers/transcode/hls/check/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

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

static struct cv_store *store;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static char folder[] = "/dev/shm/fuzz-playlist-XXXXXX";
    struct cv_error error;
    char url[64];
    if (!mkdtemp(folder)) {
        abort();
    }
    (void)snprintf(url, sizeof(url), "dir:%s", folder);
    if (cv_store_open(url, &store, &error) != 0) {
        abort();
    }
    return 0;
}

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
        struct cv_put_params params = {.content_type = "text/plain"};
        size_t length = (size_t)((next ? next : end) - at);
        if (cv_store_put(store, names[i], at, length, &params, NULL, &error) != 0) {
            abort();
        }
        at = next ? next + sizeof(parting) - 1 : end;
    }
    struct cv_hls_summary summary;
    if (cv_hls_check(store, VIDEO, NULL, ignore, NULL, &summary, &error) != 0 &&
        error.type == CV_ERROR_INTERNAL) {
        abort();
    }
    return 0;
}
