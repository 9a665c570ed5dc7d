/* api-gateway: the HTTP API. */
#include "common/daemon/daemon.h"

#include "gateway/assets.h"
#include "gateway/media.h"
#include "gateway/server.h"

#include <poll.h>
#include <string.h>
#include <sys/resource.h>

static const char program[] = "api-gateway";

static const char usage[] =
    "usage: api-gateway [OPTION…]\n"
    "\n"
    "Serves the HTTP API of docs/api.md. The database is that of DATABASE_URL: a login that is a "
    "member\n"
    "of cortana_gateway. Tokens are checked with CORTANA_JWT_SECRET, CORTANA_JWKS_FILE or "
    "CORTANA_JWKS_URL.\n"
    "\n"
    "  --api ADDR:PORT     where the API listens (CORTANA_API_LISTEN, 127.0.0.1:8080)\n"
    "  --listen ADDR:PORT  answer GET /healthz, /readyz and /metrics there (CORTANA_LISTEN)\n"
    "  --behind-proxy      a proxy ends TLS in front of it; needed for addresses other than "
    "loopback\n"
    "  --insecure-http     listen there without a proxy: tokens cross the network unencrypted\n"
    "  --trusted-proxies LIST  addresses or networks of proxies that may state a client's address\n"
    "                      (CORTANA_TRUSTED_PROXIES)\n"
    "  --rates LIST        requests of a caller, per second and at once (CORTANA_API_RATES,\n"
    "                      read=50:200,write=5:20,search=10:30,failure=0.1:10; read=0: no limit)\n"
    "  --no-operator       refuse tokens of service_role; for gateways that the Internet reaches\n"
    "  --hide-payloads     show tenants only the member names of payloads and results\n"
    "                      (CORTANA_HIDE_PAYLOADS=1)\n"
    "  --connections N     database connections (8)\n"
    "  --max-clients N     clients at once (12000)\n"
    "  --per-address N     clients of one address (64; 0: no limit, the default with "
    "--behind-proxy)\n"
    "  --streams N         event streams, and requests that wait for a change, of one caller at "
    "once\n"
    "                      (32 of each; 0: no limit)\n";

enum {
    LOOP_MS = 500,
    SCHEMA_MS = 5 * 1000, /* between two checks of the schema */
    STALL_MS = 60 * 1000,
    DESCRIPTORS_BESIDE = 64, /* descriptors needed besides those of connections */
    KEY_SET_MAX_BYTES = 256 * 1024,
    SCHEMA_STATEMENT_MS = 5 * 1000,
    CLIENTS_PER_ADDRESS = 64, /* a page uses up to 6 connections and a stream */
    SESSION_MS = 10 * 1000,   /* between two writes that somebody searches or plays */
};

struct options {
    const char *api, *listen;
    int64_t connections, max_clients, per_address, streams;
    const char *rates, *proxies;
    bool is_behind_proxy, is_insecure_http, is_without_service, hides_payloads;
};

/* ---- parts ------------------------------------------------------------------------------------- */

struct gateway {
    struct cv_daemon daemon;
    char *secret, *key_set;  /* the files with keys for tokens */
    struct cv_cancel *abort; /* raised at the end of the grace period: cancels statements */
    struct admission admission;
    struct cv_db *db; /* used by the main thread to check the schema */
    int64_t schema_at_ms;
    struct session session;
    struct media_settings media;
    struct pool *pool;
    struct store_pool *store_pool;
    struct events *events;
    struct audit *audit;
    struct server *server;
};

static void gateway_deinit(struct gateway *gateway)
{
    if (gateway->events) {
        events_quiesce(gateway->events);
    }
    pool_stop(gateway->pool); /* answers all queued requests, so that none stays suspended */
    store_pool_stop(gateway->store_pool);
    server_stop(gateway->server);
    audit_stop(gateway->audit);
    store_pool_free(gateway->store_pool);
    grant_keys_free(gateway->media.grants);
    events_stop(gateway->events);
    cv_db_close(gateway->db);
    key_source_close(gateway->admission.keys);
    free(gateway->media.directory);
    free(gateway->secret);
    free(gateway->key_set);
    limits_free(gateway->admission.limits);
    cv_cancel_free(gateway->abort);
    cv_daemon_deinit(&gateway->daemon);
}
CV_DEFINE_CLEANUP_ADDRESS(struct gateway, gateway_deinit)

