#include "common/probe/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

enum { ANSWER_MAX = 1 << 20, PATIENCE_MS = 20000 };

static const double bounds[] = {0.1, 1, 10};
static const struct cv_metric jobs = {
    .name = "cortana_test_jobs_total",
    .help = "Jobs.",
    .kind = CV_METRIC_COUNTER,
    .labels = {"job_type", "outcome"},
};
static const struct cv_metric level = {
    .name = "cortana_test_level",
    .help = "A level.",
    .kind = CV_METRIC_GAUGE,
};
static const struct cv_metric run_time = {
    .name = "cortana_test_run_seconds",
    .help = "Run time.",
    .kind = CV_METRIC_HISTOGRAM,
    .labels = {"job_type"},
    .bounds = bounds,
    .bound_count = CV_COUNT(bounds),
};

/* ---- numbers --------------------------------------------------------------------------------- */

static void assert_printed(struct cv_metrics *metrics, const char *expected)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_metrics_print(metrics, &text);
    assert_false(text.failed);
    assert_string_equal(text.data, expected);
}

static void test_counters_and_gauges(void **state)
{
    (void)state;
    cv_auto(cv_metrics_free) struct cv_metrics *metrics = NULL;
    struct cv_error error;
    assert_int_equal(cv_metrics_new(&metrics, &error), 0);
    cv_metric_add(metrics, &jobs, CV_LABELS("ocr", "done"), 1);
    cv_metric_add(metrics, &jobs, CV_LABELS("ocr", "done"), 2);
    cv_metric_add(metrics, &jobs, CV_LABELS("ocr", "done"), -5); /* a counter never falls */
    cv_metric_add(metrics, &jobs, CV_LABELS("ocr", "dead"), 0);
    cv_metric_set(metrics, &level, NULL, 7);
    cv_metric_raise(metrics, &level, NULL, 3);
    cv_metric_raise(metrics, &level, NULL, 9.5);
    cv_metric_set(NULL, &level, NULL, 1); /* nobody listens */
    assert_printed(metrics, "# HELP cortana_test_jobs_total Jobs.\n"
                            "# TYPE cortana_test_jobs_total counter\n"
                            "cortana_test_jobs_total{job_type=\"ocr\",outcome=\"done\"} 3\n"
                            "cortana_test_jobs_total{job_type=\"ocr\",outcome=\"dead\"} 0\n"
                            "# HELP cortana_test_level A level.\n"
                            "# TYPE cortana_test_level gauge\n"
                            "cortana_test_level 9.5\n");
}

static void test_histogram(void **state)
{
    (void)state;
    cv_auto(cv_metrics_free) struct cv_metrics *metrics = NULL;
    struct cv_error error;
    assert_int_equal(cv_metrics_new(&metrics, &error), 0);
    const double values[] = {0.05, 0.1, 0.5, 10, 11};
    for (size_t i = 0; i < CV_COUNT(values); i++) {
        cv_metric_observe(metrics, &run_time, CV_LABELS("ocr"), values[i]);
    }
    assert_printed(metrics, "# HELP cortana_test_run_seconds Run time.\n"
                            "# TYPE cortana_test_run_seconds histogram\n"
                            "cortana_test_run_seconds_bucket{job_type=\"ocr\",le=\"0.1\"} 2\n"
                            "cortana_test_run_seconds_bucket{job_type=\"ocr\",le=\"1\"} 3\n"
                            "cortana_test_run_seconds_bucket{job_type=\"ocr\",le=\"10\"} 4\n"
                            "cortana_test_run_seconds_bucket{job_type=\"ocr\",le=\"+Inf\"} 5\n"
                            "cortana_test_run_seconds_sum{job_type=\"ocr\"} 21.65\n"
                            "cortana_test_run_seconds_count{job_type=\"ocr\"} 5\n");
}

