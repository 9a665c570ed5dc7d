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

/* The backend's calls. */