static int read_file(const char *path, char **ret_text, struct cv_error *error)
{
    cv_auto_file FILE *file = fopen(path, "re");
    cv_auto_free char *text = malloc(KEY_SET_MAX_BYTES + 1);
    if (!file) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "cannot read %s: %s", path, strerror(errno));
    }
    size_t length = text ? fread(text, 1, KEY_SET_MAX_BYTES + 1, file) : 0;
    if (!text || ferror(file) || length > KEY_SET_MAX_BYTES) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "cannot read %s, or it is longer than 256 KiB", path);
    }
    text[length] = '\0';
    *ret_text = cv_take(text);
    return 0;
}

static int load_keys(struct gateway *gateway, const struct options *options, struct cv_error *error)
{
    const char *secret = cv_env("CORTANA_JWT_SECRET", NULL);
    const char *secret_file = cv_env("CORTANA_JWT_SECRET_FILE", NULL);
    const char *key_set_file = cv_env("CORTANA_JWKS_FILE", NULL);
    const char *role = cv_env("CORTANA_DEFAULT_ROLE", "editor");
    CV_TRY(secret_file && !secret ? read_file(secret_file, &gateway->secret, error) : 0);
    CV_TRY(key_set_file ? read_file(key_set_file, &gateway->key_set, error) : 0);
    if (strcmp(role, "viewer") != 0 && strcmp(role, "editor") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_DEFAULT_ROLE is %s, but must be viewer or editor", role);
    }
    if (gateway->secret) {
        gateway->secret[strcspn(gateway->secret, "\r\n")] = '\0';
    }
    const struct token_params params = {.secret = secret ? secret : gateway->secret,
                                        .key_set = gateway->key_set,
                                        .issuer = cv_env("CORTANA_JWT_ISSUER", NULL),
                                        .audience = cv_env("CORTANA_JWT_AUDIENCE", "authenticated"),
                                        .default_role = role,
                                        .is_without_service = options->is_without_service};
    const struct key_source_params source = {params, cv_env("CORTANA_JWKS_URL", NULL),
                                             gateway->abort};
    return key_source_open(&source, &gateway->admission.keys, error);
}

static int load_limits(struct gateway *gateway, const struct options *options,
                       struct cv_error *error)
{
    struct admission *admission = &gateway->admission;
    if (!cv_http_networks_parse(options->proxies, &admission->proxies)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "--trusted-proxies is '%s', but must be addresses or networks like "
                       "10.0.0.0/8,fd00::1",
                       options->proxies);
    }
    return limits_new(options->rates, &admission->limits, error);
}

static int load_grant_keys(struct gateway *gateway, struct cv_error *error)
{
    const char *path = cv_env("CORTANA_GRANT_SECRET_FILE", NULL);
    cv_auto_free char *secrets = NULL;
    CV_TRY(path ? read_file(path, &secrets, error) : 0);
    return grant_keys_new(secrets, &gateway->media.grants, error);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0;
}

/* Starts the page. Its policy must allow the bucket, because browsers play from it and send uploads
 * to it. If the store cannot be opened now, the first request that needs it tries again and reports
 * the error. */
static int start_page(struct gateway *gateway, struct cv_error *error)
{
    /* This URL is never used. */
    const struct cv_signed_url any = {.key = CV_KEYS_INBOX "any", .method = "PUT", .seconds = 1};
    cv_auto(cv_store_close) struct cv_store *store = NULL;
    cv_auto_free char *url = NULL;
    struct cv_error reason;
    const char *way = cv_env("CORTANA_MEDIA", "redirect");
    gateway->media.passes_through = strcmp(way, "proxy") == 0;
    if (!gateway->media.passes_through && strcmp(way, "redirect") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "CORTANA_MEDIA is %s, but must be redirect or proxy", way);
    }
    gateway->media.is_bucket = cv_store_open(NULL, &store, &reason) == 0 &&
                               cv_store_presign(store, &any, &url, &reason) == 0;
    assets_start(gateway->media.is_bucket ? url : NULL);
    const char *directory = store ? cv_store_directory(store) : NULL;
    return directory ? cv_format(&gateway->media.directory, error, "%s", directory) : 0;
}

