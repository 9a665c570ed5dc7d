/* Writing objects, and what is noted on their files. */
#pragma once

#include "common/store/dir/directory.h"

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
