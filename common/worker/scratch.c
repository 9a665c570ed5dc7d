#include "common/worker/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char prefix[] = "cortana-scratch-";
static const char discarded[] = "discarded-"; /* no job id begins so */

enum {
    DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    /* A stage may nest directories more deeply than this process has descriptors or stack for;
     * deeper ones are moved up and removed there. */
    DEPTH_MAX = 32,
    STEPS = 256, /* files between two calls of go_on: some milliseconds on a disk */
};

static inline void close_directory(DIR **directory)
{
    if (*directory) {
        closedir(*directory);
    }
}

/* The state of one removal: the top directory, and a counter for the names of moved entries. */
struct removal {
    int top_fd;
    unsigned long moved;
    const struct cv_scratch_pace *pace; /* may be NULL */
    unsigned long steps;
};

static int remove_entry(struct removal *removal, int parent_fd, const char *name, int depth,
                        struct cv_error *error);

static int open_directory(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, DIRECTORY_FLAGS);
    if (fd < 0 && errno == EACCES && fchmodat(parent_fd, name, 0700, 0) == 0) {
        fd = openat(parent_fd, name, DIRECTORY_FLAGS);
    }
    return fd;
}

static int empty_directory(struct removal *removal, int fd, int depth, struct cv_error *error)
{
    __attribute__((cleanup(close_directory))) DIR *directory = fdopendir(fd);
    if (!directory) {
        int error_number = errno;
        close(fd);
        return cv_fail_errno(error, error_number, "cannot read a scratch directory");
    }
    (void)fchmod(fd, 0700);
    struct dirent *entry;
    while ((entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        CV_TRY(remove_entry(removal, fd, entry->d_name, depth + 1, error));
    }
    return 0;
}

/* Moves an entry to the top directory, under a free name: a stage may have used any. */
static int move_to_top(struct removal *removal, int parent_fd, const char *name,
                       struct cv_error *error)
{
    char elsewhere[48];
    int r = -1;
    do {
        (void)snprintf(elsewhere, sizeof(elsewhere), ".moved-%lu", removal->moved++);
        r = renameat2(parent_fd, name, removal->top_fd, elsewhere, RENAME_NOREPLACE);
    } while (r != 0 && errno == EEXIST);
    return r == 0 ? 0 : cv_fail_errno(error, errno, "cannot move %s within scratch", name);
}

static int remove_entry(struct removal *removal, int parent_fd, const char *name, int depth,
                        struct cv_error *error)
{
    if (removal->pace && ++removal->steps % STEPS == 0 &&
        !removal->pace->go_on(removal->pace->opaque)) {
        return cv_fail(error, CV_ERROR_CANCELED, "scratch is not removed to the end");
    }
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return cv_fail_errno(error, errno, "cannot remove %s from scratch", name);
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    if (depth > DEPTH_MAX) {
        return move_to_top(removal, parent_fd, name, error);
    }
    int fd = open_directory(parent_fd, name);
    CV_TRY_ERRNO(fd >= 0, error, "cannot open %s in scratch", name);
    CV_TRY(empty_directory(removal, fd, depth, error));
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    return cv_fail_errno(error, errno, "cannot remove %s from scratch", name);
}

/* Removes `name` in the open directory, whatever its type; links are removed, never followed. */
static int remove_tree(int parent_fd, const char *name, const struct cv_scratch_pace *pace,
                       struct cv_error *error)
{
    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    cv_auto_fd int top_fd = open_directory(parent_fd, name);
    CV_TRY_ERRNO(top_fd >= 0, error, "cannot open %s in scratch", name);
    struct removal removal = {.top_fd = top_fd, .pace = pace};
    unsigned long moved_before = 0;
    /* The next pass removes what the last one moved to the top. */
    do {
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
            return 0;
        }
        if (errno != ENOTEMPTY && errno != EEXIST) {
            return cv_fail_errno(error, errno, "cannot remove %s", name);
        }
        int fd = openat(top_fd, ".", DIRECTORY_FLAGS);
        CV_TRY_ERRNO(fd >= 0, error, "cannot open %s in scratch", name);
        moved_before = removal.moved;
        CV_TRY(empty_directory(&removal, fd, 0, error));
    } while (removal.moved > moved_before);
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    return cv_fail_errno(error, errno, "cannot remove %s", name);
}