static void warn_of_unnamed_proxy(const struct gateway *gateway, const struct options *options)
{
    if (gateway->admission.proxies.count == 0 &&
        (options->is_behind_proxy || options->is_insecure_http)) {
        cv_log(
            CV_LOG_WARN,
            "--trusted-proxies names no proxy: if one, or a container's bridge, stands before the "
            "gateway, all clients have its address, are limited together, and are recorded with "
            "it in the audit log");
    }
}

static int start_server(struct gateway *gateway, const struct options *options,
                        struct cv_error *error)
{
    struct rlimit files;
    if (!is_loopback(options->api) && !options->is_behind_proxy && !options->is_insecure_http) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "%s is not loopback: say --behind-proxy where a proxy ends TLS, or --insecure-http",
            options->api);
    }
    warn_of_unnamed_proxy(gateway, options);
    gateway->admission.is_plain_cookie_allowed =
        is_loopback(options->api) && !options->is_behind_proxy;
    /* Where neither is said it is read on loopback; --insecure-http may stand behind a proxy, too. */
    gateway->admission.is_http = !options->is_behind_proxy;
    gateway->admission.is_https = options->is_behind_proxy || options->is_insecure_http;
    gateway->admission.metrics = cv_probe_metrics(gateway->daemon.probe);
    rlim_t needed = (rlim_t)(options->max_clients + options->connections + DESCRIPTORS_BESIDE);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < needed) {
        files.rlim_cur = needed < files.rlim_max ? needed : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        if (files.rlim_cur < needed) {
            cv_log(CV_LOG_WARN, "%lld clients need %lld descriptors, and the limit is %lld",
                   (long long)options->max_clients, (long long)needed, (long long)files.rlim_cur);
        }
    }
    CV_TRY(start_page(gateway, error));
    const struct pool_params pool = {(int)options->connections, options->hides_payloads,
                                     gateway->abort, server_go_on};
    const struct store_pool_params store_pool = {gateway->abort, server_work, server_go_on};
    const struct events_params events = {gateway->abort, (int)options->streams};
    const struct audit_params audit = {gateway->abort, gateway->admission.limits,
                                       gateway->admission.metrics};
    CV_TRY(store_pool_start(&store_pool, &gateway->store_pool, error));
    CV_TRY(pool_start(&pool, &gateway->pool, error));
    CV_TRY(events_start(&events, &gateway->events, error));
    CV_TRY(audit_start(&audit, &gateway->audit, error));
    const struct server_params params = {.address = options->api,
                                         .connections = (int)options->max_clients,
                                         .per_address = (int)options->per_address,
                                         .waiting = (int)options->streams,
                                         .admission = &gateway->admission,
                                         .media = &gateway->media,
                                         .metrics = gateway->admission.metrics,
                                         .pool = gateway->pool,
                                         .store_pool = gateway->store_pool,
                                         .events = gateway->events,
                                         .audit = gateway->audit,
                                         .session = &gateway->session};
    return server_start(&params, &gateway->server, error);
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* 0: the schema is one that this program knows; > 0: it is not; < 0: the database did not answer. */
static int find_schema(struct gateway *gateway, struct cv_error *error)
{
    const struct cv_daemon_db_params params = {.statement_timeout_ms = SCHEMA_STATEMENT_MS};
    struct cv_daemon *daemon = &gateway->daemon;
    int result = gateway->db ? cv_db_reconnect(gateway->db, LOOP_MS, error)
                             : cv_daemon_connect(daemon, &params, &gateway->db, error);
    return result ? result : cv_daemon_check_schema(daemon, gateway->db, error);
}

/* Requests are run only while the database is available and has a schema that this program knows.
 * A connection that is found dead is made anew at once: that this one was cut says nothing of those
 * that run requests. */
static void check_schema(struct gateway *gateway)
{
    struct cv_daemon *daemon = &gateway->daemon;
    struct cv_error error;
    if (cv_monotonic_ms() < gateway->schema_at_ms) {
        return;
    }
    bool was_open = gateway->db && cv_db_is_connected(gateway->db);
    int result = find_schema(gateway, &error);
    if (result < 0 && was_open && !cv_db_is_connected(gateway->db)) {
        result = find_schema(gateway, &error);
    }
    if (result <= 0 && !cv_daemon_is_stopping(daemon)) {
        cv_daemon_set_reason(daemon, result < 0 ? error.message : NULL);
    }
    pool_set_ready(gateway->pool, result == 0);
    gateway->schema_at_ms = cv_monotonic_ms() + (result == 0 ? SCHEMA_MS : LOOP_MS);
}

