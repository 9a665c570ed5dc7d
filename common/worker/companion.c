#include "common/worker/companion.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    MEMORY_BYTES = 64 << 20,     /* four pictures of 4K with 8 bits; only used pages take memory */
    GREETING_MAGIC = 0x43564d31, /* change it when struct greeting changes */
    GREETING_MS = 5000, /* the other stage is waiting for this message and answers at once */
    ORIGINAL_MAX = 1024,
};

/* Sent by the sender, together with the descriptor of the memory. */
struct greeting {
    uint32_t magic;
    char original[ORIGINAL_MAX];
};

static bool is_stopped(const struct cv_meeting *meeting)
{
    return cv_cancel_level(meeting->cancel) >= CV_CANCEL_ABORT;
}

/* Waits until `fd` is readable; false if the time is up or the job is stopped. */
static bool waits(const struct cv_meeting *meeting, int fd, int64_t wait_ms)
{
    struct pollfd polls[] = {{.fd = fd, .events = POLLIN},
                             {.fd = cv_cancel_fd(meeting->cancel), .events = POLLIN}};
    int64_t until_ms = cv_monotonic_ms() + wait_ms;
    while (wait_ms > 0 && !is_stopped(meeting)) {
        if (poll(polls, CV_COUNT(polls), (int)(wait_ms < INT32_MAX ? wait_ms : INT32_MAX)) > 0 &&
            polls[0].revents) {
            return true;
        }
        wait_ms = until_ms - cv_monotonic_ms();
    }
    return false;
}

/* ---- the place ------------------------------------------------------------------------------- */

/* Opens and locks the directory, so that no other stage binds or connects meanwhile. */
static int lock_place(const struct cv_meeting *meeting, struct cv_error *error)
{
    const char *path = meeting->directory;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return cv_fail_errno(error, errno, "cannot make %s", path);
    }
    cv_auto_fd int place = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    CV_TRY_ERRNO(place >= 0 && fstat(place, &status) == 0, error, "cannot open %s", path);
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s does not belong to this user alone (chmod 700)", path);
    }
    return flock(place, LOCK_EX) == 0 ? cv_take_fd(&place)
                                      : cv_fail_errno(error, errno, "cannot lock %s", path);
}

/* Named through the directory's descriptor, because the path of a socket must be short. */
static struct sockaddr_un address_of(const struct cv_meeting *meeting, int place, bool sends)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s.%s", place,
                   meeting->video_id, sends ? "sends" : "receives");
    return address;
}

static int open_socket(struct cv_error *error)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : cv_fail_errno(error, errno, "cannot make a socket");
}

/* A socket connected to the other stage if that one waits; otherwise a listening socket. */
static int arrive(const struct cv_meeting *meeting, bool *ret_is_first, struct cv_error *error)
{
    cv_auto_fd int place = lock_place(meeting, error);
    cv_auto_fd int fd = place < 0 ? -1 : open_socket(error);
    if (fd < 0) {
        return -1;
    }
    const struct sockaddr_un own = address_of(meeting, place, meeting->companion->sends);
    const struct sockaddr_un other = address_of(meeting, place, !meeting->companion->sends);
    *ret_is_first = connect(fd, (const struct sockaddr *)&other, sizeof(other)) != 0;
    if (!*ret_is_first) {
        return cv_take_fd(&fd);
    }
    (void)unlink(other.sun_path); /* left by killed processes */
    (void)unlink(own.sun_path);
    CV_TRY_ERRNO(bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0 && listen(fd, 1) == 0,
                 error, "cannot wait in %s", meeting->directory);
    return cv_take_fd(&fd);
}

/* Waits for the other stage; CV_ERROR_TIMEOUT if it does not connect. Looks once more under the lock, so that a stage that
 * connects at the last moment is not lost. */
static int await(const struct cv_meeting *meeting, int fd, struct cv_error *error)
{
    (void)waits(meeting, fd, meeting->wait_ms);
    cv_auto_fd int place = lock_place(meeting, error);
    if (place < 0) {
        return -1;
    }
    (void)unlink(address_of(meeting, place, meeting->companion->sends).sun_path);
    int peer = fcntl(fd, F_SETFL, O_NONBLOCK) == 0 ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : -1;
    return peer >= 0
               ? peer
               : cv_fail(error, CV_ERROR_TIMEOUT, "the %s stage of this video has not connected",
                         meeting->companion->job_type);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

enum { DESCRIPTORS_MAX = 2 };

static bool send_descriptors(int socket, const void *data, size_t size, const int *fds,
                             size_t count)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(&control.head), fds, count * sizeof(int));
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

/* Reads one message without waiting; fds[] is -1 for descriptors that did not come. */
static bool receive_descriptors(int socket, void *data, size_t size, int fds[DESCRIPTORS_MAX])
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    fds[0] = fds[1] = -1;
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    }
    return got == (ssize_t)size;
}

/* ---- the greeting ---------------------------------------------------------------------------- */

static int check_user(int socket, struct cv_error *error)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid()) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the other stage runs as another user");
    }
    return 0;
}

/* Exchanges the greeting. The seals on the memory keep its size fixed, so that no access faults,
 * and keep the receiver from mapping it for writing. */
