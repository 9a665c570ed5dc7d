
#include "common/store/dir/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <time.h>

enum {
    COPY_SIZE = 1 << 20, /* large enough that system calls cost little compared to the digest */
    /* The directory vanishes if somebody else deletes its last object; that will not happen this
     * often in a row. */
    PUBLISH_TRIES = 100,
    /* On some network file systems locks are not seen by other hosts; no living writer is slower
     * than this. */
    LEFTOVER_AGE_SECONDS = 3600,
};

/* Outcome: this file system needs a named file. */
enum { NEEDS_NAME = 100 };

struct incoming {
    int directory; /* .incoming/ */
    int file;
    char name[48]; /* "" as long as the file has no name */
};

static void incoming_deinit(struct incoming *incoming)
{
    if (incoming->name[0] != '\0') {
        (void)unlinkat(incoming->directory, incoming->name, 0);
    }
    if (incoming->file >= 0) {
        close(incoming->file);
    }
    if (incoming->directory >= 0) {
        close(incoming->directory);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct incoming, incoming_deinit)

static int random_name(char *name, size_t size, struct cv_error *error)
{
    uint64_t random[2];
    CV_TRY_ERRNO(getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random), error,
                 "make a temporary name");
    (void)snprintf(name, size, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    return 0;
}

/* Makes a locked, named file. A sweep between open and lock may remove the name; then another file
 * is made. */
static int create_named(struct incoming *incoming, struct cv_error *error)
{
    for (int i = 0; i < PUBLISH_TRIES; i++) {
        char name[sizeof(incoming->name)];
        CV_TRY(random_name(name, sizeof(name), error));
        cv_auto_fd int fd =
            openat(incoming->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) {
            continue;
        }
        CV_TRY_ERRNO(fd >= 0, error, "write to the store");
        struct stat status;
        if (flock(fd, LOCK_EX) || fstat(fd, &status)) {
            int error_number = errno;
            (void)unlinkat(incoming->directory, name, 0);
            return cv_fail_errno(error, error_number, "lock a file of the store");
        }
        if (status.st_nlink > 0) {
            memcpy(incoming->name, name, sizeof(name));
            incoming->file = cv_take_fd(&fd);
            return 0;
        }
    }
    return cv_fail(error, CV_ERROR_CONFLICT, "cannot keep a temporary file in the store");
}

/* Makes an unnamed file, or returns NEEDS_NAME. */
static int create_unnamed(struct incoming *incoming, struct cv_error *error)
{
    cv_auto_fd int fd = openat(incoming->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0) {
        return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT
                   ? (int)NEEDS_NAME
                   : cv_fail_errno(error, errno, "write to the store");
    }
    CV_TRY_ERRNO(flock(fd, LOCK_EX) == 0, error, "lock a file of the store");
    incoming->file = cv_take_fd(&fd);
    return 0;
}

static int write_all(int fd, const char *data, size_t length, struct cv_error *error)
{
    return cv_write_all(fd, data, length) ? cv_fail_errno(error, errno, "write to the store") : 0;
}

static int copy_memory(const struct cv_store_input *input, int fd, struct cv_sha256 *digest,
                       struct cv_error *error)
{
    CV_TRY(cv_sha256_add(digest, input->data, input->size, error));
    return input->size == 0 ? 0 : write_all(fd, input->data, input->size, error);
}

static int copy_file(const struct cv_store_input *input, int fd, struct cv_sha256 *digest,
                     struct cv_error *error)
{
    cv_auto_free char *data = malloc(COPY_SIZE);
    if (!data) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to copy a file");
    }
    for (off_t at = 0;;) {
        ssize_t step = pread(input->fd, data, COPY_SIZE, at);
        if (step < 0 && errno == EINTR) {
            continue;
        }
        CV_TRY_ERRNO(step >= 0, error, "read the file to be stored");
        if (step == 0) {
            return 0;
        }
        CV_TRY(cv_sha256_add(digest, data, (size_t)step, error));
        CV_TRY(write_all(fd, data, (size_t)step, error));
        at += step;
    }
}

static int copy(const struct cv_store_input *input, int fd, char sha256[CV_STORE_SHA256_SIZE],
                struct cv_error *error)
{
    cv_auto(cv_sha256_free) struct cv_sha256 *digest = NULL;
    CV_TRY(cv_sha256_new(&digest, error));
    CV_TRY(input->fd >= 0 ? copy_file(input, fd, digest, error)
                          : copy_memory(input, fd, digest, error));
    return cv_sha256_text(digest, sha256, error);
}

/* Gives a complete, unnamed file its name in .incoming/, or returns NEEDS_NAME. */
static int name_it(struct incoming *incoming, struct cv_error *error)
{
    if (incoming->name[0] != '\0') {
        return 0;
    }
    char name[sizeof(incoming->name)];
    CV_TRY(random_name(name, sizeof(name), error));
    char descriptor[64];
    (void)snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", incoming->file);
    if (linkat(AT_FDCWD, descriptor, incoming->directory, name, AT_SYMLINK_FOLLOW)) {
        return NEEDS_NAME; /* no /proc, or a sandbox; other errors will occur with a name, too */
    }
    memcpy(incoming->name, name, sizeof(name));
    return 0;
}

