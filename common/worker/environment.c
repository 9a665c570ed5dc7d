#include "common/worker/environment.h"

#include "common/worker/claim.h"
#include "common/worker/metrics.h"
#include "common/worker/slots.h"

#include <string.h>
#include <sys/stat.h>

/* ---- the thread that probes ------------------------------------------------------------------ */

struct cv_watch {
    struct cv_store *store; /* used by the thread only; NULL: none */
    enum cv_store_access access;
    int (*check)(struct cv_error *error);
    int64_t again_ms;
    struct cv_cancel *cancel; /* cancels the probe under way */
    int news_fd;
    struct cv_background background; /* its mutex protects everything below */
    uint64_t asked;                  /* number of the last question */
    struct cv_watch_news news;
};

static void watch_free(struct cv_watch *watch)
{
    cv_store_close(watch->store);
    cv_cancel_free(watch->cancel);
    free(watch);
}
CV_DEFINE_CLEANUP(struct cv_watch *, watch_free)

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits until there is a question, or until it is time for another probe of a store or installation
 * that refuses. False: stop. */
static bool wait_for_reason(struct cv_watch *watch, int64_t again_at)
{
    struct cv_background *background = &watch->background;
    while (!background->is_stopping && watch->asked == watch->news.answered) {
        int64_t until = watch->news.trouble[0] ? again_at : INT64_MAX;
        if (cv_monotonic_ms() >= until) {
            break;
        }
        (void)cv_background_wait(background, until);
    }
    return !background->is_stopping;
}

/* Probes once; returns the result without the number of the question. */
static struct cv_watch_news probe(struct cv_watch *watch)
{
    struct cv_watch_news found = {.refused_at = INT64_MIN};
    struct cv_error error;
    if (watch->check && watch->check(&error)) {
        found.is_installation = true;
        (void)snprintf(found.trouble, sizeof(found.trouble), "this installation cannot work: %s",
                       error.message);
    } else if (watch->store && cv_store_probe(watch->store, watch->access, &error)) {
        (void)snprintf(found.trouble, sizeof(found.trouble), "the store cannot be used: %s",
                       error.message);
    }
    if (found.trouble[0]) {
        found.refused_at = cv_monotonic_ms();
    }
    return found;
}

static void publish_news(struct cv_watch *watch, uint64_t asked, const struct cv_watch_news *found)
{
    int64_t refused_before = watch->news.refused_at;
    watch->news = *found;
    watch->news.answered = asked;
    if (!found->trouble[0]) {
        watch->news.refused_at = refused_before;
    }
    cv_wakeup_signal(watch->news_fd);
}

/* The time of the next probe. The pause varies by a quarter, so that not all workers probe at the
 * same moment. */
static int64_t next_probe(const struct cv_watch *watch)
{
    int64_t pause = watch->again_ms;
    return cv_monotonic_ms() + pause * 3 / 4 + (int64_t)arc4random_uniform((uint32_t)pause / 2 + 1);
}

