#include "common/worker/claim.h"

#include "common/worker/environment.h"
#include "common/worker/metrics.h"
#include "common/worker/slots.h"

#include <string.h>

/* ---- the database ---------------------------------------------------------------------------- */

bool cv_supervisor_is_connected(const struct cv_supervisor *supervisor)
{
    return supervisor->db && cv_db_is_connected(supervisor->db);
}

static int open_database(struct cv_supervisor *supervisor, struct cv_error *error)
{
    enum { CONNECT_MS = 2000, STATEMENT_MOST_MS = 5 * 60 * 1000 };
    if (supervisor->db) {
        return cv_db_reconnect(supervisor->db, CONNECT_MS, error);
    }
    /* The loop waits for its statements, so their time-out is shorter than the lease: a server that
     * hangs must not cost a running job its lease. */
    int64_t statement_ms = supervisor->lease_ms / 2;
    struct cv_db_params params = {
        .application_name = supervisor->stage->name,
        .connect_timeout_ms = CONNECT_MS,
        .statement_timeout_ms = statement_ms < STATEMENT_MOST_MS ? statement_ms : STATEMENT_MOST_MS,
    };
    cv_auto(cv_db_close) struct cv_db *db = NULL;
    CV_TRY(cv_db_open(&params, &db, error));
    if (supervisor->listen) {
        char channel[80];
        (void)snprintf(channel, sizeof(channel), "cv_jobs_%s", supervisor->stage->job_type);
        int r = cv_db_listen(db, channel, error);
        r = r < 0 ? r : cv_db_listen(db, "cv_cancel", error);
        r = r < 0 ? r : cv_db_listen(db, "cv_drain", error);
        r = r < 0 ? r : cv_db_listen(db, "cv_schema", error);
        if (r < 0 && cv_db_is_connected(db)) { /* a pooler that does not support LISTEN */
            cv_log(CV_LOG_WARN, "polling only: %s", error->message);
            r = 0;
        }
        CV_TRY(r);
    }
    supervisor->db = cv_take(db);
    return 0;
}

/* Sets the time of the next try. */
static void hold_off(struct cv_supervisor *supervisor, const char *trouble)
{
    enum { FIRST_PAUSE_MS = 250, PAUSE_MAX_MS = 5000 };
    (void)snprintf(supervisor->connect_trouble, sizeof(supervisor->connect_trouble), "%s", trouble);
    if (!supervisor->database_is_away) {
        cv_log(CV_LOG_WARN, "waiting for the database: %s", trouble);
        supervisor->database_is_away = true;
    }
    cv_keeper_rest(supervisor->keeper, true);
    supervisor->connect_at =
        cv_monotonic_ms() + cv_pause_ms(supervisor->connect_tries++, FIRST_PAUSE_MS, PAUSE_MAX_MS);
}

/* Retries for ever; only a first connection that is refused permanently ends the worker. */
int cv_supervisor_connect(struct cv_supervisor *supervisor, int64_t now, struct cv_error *error)
{
    if (cv_supervisor_is_connected(supervisor) || now < supervisor->connect_at) {
        return 0;
    }
    int r = open_database(supervisor, error);
    if (r == 0) {
        cv_keeper_rest(supervisor->keeper, false);
        supervisor->was_connected = true;
        supervisor->give_way_at = 0; /* the keeper has its time to connect, too */
        supervisor->claim_at = 0;
        supervisor->schema_at = 0; /* this may be another server than before */
        return 0;
    }
    if (!supervisor->was_connected && error->verdict != CV_VERDICT_RETRY) {
        return r;
    }
    hold_off(supervisor, error->message);
    return 0;
}

