#include "common/worker/brokers.h"

#include "common/worker/child.h"
#include "common/worker/sanitizer.h"
#include "common/worker/spawn.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The memory of a broker: the data in transit at one time; see the limits in broker/server.c. */
static const int64_t memory_bytes = 1LL << 30;

/* What the brokers of a stage see besides the store's variables. */
static unsigned needs_of_brokers(const struct cv_stage *stage)
{
    unsigned needs = CV_NEEDS_STORE_ACCESS;
    for (const struct cv_grant *grant = stage->grants; grant && grant->access; grant++) {
        needs |= grant->access & CV_GRANT_TRANSCRIBE ? (unsigned)CV_NEEDS_SPEECH_ENDPOINT : 0;
    }
    return needs;
}

int cv_brokers_start(struct cv_brokers *brokers, const struct cv_stage *stage,
                     struct cv_error *error)
{
    static char option[] = "--broker-host";
    int ends[2];
    CV_TRY_ERRNO(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, error,
                 "cannot make a socket to the brokers' host");
    cv_auto_fd int own = ends[0], host = ends[1];
    struct cv_spawn spawn = {
        .arguments = {(char *)stage->name, option},
        .files = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, host},
        .file_count = CV_BROKER_HOST_FD + 1,
    };
    if (!CV_UNDER_SANITIZER) {
        cv_spawn_limit(&spawn, RLIMIT_DATA, memory_bytes, memory_bytes);
    }
    cv_spawn_limit(&spawn, RLIMIT_CORE, 0, 0);
    CV_TRY(cv_spawn_inherit(&spawn, needs_of_brokers(stage), error));
    CV_TRY(cv_spawn(&spawn, &brokers->pid, error));
    brokers->fd = cv_take_fd(&own);
    return 0;
}

void cv_brokers_stop(struct cv_brokers *brokers)
{
    if (brokers->fd >= 0) {
        close(cv_take_fd(&brokers->fd));
    }
    if (brokers->pid > 0) {
        (void)kill(brokers->pid, SIGKILL);
        (void)waitpid(brokers->pid, NULL, 0);
        brokers->pid = 0;
    }
}

int cv_brokers_connect(struct cv_brokers *brokers, const struct cv_stage *stage,
                       const struct cv_job *job, const char *worker_id, const char *scratch,
                       const struct cv_scratch_usage *most, struct cv_broker_line *line,
                       struct cv_error *error)
{
    cv_auto(json_decref) json_t *grants = NULL;
    CV_TRY(cv_grants_make(stage->grants, job->payload, &grants, error));
    CV_TRY(cv_broker_line_init(line, error));
    const struct cv_broker_job announced = {
        .grants = grants,
        .scratch = scratch,
        .file_bytes = cv_stage_file_bytes(stage),
        .stored_bytes = most->bytes,
        .objects = most->files,
        .worker_id = worker_id,
        .job_type = stage->job_type,
        .job_id = job->id,
        .tenant_id = job->tenant_id,
        .video_id = job->video_id,
        .attempt = job->attempt,
    };
    int result = cv_broker_announce(brokers->fd, &announced, line, error);
    if (result == 0 || error->type != CV_ERROR_CONNECTION) {
        return result;
    }
    cv_log(CV_LOG_WARN, "%s: the broker host is restarted", error->message);
    cv_brokers_stop(brokers);
    CV_TRY(cv_brokers_start(brokers, stage, error));
    return cv_broker_announce(brokers->fd, &announced, line, error);
}
