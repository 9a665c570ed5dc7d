/* The directory store's parts: paths, writing, listing. A key is a path under the root; every
 * directory on the way is opened by itself and no symbolic link is followed, so that nothing under
 * the root leads out of it.
 *
 * A put is written to a file without a name (or, where the file system has none, to a locked file
 * in `.incoming/`), which gets its name there when it is complete and on disk, and is renamed into
 * place. Whoever holds the lock is alive: leftovers without one are removed by later opens.
 */
#pragma once

#include "common/store/backend.h"

#include <sys/stat.h>

#define CV_DIRECTORY_INCOMING ".incoming"

struct cv_directory_store {
    struct cv_store store;
    int root;        /* the directory, open */
    char *path;      /* absolute */
    bool named_only; /* the file system cannot name an unnamed file later */
};

/* Paths below the store's directory: walking down without following links, and listing. */

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

/* Writing objects, and what is noted on their files. */

/* Renames a whole file to its key. CV_STORE_NOT_FOUND when there is none of that name,
 * CV_STORE_EXISTS with `create_only` and an object in its place. */
CV_MUST_CHECK int cv_directory_publish(const struct cv_directory_store *directory, const char *key,
                                       int from_directory, const char *from_name, bool create_only,
                                       struct cv_error *error);

/* The backend's call. */
CV_MUST_CHECK int cv_directory_put(struct cv_store *store, const char *key,
                                   const struct cv_store_input *input,
                                   const struct cv_put_params *params,
                                   struct cv_object_info *ret_info, struct cv_error *error);

/* Removes what killed writers left in `.incoming/`: older than an hour and locked by nobody. Never
 * fails; what cannot be removed stays for the next time. */
void cv_directory_sweep(const struct cv_directory_store *directory);

/* What the file says of itself: size, time, ETag, and what was noted on it at the put. */
void cv_directory_read_info(int fd, const struct stat *status, const char *key,
                            struct cv_object_info *info);

/* Notes content type and SHA-256 on the file (extended attributes), as far as it can hold them. */
void cv_directory_write_notes(int fd, const struct stat *status, const char *content_type,
                              const char *sha256);

/* User metadata as extended attributes of the file; a file system that cannot hold them is a
 * failure. */
CV_MUST_CHECK int cv_directory_write_metadata(int fd, const struct cv_metadata *metadata,
                                              struct cv_error *error);
CV_MUST_CHECK int cv_directory_read_metadata(int fd, struct cv_metadata *metadata,
                                             struct cv_error *error);
