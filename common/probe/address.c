#include "common/probe/probe_internal.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

enum {
    BACKLOG = 1024, /* so that clients in a burst need not repeat their SYN */
    ADDRESS_MAX = 128,
    PORT_TEXT_SIZE = 6, /* "65535" */
};

CV_DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)

/* Splits "HOST:PORT" or "[HOST]:PORT" in place. */
static bool split(char *text, const char **ret_host, const char **ret_port)
{
    char *colon = strrchr(text, ':');
    int64_t number = 0;
    if (!colon || !cv_parse_int(colon + 1, 0, UINT16_MAX, &number)) {
        return false;
    }
    *colon = '\0';
    if (text[0] == '[') {
        if (colon < text + 3 || colon[-1] != ']') {
            return false;
        }
        colon[-1] = '\0';
        text++;
    } else if (strchr(text, ':')) {
        return false; /* an IPv6 address without brackets: the port's colon is ambiguous */
    }
    *ret_host = text[0] ? text : NULL;
    *ret_port = colon + 1;
    return true;
}

static int listen_at(const struct addrinfo *at, int *ret_fd, struct cv_error *error)
{
    cv_auto_fd int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, off = 0;
    if (fd < 0) {
        return cv_fail_errno(error, errno, "no socket to listen at");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at->ai_family == AF_INET6) { /* [::] also accepts IPv4, whatever the system's default */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        return cv_fail_errno(error, errno, "cannot listen there");
    }
    *ret_fd = cv_take_fd(&fd);
    return 0;
}

/* The port of a listening socket; 0 if it is unknown. getnameinfo knows where each address family
 * stores it. */
static int port_of(int fd)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(own);
    char port[PORT_TEXT_SIZE];
    int64_t number = 0;
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0 ||
        getnameinfo((struct sockaddr *)&own, size, NULL, 0, port, sizeof(port), NI_NUMERICSERV) !=
            0 ||
        !cv_parse_int(port, 0, UINT16_MAX, &number)) {
        return 0;
    }
    return (int)number;
}

int cv_probe_bind(const char *address, int *ret_fd, int *ret_port, struct cv_error *error)
{
    char text[ADDRESS_MAX];
    const char *host = NULL, *port = NULL;
    cv_auto(freeaddrinfo) struct addrinfo *found = NULL;
    struct addrinfo wanted = {
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
        .ai_socktype = SOCK_STREAM,
    };
    if (snprintf(text, sizeof(text), "%s", address) >= (int)sizeof(text) ||
        !split(text, &host, &port) || getaddrinfo(host, port, &wanted, &found) != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "\"%s\" is not an address to listen at; write 0.0.0.0:9090 or [::]:9090",
                       address);
    }
    int result = -1, fd = -1;
    /* All addresses: IPv6, which includes IPv4, where the machine has it, else IPv4. */
    static const int families[] = {AF_INET6, AF_INET};
    for (size_t i = 0; result < 0 && i < CV_COUNT(families); i++) {
        for (const struct addrinfo *at = found; result < 0 && at; at = at->ai_next) {
            if (at->ai_family == families[i]) {
                result = listen_at(at, &fd, error);
            }
        }
    }
    if (result < 0) {
        error->type = CV_ERROR_CONFIGURATION;
        error->verdict = cv_error_type_verdict(CV_ERROR_CONFIGURATION);
        return cv_fail_context(error, result, "%s", address);
    }
    *ret_port = port_of(fd);
    *ret_fd = fd;
    return 0;
}
