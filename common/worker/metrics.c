#include "common/worker/metrics.h"

#include "common/worker/claim.h"

#include <string.h>
#include <time.h>

/* Seconds a job has waited: from claimed at once to a whole night. */
static const double wait_bounds[] = {0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1800, 7200, 21600, 86400};
/* Seconds a job has run: from a clip to the transcode of an hour, and beyond, up to the highest
 * limits of job types. */
static const double run_bounds[] = {0.1, 0.5, 1, 5, 15, 60, 180, 600, 1800, 3600, 10800};

static const struct cv_metric finished = CV_COUNTER(
    "cortana_jobs_finished_total",
    "What became of them: done, retry (failed, tried again), dead (failed for good), canceled, "
    "released (given back, uncounted), lost (the lease was).",
    "job_type", "outcome");
static const struct cv_metric leases_lost = CV_COUNTER(
    "cortana_leases_lost_total", "Leases that ran out under a job of this worker.", "job_type");
static const struct cv_metric wait_seconds =
    CV_HISTOGRAM("cortana_job_wait_seconds", "From when a job could be claimed to its claim.",
                 wait_bounds, "job_type");
static const struct cv_metric run_seconds =
    CV_HISTOGRAM("cortana_job_run_seconds", "From claim to settlement, however it ended.",
                 run_bounds, "job_type");
static const struct cv_metric cpu_seconds =
    CV_COUNTER("cortana_stage_cpu_seconds_total",
               "CPU time of stage processes, those of failed attempts among them.", "job_type");
static const struct cv_metric video_seconds = CV_COUNTER(
    "cortana_stage_video_seconds_total",
    "Length of the videos (or stretches of one) that were done; CPU time by it is the cost.",
    "job_type");
static const struct cv_metric peak_memory =
    CV_GAUGE("cortana_stage_peak_memory_bytes",
             "The most that a stage process of this worker has held.", "job_type");
static const struct cv_metric connected =
    CV_GAUGE("cortana_database_connected", "1 while there is a connection.", NULL);
static const struct cv_metric database_full =
    CV_GAUGE("cortana_database_full",
             "1 while the database has no room for what this worker has to write.", NULL);
static const struct cv_metric first_claim =
    CV_GAUGE("cortana_first_claim_seconds",
             "From the start of the process to the answer to its first claim.", NULL);
static const struct cv_metric disk_free =
    CV_GAUGE("cortana_disk_free_bytes", "What is free of the scratch directory's disk.", NULL);
static const struct cv_metric disk_level = CV_GAUGE(
    "cortana_disk_level", "0 ok, 1 warning, 2 critical, 3 emergency: nothing is claimed.", NULL);
static const struct cv_metric store_disk_level = CV_GAUGE(
    "cortana_store_disk_level",
    "How full a directory store's disk is, where scratch lies on another; as cortana_disk_level.",
    NULL);
static const struct cv_metric store_refuses = CV_GAUGE(
    "cortana_store_refuses",
    "1 while the store cannot be used: nothing is claimed, and it is tried again and again.", NULL);

static const char *const outcome_names[] = {
    [CV_END_DONE] = "done",         [CV_END_RETRY] = "retry",       [CV_END_DEAD] = "dead",
    [CV_END_CANCELED] = "canceled", [CV_END_RELEASED] = "released", [CV_END_LOST] = "lost",
};

/* Seconds since the kernel started this process; 0 if unknown. */
static double process_age(void)
{
    cv_auto_file FILE *file = fopen("/proc/self/stat", "re");
    char line[1024];
    unsigned long long started = 0;
    struct timespec now;
    if (!file || !fgets(line, sizeof(line), file) || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        return 0;
    }
    const char *rest =
        strrchr(line, ')'); /* the program's name before it may contain any character */
    if (!rest || sscanf(rest + 1,
                        " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                        "%*s %llu",
                        &started) != 1) {
        return 0;
    }
    double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
                 (double)started / (double)sysconf(_SC_CLK_TCK);
    return age > 0 ? age : 0;
}

