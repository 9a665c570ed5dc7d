/* Scratch directories that nothing outlives: each process that needs scratch space owns one
 * directory "cortana-scratch-XXXXXX", held by a lock on the directory itself. The lock goes with
 * its process, however that ends, so a directory that can be locked is a leftover and is removed by
 * the next process that opens scratch space in the same place. */
#pragma once

#include "common/base/base.h"

struct cv_scratch {
    int parent_fd;
    int fd; /* holds the lock */
    char *path;
    char name[32]; /* in the parent */
};

#define CV_SCRATCH_INIT \
    {                   \
        -1, -1, NULL,   \
        {               \
            0           \
        }               \
    }

/* Makes the directory under CORTANA_SCRATCH (TMPDIR, /tmp) and removes leftovers there. */
CV_MUST_CHECK int cv_scratch_open(struct cv_scratch *scratch, struct cv_error *error);

/* Removes it with all that is in it. */
void cv_scratch_close(struct cv_scratch *scratch);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_scratch, cv_scratch_close)

/* Forgets it without removing it: for a child process, whose parent goes on to own it. */
void cv_scratch_abandon(struct cv_scratch *scratch);

/* A directory inside, empty: what an earlier attempt left under that name is removed. */
CV_MUST_CHECK int cv_scratch_make(struct cv_scratch *scratch, const char *name, char **ret_path,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_scratch_remove(struct cv_scratch *scratch, const char *name,
                                    struct cv_error *error);