static void serve(struct gateway *gateway)
{
    while (!cv_daemon_is_stopping(&gateway->daemon)) {
        check_schema(gateway);
        session_report(&gateway->session, gateway->db);
        server_close_late(gateway->server);
        server_ask_again(gateway->server, gateway->db);
        cv_daemon_wait(&gateway->daemon, NULL, cv_monotonic_ms() + LOOP_MS);
    }
}

/* Waits for requests under way, at most the grace period; then aborts the rest. */
static void finish(struct gateway *gateway, int64_t grace_ms)
{
    int64_t until = cv_monotonic_ms() + grace_ms;
    server_quiesce(gateway->server);
    events_quiesce(gateway->events);
    while (server_under_way(gateway->server) > 0 && cv_monotonic_ms() < until) {
        server_close_late(gateway->server);
        (void)poll(NULL, 0, 20);
    }
    cv_cancel_request(gateway->abort, CV_CANCEL_ABORT);
    cv_log(CV_LOG_INFO, "stopped");
}

static int run(struct options *options, struct cv_error *error)
{
    cv_auto(gateway_deinit) struct gateway gateway = {0};
    const struct cv_daemon_params params = {program, options->listen, STALL_MS, false};
    int64_t grace_ms = 0, hides_payloads = 0;
    CV_TRY(cv_env_int("CORTANA_GRACE_MS", 30 * 1000, 0, INT32_MAX, &grace_ms, error));
    CV_TRY(cv_env_int("CORTANA_HIDE_PAYLOADS", 0, 0, 1, &hides_payloads, error));
    options->hides_payloads = options->hides_payloads || hides_payloads == 1;
    CV_TRY(cv_cancel_new(&gateway.abort, error));
    CV_TRY(load_keys(&gateway, options, error));
    CV_TRY(load_limits(&gateway, options, error));
    CV_TRY(load_grant_keys(&gateway, error));
    CV_TRY(cv_daemon_open(&params, &gateway.daemon, error));
    CV_TRY(start_server(&gateway, options, error));
    serve(&gateway);
    finish(&gateway, grace_ms);
    return 0;
}

/* ---- command line ------------------------------------------------------------------------------ */

static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    const struct cv_option known[] = {
        {"api", .text = &options->api, .variable = "CORTANA_API_LISTEN"},
        {"listen", .text = &options->listen, .variable = "CORTANA_LISTEN"},
        {"behind-proxy", .flag = &options->is_behind_proxy},
        {"insecure-http", .flag = &options->is_insecure_http},
        {"rates", .text = &options->rates, .variable = "CORTANA_API_RATES"},
        {"trusted-proxies", .text = &options->proxies, .variable = "CORTANA_TRUSTED_PROXIES"},
        {"no-operator", .flag = &options->is_without_service},
        {"hide-payloads", .flag = &options->hides_payloads},
        {"connections", .integer = &options->connections, .least = 1, .most = 64},
        {"max-clients", .integer = &options->max_clients, .least = 1, .most = 1000000},
        {"per-address", .integer = &options->per_address, .least = 0, .most = 1000000},
        {"streams", .integer = &options->streams, .least = 0, .most = 1000000},
    };
    const struct cv_program self = {program, usage, known, CV_COUNT(known)};
    bool is_good = cv_parse_options(&self, argc, argv, ret_exit);
    options->api = options->api ? options->api : "127.0.0.1:8080";
    options->proxies = options->proxies ? options->proxies : "";
    if (options->per_address < 0) { /* behind a proxy all connections have the proxy's address */
        options->per_address = options->is_behind_proxy ? 0 : CLIENTS_PER_ADDRESS;
    }
    return is_good;
}

int main(int argc, char **argv)
{
    struct options options = {
        .connections = 8, .max_clients = 12000, .per_address = -1, .streams = 32};
    int code = CV_EXIT_DONE;
    struct cv_error error;
    if (!parse(argc, argv, &options, &code)) {
        return code;
    }
    if (run(&options, &error) != 0) {
        return cv_daemon_exit_code(program, &error);
    }
    return CV_EXIT_DONE;
}
