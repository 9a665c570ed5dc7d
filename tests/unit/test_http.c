#include "common/http/http.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

/* ---- networks -------------------------------------------------------------------------------- */

static bool may_call(const char *allow, const char *text)
{
    struct cv_http_networks allowed;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    assert_true(cv_http_networks_parse(allow, &allowed));
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return cv_http_may_call(&allowed, (const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return cv_http_may_call(&allowed, (const struct sockaddr *)&v6);
}

static const char *const public[] = {
    "1.1.1.1",      "9.255.255.255",  "11.0.0.0",     "100.63.255.255",  "100.128.0.0",
    "126.0.0.1",    "128.0.0.1",      "172.15.0.1",   "172.32.0.0",      "169.253.0.1",
    "192.167.1.1",  "198.17.255.255", "198.20.0.0",   "223.255.255.255", "2606:4700::1111",
    "2a00:1450::1", "::ffff:8.8.8.8", "2001:4860::1", "3ffe::1",
};
static const char *const private[] = {
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "3fff::1",
    "5f00::1",
    "2001:1ff::1",
};

static void test_public_addresses(void **state)
{
    (void)state;
    for (size_t i = 0; i < CV_COUNT(public); i++) {
        if (!may_call("", public[i])) {
            fail_msg("%s is public", public[i]);
        }
    }
    for (size_t i = 0; i < CV_COUNT(private); i++) {
        if (may_call("", private[i])) {
            fail_msg("%s is not public", private[i]);
        }
    }
    const struct cv_http_networks none = {.count = 0};
    const struct sockaddr local = {.sa_family = AF_UNIX};
    assert_false(cv_http_may_call(&none, &local));
}

static void test_networks_that_are_allowed(void **state)
{
    (void)state;
    assert_true(may_call("10.0.0.0/8", "10.255.0.1"));
    assert_false(may_call("10.0.0.0/8", "192.168.0.1"));
    assert_true(may_call("10.0.0.0/8", "::ffff:10.0.0.1"));
    assert_false(may_call("10.0.0.0/8", "a00::1"));
    assert_true(may_call("10.0.0.128/25,127.0.0.1", "127.0.0.1"));
    assert_false(may_call("10.0.0.128/25,127.0.0.1", "127.0.0.2"));
    assert_false(may_call("10.0.0.128/25", "10.0.0.127"));
    assert_true(may_call("fd00::/8", "fd12::1"));
    assert_false(may_call("fd00::/9", "fd80::1"));
    assert_true(may_call("::1", "::1"));
    assert_true(may_call("0.0.0.0/0", "127.0.0.1"));
    assert_false(may_call("0.0.0.0/0", "::1"));
    static const char *const wrong[] = {"10.0.0.0/33", "10.0.0/8",    "x",        "10.0.0.0/8,",
                                        ",",           "10.0.0.0/-1", "/8",       "::1/129",
                                        " ",           "10.0.0.0/8 ", "10.0.0.0/"};
    for (size_t i = 0; i < CV_COUNT(wrong); i++) {
        struct cv_http_networks allowed;
        if (cv_http_networks_parse(wrong[i], &allowed)) {
            fail_msg("'%s' is not a list of networks", wrong[i]);
        }
    }
}

static void test_hosts_that_an_operator_writes(void **state)
{
    (void)state;
    static const char *const names[] = {
        "example.com",        "169.254.169.254",       "fe80::1", "10.0.0.0/8", "",
        "ollama.default.svc", "::ffff:169.254.169.254"};
    struct cv_http_networks networks = {.count = 0};
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (cv_http_networks_add_host(&networks, names[i])) {
            fail_msg("%s is not allowed by being written", names[i]);
        }
    }
    assert_int_equal(networks.count, 0);
    struct cv_http_networks full = {.count = CV_COUNT(full.networks)};
    assert_false(cv_http_networks_add_host(&full, "10.1.2.3"));
    assert_false(cv_http_networks_add_host(&full, "localhost"));
    assert_true(cv_http_networks_add_host(&networks, "10.1.2.3"));
    assert_int_equal(networks.count, 1);
    assert_true(cv_http_networks_add_host(&networks, "localhost"));
    assert_true(cv_http_networks_add_host(&networks, "fd00::7"));
    const struct sockaddr_in given = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a010203)}};
    const struct sockaddr_in next = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a010204)}};
    const struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000001)}};
    assert_true(cv_http_may_call(&networks, (const struct sockaddr *)&given));
    assert_false(cv_http_may_call(&networks, (const struct sockaddr *)&next));
    assert_true(cv_http_may_call(&networks, (const struct sockaddr *)&loopback));
}

