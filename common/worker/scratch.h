/* Scratch directories that are always removed. Each process that needs scratch space owns one
 * directory "cortana-scratch-XXXXXX" and holds a lock on it. The kernel releases the lock when the
 * process ends, however it ends. So a directory that can be locked is a leftover, and the next
 * process that opens scratch space in the same place removes it. */
#pragma once

#include "common/base/base.h"

#include <sys/types.h>

struct cv_scratch {
    int parent_fd;
    int fd; /* holds the lock */
    char *path;
    char name[32]; /* its name in the parent directory */
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

/* Removes the directory and everything in it. */
void cv_scratch_close(struct cv_scratch *scratch);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_scratch, cv_scratch_close)

/* Closes it without removing the directory: for a child process, whose parent still owns it. */
void cv_scratch_abandon(struct cv_scratch *scratch);

/* Makes an empty directory inside; one that an earlier attempt left under that name is removed
 * first. */
CV_MUST_CHECK int cv_scratch_make(struct cv_scratch *scratch, const char *name, char **ret_path,
                                  struct cv_error *error);

/* Lets a caller interrupt a removal: go_on is called every few hundred files; false stops it. */
struct cv_scratch_pace {
    bool (*go_on)(void *opaque);
    void *opaque;
};

/* Removes the scratch directories of dead processes. `pace` may be NULL. */
void cv_scratch_sweep(const struct cv_scratch *scratch, const struct cv_scratch_pace *pace);

/* Renames the directory `name`, which takes no time, so that cv_scratch_remove_discarded removes it
 * later. */
CV_MUST_CHECK int cv_scratch_discard(const struct cv_scratch *scratch, const char *name,
                                     struct cv_error *error);
void cv_scratch_remove_discarded(const struct cv_scratch *scratch,
                                 const struct cv_scratch_pace *pace);

struct cv_scratch_usage {
    int64_t bytes; /* as allocated on the disk */
    int64_t files; /* files and directories */
};

/* The most that a job may write, to its scratch directory and to the store: the bytes of one
 * largest file, and twice the segments of two days in seven renditions. */
#define CV_SCRATCH_BYTES (INT64_C(64) << 30)

/* Reads the setting CORTANA_SCRATCH_BYTES; the number of files follows from it. */
CV_MUST_CHECK int cv_scratch_most(struct cv_scratch_usage *ret_most, struct cv_error *error);

/* What a job may write for an input of `input` bytes: a constant and a multiple of the input, at most
 * `most`. */
struct cv_scratch_usage cv_scratch_most_for(const struct cv_scratch_usage *most, int64_t input);

/* Whether the directory `name` has more than `most`. Files that process `pid` (0: none) has removed
 * from it but still holds open are counted, too. Counting stops when the limit is exceeded;
 * *ret_usage is what was counted. */
bool cv_scratch_exceeds(const struct cv_scratch *scratch, const char *name, pid_t pid,
                        const struct cv_scratch_usage *most, struct cv_scratch_usage *ret_usage);

/* A thread that measures the scratch directories of running jobs, which a stage could fill, and
 * removes those of finished jobs, which may have a million files, so that the supervisor's loop
 * does not wait. Called by the loop's thread. */

enum { CV_SCRATCH_TEXT_SIZE = 160 };

struct cv_scratch_watch;

/* Starts the thread for directories in `scratch`, which must outlive it, as must `news_fd`: it is
 * signalled (cv_wakeup_signal) when an answer may have changed. The thread also removes the scratch
 * directories of dead processes. */
CV_MUST_CHECK int cv_scratch_watch_start(const struct cv_scratch *scratch, int slots, int news_fd,
                                         struct cv_scratch_watch **ret_watch,
                                         struct cv_error *error);

/* Ends the thread; a removal under way stops and the rest stays. NULL is allowed. */
void cv_scratch_watch_stop(struct cv_scratch_watch *watch);

/* Measures the directory `name` of the slot's stage, process `pid`, until it is discarded. */
void cv_scratch_watch_add(struct cv_scratch_watch *watch, int slot, const char *name, pid_t pid,
                          const struct cv_scratch_usage *most);

/* Whether the directory was found to contain more than allowed; `text` says what. */
bool cv_scratch_watch_is_over(struct cv_scratch_watch *watch, int slot,
                              char text[CV_SCRATCH_TEXT_SIZE]);

/* Detaches the directory from the slot and removes it soon. */
CV_MUST_CHECK int cv_scratch_watch_discard(struct cv_scratch_watch *watch, int slot,
                                           const char *name, struct cv_error *error);

/* Whether a discarded directory may still exist. */
bool cv_scratch_watch_is_removing(struct cv_scratch_watch *watch);