/* Calls `visit` for every entry until it returns false. The entry's type may be unknown. */
static void each_entry(int parent_fd, bool (*visit)(void *opaque, int parent_fd, const char *name),
                       void *opaque)
{
    int list_fd = openat(parent_fd, ".", DIRECTORY_FLAGS);
    __attribute__((cleanup(close_directory))) DIR *directory =
        list_fd < 0 ? NULL : fdopendir(list_fd);
    if (!directory && list_fd >= 0) {
        close(list_fd);
    }
    struct dirent *entry = NULL;
    bool goes_on = true;
    while (goes_on && directory && (entry = readdir(directory))) {
        bool is_own = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        goes_on = is_own || visit(opaque, parent_fd, entry->d_name);
    }
}

/* Removes a leftover. One that cannot be removed (another user's) is left there; it does no harm. */
static void remove_quietly(int parent_fd, const char *name, const struct cv_scratch_pace *pace)
{
    struct cv_error error;
    if (remove_tree(parent_fd, name, pace, &error) < 0) {
        cv_log(CV_LOG_DEBUG, "%s", error.message);
    }
}

static bool is_wanted(const struct cv_scratch_pace *pace)
{
    return !pace || pace->go_on(pace->opaque);
}

static bool remove_leftover(void *pace, int parent_fd, const char *name)
{
    struct stat status;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) {
        return true;
    }
    cv_auto_fd int fd = openat(parent_fd, name, DIRECTORY_FLAGS);
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0) {
        remove_quietly(parent_fd, name, pace);
    }
    return is_wanted(pace);
}

void cv_scratch_sweep(const struct cv_scratch *scratch, const struct cv_scratch_pace *pace)
{
    each_entry(scratch->parent_fd, remove_leftover, (void *)pace);
}

/* Makes and locks a directory. Between mkdtemp and the lock another process may take it for a
 * leftover and remove it: then another one is made. */
static int make_own(struct cv_scratch *scratch, const char *parent, struct cv_error *error)
{
    enum { TRIES = 20 };
    for (int i = 0; i < TRIES; i++) {
        cv_auto_free char *path = NULL;
        CV_TRY(cv_format(&path, error, "%s/%sXXXXXX", parent, prefix));
        CV_TRY_ERRNO(mkdtemp(path), error, "cannot make a scratch directory in %s", parent);
        cv_auto_fd int fd = open(path, DIRECTORY_FLAGS);
        struct stat status;
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 &&
            status.st_nlink > 0) {
            (void)snprintf(scratch->name, sizeof(scratch->name), "%s", strrchr(path, '/') + 1);
            scratch->path = cv_take(path);
            scratch->fd = cv_take_fd(&fd);
            return 0;
        }
    }
    return cv_fail(error, CV_ERROR_IO, "cannot keep a scratch directory in %s", parent);
}

int cv_scratch_open(struct cv_scratch *ret_scratch, struct cv_error *error)
{
    const char *parent = cv_env("CORTANA_SCRATCH", cv_env("TMPDIR", "/tmp"));
    cv_auto(cv_scratch_close) struct cv_scratch scratch = CV_SCRATCH_INIT;
    cv_auto_free char *whole = realpath(parent, NULL);
    if (!whole) {
        int error_number = errno;
        return cv_fail(error, CV_ERROR_CONFIGURATION, "scratch directory %s: %s", parent,
                       strerror(error_number));
    }
    scratch.parent_fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CV_TRY_ERRNO(scratch.parent_fd >= 0, error, "scratch directory %s", whole);
    CV_TRY(make_own(&scratch, whole, error));
    *ret_scratch = scratch;
    scratch = (struct cv_scratch)CV_SCRATCH_INIT;
    return 0;
}

