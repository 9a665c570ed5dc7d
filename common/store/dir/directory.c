#include "common/store/dir/directory.h"

#include "common/store/dir/dir.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

struct directory_reader {
    struct cv_store_reader reader;
    int fd;
};

static struct cv_directory_store *of_store(struct cv_store *store)
{
    return (struct cv_directory_store *)store;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Opens an object's file; CV_STORE_NOT_FOUND also if it is not a regular file. */
static int open_object(const struct cv_directory_store *directory, const char *key, int *ret_fd,
                       struct stat *ret_status, struct cv_error *error)
{
    CV_TRY(cv_directory_check_key(key, error));
    size_t parent_length = cv_directory_parent_length(key);
    cv_auto_fd int parent = -1;
    CV_TRY(cv_directory_walk(directory, key, parent_length, &parent, error));
    const char *name = parent_length > 0 ? key + parent_length + 1 : key;
    /* O_NONBLOCK: a FIFO in the store must not hang the open. */
    cv_auto_fd int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ELOOP || errno == ENXIO || errno == ENOTDIR
                   ? (int)CV_STORE_NOT_FOUND
                   : cv_fail_errno(error, errno, "open %s", key);
    }
    struct stat status;
    CV_TRY_ERRNO(fstat(fd, &status) == 0, error, "look at %s", key);
    if (!S_ISREG(status.st_mode)) {
        return CV_STORE_NOT_FOUND;
    }
    *ret_fd = cv_take_fd(&fd);
    *ret_status = status;
    return 0;
}

static int head(struct cv_store *store, const char *key, struct cv_object_info *ret_info,
                struct cv_metadata *metadata, struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    struct stat status;
    CV_TRY(open_object(of_store(store), key, &fd, &status, error));
    if (metadata) {
        CV_TRY(cv_directory_read_metadata(fd, metadata, error));
    }
    cv_directory_read_info(fd, &status, ret_info);
    return 0;
}

static int read_at(struct cv_store_reader *base, int64_t offset, void *data, size_t length,
                   size_t *ret_read, struct cv_error *error)
{
    struct directory_reader *reader = (struct directory_reader *)base;
    return cv_store_read_file(reader->fd, offset, data, length, ret_read, error);
}

static void close_reader(struct cv_store_reader *base)
{
    struct directory_reader *reader = (struct directory_reader *)base;
    close(reader->fd);
    free(reader);
}

static int reader_fd(const struct cv_store_reader *reader)
{
    return ((const struct directory_reader *)reader)->fd;
}

static const struct cv_store_reader_backend reader_backend = {
    .read = read_at,
    .close = close_reader,
    .fd = reader_fd,
};

static int open_reader(struct cv_store *store, const char *key, struct cv_store_reader **ret_reader,
                       struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    struct stat status;
    CV_TRY(open_object(of_store(store), key, &fd, &status, error));
    struct directory_reader *reader = calloc(1, sizeof(*reader));
    CV_TRY_MEMORY(reader, error, "a reader");
    reader->reader.backend = &reader_backend;
    cv_directory_read_info(fd, &status, &reader->reader.info);
    reader->fd = cv_take_fd(&fd);
    *ret_reader = &reader->reader;
    return 0;
}

/* ---- deleting -------------------------------------------------------------------------------- */

/* Removes empty parent directories. A writer whose directory is gone makes it again, and rmdir
 * never removes a directory with entries. */
static void remove_empty(const struct cv_directory_store *directory, const char *key)
{
    char path[CV_STORE_KEY_MAX + 1];
    (void)snprintf(path, sizeof(path), "%s", key);
    for (size_t length; (length = cv_directory_parent_length(path)) > 0;) {
        path[length] = '\0';
        size_t above = cv_directory_parent_length(path);
        cv_auto_fd int parent = -1;
        struct cv_error ignored;
        if (cv_directory_walk(directory, path, above, &parent, &ignored) ||
            unlinkat(parent, above > 0 ? path + above + 1 : path, AT_REMOVEDIR)) {
            return;
        }
    }
}