static void run(void *opaque)
{
    struct cv_watch *watch = opaque;
    int64_t again_at = 0;
    (void)pthread_mutex_lock(&watch->background.mutex);
    while (wait_for_reason(watch, again_at)) {
        uint64_t asked = watch->asked;
        (void)pthread_mutex_unlock(&watch->background.mutex);
        struct cv_watch_news found = probe(watch);
        again_at = next_probe(watch);
        (void)pthread_mutex_lock(&watch->background.mutex);
        publish_news(watch, asked, &found);
    }
    (void)pthread_mutex_unlock(&watch->background.mutex);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

/* Starts the thread and asks the first question; nothing is known until it is answered. */
static int start_watch(const struct cv_watch_params *params, struct cv_watch **ret_watch,
                       struct cv_error *error)
{
    cv_auto(watch_free) struct cv_watch *watch = calloc(1, sizeof(*watch));
    if (!watch) {
        cv_store_close(params->store);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the watch");
    }
    watch->store = params->store;
    watch->access = params->access;
    watch->check = params->check;
    watch->again_ms = params->again_ms;
    watch->asked = 1;
    watch->news.refused_at = INT64_MIN;
    watch->news_fd = params->news_fd;
    CV_TRY(cv_cancel_new(&watch->cancel, error));
    if (watch->store) {
        cv_store_set_cancel(watch->store, watch->cancel);
    }
    CV_TRY(cv_background_start(&watch->background, run, watch, error));
    *ret_watch = cv_take(watch);
    return 0;
}

void cv_watch_stop(struct cv_watch *watch)
{
    if (watch) {
        cv_background_stop(&watch->background, watch->cancel, 0);
        watch_free(watch);
    }
}

/* Asks for a probe that begins after this moment; returns the question's number, 1 or more. */
static uint64_t ask_for_probe(struct cv_watch *watch)
{
    CV_LOCK(&watch->background.mutex);
    uint64_t number = ++watch->asked;
    cv_background_wake(&watch->background);
    return number;
}

/* Returns what is known now. */
static struct cv_watch_news read_news(struct cv_watch *watch)
{
    CV_LOCK(&watch->background.mutex);
    return watch->news;
}

enum {
    PROBE_MS = 5 * 1000, /* between probes; each is one small put, get and delete */
    PROBE_LEAST_MS = 20,
    PROBE_MOST_MS = 60 * 60 * 1000,
    DISK_PROBES = 12, /* disks are checked each time that so many probes take: once a minute */
};

/* ---- the store ------------------------------------------------------------------------------- */

/* Finds the path of a directory store. If it is on the scratch directory's disk, watching that disk
 * is enough. */
static int find_store_directory(struct cv_supervisor *supervisor, const struct cv_store *store,
                                struct cv_error *error)
{
    const char *path = cv_store_directory(store);
    return path ? cv_format(&supervisor->store_directory, error, "%s", path) : 0;
}

/* Stores the store's name. A stage that runs programs uses the store only for some jobs, and works
 * without one. */
static int name_store(struct cv_supervisor *supervisor, struct cv_error *error)
{
    struct cv_error ignored;
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    bool has_store = (supervisor->stage->needs & CV_STAGE_RUNS_PROGRAMS) &&
                     cv_store_open(NULL, &store, &ignored) == 0;
    return cv_format(&supervisor->bucket, error, "%s", has_store ? cv_store_name(store) : "");
}

static int open_store(struct cv_supervisor *supervisor, struct cv_store **ret_store,
                      struct cv_error *error)
{
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    CV_TRY(cv_store_open(NULL, &store, error));
    CV_TRY(cv_format(&supervisor->bucket, error, "%s", cv_store_name(store)));
    CV_TRY(find_store_directory(supervisor, store, error));
    /* The time series must exist before the first trouble, or an alert on it does not work. */
    cv_supervisor_count_store(supervisor, false);
    *ret_store = cv_take(store);
    return 0;
}

int cv_supervisor_start_watch(struct cv_supervisor *supervisor, struct cv_error *error)
{
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    unsigned needs = supervisor->stage->needs;
    CV_TRY(cv_env_int("CORTANA_STORE_PROBE_MS", PROBE_MS, PROBE_LEAST_MS, PROBE_MOST_MS,
                      &supervisor->again_ms, error));
    CV_TRY(needs & CV_STAGE_NEEDS_STORE ? open_store(supervisor, &store, error)
                                        : name_store(supervisor, error));
    supervisor->is_in_doubt = true;
    const struct cv_watch_params params = {
        .store = cv_take(store),
        .access = needs & CV_STAGE_ONLY_REMOVES ? CV_STORE_READ : CV_STORE_WRITE,
        .check = supervisor->stage->check,
        .again_ms = supervisor->again_ms,
        .news_fd = supervisor->news_fd,
    };
    return start_watch(&params, &supervisor->watch, error);
}

static void log_change(struct cv_supervisor *supervisor, const struct cv_watch_news *news)
{
    supervisor->refuses = news->trouble[0];
    if (supervisor->refuses) {
        cv_log(CV_LOG_WARN, "%s; no job is claimed until it works", news->trouble);
    } else {
        cv_log(CV_LOG_INFO, "store and installation work again");
    }
}

static void apply_news(struct cv_supervisor *supervisor)
{
    struct cv_watch_news news = read_news(supervisor->watch);
    bool was_in_doubt = supervisor->is_in_doubt, refuses = news.trouble[0];
    supervisor->is_in_doubt = refuses || news.answered == 0;
    for (int i = 0; i < supervisor->options.slots; i++) {
        supervisor->is_in_doubt |= supervisor->slots[i].question > news.answered;
    }
    if (refuses != supervisor->refuses) {
        log_change(supervisor, &news);
    }
    if (supervisor->stage->needs & CV_STAGE_NEEDS_STORE) {
        cv_supervisor_count_store(supervisor, refuses && !news.is_installation);
    }
    if (refuses) {
        (void)snprintf(supervisor->environment_trouble, sizeof(supervisor->environment_trouble),
                       "%s", news.trouble);
    }
    if (was_in_doubt && !supervisor->is_in_doubt) {
        supervisor->claim_at = 0;
    }
}

/* ---- the disks ------------------------------------------------------------------------------- */

static void log_disk(struct cv_supervisor *supervisor, const char *path, const struct cv_disk *disk,
                     enum cv_disk_level *level)
{
    if (disk->level != *level) {
        static const enum cv_log_level log_levels[] = {CV_LOG_INFO, CV_LOG_WARN, CV_LOG_WARN,
                                                       CV_LOG_ERROR};
        cv_log(log_levels[disk->level], "disk of %s: %s, %lld of %lld MiB are free%s", path,
               cv_disk_level_name(disk->level), (long long)disk->free_bytes >> 20,
               (long long)disk->total_bytes >> 20,
               disk->level == CV_DISK_EMERGENCY ? "; nothing is claimed" : "");
    }
    if (*level == CV_DISK_EMERGENCY) {
        supervisor->claim_at = 0; /* there may be free space again */
    }
    *level = disk->level;
}

static bool check_disk(struct cv_supervisor *supervisor, const char *path,
                       enum cv_disk_level *level, struct cv_disk *ret_disk)
{
    struct cv_error error;
    if (cv_disk_read(path, ret_disk, &error) < 0) {
        cv_log_error(&error, "disk watch");
        return false;
    }
    log_disk(supervisor, path, ret_disk, level);
    return true;
}

static void report_disk(struct cv_supervisor *supervisor, const char *path,
                        const struct cv_disk *disk)
{
    const struct cv_disk_state state = {
        .host = supervisor->host,
        .path = path,
        .total_bytes = disk->total_bytes,
        .free_bytes = disk->free_bytes,
    };
    struct cv_error error;
    if (cv_supervisor_is_connected(supervisor) &&
        cv_queue_report_disk(supervisor->db, &state, &error) < 0) {
        cv_log(CV_LOG_DEBUG, "cannot record the state of the disk: %s", error.message);
    }
}

static bool is_on_one_disk(const char *one, const char *other)
{
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev;
}

/* A stage that only removes objects must work while the store is full, because it frees space. */
static bool needs_room_in_store(const struct cv_supervisor *supervisor)
{
    return supervisor->store_directory && !(supervisor->stage->needs & CV_STAGE_ONLY_REMOVES) &&
           !is_on_one_disk(supervisor->store_directory, supervisor->scratch.path);
}

/* The host's row in the database has one level: that of the fuller disk. */
static void check_disks(struct cv_supervisor *supervisor)
{
    struct cv_disk scratch, store;
    const char *store_path = supervisor->store_directory;
    bool has_scratch =
        check_disk(supervisor, supervisor->scratch.path, &supervisor->scratch_level, &scratch);
    bool has_store = needs_room_in_store(supervisor) &&
                     check_disk(supervisor, store_path, &supervisor->store_level, &store);
    if (has_scratch) {
        cv_supervisor_count_disk(supervisor, &scratch);
    }
    if (has_store) {
        cv_supervisor_count_store_disk(supervisor, &store);
    }
    if (has_store && (!has_scratch || store.level > scratch.level)) {
        report_disk(supervisor, store_path, &store);
    } else if (has_scratch) {
        report_disk(supervisor, supervisor->scratch.path, &scratch);
    }
}

static bool is_a_disk_full(const struct cv_supervisor *supervisor)
{
    return supervisor->scratch_level == CV_DISK_EMERGENCY ||
           supervisor->store_level == CV_DISK_EMERGENCY;
}

void cv_supervisor_watch_environment(struct cv_supervisor *supervisor, int64_t now)
{
    supervisor->environment_trouble[0] = '\0';
    if (now >= supervisor->disk_at) {
        supervisor->disk_at = now + DISK_PROBES * supervisor->again_ms;
        check_disks(supervisor);
    }
    if (is_a_disk_full(supervisor)) {
        (void)snprintf(supervisor->environment_trouble, sizeof(supervisor->environment_trouble),
                       "the disk of %.400s is full",
                       supervisor->scratch_level == CV_DISK_EMERGENCY
                           ? supervisor->scratch.path
                           : supervisor->store_directory);
    }
    if (now < supervisor->pause_until && supervisor->stops_in_a_row >= CV_STOPS_MAX) {
        (void)snprintf(supervisor->environment_trouble, sizeof(supervisor->environment_trouble),
                       "stages say that this installation cannot work");
    }
    apply_news(supervisor);
}

bool cv_supervisor_environment_works(const struct cv_supervisor *supervisor)
{
    return !is_a_disk_full(supervisor) && !supervisor->is_in_doubt;
}

/* ---- failures caused by the environment ------------------------------------------------------ */

/* Whether a failure may be caused by the environment. A missing object is the job's fault only if
 * the store works. A stage that blames the installation is not simply believed, because it may have
 * been compromised. */
static bool is_doubtful(const struct cv_error *failure)
{
    return failure->environment || failure->type == CV_ERROR_OBJECT_NOT_FOUND ||
           failure->type == CV_ERROR_DISK_FULL || failure->verdict == CV_VERDICT_STOP;
}

static void blame_environment(struct cv_slot *slot)
{
    slot->stop = CV_STOP_ENVIRONMENT;
    slot->question = 0;
}

void cv_slot_doubt_environment(struct cv_supervisor *supervisor, struct cv_slot *slot)
{
    const struct cv_error *failure = &slot->verdict.failure;
    if (slot->verdict.result || slot->stop != CV_STOP_NONE || !is_doubtful(failure)) {
        return;
    }
    if (failure->type == CV_ERROR_DISK_FULL) {
        /* Space that the attempt itself used does not count. */
        cv_slot_remove_scratch(supervisor, slot);
        slot->awaits_room = true;
    }
    slot->question = ask_for_probe(supervisor->watch);
    supervisor->is_in_doubt = true;
}

bool cv_slot_is_in_doubt(struct cv_supervisor *supervisor, struct cv_slot *slot)
{
    if (slot->awaits_room) {
        if (cv_scratch_watch_is_removing(supervisor->scratch_watch) && !supervisor->is_draining) {
            return true;
        }
        slot->awaits_room = false;
        check_disks(supervisor);
        if (is_a_disk_full(supervisor)) {
            blame_environment(slot);
        }
    }
    if (slot->question == 0) {
        return false;
    }
    struct cv_watch_news news = read_news(supervisor->watch);
    if (news.refused_at >= slot->started_at) {
        blame_environment(slot); /* it refused while the attempt ran, or just after */
    } else if (news.answered >= slot->question) {
        slot->question = 0;
    } else if (supervisor->is_draining) {
        slot->stop = CV_STOP_SHUTDOWN; /* nobody handles the answer any more */
        slot->question = 0;
    }
    return slot->question != 0;
}