/* ---- requests, with a resolver that lies ------------------------------------------------------- */

enum { RESOLVED_MAX = 4 };

/* What names resolve to from now on: IPv4 addresses in this order. */
static const char *resolved[RESOLVED_MAX + 1];
static atomic_int resolutions;

__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret_list);
__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *list);

/* Stands in for the system's resolver, as libcurl calls it. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_list)
{
    (void)name, (void)hints;
    int64_t port = 0;
    (void)!cv_parse_int(service ? service : "0", 0, UINT16_MAX, &port);
    struct addrinfo **end = ret_list;
    *ret_list = NULL;
    resolutions++;
    for (size_t i = 0; resolved[i]; i++) {
        struct addrinfo *made = calloc(1, sizeof(*made) + sizeof(struct sockaddr_in));
        if (!made) {
            return EAI_MEMORY;
        }
        struct sockaddr_in *address = (struct sockaddr_in *)(made + 1);
        address->sin_family = AF_INET;
        address->sin_port = htons((uint16_t)port);
        (void)inet_pton(AF_INET, resolved[i], &address->sin_addr);
        made->ai_family = AF_INET;
        made->ai_socktype = SOCK_STREAM;
        made->ai_addr = (struct sockaddr *)address;
        made->ai_addrlen = sizeof(*address);
        *end = made;
        end = &made->ai_next;
    }
    return *ret_list ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

static void resolve_to(const char *first, const char *second)
{
    resolved[0] = first;
    resolved[1] = second;
}

/* A server at 127.0.0.1 and all other addresses of the loopback network. */
struct server {
    int fd, port;
    const char *answer;
    atomic_int here, elsewhere; /* connections to 127.0.0.1, and to other addresses */
    pthread_t thread;
};

static void *serve(void *opaque)
{
    struct server *server = opaque;
    for (;;) {
        struct sockaddr_in own;
        socklen_t size = sizeof(own);
        char request[4096];
        cv_auto_fd int fd = accept(server->fd, NULL, NULL);
        if (fd < 0 || getsockname(fd, (struct sockaddr *)&own, &size) != 0) {
            return NULL;
        }
        *(own.sin_addr.s_addr == htonl(INADDR_LOOPBACK) ? &server->here : &server->elsewhere) += 1;
        (void)!recv(fd, request, sizeof(request), 0);
        (void)!send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL);
    }
}

static void server_start(struct server *server, const char *answer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    socklen_t size = sizeof(at);
    *server = (struct server){.answer = answer};
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(server->fd, 16), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&at, &size), 0);
    server->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    (void)shutdown(server->fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    close(server->fd);
}

static char last_message[sizeof(((struct cv_error *)NULL)->message)];

/* The status of the answer, or the negative error type; the message is in last_message. */
static long post(const struct server *server, const char *host, const char *allow)
{
    char url[128];
    struct cv_error error;
    struct cv_http_networks allowed;
    cv_auto(cv_http_client_close) struct cv_http_client *client = NULL;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {.status = 0};
    const char *const headers[] = {NULL};
    (void)snprintf(url, sizeof(url), "http://%s:%d/", host, server->port);
    assert_true(cv_http_networks_parse(allow, &allowed));
    assert_int_equal(cv_http_client_open(&client, &error), 0);
    const struct cv_http_request request = {.method = "POST",
                                            .url = url,
                                            .headers = headers,
                                            .body = "x",
                                            .body_length = 1,
                                            .answer_max = 1000,
                                            .timeout_ms = 5000,
                                            .allowed = &allowed,
                                            .allow_setting = "ALLOW"};
    int result = cv_http_send(client, &request, &answer, &error);
    (void)memcpy(last_message, result ? error.message : "", result ? sizeof(last_message) : 1);
    return result == 0 ? answer.status : -(long)error.type;
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

static void test_the_port_of_a_url(void **state)
{
    (void)state;
    assert_int_equal(cv_http_port("http://example.org/x"), 80);
    assert_int_equal(cv_http_port("https://example.org"), 443);
    assert_int_equal(cv_http_port("https://[::1]:8443/x?y"), 8443);
    assert_int_equal(cv_http_port("no URL"), 0);
    assert_int_equal(cv_http_port("http://example.org:65536/"), 0);
    assert_int_equal(cv_http_port(""), 0);
}

static void test_a_name_that_leads_inside_is_refused(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, ok);
    resolve_to("127.0.0.1", NULL);
    assert_int_equal(post(&server, "rebound.example", ""), -CV_ERROR_CONNECTION);
    resolve_to("10.0.0.1", "169.254.169.254");
    assert_int_equal(post(&server, "rebound.example", ""), -CV_ERROR_CONNECTION);
    assert_int_equal(server.here + server.elsewhere, 0);
    server_stop(&server);
}

