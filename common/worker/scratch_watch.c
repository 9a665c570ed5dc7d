#include "common/worker/scratch_watch.h"

#include "common/worker/thread.h"

#include <string.h>
#include <sys/eventfd.h>

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
    int64_t measure_at; /* used by the thread only */
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    bool is_stopping;
    unsigned long discarded, removed; /* numbers of the newest ones */
    int busy;                         /* number of slots with a directory */
    struct watched watched[];
};

static void watch_free(struct cv_scratch_watch *watch)
{
    if (watch->news_fd >= 0) {
        close(watch->news_fd);
    }
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
}
CV_DEFINE_CLEANUP(struct cv_scratch_watch *, watch_free)

/* ---- the thread ------------------------------------------------------------------------------ */

static void tell_loop(struct cv_scratch_watch *watch)
{
    uint64_t one = 1;
    ssize_t written = write(watch->news_fd, &one, sizeof(one));
    (void)written; /* if the pipe is full, it is readable already */
}

static void measure(struct cv_scratch_watch *watch, int slot)
{
    (void)pthread_mutex_lock(&watch->mutex);
    struct watched item = watch->watched[slot];
    (void)pthread_mutex_unlock(&watch->mutex);
    if (!item.name[0] || item.is_over ||
        !cv_scratch_exceeds(watch->scratch, item.name, item.pid, &item.most, &item.seen)) {
        return;
    }
    (void)pthread_mutex_lock(&watch->mutex);
    struct watched *now = &watch->watched[slot];
    if (now->number == item.number) {
        now->is_over = true;
        now->seen = item.seen;
        tell_loop(watch);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
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
    (void)pthread_mutex_lock(&watch->mutex);
    bool is_stopping = watch->is_stopping;
    (void)pthread_mutex_unlock(&watch->mutex);
    return !is_stopping;
}

static void wait_for_work(struct cv_scratch_watch *watch)
{
    int64_t at = cv_monotonic_ms() + MEASURE_MS;
    const struct timespec when = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000};
    if (watch->busy > 0) {
        (void)pthread_cond_timedwait(&watch->changed, &watch->mutex, &when);
    } else {
        (void)pthread_cond_wait(&watch->changed, &watch->mutex);
    }
}

static void *run(void *opaque)
{
    struct cv_scratch_watch *watch = opaque;
    const struct cv_scratch_pace pace = {go_on, watch};
    cv_scratch_sweep(watch->scratch, &pace);
    (void)pthread_mutex_lock(&watch->mutex);
    while (!watch->is_stopping) {
        unsigned long discarded = watch->discarded;
        bool is_removing = discarded != watch->removed;
        (void)pthread_mutex_unlock(&watch->mutex);
        if (is_removing) {
            cv_scratch_remove_discarded(watch->scratch, &pace);
        }
        (void)go_on(watch);
        (void)pthread_mutex_lock(&watch->mutex);
        if (is_removing) {
            watch->removed = discarded;
            tell_loop(watch);
        }
        if (!watch->is_stopping && watch->discarded == watch->removed) {
            wait_for_work(watch);
        }
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

/* ---- from the loop --------------------------------------------------------------------------- */

int cv_scratch_watch_start(const struct cv_scratch *scratch, int slots,
                           struct cv_scratch_watch **ret_watch, struct cv_error *error)
{
    struct cv_scratch_watch *watch =
        calloc(1, sizeof(*watch) + (size_t)slots * sizeof(watch->watched[0]));
    if (!watch || cv_thread_locks(&watch->mutex, &watch->changed, error)) {
        free(watch);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to watch the scratch directory");
    }
    cv_auto(watch_free) struct cv_scratch_watch *own = watch;
    watch->scratch = scratch;
    watch->slots = slots;
    watch->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->news_fd < 0) {
        return cv_fail_errno(error, errno, "eventfd");
    }
    CV_TRY(cv_thread_start(&watch->thread, run, watch, error));
    *ret_watch = cv_take(own);
    return 0;
}

void cv_scratch_watch_stop(struct cv_scratch_watch *watch)
{
    if (!watch) {
        return;
    }
    (void)pthread_mutex_lock(&watch->mutex);
    watch->is_stopping = true;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    (void)pthread_join(watch->thread, NULL);
    watch_free(watch);
}

static void take_up(struct cv_scratch_watch *watch, int slot, const struct watched *item)
{
    struct watched *now = &watch->watched[slot];
    (void)pthread_mutex_lock(&watch->mutex);
    unsigned number = now->number + 1;
    watch->busy += (item->name[0] != '\0') - (now->name[0] != '\0');
    *now = *item;
    now->number = number;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
}

void cv_scratch_watch_add(struct cv_scratch_watch *watch, int slot, const char *name, pid_t pid,
                          const struct cv_scratch_usage *most)
{
    struct watched item = {.pid = pid, .most = *most};
    (void)snprintf(item.name, sizeof(item.name), "%s", name);
    take_up(watch, slot, &item);
}

bool cv_scratch_watch_is_over(struct cv_scratch_watch *watch, int slot,
                              char text[CV_SCRATCH_TEXT_SIZE])
{
    (void)pthread_mutex_lock(&watch->mutex);
    struct watched item = watch->watched[slot];
    (void)pthread_mutex_unlock(&watch->mutex);
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
    take_up(watch, slot, &none);
    int result = cv_scratch_discard(watch->scratch, name, error);
    (void)pthread_mutex_lock(&watch->mutex);
    watch->discarded++;
    (void)pthread_cond_signal(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    return result;
}

bool cv_scratch_watch_is_removing(struct cv_scratch_watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    bool is_removing = watch->discarded != watch->removed;
    (void)pthread_mutex_unlock(&watch->mutex);
    return is_removing;
}

int cv_scratch_watch_fd(const struct cv_scratch_watch *watch)
{
    return watch->news_fd;
}

void cv_scratch_watch_drain(struct cv_scratch_watch *watch)
{
    uint64_t count;
    ssize_t got = read(watch->news_fd, &count, sizeof(count));
    (void)got;
}