static int delete_object(struct cv_store *store, const char *key, struct cv_error *error)
{
    cv_auto_fd int object = -1;
    struct stat status;
    int result = open_object(of_store(store), key, &object, &status, error);
    if (result) {
        return result == CV_STORE_NOT_FOUND ? 0 : result;
    }
    size_t parent_length = cv_directory_parent_length(key);
    cv_auto_fd int parent = -1;
    result = cv_directory_walk(of_store(store), key, parent_length, &parent, error);
    if (result) {
        return result == CV_STORE_NOT_FOUND ? 0 : result;
    }
    if (unlinkat(parent, parent_length > 0 ? key + parent_length + 1 : key, 0) && errno != ENOENT) {
        return cv_fail_errno(error, errno, "delete %s", key);
    }
    CV_TRY_ERRNO(fsync(parent) == 0, error, "write the deletion of %s to disk", key);
    remove_empty(of_store(store), key);
    return 0;
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* Renames the file; its attributes move with it. If the object is overwritten between the check and
 * the rename, the new one is moved. */
static int move(struct cv_store *store, const struct cv_object_move *move,
                struct cv_object_info *ret_info, struct cv_error *error)
{
    const struct cv_directory_store *directory = (struct cv_directory_store *)store;
    cv_auto_fd int fd = -1;
    cv_auto_fd int parent = -1;
    const char *from = move->from;
    size_t parent_length = cv_directory_parent_length(from);
    const char *name = parent_length > 0 ? from + parent_length + 1 : from;
    struct stat status;
    struct cv_object_info info;
    CV_TRY(cv_directory_check_key(move->to, error));
    CV_TRY(open_object(directory, from, &fd, &status, error));
    cv_directory_read_info(fd, &status, &info);
    if (move->if_etag && strcmp(move->if_etag, info.etag) != 0) {
        return CV_STORE_CHANGED;
    }
    CV_TRY(cv_directory_walk(directory, from, parent_length, &parent, error));
    CV_TRY(cv_directory_publish(directory, move->to, parent, name, false, error));
    CV_TRY_ERRNO(fsync(parent) == 0, error, "write the move of %s to disk", from);
    remove_empty(directory, from);
    *ret_info = info;
    return 0;
}

/* ---- the other functions of the backend ------------------------------------------------------ */

static int presign(struct cv_store *store, const struct cv_signed_url *allowed, char **ret_url,
                   struct cv_error *error)
{
    CV_TRY(cv_directory_check_key(allowed->key, error));
    if (strcmp(allowed->method, "GET") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the directory store has URLs for GET alone, not for %s", allowed->method);
    }
    /* A path never expires. */
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_buffer_text(&url, "file://");
    const char *const parts[] = {of_store(store)->path, "/", allowed->key};
    for (size_t i = 0; i < CV_COUNT(parts); i++) {
        cv_percent_encode(&url, parts[i], true);
    }
    return cv_buffer_detach(&url, ret_url, error);
}

/* Checks that the root is still the same directory: if its disk is unmounted while a worker runs,
 * an empty directory of the same name appears. */
static int check_place(struct cv_store *store, struct cv_error *error)
{
    const struct cv_directory_store *directory = of_store(store);
    struct stat opened, now;
    CV_TRY_ERRNO(fstat(directory->root, &opened) == 0 && stat(directory->path, &now) == 0, error,
                 "look at the store's directory %s", directory->path);
    return opened.st_dev == now.st_dev && opened.st_ino == now.st_ino
               ? 0
               : cv_fail(
                     error, CV_ERROR_IO,
                     "the store's directory %s is not the one that was opened: it was replaced, "
                     "mounted over or unmounted",
                     directory->path);
}

static void close_store(struct cv_store *store)
{
    struct cv_directory_store *directory = of_store(store);
    if (directory->root >= 0) {
        close(directory->root);
    }
    free(directory->path);
    free(directory->store.name);
    free(directory);
}

static const struct cv_store_backend directory_backend = {
    .close = close_store,
    .head = head,
    .open_reader = open_reader,
    .put = cv_directory_put,
    .delete = delete_object,
    .move = move,
    .list = cv_directory_list,
    .presign = presign,
    .check_place = check_place,
};

/* mkdir -p. */
static int make_root(const char *path, struct cv_error *error)
{
    char partial[PATH_MAX];
    if (snprintf(partial, sizeof(partial), "%s", path) >= (int)sizeof(partial)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the path of the store is too long");
    }
    for (char *c = partial + 1;; c++) {
        if (*c == '/' || *c == '\0') {
            char kept = *c;
            *c = '\0';
            if (mkdir(partial, 0777) && errno != EEXIST) {
                return cv_fail_errno(error, errno, "make the store's directory %s", partial);
            }
            *c = kept;
            if (kept == '\0') {
                return 0;
            }
        }
    }
}

int cv_directory_store_open(const char *path, struct cv_store **ret_store, struct cv_error *error)
{
    if (path[0] == '\0') {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the store has no path: use dir:PATH");
    }
    struct cv_directory_store *directory = calloc(1, sizeof(*directory));
    CV_TRY_MEMORY(directory, error, "a store");
    directory->root = -1;
    directory->store.backend = &directory_backend;
    cv_auto(cv_store_close) struct cv_store *store = &directory->store;

    if (access(path, F_OK)) {
        int result = make_root(path, error);
        if (result) {
            error->type = CV_ERROR_CONFIGURATION;
            return cv_store_judge(result, error);
        }
    }
    directory->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    directory->path = realpath(path, NULL);
    if (directory->root < 0 || !directory->path) {
        int result = cv_fail_errno(error, errno, "open the store's directory %s", path);
        error->type = CV_ERROR_CONFIGURATION; /* the store itself is missing, not an object */
        return cv_store_judge(result, error);
    }
    CV_TRY(cv_format(&directory->store.name, error, "dir:%s", directory->path));
    cv_directory_sweep(directory);
    *ret_store = cv_take(store);
    return 0;
}