void cv_scratch_abandon(struct cv_scratch *scratch)
{
    if (scratch->fd >= 0) {
        close(scratch->fd);
    }
    if (scratch->parent_fd >= 0) {
        close(scratch->parent_fd);
    }
    free(scratch->path);
    *scratch = (struct cv_scratch)CV_SCRATCH_INIT;
}

void cv_scratch_close(struct cv_scratch *scratch)
{
    struct cv_error error;
    if (scratch->fd >= 0 && remove_tree(scratch->parent_fd, scratch->name, NULL, &error) < 0) {
        cv_log(CV_LOG_DEBUG, "%s", error.message);
    }
    cv_scratch_abandon(scratch);
}

int cv_scratch_make(struct cv_scratch *scratch, const char *name, char **ret_path,
                    struct cv_error *error)
{
    cv_auto_free char *path = NULL;
    CV_TRY(cv_format(&path, error, "%s/%s", scratch->path, name));
    CV_TRY(remove_tree(scratch->fd, name, NULL, error));
    CV_TRY_ERRNO(mkdirat(scratch->fd, name, 0700) == 0, error,
                 "cannot make the scratch directory %s", path);
    *ret_path = cv_take(path);
    return 0;
}

/* ---- directories of finished jobs ------------------------------------------------------------ */

int cv_scratch_discard(const struct cv_scratch *scratch, const char *name, struct cv_error *error)
{
    char aside[96];
    int result = -1;
    do {
        (void)snprintf(aside, sizeof(aside), "%s%08x", discarded, arc4random());
        result = renameat2(scratch->fd, name, scratch->fd, aside, RENAME_NOREPLACE);
    } while (result != 0 && errno == EEXIST);
    return result == 0 || errno == ENOENT
               ? 0
               : cv_fail_errno(error, errno, "cannot put the scratch directory %s aside", name);
}

static bool remove_if_discarded(void *pace, int parent_fd, const char *name)
{
    if (strncmp(name, discarded, sizeof(discarded) - 1) == 0) {
        remove_quietly(parent_fd, name, pace);
    }
    return is_wanted(pace);
}

void cv_scratch_remove_discarded(const struct cv_scratch *scratch,
                                 const struct cv_scratch_pace *pace)
{
    each_entry(scratch->fd, remove_if_discarded, (void *)pace);
}

/* A million files in the default of 64 GiB; segments and kept frames have 50 KiB and more. */
enum { BYTES_PER_FILE = 64 << 10 };

int cv_scratch_most(struct cv_scratch_usage *ret_most, struct cv_error *error)
{
    CV_TRY(cv_env_int("CORTANA_SCRATCH_BYTES", CV_SCRATCH_BYTES, 1 << 20, INT64_MAX - 1,
                      &ret_most->bytes, error));
    ret_most->files = ret_most->bytes / BYTES_PER_FILE;
    return 0;
}

static int64_t bounded(int64_t most, int64_t constant, int64_t times, int64_t input)
{
    int64_t wanted = input < most / times ? constant + input * times : most;
    return wanted < most ? wanted : most;
}

/* The multiples allow for renditions, which can take several times the bytes of a well-compressed
 * recording, and for the segments of a still picture: at 10 kbit/s an hour has 900 segments of each
 * rendition and 4.5 MB. The constants allow for small inputs: 50,000 are more than the segments of
 * two days (43,200). */
struct cv_scratch_usage cv_scratch_most_for(const struct cv_scratch_usage *most, int64_t input)
{
    return (struct cv_scratch_usage){
        .bytes = bounded(most->bytes, 2LL << 30, 16, input),
        .files = bounded(most->files, 50 * 1000, 1, input >> 10),
    };
}

struct count {
    struct cv_scratch_usage most, seen;
    int depth;
    dev_t device;
};

static bool is_within(const struct count *count)
{
    return count->seen.files <= count->most.files && count->seen.bytes <= count->most.bytes;
}

static void count_file(struct count *count, const struct stat *status)
{
    enum { BLOCK_BYTES = 512 };
    count->seen.files++;
    count->seen.bytes += (int64_t)status->st_blocks * BLOCK_BYTES;
}

