/* The parts of the directory store: paths, writing, listing.
 *
 * A key is a path under the root. Every directory on the way is opened separately without following
 * symbolic links, so that no path leads out of the root. A put is written to a file without a name
 * (or, if the file system does not support that, to a locked file in `.incoming/`). When it is
 * complete and on disk it gets a name there, and is renamed to its place. A locked file has a
 * living writer; later opens remove leftovers without a lock. */
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

/* Paths below the store's directory: opening them without following links, and listing. */

/* Checks the rules of file systems; cv_store_check_key has checked the others. */
CV_MUST_CHECK int cv_directory_check_key(const char *key, struct cv_error *error);

/* Opens the directory that the first `length` bytes of `key` name as a path (0: the root).
 * CV_STORE_NOT_FOUND if a part is missing or is not a directory. */
CV_MUST_CHECK int cv_directory_walk(const struct cv_directory_store *directory, const char *key,
                                    size_t length, int *ret_fd, struct cv_error *error);

/* Opens it likewise, but makes missing directories, durably. CV_STORE_NOT_FOUND if a directory
 * vanished meanwhile because another process deletes: try again. */
CV_MUST_CHECK int cv_directory_make(const struct cv_directory_store *directory, const char *key,
                                    size_t length, int *ret_fd, struct cv_error *error);

/* Bytes of `key` before its last segment, without the slash: 0 for a key of one segment. */
size_t cv_directory_parent_length(const char *key);

/* The backend's call. */
CV_MUST_CHECK int cv_directory_list(struct cv_store *store, const struct cv_listing *listing,
                                    struct cv_object_list *ret_list, struct cv_error *error);

/* Writing objects, and what is noted on their files. */

/* Renames a complete file to its key. CV_STORE_NOT_FOUND if there is no file with that name,
 * CV_STORE_EXISTS with `create_only` if there is an object already. */
CV_MUST_CHECK int cv_directory_publish(const struct cv_directory_store *directory, const char *key,
                                       int from_directory, const char *from_name, bool create_only,
                                       struct cv_error *error);

/* The backend's call. */
CV_MUST_CHECK int cv_directory_put(struct cv_store *store, const struct cv_new_object *object,
                                   const struct cv_store_input *input,
                                   struct cv_object_info *ret_info, struct cv_error *error);

/* Removes files of killed writers from `.incoming/`: those older than an hour that nobody has
 * locked. Never fails; a file that cannot be removed stays until the next time. */
void cv_directory_sweep(const struct cv_directory_store *directory);

/* Reads an object's info from its file: size, time, ETag, and what the put recorded in its
 * attributes. */
void cv_directory_read_info(int fd, const struct stat *status, struct cv_object_info *info);

CV_MUST_CHECK int cv_directory_read_metadata(int fd, struct cv_metadata *metadata,
                                             struct cv_error *error);
