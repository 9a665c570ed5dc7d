#include "common/broker/broker.h"
#include "common/broker/wire.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Bytes of an announcement: a few short grants and names. Datagram sockets accept more by default. */
enum { ANNOUNCEMENT_MAX = 64 << 10 };

/* ---- the line -------------------------------------------------------------------------------- */

int cv_broker_line_init(struct cv_broker_line *line, struct cv_error *error)
{
    int requests[2], cancels[2];
    *line = (struct cv_broker_line)CV_BROKER_LINE_INIT;
    CV_TRY_ERRNO(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, requests) == 0, error,
                 "cannot make a socket to a broker");
    line->stage_fd = requests[0];
    line->broker_fd = requests[1];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, cancels) != 0) {
        int result = cv_fail_errno(error, errno, "cannot make a socket to a broker");
        cv_broker_line_deinit(line);
        return result;
    }
    line->stage_cancel_fd = cancels[0];
    line->broker_cancel_fd = cancels[1];
    return 0;
}

void cv_broker_line_deinit(struct cv_broker_line *line)
{
    int *const fds[] = {&line->stage_fd, &line->stage_cancel_fd, &line->broker_fd,
                        &line->broker_cancel_fd};
    for (size_t i = 0; i < CV_COUNT(fds); i++) {
        if (*fds[i] >= 0) {
            close(cv_take_fd(fds[i]));
        }
    }
}

/* ---- announcing ------------------------------------------------------------------------------ */

int cv_broker_announce(int host_fd, const struct cv_broker_job *job, struct cv_broker_line *line,
                       struct cv_error *error)
{
    cv_auto(json_decref) json_t *object = json_pack(
        "{s:O, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:i}", "grants", job->grants, "scratch",
        job->scratch, "file_bytes", (json_int_t)job->file_bytes, "stored_bytes",
        (json_int_t)job->stored_bytes, "objects", (json_int_t)job->objects, "worker_id",
        job->worker_id, "job_type", job->job_type, "job_id", job->job_id, "video_id", job->video_id,
        "tenant_id", job->tenant_id, "attempt", job->attempt);
    cv_auto_free char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0;
    if (length == 0 || length > ANNOUNCEMENT_MAX) {
        return cv_fail(error, text ? CV_ERROR_INVALID_PAYLOAD : CV_ERROR_OUT_OF_MEMORY,
                       "cannot tell a broker of a job");
    }
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = text, .iov_len = length};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    const int fds[] = {line->broker_fd, line->broker_cancel_fd};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    ssize_t sent = -1;
    do {
        sent = sendmsg(host_fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return cv_fail(error, CV_ERROR_CONNECTION, "the brokers' host is gone: %s",
                       strerror(errno));
    }
    close(cv_take_fd(&line->broker_fd));
    close(cv_take_fd(&line->broker_cancel_fd));
    return 0;
}

/* ---- the host -------------------------------------------------------------------------------- */

/* Receives the next announcement: the descriptors, and its text as JSON; NULL if there are no more. */
static json_t *receive_announcement(int fd, char *text, int fds[2])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = ANNOUNCEMENT_MAX};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t count = -1;
    do {
        count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    struct cmsghdr *head = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(2 * sizeof(int))) {
        return NULL;
    }
    memcpy(fds, CMSG_DATA(head), 2 * sizeof(int));
    json_error_t reason;
    return json_loadb(text, (size_t)count, 0, &reason);
}

static _Noreturn void become_broker(const json_t *job, const int fds[2])
{
    struct cv_log_context context = {
        .worker_id = json_string_value(json_object_get(job, "worker_id")),
        .job_type = json_string_value(json_object_get(job, "job_type")),
        .job_id = json_string_value(json_object_get(job, "job_id")),
        .status = "processing",
        .video_id = json_string_value(json_object_get(job, "video_id")),
        .tenant_id = json_string_value(json_object_get(job, "tenant_id")),
        .attempt = (int)json_integer_value(json_object_get(job, "attempt")),
    };
    const char *scratch = json_string_value(json_object_get(job, "scratch"));
    struct cv_broker broker = {
        .fd = fds[0],
        .cancel_fd = fds[1],
        .grants = json_object_get(job, "grants"),
        .scratch = scratch ? scratch : "",
        .file_bytes = json_integer_value(json_object_get(job, "file_bytes")),
        .stored_bytes = json_integer_value(json_object_get(job, "stored_bytes")),
        .objects = json_integer_value(json_object_get(job, "objects")),
    };
    cv_log_set_context(&context);
    cv_broker_serve(&broker);
    _exit(0);
}

void cv_broker_host(int fd)
{
    static char text[ANNOUNCEMENT_MAX];
    pid_t own = getpid();
    int fds[2];
    (void)signal(SIGCHLD, SIG_IGN); /* brokers are not waited for */
    for (json_t *job; (job = receive_announcement(fd, text, fds)); json_decref(job)) {
        pid_t pid = fork();
        if (pid == 0) {
            (void)close(fd);
            if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != own) {
                _exit(1);
            }
            (void)signal(SIGCHLD, SIG_DFL);
            become_broker(job, fds);
        }
        if (pid < 0) {
            cv_log(CV_LOG_ERROR, "cannot start a broker: %s", strerror(errno));
        }
        close(fds[0]);
        close(fds[1]);
    }
}