/* Counts an entry. No stage of this project nests directories, so below DEPTH_MAX the count is
 * given up and taken as too much. */
static bool count_entry(void *opaque, int parent_fd, const char *name)
{
    struct count *count = opaque;
    struct stat status;
    if (fstatat(parent_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return true;
    }
    count_file(count, &status);
    if (!S_ISDIR(status.st_mode)) {
        return is_within(count);
    }
    cv_auto_fd int fd = open_directory(parent_fd, name);
    if (fd >= 0 && count->depth < DEPTH_MAX) {
        count->depth++;
        each_entry(fd, count_entry, count);
        count->depth--;
    } else if (count->depth == DEPTH_MAX) {
        count->seen.files = count->most.files + 1;
    }
    return is_within(count);
}

/* Counts a file that is open but has been removed. */
static bool count_open_file(void *opaque, int parent_fd, const char *name)
{
    struct count *count = opaque;
    struct stat status;
    if (fstatat(parent_fd, name, &status, 0) == 0 && S_ISREG(status.st_mode) &&
        status.st_nlink == 0 && status.st_dev == count->device) {
        count_file(count, &status);
    }
    return is_within(count);
}

bool cv_scratch_exceeds(const struct cv_scratch *scratch, const char *name, pid_t pid,
                        const struct cv_scratch_usage *most, struct cv_scratch_usage *ret_usage)
{
    struct count count = {.most = *most};
    struct stat status;
    cv_auto_fd int fd = open_directory(scratch->fd, name);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return false; /* the process has ended or is about to */
    }
    count.device = status.st_dev;
    each_entry(fd, count_entry, &count);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    cv_auto_fd int open_files = pid > 0 ? open(path, DIRECTORY_FLAGS) : -1;
    if (open_files >= 0 && is_within(&count)) {
        each_entry(open_files, count_open_file, &count);
    }
    *ret_usage = count.seen;
    return !is_within(&count);
}

/* ---- the thread that watches ----------------------------------------------------------------- */

/* Between two measurements a stage can write a few hundred MiB more than its limit. */
enum { MEASURE_MS = 500 };

struct watched {
    char name[64]; /* "": the slot has no directory */
    pid_t pid;
    struct cv_scratch_usage most;
    unsigned number; /* the job's number, so that a late answer is not taken for the next job's */
    bool is_over;
    struct cv_scratch_usage seen;
};