/* Label values come from payloads, hosts and servers. */
static void test_labels_are_escaped_bounded_and_redacted(void **state)
{
    (void)state;
    cv_auto(cv_metrics_free) struct cv_metrics *metrics = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    struct cv_error error;
    char long_value[1000];
    (void)memset(long_value, 'x', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    assert_int_equal(cv_metrics_new(&metrics, &error), 0);
    cv_metric_add(metrics, &jobs, CV_LABELS("a\"b\\c\nd", "postgres://u:hunter2@h/db"), 1);
    cv_metric_add(metrics, &jobs, CV_LABELS(NULL, long_value), 1);
    cv_metrics_print(metrics, &text);
    assert_non_null(strstr(text.data, "job_type=\"a\\\"b\\\\c\\nd\""));
    assert_null(strstr(text.data, "hunter2"));
    assert_non_null(strstr(text.data, "job_type=\"\""));
    assert_true(text.length < 1000);
}

static void test_series_are_bounded(void **state)
{
    (void)state;
    cv_auto(cv_metrics_free) struct cv_metrics *metrics = NULL;
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    struct cv_error error;
    size_t lines = 0;
    assert_int_equal(cv_metrics_new(&metrics, &error), 0);
    for (int i = 0; i < 6000; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        cv_metric_add(metrics, &jobs, CV_LABELS("type", name), 1);
    }
    cv_metrics_print(metrics, &text);
    for (const char *at = text.data; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    assert_int_equal(lines, 5000 + 2);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static int port; /* of free_address() */

/* The address with a free port in place of 0; as it is, if no port can be had there. */
static const char *free_address(const char *address)
{
    static char text[40];
    struct cv_error error;
    cv_auto_fd int fd = -1;
    if (cv_probe_bind(address, &fd, &port, &error) != 0) {
        return address;
    }
    (void)snprintf(text, sizeof(text), "%.*s%d", (int)strlen(address) - 1, address, port);
    return text;
}

/* At a free port; at another one if somebody takes that between its choice and the start. */
static int try_start(const char *address, int64_t stall_ms, struct cv_probe **ret_probe,
                     struct cv_error *error)
{
    for (int tries = 100;; tries--) {
        struct cv_probe_params params = {"test", free_address(address), stall_ms, false};
        int result = cv_probe_start(&params, ret_probe, error);
        if (result == 0 || tries == 0 || !strstr(error->message, strerror(EADDRINUSE))) {
            return result;
        }
    }
}

static struct cv_probe *start(const char *address, int64_t stall_ms)
{
    struct cv_probe *probe = NULL;
    struct cv_error error;
    if (try_start(address, stall_ms, &probe, &error) != 0) {
        fail_msg("%s", error.message);
    }
    return probe;
}

static int dial(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Everything until the other side closes. */
static char *receive_all(int fd)
{
    char *text = calloc(1, ANSWER_MAX);
    size_t length = 0;
    assert_non_null(text);
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
        ssize_t count = recv(fd, text + length, ANSWER_MAX - 1 - length, 0);
        if (count <= 0) {
            break;
        }
        length += (size_t)count;
    }
    return text;
}

static char *ask(const char *request)
{
    cv_auto_fd int fd = dial();
    send_text(fd, request);
    return receive_all(fd);
}

static void assert_answer(const char *page, const char *status, const char *body)
{
    char request[100];
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", page);
    cv_auto_free char *answer = ask(request);
    char line[40];
    (void)snprintf(line, sizeof(line), "HTTP/1.1 %s ", status);
    if (strncmp(answer, line, strlen(line)) != 0 || !strstr(answer, body)) {
        fail_msg("%s: wanted %s and \"%s\": %s", page, status, body, answer);
    }
}

static void test_pages(void **state)
{
    (void)state;
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    assert_answer("/healthz", "200", "\r\n\r\nok\n");
    assert_answer("/readyz", "503", "\r\n\r\nstarting\n");
    cv_probe_set_reason(probe, "no database at postgres://u:hunter2@h/db\nor so");
    assert_answer("/readyz", "503", "no database at postgres://u:*******@h/db or so\n");
    cv_probe_set_reason(probe, NULL);
    assert_answer("/readyz", "200", "\r\n\r\nok\n");
    cv_metric_add(cv_probe_metrics(probe), &jobs, CV_LABELS("ocr", "done"), 4);
    assert_answer("/metrics", "200",
                  "\ncortana_test_jobs_total{job_type=\"ocr\",outcome=\"done\"} 4\n");
    assert_answer("/metrics", "200", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    assert_answer("/metrics", "200", "\ncortana_ready 1\n");
    assert_answer("/metrics", "200",
                  "cortana_build_info{program=\"test\",version=\"" CV_VERSION "\"} 1\n");
    assert_answer("/", "404", "there are /healthz");
    assert_answer("/metrics/../healthz", "404", "there are");
    cv_probe_drain(probe);
    assert_answer("/readyz", "503", "draining");
    assert_answer("/healthz", "200", "ok");
}

static void test_published_numbers_replace_each_other(void **state)
{
    (void)state;
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    for (int i = 1; i <= 2; i++) {
        struct cv_metrics *metrics = NULL;
        struct cv_error error;
        assert_int_equal(cv_metrics_new(&metrics, &error), 0);
        cv_metric_set(metrics, &level, NULL, i);
        cv_probe_publish(probe, metrics);
    }
    assert_answer("/metrics", "200", "\ncortana_test_level 2\n");
    cv_probe_publish(probe, NULL);
    cv_auto_free char *answer = ask("GET /metrics HTTP/1.0\r\n\r\n");
    assert_null(strstr(answer, "cortana_test_level"));
}

static void test_only_get_and_head(void **state)
{
    (void)state;
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    cv_auto_free char *posted = ask("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                                    "Connection: close\r\n\r\nhello");
    assert_non_null(strstr(posted, " 405 "));
    assert_non_null(strstr(posted, "Allow: GET, HEAD"));
    cv_auto_free char *head = ask("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(strncmp(head, "HTTP/1.1 200 ", 13), 0);
    assert_null(strstr(head, "ok\n"));
    cv_auto_free char *rubbish = ask("\x16\x03\x01 rubbish\r\n\r\n");
    assert_null(strstr(rubbish, " 200 "));
    cv_auto_free char *large = calloc(1, 70000);
    (void)memset(large, 'a', 65000);
    (void)memcpy(large, "GET /healthz HTTP/1.1\r\nX: ", 26);
    cv_auto_fd int fd = dial();
    (void)!send(fd, large, strlen(large), MSG_NOSIGNAL);
    cv_auto_free char *refused = receive_all(fd);
    assert_null(strstr(refused, " 200 "));
    assert_answer("/healthz", "200", "ok");
}

/* More clients than connections, each sending a byte now and then, never a whole request: everybody
 * else is answered at once all the same. */
static void test_slow_clients_keep_nobody_out(void **state)
{
    (void)state;
    enum { ROUNDS = 15, AT_ONCE_MS = 1000 };
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    int slow[400];
    for (size_t i = 0; i < CV_COUNT(slow); i++) {
        slow[i] = dial();
        send_text(slow[i], "GET /healthz HTTP/1.1\r\nX: ");
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CV_COUNT(slow); i++) {
            if (send(slow[i], "a", 1, MSG_NOSIGNAL) != 1) { /* it was cut: it comes again */
                close(slow[i]);
                slow[i] = dial();
            }
        }
        int64_t begun = cv_monotonic_ms();
        assert_answer("/healthz", "200", "ok");
        assert_true(cv_monotonic_ms() - begun < AT_ONCE_MS);
    }
    for (size_t i = 0; i < CV_COUNT(slow); i++) {
        close(slow[i]);
    }
}

static void test_silent_clients_are_cut(void **state)
{
    (void)state;
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    cv_auto_fd int fd = dial();
    send_text(fd, "GET /healthz HTTP/1.1\r\nX: ");
    cv_auto_free char *answer = receive_all(fd); /* within PATIENCE_MS */
    assert_null(strstr(answer, " 200 "));
}

static void test_loop_that_stands_still(void **state)
{
    (void)state;
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 50);
    cv_probe_set_reason(probe, NULL);
    int64_t begun = cv_monotonic_ms();
    while (cv_monotonic_ms() <= begun + 60) {
        (void)poll(NULL, 0, 10);
    }
    assert_answer("/healthz", "503", "the loop does not turn");
    assert_answer("/readyz", "503", "the loop does not turn");
    cv_probe_stop(cv_take(probe));
    probe = start("127.0.0.1:0", 60000);
    cv_probe_beat(probe);
    assert_answer("/healthz", "200", "ok");
}

static void test_signal_that_waits_for_the_loop(void **state)
{
    (void)state;
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
    cv_auto(cv_probe_stop) struct cv_probe *probe = start("127.0.0.1:0", 60000);
    cv_probe_set_reason(probe, NULL);
    assert_answer("/readyz", "200", "ok");
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_answer("/readyz", "503", "draining");
    int number = 0;
    assert_int_equal(sigwait(&set, &number), 0);
    assert_answer("/readyz", "200", "ok");
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {"0.0.0.0:0", "127.0.0.1:0", ":0", "[::]:0"};
    static const char *const bad[] = {"9090",        "127.0.0.1", "127.0.0.1:",      "::1:0",
                                      "[::1:0",      "[]:0",      "127.0.0.1:65536", "a.b.c:0",
                                      "127.0.0.1:x", "[::1]0"};
    struct cv_error error;
    for (size_t i = 0; i < CV_COUNT(good); i++) {
        cv_auto(cv_probe_stop) struct cv_probe *probe = NULL;
        int result = try_start(good[i], 60000, &probe, &error);
        if (result < 0 && strchr(good[i], '[')) {
            continue; /* a machine without IPv6 */
        }
        assert_int_equal(result, 0);
        assert_answer("/healthz", "200", "ok"); /* [::] takes IPv4, too */
    }
    for (size_t i = 0; i < CV_COUNT(bad); i++) {
        struct cv_probe *probe = NULL;
        struct cv_probe_params params = {"test", bad[i], 60000, false};
        assert_int_equal(cv_probe_start(&params, &probe, &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
        assert_null(probe);
    }
    struct cv_probe *nowhere = NULL;
    struct cv_probe_params silent = {"test", "", 60000, false};
    assert_int_equal(cv_probe_start(&silent, &nowhere, &error), 0);
    assert_null(nowhere);
    cv_auto(cv_probe_stop) struct cv_probe *first = start("127.0.0.1:0", 60000);
    char taken[40];
    (void)snprintf(taken, sizeof(taken), "127.0.0.1:%d", port);
    struct cv_probe *second = NULL;
    struct cv_probe_params params = {"test", taken, 60000, false};
    assert_int_equal(cv_probe_start(&params, &second, &error), -1);
    assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
    assert_non_null(strstr(error.message, taken));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_and_gauges),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_labels_are_escaped_bounded_and_redacted),
        cmocka_unit_test(test_series_are_bounded),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_published_numbers_replace_each_other),
        cmocka_unit_test(test_only_get_and_head),
        cmocka_unit_test(test_slow_clients_keep_nobody_out),
        cmocka_unit_test(test_silent_clients_are_cut),
        cmocka_unit_test(test_loop_that_stands_still),
        cmocka_unit_test(test_signal_that_waits_for_the_loop),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