int cv_directory_publish(const struct cv_directory_store *directory, const char *key,
                         int from_directory, const char *from_name, bool create_only,
                         struct cv_error *error)
{
    size_t parent_length = cv_directory_parent_length(key);
    const char *name = parent_length > 0 ? key + parent_length + 1 : key;
    for (int i = 0; i < PUBLISH_TRIES; i++) {
        cv_auto_fd int parent = -1;
        int result = cv_directory_make(directory, key, parent_length, &parent, error);
        if (result == CV_STORE_NOT_FOUND) {
            continue;
        }
        if (result) {
            return result;
        }
        unsigned flags = create_only ? RENAME_NOREPLACE : 0;
        int renamed = renameat2(from_directory, from_name, parent, name, flags);
        if (renamed && errno == EINVAL && create_only) {
            /* This file system does not support the flag: check first, which is nearly as good. */
            struct stat there;
            bool exists = fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
            errno = EEXIST;
            renamed = exists ? -1 : renameat(from_directory, from_name, parent, name);
        }
        if (renamed == 0) {
            return fsync(parent) ? cv_fail_errno(error, errno, "write %s to disk", key) : 0;
        }
        struct stat status;
        if (create_only && errno == EEXIST &&
            fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode)) {
            return CV_STORE_EXISTS;
        }
        if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {
            return cv_fail(error, CV_ERROR_INVALID_KEY,
                           "object key %s is the directory of other objects", key);
        }
        CV_TRY_ERRNO(errno == ENOENT, error, "publish %s", key);
        if (faccessat(from_directory, from_name, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT) {
            return CV_STORE_NOT_FOUND;
        }
    }
    return cv_fail(error, CV_ERROR_CONFLICT, "the directory of %s is deleted again and again", key);
}

static int publish(struct cv_directory_store *directory, const char *key, struct incoming *incoming,
                   bool create_only, struct cv_error *error)
{
    int result = cv_directory_publish(directory, key, incoming->directory, incoming->name,
                                      create_only, error);
    if (result == 0) {
        incoming->name[0] = '\0';
    }
    return result == CV_STORE_NOT_FOUND ? cv_fail(error, CV_ERROR_CONFLICT,
                                                  "somebody removed the file of %s on its way", key)
                                        : result;
}

static int open_incoming(struct cv_directory_store *directory, struct incoming *incoming,
                         struct cv_error *error)
{
    int result = cv_directory_make(directory, CV_DIRECTORY_INCOMING, strlen(CV_DIRECTORY_INCOMING),
                                   &incoming->directory, error);
    return result == CV_STORE_NOT_FOUND
               ? cv_fail(error, CV_ERROR_IO, "the store %s is gone", directory->path)
               : result;
}

/* ---- what is known about an object -------------------------------------------------------------- */

#define DIGEST_ATTRIBUTE "user.cortana.sha256"
#define METADATA_ATTRIBUTE "user.cortana.meta."

enum { DIGEST_LENGTH = CV_STORE_SHA256_SIZE - 1 };

static int64_t modified_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

static int64_t modified_ms(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1000000;
}

/* The digest is recorded with the file's size and time, so that it is not used for a file that
 * somebody has edited. */
static void format_digest(char *text, size_t size, const struct stat *status, const char *sha256)
{
    (void)snprintf(text, size, "%s %" PRId64 " %" PRId64, sha256, (int64_t)status->st_size,
                   modified_ns(status));
}

/* Records the SHA-256 in the file's extended attributes, if the file system supports them. */
static void write_digest(int fd, const struct stat *status, const char *sha256)
{
    char digest[160];
    format_digest(digest, sizeof(digest), status, sha256);
    (void)fsetxattr(fd, DIGEST_ATTRIBUTE, digest, strlen(digest), 0);
}

static bool read_attribute(int fd, const char *name, char *text, size_t size)
{
    ssize_t length = fgetxattr(fd, name, text, size - 1);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    return true;
}

void cv_directory_read_info(int fd, const struct stat *status, struct cv_object_info *info)
{
    *info = (struct cv_object_info){
        .size = status->st_size,
        .modified_ms = modified_ms(status),
    };
    char noted[160];
    char expected[160];
    if (read_attribute(fd, DIGEST_ATTRIBUTE, noted, sizeof(noted)) &&
        strlen(noted) > DIGEST_LENGTH) {
        memcpy(info->sha256, noted, DIGEST_LENGTH);
        format_digest(expected, sizeof(expected), status, info->sha256);
        if (strcmp(noted, expected) != 0) {
            info->sha256[0] = '\0';
        }
    }
    (void)snprintf(info->etag, sizeof(info->etag), "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%.12s",
                   (uint64_t)status->st_size, (uint64_t)modified_ns(status),
                   (uint64_t)status->st_ino, info->sha256);
}

/* ---- user metadata --------------------------------------------------------------------------- */

