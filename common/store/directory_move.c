#include "common/store/directory.h"

#include <fcntl.h>
#include <string.h>

/* Opens the object at `from` and looks whether it is the expected one. */
static int open_expected(const struct cv_directory_store *directory, const char *from,
                         const char *if_etag, int *ret_fd, struct cv_object_info *ret_info,
                         struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    struct stat status;
    int result = cv_directory_open_object(directory, from, &fd, &status, error);
    if (result) {
        return result;
    }
    cv_directory_read_info(fd, &status, from, ret_info);
    if (if_etag && strcmp(if_etag, ret_info->etag) != 0) {
        return CV_STORE_CHANGED;
    }
    *ret_fd = cv_take_fd(&fd);
    return 0;
}

int cv_directory_copy(struct cv_store *store, const char *from, const char *to, const char *if_etag,
                      struct cv_object_info *ret_info, struct cv_error *error)
{
    const struct cv_directory_store *directory = (struct cv_directory_store *)store;
    cv_auto_fd int fd = -1;
    struct cv_object_info info;
    cv_auto(cv_metadata_deinit) struct cv_metadata metadata = {0};
    int result = open_expected(directory, from, if_etag, &fd, &info, error);
    result = result ? result : cv_directory_read_metadata(fd, &metadata, error);
    if (result) {
        return result;
    }
    const struct cv_put_params params = {
        .content_type = info.content_type,
        .sha256 = info.sha256[0] ? info.sha256 : NULL,
        .metadata = &metadata,
    };
    const struct cv_store_input input = {.size = (size_t)info.size, .fd = fd};
    return cv_directory_put(store, to, &input, &params, ret_info, error);
}

/* A rename: notes and metadata go with the file. An object that is overwritten between the look and
 * the rename is moved as it is then. */
int cv_directory_move(struct cv_store *store, const char *from, const char *to, const char *if_etag,
                      struct cv_object_info *ret_info, struct cv_error *error)
{
    const struct cv_directory_store *directory = (struct cv_directory_store *)store;
    cv_auto_fd int fd = -1;
    cv_auto_fd int parent = -1;
    size_t parent_length = cv_directory_parent_length(from);
    const char *name = parent_length > 0 ? from + parent_length + 1 : from;
    struct cv_object_info info;
    int result = cv_directory_check_key(to, error);
    result = result ? result : open_expected(directory, from, if_etag, &fd, &info, error);
    result = result ? result : cv_directory_walk(directory, from, parent_length, &parent, error);
    result = result ? result : cv_directory_publish(directory, to, parent, name, false, error);
    if (result) {
        return result;
    }
    if (fsync(parent)) {
        return cv_fail_errno(error, errno, "write the move of %s to disk", from);
    }
    cv_directory_remove_empty(directory, from);
    *ret_info = info;
    return 0;
}