static int greet(const struct cv_meeting *meeting, int socket, void **ret_memory,
                 struct cv_error *error)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    struct greeting greeting = {.magic = GREETING_MAGIC};
    (void)snprintf(greeting.original, sizeof(greeting.original), "%s", meeting->original);
    cv_auto_fd int memory = memfd_create("pictures", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *mapped = MAP_FAILED;
    if (memory >= 0 && ftruncate(memory, MEMORY_BYTES) == 0) {
        mapped = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    }
    CV_TRY_ERRNO(mapped != MAP_FAILED && fcntl(memory, F_ADD_SEALS, seals) == 0, error,
                 "cannot make memory to share");
    CV_TRY_ERRNO(send_descriptors(socket, &greeting, sizeof(greeting), &memory, 1), error,
                 "cannot send the greeting to the other stage");
    *ret_memory = mapped;
    return 0;
}

static int map_memory(int memory, void **ret_memory, struct cv_error *error)
{
    struct stat status;
    if (memory < 0 || fstat(memory, &status) != 0 || status.st_size != MEMORY_BYTES ||
        (fcntl(memory, F_GET_SEALS) & F_SEAL_SHRINK) == 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the other stage is of another release, or has ended");
    }
    void *mapped = mmap(NULL, MEMORY_BYTES, PROT_READ, MAP_SHARED, memory, 0);
    CV_TRY_ERRNO(mapped != MAP_FAILED, error, "cannot map memory to share");
    *ret_memory = mapped;
    return 0;
}

/* Keeps the connection for the job of the next part; if that fails, the next part decodes itself. */
static void keep(const struct cv_meeting *meeting, int socket, int memory)
{
    const int fds[DESCRIPTORS_MAX] = {socket, memory};
    if (meeting->keep_fd >= 0 && !send_descriptors(meeting->keep_fd, "", 1, fds, CV_COUNT(fds))) {
        cv_log(CV_LOG_DEBUG, "cannot keep the connection for the next part: %s", strerror(errno));
    }
}

static int be_greeted(const struct cv_meeting *meeting, int socket, void **ret_memory,
                      struct cv_error *error)
{
    struct greeting greeting = {0};
    int fds[DESCRIPTORS_MAX];
    (void)waits(meeting, socket, GREETING_MS);
    bool is_whole = receive_descriptors(socket, &greeting, sizeof(greeting), fds);
    cv_auto_fd int memory = fds[0], other = fds[1];
    if (!is_whole || greeting.magic != GREETING_MAGIC) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the other stage is of another release, or has ended");
    }
    greeting.original[ORIGINAL_MAX - 1] = '\0';
    if (strcmp(greeting.original, meeting->original) != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "the other stage reads another original");
    }
    CV_TRY(map_memory(memory, ret_memory, error));
    keep(meeting, socket, memory);
    return 0;
}

static int meet(const struct cv_meeting *meeting, struct cv_peer *ret_peer, struct cv_error *error)
{
    bool is_first = false;
    cv_auto_fd int fd = arrive(meeting, &is_first, error);
    cv_auto_fd int peer = fd < 0 ? -1 : is_first ? await(meeting, fd, error) : cv_take_fd(&fd);
    if (peer < 0) {
        return -1;
    }
    void *memory = NULL;
    CV_TRY(check_user(peer, error));
    CV_TRY(meeting->companion->sends ? greet(meeting, peer, &memory, error)
                                     : be_greeted(meeting, peer, &memory, error));
    *ret_peer = (struct cv_peer){cv_take_fd(&peer), memory, MEMORY_BYTES};
    return 0;
}

/* Takes the connection of the previous part; a job that reads from the beginning discards it. */
static int take_kept(const struct cv_meeting *meeting, struct cv_peer *ret_peer,
                     struct cv_error *error)
{
    char word;
    int fds[DESCRIPTORS_MAX] = {-1, -1};
    bool is_there =
        meeting->kept_fd >= 0 && receive_descriptors(meeting->kept_fd, &word, sizeof(word), fds);
    cv_auto_fd int socket = fds[0], memory = fds[1];
    if (!is_there || meeting->waits) {
        return cv_fail(error, CV_ERROR_TIMEOUT, "no connection was kept from the previous part");
    }
    void *mapped = NULL;
    CV_TRY(map_memory(memory, &mapped, error));
    keep(meeting, socket, memory);
    *ret_peer = (struct cv_peer){cv_take_fd(&socket), mapped, MEMORY_BYTES};
    return 0;
}

int cv_companion_meet(const struct cv_meeting *meeting, struct cv_peer *ret_peer,
                      struct cv_error *error)
{
    int r = take_kept(meeting, ret_peer, error);
    if (r < 0 && meeting->waits) {
        r = meet(meeting, ret_peer, error);
    }
    cv_auto_fd int kept_fd = meeting->kept_fd,
                   keep_fd = meeting->keep_fd; /* closed before the sandbox */
    if (is_stopped(meeting)) {
        return cv_fail(error, CV_ERROR_CANCELED, "stopped while waiting for the other stage");
    }
    if (r < 0) {
        cv_log(error->type == CV_ERROR_TIMEOUT ? CV_LOG_INFO : CV_LOG_WARN,
               "decoding is not shared: %s", error->message);
    } else {
        cv_log(CV_LOG_INFO, "the %s stage of this video is here, too",
               meeting->companion->job_type);
    }
    return 0;
}