/* Writes user metadata to the file's extended attributes; fails if the file system does not support
 * them. */
static int write_metadata(int fd, const struct cv_metadata *metadata, struct cv_error *error)
{
    for (size_t i = 0; i < metadata->count; i++) {
        const struct cv_metadata_entry *entry = &metadata->entries[i];
        char name[sizeof(METADATA_ATTRIBUTE) + CV_STORE_METADATA_NAME_MAX];
        (void)snprintf(name, sizeof(name), METADATA_ATTRIBUTE "%s", entry->name);
        CV_TRY_ERRNO(fsetxattr(fd, name, entry->value, strlen(entry->value), 0) == 0, error,
                     "the store's file system cannot keep metadata");
    }
    return 0;
}

static int read_entry(int fd, const char *attribute, struct cv_metadata *metadata,
                      struct cv_error *error)
{
    char value[CV_STORE_METADATA_MAX + 1];
    ssize_t length = fgetxattr(fd, attribute, value, sizeof(value) - 1);
    if (length < 0) {
        return 0; /* it is gone meanwhile, or too long to be one of ours */
    }
    value[length] = '\0';
    struct cv_error reason;
    int result = cv_metadata_set(metadata, attribute + strlen(METADATA_ATTRIBUTE), value, &reason);
    if (result && reason.type == CV_ERROR_OUT_OF_MEMORY) {
        *error = reason;
        return result;
    }
    return 0; /* attributes that break the rules were not written by this program */
}

int cv_directory_read_metadata(int fd, struct cv_metadata *metadata, struct cv_error *error)
{
    enum { NAMES_SIZE = 64 << 10 }; /* the kernel's limit for the list */
    cv_auto_free char *names = malloc(NAMES_SIZE);
    CV_TRY_MEMORY(names, error, "metadata");
    ssize_t length = flistxattr(fd, names, NAMES_SIZE);
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
        if (strncmp(names + at, METADATA_ATTRIBUTE, strlen(METADATA_ATTRIBUTE)) == 0) {
            CV_TRY(read_entry(fd, names + at, metadata, error));
        }
    }
    return 0;
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* Writes the object once, through an unnamed or a named file. */
static int put_once(struct cv_directory_store *directory, const struct cv_new_object *object,
                    const struct cv_store_input *input, struct cv_object_info *ret_info,
                    struct cv_error *error)
{
    const char *key = object->key;
    cv_auto(incoming_deinit) struct incoming incoming = {.directory = -1, .file = -1};
    CV_TRY(open_incoming(directory, &incoming, error));
    CV_TRY(directory->named_only ? create_named(&incoming, error)
                                 : create_unnamed(&incoming, error));
    char sha256[CV_STORE_SHA256_SIZE];
    CV_TRY(copy(input, incoming.file, sha256, error));
    if (object->sha256 && strcmp(object->sha256, sha256) != 0) {
        return cv_fail(error, CV_ERROR_CONFLICT, "the bytes for %s have SHA-256 %s, not %s", key,
                       sha256, object->sha256);
    }
    struct stat status;
    CV_TRY_ERRNO(fstat(incoming.file, &status) == 0, error, "look at %s", key);
    write_digest(incoming.file, &status, sha256);
    if (object->metadata) {
        int result = write_metadata(incoming.file, object->metadata, error);
        if (result) {
            return cv_fail_context(error, result, "%s", key);
        }
    }
    CV_TRY_ERRNO(fsync(incoming.file) == 0, error, "write %s to disk", key);
    CV_TRY(name_it(&incoming, error));
    CV_TRY(publish(directory, key, &incoming, object->create_only, error));
    cv_directory_read_info(incoming.file, &status, ret_info);
    return 0;
}

int cv_directory_put(struct cv_store *store, const struct cv_new_object *object,
                     const struct cv_store_input *input, struct cv_object_info *ret_info,
                     struct cv_error *error)
{
    struct cv_directory_store *directory = (struct cv_directory_store *)store;
    CV_TRY(cv_directory_check_key(object->key, error));
    int result = put_once(directory, object, input, ret_info, error);
    if (result == NEEDS_NAME && !directory->named_only) {
        directory->named_only = true;
        result = put_once(directory, object, input, ret_info, error);
    }
    return result;
}

/* ---- leftovers ------------------------------------------------------------------------------- */

static bool is_leftover(int directory, const char *name, time_t now)
{
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode) ||
        now - status.st_mtime < LEFTOVER_AGE_SECONDS) {
        return false;
    }
    cv_auto_fd int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

void cv_directory_sweep(const struct cv_directory_store *directory)
{
    struct cv_error ignored;
    int fd = -1;
    if (cv_directory_walk(directory, CV_DIRECTORY_INCOMING, strlen(CV_DIRECTORY_INCOMING), &fd,
                          &ignored)) {
        return;
    }
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        return;
    }
    time_t now = time(NULL);
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] != '.' && is_leftover(fd, entry->d_name, now)) {
            (void)unlinkat(fd, entry->d_name, 0);
        }
    }
    closedir(stream);
}
