/* Scratch directories that nothing outlives: each process that needs scratch space owns one
 * directory "cortana-scratch-XXXXXX", held by a lock on the directory itself. The lock goes with
 * its process, however that ends, so a directory that can be locked is a leftover and is removed by
 * the next process that opens scratch space in the same place. */
#pragma once

#include "common/base/base.h"

#include <sys/types.h>

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

/* Makes the directory under CORTANA_SCRATCH (TMPDIR, /tmp). */
CV_MUST_CHECK int cv_scratch_open(struct cv_scratch *scratch, struct cv_error *error);

/* Removes it with all that is in it. */
void cv_scratch_close(struct cv_scratch *scratch);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_scratch, cv_scratch_close)

/* Forgets it without removing it: for a child process, whose parent goes on to own it. */
void cv_scratch_abandon(struct cv_scratch *scratch);

/* A directory inside, empty: what an earlier attempt left under that name is removed. */
CV_MUST_CHECK int cv_scratch_make(struct cv_scratch *scratch, const char *name, char **ret_path,
                                  struct cv_error *error);

/* How much a removal does at a time: asked every few hundred files; false ends it. */
struct cv_scratch_pace {
    bool (*go_on)(void *opaque);
    void *opaque;
};

/* Removes what dead processes have left beside the directory. `pace` may be NULL. */
void cv_scratch_sweep(const struct cv_scratch *scratch, const struct cv_scratch_pace *pace);

/* Puts the directory `name` aside, at once, for cv_scratch_remove_discarded. */
CV_MUST_CHECK int cv_scratch_discard(const struct cv_scratch *scratch, const char *name,
                                     struct cv_error *error);
void cv_scratch_remove_discarded(const struct cv_scratch *scratch,
                                 const struct cv_scratch_pace *pace);

struct cv_scratch_usage {
    int64_t bytes; /* as the disk has them */
    int64_t files; /* and directories */
};

/* What a job may leave, there and in the store: as many bytes as one file may have, and segments of two days, of seven
 * renditions, twice. */
#define CV_SCRATCH_BYTES (INT64_C(64) << 30)
enum { CV_SCRATCH_FILES = 1000 * 1000 };

/* Bytes that a job may leave which makes something of `input` bytes: a multiple of them, `most` at most. */
int64_t cv_scratch_bytes_for(int64_t most, int64_t input);

/* Whether the directory `name`, with the files that process `pid` (0: none) has removed from it and holds open, has
 * more than it may; looks no further than is needed to say so. *ret_usage is what was seen. */
bool cv_scratch_exceeds(const struct cv_scratch *scratch, const char *name, pid_t pid,
                        const struct cv_scratch_usage *most, struct cv_scratch_usage *ret_usage);
