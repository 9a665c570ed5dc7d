/* Paths below the store's directory: walking down without following links, and listing. */
#pragma once

#include "common/store/dir/directory.h"

/* cv_store_check_key's rules hold already; these are the file system's. */
CV_MUST_CHECK int cv_directory_check_key(const char *key, struct cv_error *error);

/* Opens the directory that holds the first `length` bytes of `key` as a path (0: the root).
 * CV_STORE_NOT_FOUND when a part is missing or no directory. */
CV_MUST_CHECK int cv_directory_walk(const struct cv_directory_store *directory, const char *key,
                                    size_t length, int *ret_fd, struct cv_error *error);

/* The same, making what is missing, durably. CV_STORE_NOT_FOUND when a directory vanished on the
 * way (another process deletes): try again. */
CV_MUST_CHECK int cv_directory_make(const struct cv_directory_store *directory, const char *key,
                                    size_t length, int *ret_fd, struct cv_error *error);

/* Bytes of `key` before its last segment, without the slash: 0 for a key of one segment. */
size_t cv_directory_parent_length(const char *key);

/* The backend's call. */
CV_MUST_CHECK int cv_directory_list(struct cv_store *store, const char *prefix,
                                    const char *start_after, const char *continuation, size_t limit,
                                    struct cv_object_list *ret_list, struct cv_error *error);