void cv_supervisor_watch_keeper(struct cv_supervisor *supervisor, int64_t now)
{
    enum { PATIENCE_MS = 1000 };
    supervisor->can_keep = cv_keeper_can_keep(supervisor->keeper);
    if (!cv_supervisor_is_connected(supervisor)) {
        return;
    }
    if (supervisor->can_keep) {
        supervisor->give_way_at = 0;
        if (supervisor->database_is_away) {
            cv_log(CV_LOG_INFO, "the database is back");
        }
        supervisor->database_is_away = false;
        supervisor->connect_tries = 0;
        return;
    }
    bool is_busy = cv_supervisor_count_free(supervisor) < supervisor->options.slots;
    if (supervisor->give_way_at == 0 || is_busy) {
        supervisor->give_way_at = now + PATIENCE_MS + (int64_t)arc4random_uniform(PATIENCE_MS);
    }
    if (now < supervisor->give_way_at) {
        return;
    }
    char trouble[CV_TROUBLE_SIZE];
    char sentence[CV_TROUBLE_SIZE];
    cv_keeper_trouble(supervisor->keeper, trouble);
    (void)snprintf(sentence, sizeof(sentence), "no second connection%s%.200s",
                   trouble[0] ? ": " : "", trouble);
    cv_db_close(supervisor->db);
    supervisor->db = NULL;
    hold_off(supervisor, sentence);
}

void cv_supervisor_watch_database_room(struct cv_supervisor *supervisor,
                                       const struct cv_error *failure)
{
    bool is_full = failure && failure->type == CV_ERROR_DISK_FULL;
    if (is_full && !supervisor->database_full_at) {
        cv_log(CV_LOG_WARN, "work waits for room on the disk of the database: %s",
               failure->message);
    } else if (!failure && supervisor->database_full_at) {
        cv_log(CV_LOG_INFO, "the disk of the database has room again");
    }
    int64_t before = failure ? supervisor->database_full_at : 0;
    supervisor->database_full_at = is_full ? cv_monotonic_ms() : before;
}

void cv_supervisor_check_schema(struct cv_supervisor *supervisor, int64_t now)
{
    enum { FIT_MS = 30 * 1000, UNFIT_MS = 2000 }; /* between checks, while the schema fits or not */
    if (now < supervisor->schema_at || !cv_supervisor_is_connected(supervisor)) {
        return;
    }
    char reason[CV_SCHEMA_REASON_SIZE] = "";
    struct cv_error error;
    int r = cv_queue_check_schema(supervisor->db, reason, &error);
    if (r < 0 && error.verdict == CV_VERDICT_RETRY) {
        supervisor->schema_at =
            now + UNFIT_MS; /* the check failed, so the last answer stays valid */
        return;
    }
    if (r < 0) { /* a role without this right cannot claim either; claiming reports it */
        (void)snprintf(reason, sizeof(reason), "%s", error.message);
    }
    if (strcmp(reason, supervisor->schema_trouble) != 0) {
        cv_log(reason[0] ? CV_LOG_WARN : CV_LOG_INFO, "%s",
               reason[0] ? reason : "the database's schema fits");
        (void)memcpy(supervisor->schema_trouble, reason, sizeof(reason));
        supervisor->claim_at = 0;
    }
    supervisor->schema_at = now + (reason[0] ? UNFIT_MS : FIT_MS);
}

static void on_notification(struct cv_supervisor *supervisor, const char *channel,
                            const char *payload)
{
    /* Any role may send notifications, so the tables are asked whether they are true. */
    if (strcmp(channel, "cv_drain") == 0) {
        if (strcmp(payload, supervisor->worker_id) == 0) {
            cv_keeper_ask(supervisor->keeper);
        }
        return;
    }
    if (strcmp(channel, "cv_schema") == 0) {
        supervisor->schema_at = 0;
        return;
    }
    if (strcmp(channel, "cv_cancel") != 0) {
        supervisor->claim_at = 0;
        return;
    }
    for (int i = 0; i < supervisor->options.slots; i++) {
        const struct cv_slot *slot = &supervisor->slots[i];
        if (slot->phase == CV_SLOT_RUNNING && strcmp(slot->job->id, payload) == 0) {
            cv_keeper_ask(supervisor->keeper);
        }
    }
}

