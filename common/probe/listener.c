#include "common/probe/probe_internal.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

/* ---- listening ------------------------------------------------------------------------------- */

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
    CV_TRY_ERRNO(fd >= 0, error, "no socket to listen at");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at->ai_family == AF_INET6) { /* [::] also accepts IPv4, whatever the system's default */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    CV_TRY_ERRNO(bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0, error,
                 "cannot listen there");
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

/* ---- the listener ---------------------------------------------------------------------------- */

enum {
    CONNECTIONS_MAX = 128,        /* then the oldest is closed; an answer takes a millisecond */
    CONNECTIONS_CLOSING = 32,     /* shut down but not yet closed */
    SILENCE_S = 5,                /* a connection without a byte is closed */
    CONNECTION_BYTES = 8 * 1024,  /* of header, without the answer */
    CONNECTION_BYTES_STEP = 1024, /* grows by */
    REASON_MAX = 512,
};

struct cv_probe {
    struct MHD_Daemon *daemon; /* has its own thread */
    struct cv_fleet *fleet;    /* NULL: /metrics does not show the fleet */
    int port;
    int64_t stall_ms;
    _Atomic int64_t beat_at;
    atomic_bool is_draining;
    struct cv_metrics *metrics;
    int connections[CONNECTIONS_MAX]; /* descriptors, oldest first; only for the daemon's thread */
    size_t connection_count;

    pthread_mutex_t mutex; /* everything below */
    char reason[REASON_MAX];
    struct cv_metrics *published;
};

static const struct cv_metric build_info =
    CV_GAUGE("cortana_build_info", "1, with what runs here.", "program", "version");
static const struct cv_metric ready = CV_GAUGE("cortana_ready", "1 while /readyz says 200.", NULL);
static const struct cv_metric dropped =
    CV_COUNTER("cortana_series_dropped_total",
               "Series that were not kept because a family had too many.", NULL);

/* ---- answers --------------------------------------------------------------------------------- */

struct answer {
    unsigned status;
    const char *content_type;
    struct cv_buffer text;
};

static bool is_turning(struct cv_probe *probe)
{
    return cv_monotonic_ms() - probe->beat_at <= probe->stall_ms;
}

/* Whether a stop signal is pending. The loop blocks the signal and reads it from a descriptor,
 * which may take as long as the loop waits for the database; clients of /readyz should know at
 * once. */
static bool is_told_to_stop(const struct cv_probe *probe)
{
    sigset_t pending;
    return probe->is_draining ||
           (sigpending(&pending) == 0 &&
            (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1));
}

/* Whether it may have work; else why not. */
static bool is_ready(struct cv_probe *probe, struct cv_buffer *why)
{
    if (!is_turning(probe)) {
        cv_buffer_text(why, "the loop does not turn");
        return false;
    }
    if (is_told_to_stop(probe)) {
        cv_buffer_text(why, "draining: no new work is taken");
        return false;
    }
    CV_LOCK(&probe->mutex);
    bool is_well = probe->reason[0] == '\0';
    cv_buffer_text(why, probe->reason);
    return is_well;
}

static void answer_health(struct cv_probe *probe, struct answer *answer)
{
    bool is_well = is_turning(probe);
    answer->status = is_well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    cv_buffer_text(&answer->text, is_well ? "ok\n" : "the loop does not turn\n");
}

static void answer_readiness(struct cv_probe *probe, struct answer *answer)
{
    bool is_well = is_ready(probe, &answer->text);
    answer->status = is_well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
    cv_buffer_text(&answer->text, is_well ? "ok\n" : "\n");
}

static void answer_metrics(struct cv_probe *probe, struct answer *answer)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer why = CV_BUFFER_INIT;
    answer->status = MHD_HTTP_OK;
    answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
    cv_metric_set(probe->metrics, &ready, NULL, is_ready(probe, &why));
    CV_LOCK(&probe->mutex);
    cv_metric_set(
        probe->metrics, &dropped, NULL,
        (double)(cv_metrics_dropped(probe->metrics) + cv_metrics_dropped(probe->published)));
    cv_metrics_print(probe->metrics, &answer->text);
    cv_metrics_print(probe->published, &answer->text);
}

static void find_answer(struct cv_probe *probe, const char *path, const char *method,
                        struct answer *answer)
{
    static const struct {
        const char *path;
        void (*make)(struct cv_probe *probe, struct answer *answer);
    } pages[] = {
        {"/healthz", answer_health},
        {"/readyz", answer_readiness},
        {"/metrics", answer_metrics},
    };
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        answer->status = MHD_HTTP_METHOD_NOT_ALLOWED;
        cv_buffer_text(&answer->text, "GET and HEAD alone\n");
        return;
    }
    for (size_t i = 0; i < CV_COUNT(pages); i++) {
        if (strcmp(pages[i].path, path) == 0) {
            pages[i].make(probe, answer);
            return;
        }
    }
    answer->status = MHD_HTTP_NOT_FOUND;
    cv_buffer_text(&answer->text, "there are /healthz, /readyz and /metrics\n");
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *answer)
{
    if (answer->text.failed) {
        return MHD_NO; /* closes the connection, which the client takes for an error */
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->text.length, answer->text.data, MHD_RESPMEM_MUST_COPY);
    if (!response) {
        return MHD_NO;
    }
    bool is_whole =
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type) &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") &&
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") &&
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") &&
        (answer->status != MHD_HTTP_METHOD_NOT_ALLOWED ||
         MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD"));
    enum MHD_Result result =
        is_whole ? MHD_queue_response(connection, answer->status, response) : MHD_NO;
    MHD_destroy_response(response);
    return result;
}