struct cv_scratch_watch {
    const struct cv_scratch *scratch;
    int slots;
    int news_fd;
    int64_t measure_at;               /* used by the thread only */
    struct cv_background background;  /* its mutex protects everything below */
    unsigned long discarded, removed; /* numbers of the newest ones */
    int busy;                         /* number of slots with a directory */
    struct watched watched[];
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void measure(struct cv_scratch_watch *watch, int slot)
{
    (void)pthread_mutex_lock(&watch->background.mutex);
    struct watched item = watch->watched[slot];
    (void)pthread_mutex_unlock(&watch->background.mutex);
    if (!item.name[0] || item.is_over ||
        !cv_scratch_exceeds(watch->scratch, item.name, item.pid, &item.most, &item.seen)) {
        return;
    }
    (void)pthread_mutex_lock(&watch->background.mutex);
    struct watched *now = &watch->watched[slot];
    if (now->number == item.number) {
        now->is_over = true;
        now->seen = item.seen;
        cv_wakeup_signal(watch->news_fd);
    }
    (void)pthread_mutex_unlock(&watch->background.mutex);
}

/* Called every few hundred files during a removal: measures running jobs' directories when it is
 * time; false stops the removal. */
static bool go_on(void *opaque)
{
    struct cv_scratch_watch *watch = opaque;
    if (cv_monotonic_ms() >= watch->measure_at) {
        for (int i = 0; i < watch->slots; i++) {
            measure(watch, i);
        }
        watch->measure_at = cv_monotonic_ms() + MEASURE_MS;
    }
    CV_LOCK(&watch->background.mutex);
    return !watch->background.is_stopping;
}

static void run(void *opaque)
{
    struct cv_scratch_watch *watch = opaque;
    const struct cv_scratch_pace pace = {go_on, watch};
    cv_scratch_sweep(watch->scratch, &pace);
    (void)pthread_mutex_lock(&watch->background.mutex);
    while (!watch->background.is_stopping) {
        unsigned long done = watch->discarded;
        bool is_removing = done != watch->removed;
        (void)pthread_mutex_unlock(&watch->background.mutex);
        if (is_removing) {
            cv_scratch_remove_discarded(watch->scratch, &pace);
        }
        (void)go_on(watch);
        (void)pthread_mutex_lock(&watch->background.mutex);
        if (is_removing) {
            watch->removed = done;
            cv_wakeup_signal(watch->news_fd);
        }
        if (watch->discarded == watch->removed) {
            int64_t until = watch->busy > 0 ? cv_monotonic_ms() + MEASURE_MS : INT64_MAX;
            (void)cv_background_wait(&watch->background, until);
        }
    }
    (void)pthread_mutex_unlock(&watch->background.mutex);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

int cv_scratch_watch_start(const struct cv_scratch *scratch, int slots, int news_fd,
                           struct cv_scratch_watch **ret_watch, struct cv_error *error)
{
    cv_auto_free struct cv_scratch_watch *watch =
        calloc(1, sizeof(*watch) + (size_t)slots * sizeof(watch->watched[0]));
    if (!watch) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to watch the scratch directory");
    }
    watch->scratch = scratch;
    watch->slots = slots;
    watch->news_fd = news_fd;
    CV_TRY(cv_background_start(&watch->background, run, watch, error));
    *ret_watch = cv_take(watch);
    return 0;
}

void cv_scratch_watch_stop(struct cv_scratch_watch *watch)
{
    if (watch) {
        cv_background_stop(&watch->background, NULL, 0);
        free(watch);
    }
}

static void set_watched(struct cv_scratch_watch *watch, int slot, const struct watched *item)
{
    struct watched *now = &watch->watched[slot];
    CV_LOCK(&watch->background.mutex);
    unsigned number = now->number + 1;
    watch->busy += (item->name[0] != '\0') - (now->name[0] != '\0');
    *now = *item;
    now->number = number;
    cv_background_wake(&watch->background);
}

void cv_scratch_watch_add(struct cv_scratch_watch *watch, int slot, const char *name, pid_t pid,
                          const struct cv_scratch_usage *most)
{
    struct watched item = {.pid = pid, .most = *most};
    (void)snprintf(item.name, sizeof(item.name), "%s", name);
    set_watched(watch, slot, &item);
}

bool cv_scratch_watch_is_over(struct cv_scratch_watch *watch, int slot,
                              char text[CV_SCRATCH_TEXT_SIZE])
{
    (void)pthread_mutex_lock(&watch->background.mutex);
    struct watched item = watch->watched[slot];
    (void)pthread_mutex_unlock(&watch->background.mutex);
    if (item.is_over) {
        (void)snprintf(text, CV_SCRATCH_TEXT_SIZE,
                       "the stage's scratch directory holds %lld MiB in %lld files, and may hold "
                       "%lld MiB in %lld files",
                       (long long)item.seen.bytes >> 20, (long long)item.seen.files,
                       (long long)item.most.bytes >> 20, (long long)item.most.files);
    }
    return item.is_over;
}

int cv_scratch_watch_discard(struct cv_scratch_watch *watch, int slot, const char *name,
                             struct cv_error *error)
{
    const struct watched none = {.name = ""};
    set_watched(watch, slot, &none);
    int result = cv_scratch_discard(watch->scratch, name, error);
    CV_LOCK(&watch->background.mutex);
    watch->discarded++;
    cv_background_wake(&watch->background);
    return result;
}

bool cv_scratch_watch_is_removing(struct cv_scratch_watch *watch)
{
    CV_LOCK(&watch->background.mutex);
    return watch->discarded != watch->removed;
}