void cv_supervisor_read_notifications(struct cv_supervisor *supervisor)
{
    while (cv_supervisor_is_connected(supervisor)) {
        struct cv_error error;
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        if (cv_db_notification(supervisor->db, &channel, &payload, &error) != 1) {
            return;
        }
        on_notification(supervisor, channel, payload);
    }
}

/* ---- claiming -------------------------------------------------------------------------------- */

int cv_supervisor_count_free(const struct cv_supervisor *supervisor)
{
    int count = 0;
    for (int i = 0; i < supervisor->options.slots; i++) {
        count += supervisor->slots[i].phase == CV_SLOT_FREE;
    }
    return count;
}

static int adopt(struct cv_slot *slot, struct cv_job *job, struct cv_error *error)
{
    slot->claimed.jobs = calloc(1, sizeof(*slot->claimed.jobs));
    CV_TRY_MEMORY(slot->claimed.jobs, error, "a job");
    slot->claimed.count = 1;
    slot->claimed.jobs[0] = *job;
    slot->job = &slot->claimed.jobs[0];
    job->job_type = NULL;
    job->payload = NULL;
    return 0;
}

static int start_all(struct cv_supervisor *supervisor, struct cv_job_list *list, int64_t lease_end,
                     struct cv_error *error)
{
    size_t next = 0;
    for (int i = 0; i < supervisor->options.slots && next < list->count; i++) {
        if (supervisor->slots[i].phase == CV_SLOT_FREE) {
            CV_TRY(adopt(&supervisor->slots[i], &list->jobs[next++], error));
            cv_slot_start(supervisor, i, lease_end);
        }
    }
    return 0;
}

static int64_t next_poll(const struct cv_supervisor *supervisor)
{
    /* ±25 %, so that workers that were started together do not always poll together. */
    int64_t poll = supervisor->options.poll_ms;
    return cv_monotonic_ms() + poll * 3 / 4 + (int64_t)arc4random_uniform((uint32_t)poll / 2 + 1);
}

int cv_supervisor_claim(struct cv_supervisor *supervisor, int64_t now, struct cv_error *error)
{
    int free_slots = cv_supervisor_count_free(supervisor);
    if (supervisor->is_draining || free_slots == 0 || now < supervisor->claim_at ||
        now < supervisor->pause_until || !cv_supervisor_environment_works(supervisor) ||
        supervisor->schema_trouble[0] || !cv_supervisor_is_connected(supervisor) ||
        !supervisor->can_keep) {
        return 0;
    }
    cv_auto(cv_job_list_deinit) struct cv_job_list list = {NULL, 0};
    supervisor->claim_at = next_poll(supervisor);
    int64_t asked_at = cv_monotonic_ms();
    const struct cv_claim_params params = {
        .worker_id = supervisor->worker_id,
        .job_type = supervisor->stage->job_type,
        .limit = free_slots,
        .lease_ms = supervisor->lease_ms,
    };
    int r = cv_queue_claim(supervisor->db, &params, &list, error);
    if (r < 0) {
        if (error->verdict != CV_VERDICT_RETRY) { /* the queue is missing or forbidden */
            cv_log_error(error, "cannot claim");
            supervisor->exit_code = CV_EXIT_STOP;
            cv_supervisor_drain(supervisor, "the queue cannot be used");
            return 0;
        }
        cv_supervisor_watch_database_room(supervisor, error);
        if (error->type != CV_ERROR_DISK_FULL) {
            cv_log(CV_LOG_WARN, "cannot claim: %s", error->message);
        }
        return 0;
    }
    /* A result that waits may need more room; a job that has met a full disk can be claimed again after its lease. */
    bool is_over = r != CV_QUEUE_EMPTY || now - supervisor->database_full_at > supervisor->lease_ms;
    if (is_over && free_slots == supervisor->options.slots) {
        cv_supervisor_watch_database_room(supervisor, NULL);
    }
    cv_supervisor_count_claim(supervisor, &list);
    return start_all(supervisor, &list, asked_at + supervisor->lease_ms, error);
}