/* Called by the library with the header, and again with a body, which no request needs. The first
 * call answers. */
static enum MHD_Result on_request(void *opaque, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    (void)version;
    (void)upload;
    (void)upload_size;
    (void)state;
    struct answer answer = {.content_type = "text/plain; charset=utf-8", .text = CV_BUFFER_INIT};
    find_answer(opaque, url, method, &answer);
    enum MHD_Result result = send_answer(connection, &answer);
    cv_buffer_deinit(&answer.text);
    return result;
}

/* ---- connections ------------------------------------------------------------------------------- */

static void forget_connection(struct cv_probe *probe, int fd)
{
    size_t kept = 0;
    for (size_t i = 0; i < probe->connection_count; i++) {
        if (probe->connections[i] != fd) {
            probe->connections[kept++] = probe->connections[i];
        }
    }
    probe->connection_count = kept;
}

/* The library's time-out restarts with every byte, and at its limit it accepts no more
 * connections: clients that send a byte now and then would lock out the probes. So the oldest
 * connection is closed for a new one, and a client that sends and reads promptly is always
 * answered. */
static void on_connection(void *opaque, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    struct cv_probe *probe = opaque;
    (void)state;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) {
        return;
    }
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        forget_connection(probe, info->connect_fd);
        return;
    }
    if (probe->connection_count == CONNECTIONS_MAX) {
        (void)shutdown(probe->connections[0],
                       SHUT_RDWR); /* the library then sees its end and closes it */
        forget_connection(probe, probe->connections[0]);
    }
    probe->connections[probe->connection_count++] = info->connect_fd;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Broken requests are not logged, because clients could fill the log with them. */
static void ignore_message(void *opaque, const char *format, va_list arguments)
{
    (void)opaque;
    (void)format;
    (void)arguments;
}

static int start_daemon(struct cv_probe *probe, const char *address, struct cv_error *error)
{
    cv_auto_fd int fd = -1;
    CV_TRY(cv_probe_bind(address, &fd, &probe->port, error));
    probe->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, probe,
        MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(CONNECTIONS_MAX + CONNECTIONS_CLOSING),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
        (size_t)CONNECTION_BYTES_STEP, MHD_OPTION_NOTIFY_CONNECTION, on_connection, probe,
        MHD_OPTION_END);
    if (!probe->daemon) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the HTTP listener at %s does not start", address);
    }
    (void)cv_take_fd(&fd); /* the daemon closes it */
    return 0;
}

static void probe_free(struct cv_probe *probe)
{
    cv_fleet_stop(probe->fleet);
    if (probe->daemon) {
        MHD_stop_daemon(probe->daemon);
    }
    cv_metrics_free(probe->metrics);
    cv_metrics_free(probe->published);
    (void)pthread_mutex_destroy(&probe->mutex);
    free(probe);
}
CV_DEFINE_CLEANUP(struct cv_probe *, probe_free)

int cv_probe_start(const struct cv_probe_params *params, struct cv_probe **ret_probe,
                   struct cv_error *error)
{
    if (!params->address || !params->address[0]) {
        *ret_probe = NULL;
        return 0;
    }
    struct cv_probe *made = calloc(1, sizeof(*made));
    if (!made || pthread_mutex_init(&made->mutex, NULL) != 0) {
        free(made);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for the HTTP listener");
    }
    cv_auto(probe_free) struct cv_probe *probe = made;
    probe->stall_ms = params->stall_ms;
    probe->beat_at = cv_monotonic_ms();
    (void)snprintf(probe->reason, sizeof(probe->reason), "starting");
    CV_TRY(cv_metrics_new(&probe->metrics, error));
    cv_metric_set(probe->metrics, &build_info, CV_LABELS(params->program, CV_VERSION), 1);
    int result = start_daemon(probe, params->address, error);
    if (result == 0 && params->shows_fleet) {
        result = cv_fleet_start(probe, &probe->fleet, error);
    }
    if (result < 0) {
        return result;
    }
    cv_log(CV_LOG_INFO, "probes and metrics at port %d", probe->port);
    *ret_probe = cv_take(probe);
    return 0;
}

void cv_probe_stop(struct cv_probe *probe)
{
    if (probe) {
        probe_free(probe);
    }
}

/* ---- what the process says of itself --------------------------------------------------------- */

void cv_probe_beat(struct cv_probe *probe)
{
    if (probe) {
        probe->beat_at = cv_monotonic_ms();
    }
}

void cv_probe_set_reason(struct cv_probe *probe, const char *reason)
{
    if (!probe) {
        return;
    }
    char clean[REASON_MAX];
    (void)snprintf(clean, sizeof(clean), "%s", reason ? reason : "");
    cv_redact(clean);
    for (char *c = clean; *c; c++) {
        *c = (char)((unsigned char)*c < 0x20 ? ' ' : *c); /* one line, whatever a server said */
    }
    CV_LOCK(&probe->mutex);
    (void)memcpy(probe->reason, clean, sizeof(clean));
}

void cv_probe_drain(struct cv_probe *probe)
{
    if (probe) {
        probe->is_draining = true;
    }
}

struct cv_metrics *cv_probe_metrics(struct cv_probe *probe)
{
    return probe ? probe->metrics : NULL;
}

void cv_probe_publish(struct cv_probe *probe, struct cv_metrics *metrics)
{
    struct cv_metrics *former = metrics;
    if (probe) {
        (void)pthread_mutex_lock(&probe->mutex);
        former = probe->published;
        probe->published = metrics;
        (void)pthread_mutex_unlock(&probe->mutex);
    }
    cv_metrics_free(former);
}
