/* store-bench put ROOT FILE|FOLDER   puts a file, or every file of a folder, into a directory store
 * store-bench get ROOT KEY           reads an object from start to end and prints its SHA-256 */
#include "common/base/base.h"
#include "common/store/store.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_BYTES = 1 << 20 };

static int put_folder(struct cv_store *store, const char *folder, struct cv_error *error)
{
    DIR *directory = opendir(folder);
    if (!directory) {
        return cv_fail_errno(error, errno, "%s", folder);
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[4096];
        char key[512];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        (void)snprintf(key, sizeof(key), "small/%s", entry->d_name);
        result = cv_store_put_file(store, key, path, NULL, NULL, error);
    }
    closedir(directory);
    return result;
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

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: store-bench put|get ROOT FILE|FOLDER|KEY\n");
        return CV_EXIT_USAGE;
    }
    struct cv_error error;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    if (cv_store_open(argv[2], &store, &error) < 0 ||
        (strcmp(argv[1], "put") == 0 ? put(store, argv[3], &error) : get(store, argv[3], &error)) <
            0) {
        cv_log_error(&error, "store-bench");
        return CV_EXIT_PERMANENT;
    }
    return 0;
}