/* Whoever writes URLs learns no names of the operator's network. */
static void test_private_and_missing_names_are_answered_alike(void **state)
{
    (void)state;
    struct server server;
    char inside[sizeof(last_message)];
    server_start(&server, ok);
    resolve_to("10.0.0.1", NULL);
    assert_int_equal(post(&server, "inside.example", ""), -CV_ERROR_CONNECTION);
    (void)memcpy(inside, last_message, sizeof(inside));
    resolve_to(NULL, NULL);
    assert_int_equal(post(&server, "nothing.example", ""), -CV_ERROR_CONNECTION);
    assert_string_equal(inside, last_message);
    assert_int_equal(post(&server, "10.0.0.1", ""), -CV_ERROR_AUTHORIZATION);
    server_stop(&server);
}

/* The name is asked for once a request, and the address of that answer is the one that is checked. */
static void test_a_name_that_changes_is_judged_anew(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, ok);
    resolve_to("127.0.0.1", NULL);
    int before = resolutions;
    assert_int_equal(post(&server, "rebound.example", "127.0.0.1"), 200);
    assert_int_equal(resolutions - before, 1);
    resolve_to("127.0.0.2", NULL);
    assert_int_equal(post(&server, "rebound.example", "127.0.0.1"), -CV_ERROR_CONNECTION);
    assert_int_equal(server.here, 1);
    assert_int_equal(server.elsewhere, 0);
    server_stop(&server);
}

static void test_of_several_addresses_only_those_that_may_be_called_are(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, ok);
    resolve_to("127.0.0.2", "127.0.0.1");
    assert_int_equal(post(&server, "both.example", "127.0.0.1"), 200);
    assert_int_equal(server.here, 1);
    assert_int_equal(server.elsewhere, 0);
    server_stop(&server);
}

static void test_no_redirect_is_followed(void **state)
{
    (void)state;
    struct server inside, outside;
    server_start(&inside, ok);
    char answer[256];
    (void)snprintf(answer, sizeof(answer),
                   "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%d/\r\n"
                   "Content-Length: 0\r\nConnection: close\r\n\r\n",
                   inside.port);
    server_start(&outside, answer);
    resolve_to("127.0.0.1", NULL);
    assert_int_equal(post(&outside, "outside.example", "127.0.0.0/8"), 307);
    assert_int_equal(outside.here, 1);
    assert_int_equal(inside.here, 0);
    server_stop(&outside);
    server_stop(&inside);
}

static void test_no_proxy_is_used(void **state)
{
    (void)state;
    struct server proxy, server;
    char url[64];
    server_start(&proxy, ok);
    server_start(&server, ok);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", proxy.port);
    assert_int_equal(setenv("http_proxy", url, 1), 0);
    resolve_to("127.0.0.1", NULL);
    assert_int_equal(post(&server, "a.example", "127.0.0.1"), 200);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(proxy.here, 0);
    assert_int_equal(server.here, 1);
    server_stop(&server);
    server_stop(&proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public_addresses),
        cmocka_unit_test(test_networks_that_are_allowed),
        cmocka_unit_test(test_hosts_that_an_operator_writes),
        cmocka_unit_test(test_the_port_of_a_url),
        cmocka_unit_test(test_a_name_that_leads_inside_is_refused),
        cmocka_unit_test(test_private_and_missing_names_are_answered_alike),
        cmocka_unit_test(test_a_name_that_changes_is_judged_anew),
        cmocka_unit_test(test_of_several_addresses_only_those_that_may_be_called_are),
        cmocka_unit_test(test_no_redirect_is_followed),
        cmocka_unit_test(test_no_proxy_is_used),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
