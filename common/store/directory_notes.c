#include "common/store/directory.h"

#include <inttypes.h>
#include <string.h>
#include <sys/xattr.h>

#define TYPE_ATTRIBUTE "user.cortana.content_type"
#define DIGEST_ATTRIBUTE "user.cortana.sha256"
#define METADATA_ATTRIBUTE "user.cortana.meta."

enum { DIGEST_LENGTH = CV_STORE_SHA256_SIZE - 1 };

static int64_t modified_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

int64_t cv_directory_modified_ms(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000 + status->st_mtim.tv_nsec / 1000000;
}

/* The digest is noted with the size and time it was taken at, so that a file that somebody has
 * edited by hand does not carry a wrong one. */
static void format_digest(char *text, size_t size, const struct stat *status, const char *sha256)
{
    (void)snprintf(text, size, "%s %" PRId64 " %" PRId64, sha256, (int64_t)status->st_size,
                   modified_ns(status));
}

void cv_directory_write_notes(int fd, const struct stat *status, const char *content_type,
                              const char *sha256)
{
    char digest[160];
    format_digest(digest, sizeof(digest), status, sha256);
    (void)fsetxattr(fd, DIGEST_ATTRIBUTE, digest, strlen(digest), 0);
    if (content_type) {
        (void)fsetxattr(fd, TYPE_ATTRIBUTE, content_type, strlen(content_type), 0);
    }
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

void cv_directory_read_info(int fd, const struct stat *status, const char *key,
                            struct cv_object_info *info)
{
    *info = (struct cv_object_info){
        .size = status->st_size,
        .modified_ms = cv_directory_modified_ms(status),
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
    if (!read_attribute(fd, TYPE_ATTRIBUTE, info->content_type, sizeof(info->content_type))) {
        (void)snprintf(info->content_type, sizeof(info->content_type), "%s",
                       cv_content_type_of_key(key));
    }
    (void)snprintf(info->etag, sizeof(info->etag), "%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%.12s",
                   (uint64_t)status->st_size, (uint64_t)modified_ns(status),
                   (uint64_t)status->st_ino, info->sha256);
}

/* ---- user metadata --------------------------------------------------------------------------- */

int cv_directory_write_metadata(int fd, const struct cv_metadata *metadata, struct cv_error *error)
{
    for (size_t i = 0; i < metadata->count; i++) {
        const struct cv_metadata_entry *entry = &metadata->entries[i];
        char name[sizeof(METADATA_ATTRIBUTE) + CV_STORE_METADATA_NAME_MAX];
        (void)snprintf(name, sizeof(name), METADATA_ATTRIBUTE "%s", entry->name);
        if (fsetxattr(fd, name, entry->value, strlen(entry->value), 0)) {
            return cv_fail_errno(error, errno, "the store's file system cannot keep metadata");
        }
    }
    return 0;
}

static int read_entry(int fd, const char *attribute, struct cv_metadata *metadata,
                      struct cv_error *error)
{
    char value[CV_STORE_METADATA_MAX + 1];
    ssize_t length = fgetxattr(fd, attribute, value, sizeof(value) - 1);
    if (length < 0) {
        return 0; /* gone meanwhile, or too long to be ours */
    }
    value[length] = '\0';
    struct cv_error reason;
    int result = cv_metadata_set(metadata, attribute + strlen(METADATA_ATTRIBUTE), value, &reason);
    if (result && reason.type == CV_ERROR_OUT_OF_MEMORY) {
        *error = reason;
        return result;
    }
    return 0; /* what breaks the rules was not put through us */
}

int cv_directory_read_metadata(int fd, struct cv_metadata *metadata, struct cv_error *error)
{
    enum { NAMES_SIZE = 64 << 10 }; /* the kernel's own limit for the list */
    cv_auto_free char *names = malloc(NAMES_SIZE);
    if (!names) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for metadata");
    }
    ssize_t length = flistxattr(fd, names, NAMES_SIZE);
    int result = 0;
    for (ssize_t at = 0; result == 0 && at < length; at += (ssize_t)strlen(names + at) + 1) {
        if (strncmp(names + at, METADATA_ATTRIBUTE, strlen(METADATA_ATTRIBUTE)) == 0) {
            result = read_entry(fd, names + at, metadata, error);
        }
    }
    return result;
}
