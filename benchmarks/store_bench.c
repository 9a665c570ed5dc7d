/* store-bench put STORE FILE|FOLDER      puts a file as "large", or every file of a folder at once
 * store-bench get STORE KEY              reads an object from start to end and prints its SHA-256
 * store-bench getall STORE PREFIX        reads every object of a prefix, several at once
 *
 * STORE is a URL or a directory. Standard error: the peak of memory, KiB. */
#include "common/base/base.h"
#include "common/store/store.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_BYTES = 1 << 20, OBJECT_MAX = 16 << 20, READERS = 8 };

static int put_folder(struct cv_store *store, const char *folder, struct cv_error *error)
{
    cv_auto(cv_uploads_free) struct cv_uploads *uploads = NULL;
    int result = cv_uploads_new(store, NULL, NULL, &uploads, error);
    DIR *directory = opendir(folder);
    if (!directory) {
        return cv_fail_errno(error, errno, "%s", folder);
    }
    struct dirent *entry;
    while (result == 0 && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[4096];
        char key[512];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        (void)snprintf(key, sizeof(key), "small/%s", entry->d_name);
        result = cv_uploads_put_file(uploads, key, path, NULL, error);
    }
    closedir(directory);
    return result ? result : cv_uploads_wait(uploads, error);
}

static int put(struct cv_store *store, const char *path, struct cv_error *error)
{
    struct stat status;
    if (stat(path, &status) < 0) {
        return cv_fail_errno(error, errno, "%s", path);
    }
    return S_ISDIR(status.st_mode) ? put_folder(store, path, error)
                                   : cv_store_put_file(store, "large", path, NULL, NULL, error);
}

static int get(struct cv_store *store, const char *key, struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    int result = cv_store_reader_open(store, key, &reader, error);
    if (result != 0) {
        return result < 0 ? result : cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s", key);
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    cv_auto_free uint8_t *data = malloc(READ_BYTES);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (!data || !digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(digest);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for %s", key);
    }
    size_t length = 1;
    for (int64_t offset = 0; result == 0 && length > 0; offset += (int64_t)length) {
        result = source.read(source.opaque, offset, data, READ_BYTES, &length, error);
        if (result == 0 && EVP_DigestUpdate(digest, data, length) != 1) {
            result = cv_fail(error, CV_ERROR_INTERNAL, "SHA-256 failed");
        }
    }
    uint8_t hash[EVP_MAX_MD_SIZE];
    if (result == 0 && EVP_DigestFinal_ex(digest, hash, NULL) == 1) {
        for (int i = 0; i < 32; i++) {
            printf("%02x", hash[i]);
        }
        printf("\n");
    }
    EVP_MD_CTX_free(digest);
    return result;
}

/* ---- many objects ---------------------------------------------------------------------------- */

struct reading {
    const char *url;
    const struct cv_object_list *list;
    size_t first; /* this thread's share: every READERS-th from here */
    int result;
    struct cv_error error;
};

static void *read_share(void *opaque)
{
    struct reading *reading = opaque;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    reading->result = cv_store_open(reading->url, &store, &reading->error);
    for (size_t i = reading->first; reading->result == 0 && i < reading->list->count;
         i += READERS) {
        cv_auto_free void *data = NULL;
        size_t size = 0;
        reading->result = cv_store_get(store, reading->list->entries[i].key, OBJECT_MAX, &data,
                                       &size, &reading->error);
    }
    return NULL;
}

static int read_page(const char *url, const struct cv_object_list *list, struct cv_error *error)
{
    pthread_t threads[READERS];
    struct reading readings[READERS];
    size_t started = 0;
    for (; started < READERS; started++) {
        readings[started] = (struct reading){.url = url, .list = list, .first = started};
        if (pthread_create(&threads[started], NULL, read_share, &readings[started])) {
            break;
        }
    }
    int result = started == READERS ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no threads");
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
        if (result == 0 && readings[i].result) {
            *error = readings[i].error;
            result = readings[i].result;
        }
    }
    return result;
}

static int get_all(struct cv_store *store, const char *url, const char *prefix,
                   struct cv_error *error)
{
    cv_auto_free char *continuation = NULL;
    do {
        cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
        int result = cv_store_list(store, prefix, continuation, CV_STORE_PAGE_MAX, &list, error);
        result = result ? result : read_page(url, &list, error);
        if (result) {
            return result;
        }
        free(continuation);
        continuation = cv_take(list.continuation);
    } while (continuation);
    return 0;
}

/* Not getrusage: its figure includes the process that started this one. */
static void print_peak(void)
{
    cv_auto_file FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long peak = 0;
    while (file && fgets(line, sizeof(line), file)) {
        (void)sscanf(line, "VmHWM: %lld kB", &peak);
    }
    (void)fprintf(stderr, "%lld\n", peak);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fprintf(stderr, "usage: store-bench put|get|getall STORE FILE|FOLDER|KEY|PREFIX\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    int result = cv_store_open(argv[2], &store, &error);
    if (result == 0) {
        result = strcmp(argv[1], "put") == 0   ? put(store, argv[3], &error)
                 : strcmp(argv[1], "get") == 0 ? get(store, argv[3], &error)
                                               : get_all(store, argv[2], argv[3], &error);
    }
    if (result != 0) {
        cv_log_error(&error, "store-bench");
        return CV_EXIT_PERMANENT;
    }
    print_peak();
    return 0;
}
