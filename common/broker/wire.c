#include "common/broker/wire.h"

#include <string.h>
#include <sys/socket.h>

enum { SMALL_MAX = 4096 };

/* Sends bytes with a descriptor. */
static ssize_t send_descriptor(int socket, const void *data, size_t size, int fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

/* Sends all bytes; `fd` is sent with the first byte, and is -1 from then on. */
static int send_all(int socket, const char *data, size_t size, int *fd)
{
    while (size > 0) {
        ssize_t sent = *fd >= 0 ? send_descriptor(socket, data, size, *fd)
                                : send(socket, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return -1;
        }
        if (sent > 0) {
            *fd = -1;
            data += sent;
            size -= (size_t)sent;
        }
    }
    return 0;
}

int cv_wire_send(int socket, const struct iovec *parts, size_t count, int fd)
{
    char small[SMALL_MAX] = ""; /* head and short text are sent together: the peer wakes once */
    size_t length = 0, next = 0;
    for (; next < count && parts[next].iov_len <= sizeof(small) - length; next++) {
        if (parts[next].iov_len > 0) {
            memcpy(small + length, parts[next].iov_base, parts[next].iov_len);
            length += parts[next].iov_len;
        }
    }
    CV_TRY(send_all(socket, small, length, &fd));
    for (; next < count; next++) {
        CV_TRY(send_all(socket, parts[next].iov_base, parts[next].iov_len, &fd));
    }
    return 0;
}

/* Receives the descriptor that was sent with a message. The control buffer has no room for more than
 * one, or for an unexpected one: the kernel closes it and reports that. */
static int receive_descriptor(struct msghdr *message, int *fd)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
            head->cmsg_len == CMSG_LEN(sizeof(int)) && *fd < 0) {
            memcpy(fd, CMSG_DATA(head), sizeof(*fd));
        } else {
            return -1;
        }
    }
    return message->msg_flags & MSG_CTRUNC ? -1 : 0;
}

int cv_wire_receive(int socket, void *data, size_t size, int *ret_fd)
{
    cv_auto_fd int fd = -1;
    for (size_t done = 0; done < size;) {
        union {
            struct cmsghdr head;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = {.iov_base = (char *)data + done, .iov_len = size - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (ret_fd && done == 0) {
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof(control.bytes);
        }
        ssize_t count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 || receive_descriptor(&message, &fd) < 0) {
            return -1;
        }
        if (count == 0) {
            return done == 0 ? 0 : -1;
        }
        done += (size_t)count;
    }
    if (ret_fd) {
        *ret_fd = cv_take_fd(&fd);
    }
    return 1;
}

/* ---- values ---------------------------------------------------------------------------------- */

json_t *cv_wire_from_info(const struct cv_object_info *info)
{
    return json_pack("{s:I, s:I, s:s, s:s}", "size", (json_int_t)info->size, "modified_ms",
                     (json_int_t)info->modified_ms, "etag", info->etag, "sha256", info->sha256);
}

bool cv_wire_to_info(const json_t *json, struct cv_object_info *info)
{
    json_int_t size = 0, modified_ms = 0;
    const char *etag = NULL, *sha256 = NULL;
    if (json_unpack((json_t *)json, "{s:I, s:I, s:s, s:s}", "size", &size, "modified_ms",
                    &modified_ms, "etag", &etag, "sha256", &sha256) != 0) {
        return false;
    }
    *info = (struct cv_object_info){.size = size, .modified_ms = modified_ms};
    (void)snprintf(info->etag, sizeof(info->etag), "%s", etag);
    (void)snprintf(info->sha256, sizeof(info->sha256), "%s", sha256);
    return true;
}

json_t *cv_wire_from_error(const struct cv_error *error)
{
    char message[sizeof(error->message)];
    (void)snprintf(message, sizeof(message), "%s", error->message);
    json_t *text = json_string(message);
    /* A message that was truncated within a character is not valid UTF-8, which JSON requires. */
    for (char *c = message; !text && *c; c++) {
        *c = (char)((unsigned char)*c < 0x80 ? *c : '?');
    }
    text = text ? text : json_string(message);
    return json_pack("{s:s, s:i, s:b, s:I, s:o}", "type", cv_error_type_name(error->type),
                     "verdict", (int)error->verdict, "environment", error->environment,
                     "retry_after_ms", (json_int_t)error->retry_after_ms, "message", text);
}

int cv_wire_to_error(const json_t *json, struct cv_error *error)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    const char *message = json_string_value(json_object_get(json, "message"));
    const json_t *verdict = json_object_get(json, "verdict");
    int result = cv_fail(error, cv_error_type_from_name(type ? type : ""), "%s",
                         message ? message : "the store failed and did not say why");
    if (json_is_integer(verdict)) {
        error->verdict = (enum cv_verdict)json_integer_value(verdict);
    }
    error->environment = json_is_true(json_object_get(json, "environment"));
    error->retry_after_ms = json_integer_value(json_object_get(json, "retry_after_ms"));
    return result;
}
