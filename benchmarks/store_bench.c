/* store-bench put STORE FILE|FOLDER      puts a file as "large", or every file of a folder at once
 * store-bench get STORE KEY              reads an object from start to end and prints its SHA-256
 * store-bench getall STORE FILE          reads the objects whose keys are the lines of a file
 * store-bench fill STORE FILE            puts an object of one byte under each key of a file's lines
 *
 * STORE is a URL or a directory. Standard error: the peak of memory, KiB. */
#include "common/base/base.h"
#include "common/store/store.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_BYTES = 1 << 20, OBJECT_MAX = 16 << 20 };

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
        result = cv_uploads_put(uploads, &(struct cv_new_object){.key = key, .path = path}, error);
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
    const struct cv_new_object object = {.key = "large", .path = path};
    return S_ISDIR(status.st_mode) ? put_folder(store, path, error)
                                   : cv_store_put(store, &object, NULL, error);
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

/* Grows at powers of two, so that the count alone tells when. */
static int add_key(char ***keys, size_t *count, const char *key, struct cv_error *error)
{
    if ((*count & (*count - 1)) == 0) {
        char **grown = reallocarray(*keys, *count ? *count * 2 : 1, sizeof(**keys));
        if (!grown) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for keys");
        }
        *keys = grown;
    }
    (*keys)[*count] = strdup(key);
    return (*keys)[(*count)++] ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for keys");
}

static int read_keys(const char *path, char ***keys, size_t *count, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "r");
    char line[CV_STORE_KEY_MAX + 2];
    int result = file ? 0 : cv_fail_errno(error, errno, "%s", path);
    while (result == 0 && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        result = add_key(keys, count, line, error);
    }
    return result;
}

static int fill(struct cv_store *store, const char *path, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "r");
    cv_auto(cv_uploads_free) struct cv_uploads *uploads = NULL;
    char line[CV_STORE_KEY_MAX + 2];
    int result = file ? 0 : cv_fail_errno(error, errno, "%s", path);
    result = result ? result : cv_uploads_new(store, NULL, NULL, &uploads, error);
    while (result == 0 && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const struct cv_new_object object = {.key = line, .data = strdup("x"), .size = 1};
        result = cv_uploads_put(uploads, &object, error);
    }
    return result ? result : cv_uploads_wait(uploads, error);
}

static int get_all(struct cv_store *store, const char *path, struct cv_error *error)
{
    char **keys = NULL;
    size_t count = 0;
    cv_auto(cv_downloads_free) struct cv_downloads *downloads = NULL;
    int result = read_keys(path, &keys, &count, error);
    result = result ? result
                    : cv_downloads_new(store, (const char *const *)keys, count, OBJECT_MAX,
                                       &downloads, error);
    for (size_t i = 0; result == 0 && i < count; i++) {
        cv_auto_free void *data = NULL;
        size_t size = 0;
        result = cv_downloads_next(downloads, &data, &size, error);
    }
    for (size_t i = 0; i < count; i++) {
        free(keys[i]);
    }
    free(keys);
    return result > 0 ? cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "an object is missing") : result;
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
        (void)fprintf(stderr, "usage: store-bench put|get|getall|fill STORE FILE|FOLDER|KEY\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    int result = cv_store_open(argv[2], &store, &error);
    if (result == 0) {
        result = strcmp(argv[1], "put") == 0    ? put(store, argv[3], &error)
                 : strcmp(argv[1], "fill") == 0 ? fill(store, argv[3], &error)
                 : strcmp(argv[1], "get") == 0  ? get(store, argv[3], &error)
                                                : get_all(store, argv[3], &error);
    }
    if (result != 0) {
        cv_log_error(&error, "store-bench");
        return CV_EXIT_PERMANENT;
    }
    print_peak();
    return 0;
}