void cv_supervisor_count_start(struct cv_supervisor *supervisor)
{
    struct cv_metrics *numbers = cv_probe_metrics(supervisor->probe);
    const char *type = supervisor->stage->job_type;
    cv_metric_add(numbers, &leases_lost, CV_LABELS(type), 0);
    for (size_t i = 0; i < CV_COUNT(outcome_names); i++) {
        cv_metric_add(numbers, &finished, CV_LABELS(type, outcome_names[i]), 0);
    }
    cv_metric_add(numbers, &cpu_seconds, CV_LABELS(type), 0);
    cv_metric_add(numbers, &video_seconds, CV_LABELS(type), 0);
}

void cv_supervisor_count_claim(struct cv_supervisor *supervisor, const struct cv_job_list *list)
{
    struct cv_metrics *numbers = cv_probe_metrics(supervisor->probe);
    const char *type = supervisor->stage->job_type;
    if (!supervisor->has_claimed) {
        supervisor->has_claimed = true;
        double age = process_age();
        cv_log(CV_LOG_INFO, "first look for jobs, %.2f s after the start", age);
        cv_metric_set(numbers, &first_claim, NULL, age);
    }
    for (size_t i = 0; i < list->count; i++) {
        cv_metric_observe(numbers, &wait_seconds, CV_LABELS(type),
                          (double)list->jobs[i].waited_ms / 1000);
    }
}

/* Seconds of video that a job was about: the range in its payload, or else its whole video. If the
 * number is not available at once, it is left out. */
static double seconds_of_video(struct cv_supervisor *supervisor, const struct cv_job *job)
{
    const json_t *start = json_object_get(job->payload, "t_start");
    const json_t *end = json_object_get(job->payload, "t_end");
    if (json_is_number(start) && json_is_number(end)) {
        return (json_number_value(end) - json_number_value(start)) / 1000;
    }
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    struct cv_error error;
    if (!job->video_id[0] || !cv_supervisor_is_connected(supervisor) ||
        cv_db_run(supervisor->db, &rows, &error, "SELECT duration FROM videos WHERE id = $1::uuid",
                  job->video_id) < 0 ||
        cv_db_rows(rows) == 0) {
        return 0;
    }
    return cv_db_double(rows, 0, "duration", 0);
}

void cv_supervisor_count_end(struct cv_supervisor *supervisor, const struct cv_slot *slot,
                             enum cv_end end)
{
    struct cv_metrics *numbers = cv_probe_metrics(supervisor->probe);
    const char *type = supervisor->stage->job_type;
    if (!numbers) {
        return;
    }
    cv_metric_add(numbers, &finished, CV_LABELS(type, outcome_names[end]), 1);
    cv_metric_add(numbers, &leases_lost, CV_LABELS(type), end == CV_END_LOST);
    cv_metric_observe(numbers, &run_seconds, CV_LABELS(type),
                      (double)(cv_monotonic_ms() - slot->started_at) / 1000);
    cv_metric_add(numbers, &cpu_seconds, CV_LABELS(type), slot->report.cpu_seconds);
    cv_metric_raise(numbers, &peak_memory, CV_LABELS(type), (double)slot->report.peak_memory_bytes);
    if (end == CV_END_DONE) {
        cv_metric_add(numbers, &video_seconds, CV_LABELS(type),
                      seconds_of_video(supervisor, slot->job));
    }
}

void cv_supervisor_count_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk)
{
    struct cv_metrics *numbers = cv_probe_metrics(supervisor->probe);
    cv_metric_set(numbers, &disk_free, NULL, (double)disk->free_bytes);
    cv_metric_set(numbers, &disk_level, NULL, disk->level);
}

void cv_supervisor_count_store_disk(struct cv_supervisor *supervisor, const struct cv_disk *disk)
{
    cv_metric_set(cv_probe_metrics(supervisor->probe), &store_disk_level, NULL, disk->level);
}

void cv_supervisor_count_store(struct cv_supervisor *supervisor, bool refuses)
{
    cv_metric_set(cv_probe_metrics(supervisor->probe), &store_refuses, NULL, refuses);
}

void cv_supervisor_count_turn(struct cv_supervisor *supervisor)
{
    cv_metric_set(cv_probe_metrics(supervisor->probe), &connected, NULL,
                  cv_supervisor_is_connected(supervisor));
    cv_metric_set(cv_probe_metrics(supervisor->probe), &database_full, NULL,
                  supervisor->database_full_at != 0);
}
