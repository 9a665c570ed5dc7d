#include "cli/commands/server.h"

#include "common/http/http.h"

#include "cli/commands/verbs.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>

enum {
    URL_MAX_LENGTH = 2048,
    TOKEN_MAX_LENGTH = 4096, /* as the gateway takes it */
    ANSWER_MAX = 64 << 20,   /* bytes of an answer; a page of 200 jobs has some 200 kB */
    TRANSFER_TIMEOUT_MS = 60 * 60 * 1000, /* of a file */
    TIMEOUT_MS = 60 * 1000, /* longer than any time limit of an operation that a verb runs */
};

struct cli_server {
    struct cv_http_client *client;
    struct cv_http_networks networks; /* all: the user has named the server */
    struct cv_cancel *cancel;
    char url[URL_MAX_LENGTH]; /* without a slash at the end */
    char authorization[TOKEN_MAX_LENGTH + 32];
};

void cli_server_close(struct cli_server *server)
{
    if (server) {
        cv_http_client_close(server->client);
        explicit_bzero(server->authorization, sizeof(server->authorization));
        free(server);
    }
}

static int make_server(const char *url, struct cv_cancel *cancel, struct cli_server **ret_server,
                       struct cv_error *error)
{
    cv_auto(cli_server_close) struct cli_server *server = calloc(1, sizeof(*server));
    CV_TRY_MEMORY(server, error, "a server");
    size_t length = strcspn(url, "?#");
    while (length > 0 && url[length - 1] == '/') {
        length--;
    }
    if (length >= sizeof(server->url) || cv_http_port(url) == 0) {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "'%s' is not an http or https URL", url);
    }
    (void)snprintf(server->url, sizeof(server->url), "%.*s", (int)length, url);
    if (!cv_http_networks_parse("0.0.0.0/0,::/0", &server->networks)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the networks of a server cannot be read");
    }
    server->cancel = cancel;
    CV_TRY(cv_http_client_open(&server->client, error));
    *ret_server = cv_take(server);
    return 0;
}

const char *cli_server_url(const struct cli_server *server)
{
    return server->url;
}

static void set_token(struct cli_server *server, const char *token)
{
    (void)snprintf(server->authorization, sizeof(server->authorization), "Authorization: Bearer %s",
                   token);
}

/* ---- requests --------------------------------------------------------------------------------- */

/* Whether `name` is a parameter in the path: "{name}". */
static bool is_in_path(const char *path, const char *name)
{
    size_t length = strlen(name);
    for (const char *brace = strchr(path, '{'); brace; brace = strchr(brace + 1, '{')) {
        if (strncmp(brace + 1, name, length) == 0 && brace[1 + length] == '}') {
            return true;
        }
    }
    return false;
}

/* Appends a value of a path or a query. */
static void append_value(struct cv_buffer *url, const json_t *value)
{
    cv_auto_free char *dumped =
        json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *text = json_is_string(value) ? json_string_value(value) : dumped;
    cv_percent_encode(url, text ? text : "", false);
}

/* Makes the URL of a request, and the object of the parameters that go into its body. */
static int make_target(const struct cli_server *server, const struct cli_operation *operation,
                       const json_t *values, struct cv_buffer *url, json_t **ret_body,
                       struct cv_error *error)
{
    const char *name;
    json_t *value;
    bool has_query = false;
    cv_auto(json_decref) json_t *body = json_object();
    CV_TRY_MEMORY(body, error, "a request");
    cv_buffer_text(url, server->url);
    for (const char *c = operation->path; *c;) {
        size_t length = strcspn(c, "{");
        cv_buffer_append(url, c, length);
        c += length;
        if (*c == '{') {
            char parameter[64];
            length = strcspn(c, "}");
            (void)snprintf(parameter, sizeof(parameter), "%.*s", (int)length - 1, c + 1);
            append_value(url, json_object_get(values, parameter));
            c += length + 1;
        }
    }
    json_object_foreach((json_t *)values, name, value)
    {
        if (is_in_path(operation->path, name)) {
            continue;
        }
        if (cli_is_among(operation->query, name)) {
            cv_buffer_printf(url, "%s%s=", has_query ? "&" : "?", name);
            append_value(url, value);
            has_query = true;
        } else {
            CV_TRY_MEMORY(json_object_set(body, name, value) == 0, error, "a request");
        }
    }
    CV_TRY_MEMORY(!url->failed, error, "a request");
    *ret_body = cv_take(body);
    return 0;
}

/* Fails with what the answer says: a problem of RFC 9457, or something of another server. */
static int fail_refused(const struct cli_server *server, long status, const json_t *body,
                        struct cv_error *error)
{
    static const struct {
        long status;
        enum cv_error_type type;
    } types[] = {{400, CV_ERROR_INVALID_PAYLOAD}, {401, CV_ERROR_AUTHENTICATION},
                 {403, CV_ERROR_AUTHORIZATION},   {404, CV_ERROR_NOT_FOUND},
                 {409, CV_ERROR_CONFLICT},        {422, CV_ERROR_INVALID_PAYLOAD},
                 {429, CV_ERROR_THROTTLED},       {504, CV_ERROR_TIMEOUT}};
    enum cv_error_type type = CV_ERROR_SERVER;
    for (size_t i = 0; i < CV_COUNT(types); i++) {
        type = types[i].status == status ? types[i].type : type;
    }
    if (status == 401) {
        return cv_fail(error, type, "%s does not accept the token: cortana login %s", server->url,
                       server->url);
    }
    const char *detail = json_string_value(json_object_get(body, "detail"));
    const char *title = json_string_value(json_object_get(body, "title"));
    const json_t *fault = json_array_get(json_object_get(body, "errors"), 0);
    const char *pointer = json_string_value(json_object_get(fault, "pointer"));
    const char *reason = json_string_value(json_object_get(fault, "detail"));
    if (pointer && reason) {
        return cv_fail(error, type, "%s: %s", pointer, reason);
    }
    return detail || title
               ? cv_fail(error, type, "%s", detail ? detail : title)
               : cv_fail(error, type, "%s answers with status %ld, not as cortana's API",
                         server->url, status);
}

static int fail_unanswered(const struct cli_server *server, int result, struct cv_error *error)
{
    return error->type == CV_ERROR_CANCELED
               ? result
               : cv_fail_context(error, result, "%s does not answer", server->url);
}

/* `write` receives the body of an answer that is no refusal; NULL: it is in *ret_answer. */
static int send_request(struct cli_server *server, const char *method, const char *url,
                        const json_t *body, cli_write *write, void *opaque,
                        struct cv_http_answer *ret_answer, struct cv_error *error)
{
    cv_auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const char *headers[] = {"Accept: application/json", "X-Cortana: 1", NULL, NULL, NULL};
    size_t count = 2;
    if (server->authorization[0]) {
        headers[count++] = server->authorization;
    }
    if (text) {
        headers[count] = "Content-Type: application/json";
    }
    const struct cv_http_request request = {.url = url,
                                            .method = method,
                                            .headers = headers,
                                            .body = text,
                                            .body_length = text ? strlen(text) : 0,
                                            .answer_max = ANSWER_MAX,
                                            .write = write,
                                            .opaque = opaque,
                                            .timeout_ms = write ? TRANSFER_TIMEOUT_MS : TIMEOUT_MS,
                                            .allowed = &server->networks,
                                            .allow_setting = "",
                                            .cancel = server->cancel};
    CV_TRY_MEMORY(!body || text, error, "a request");
    int result = cv_http_send(server->client, &request, ret_answer, error);
    return result && error->type != CV_ERROR_IO ? fail_unanswered(server, result, error) : result;
}

/* Reads the body of an answer: *ret_body is NULL if there is none. Fails if the answer is a refusal. */
static int read_answer(const struct cli_server *server, const struct cv_http_answer *answer,
                       json_t **ret_body, struct cv_error *error)
{
    cv_auto(json_decref) json_t *body =
        answer->body.length > 0
            ? json_loadb(answer->body.data, answer->body.length, JSON_DECODE_ANY, NULL)
            : NULL;
    bool is_good = answer->status >= 200 && answer->status < 300;
    if (!is_good || (!body && answer->body.length > 0)) {
        return fail_refused(server, answer->status, body, error);
    }
    *ret_body = cv_take(body);
    return 0;
}

int cli_server_ask(struct cli_server *server, const struct cli_operation *operation,
                   const json_t *values, int64_t *ret_status, json_t **ret_body,
                   struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {0};
    cv_auto(json_decref) json_t *body = NULL;
    CV_TRY(make_target(server, operation, values, &url, &body, error));
    CV_TRY(send_request(server, operation->method, url.data, operation->has_body ? body : NULL,
                        NULL, NULL, &answer, error));
    *ret_status = answer.status;
    return read_answer(server, &answer, ret_body, error);
}

int cli_server_read(struct cli_server *server, const struct cli_operation *operation,
                    const json_t *values, const char *path, cli_write *write, void *opaque,
                    struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {0};
    cv_auto(json_decref) json_t *body = NULL;
    if (operation) {
        CV_TRY(make_target(server, operation, values, &url, &body, error));
    } else {
        cv_buffer_printf(&url, "%s%s", server->url, path);
    }
    CV_TRY_MEMORY(!url.failed, error, "a request");
    CV_TRY(send_request(server, "GET", url.data, NULL, write, opaque, &answer, error));
    cv_auto(json_decref) json_t *refusal = NULL;
    return read_answer(server, &answer, &refusal, error);
}

/* ---- stored tokens ----------------------------------------------------------------------------- */

/* The path of the file with the tokens, whose folder is made if `creates`. */
static int tokens_path(bool creates, char path[PATH_MAX], struct cv_error *error)
{
    const char *config = cv_env("XDG_CONFIG_HOME", NULL);
    const char *home = cv_env("HOME", NULL);
    char folder[PATH_MAX];
    if (!config && !home) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "HOME is not set, so there is no folder for tokens");
    }
    (void)snprintf(folder, sizeof(folder), "%s%s", config ? config : home,
                   config ? "" : "/.config");
    if (creates) {
        (void)mkdir(folder, 0700); /* the next one reports a failure */
    }
    int length = snprintf(path, PATH_MAX, "%s/cortana", folder);
    if (length > PATH_MAX - 32) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "the path of the folder for tokens is too long");
    }
    CV_TRY_ERRNO(!creates || mkdir(path, 0700) == 0 || errno == EEXIST, error, "make the folder %s",
                 path);
    (void)snprintf(path + length, PATH_MAX - (size_t)length, "/servers.json");
    return 0;
}

/* Reads the object {URL: token}; an empty one if there is no file. */
static int read_tokens(json_t **ret_tokens, struct cv_error *error)
{
    char path[PATH_MAX];
    json_error_t reason;
    CV_TRY(tokens_path(false, path, error));
    bool is_there = access(path, F_OK) == 0;
    *ret_tokens = is_there ? json_load_file(path, 0, &reason) : json_object();
    if (is_there && !json_is_object(*ret_tokens)) {
        json_decref(*ret_tokens);
        *ret_tokens = NULL;
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s cannot be read: remove it and sign in again", path);
    }
    CV_TRY_MEMORY(*ret_tokens, error, "the tokens");
    return 0;
}

/* Replaces the file, which only this user may read. */
static int write_tokens(const json_t *tokens, struct cv_error *error)
{
    char path[PATH_MAX];
    cv_auto_free char *text = json_dumps(tokens, JSON_INDENT(1));
    CV_TRY_MEMORY(text, error, "the tokens");
    CV_TRY(tokens_path(true, path, error));
    return cli_replace_file(path, text, error);
}

int cli_server_open(const char *url, struct cv_cancel *cancel, struct cli_server **ret_server,
                    struct cv_error *error)
{
    cv_auto(cli_server_close) struct cli_server *server = NULL;
    cv_auto(json_decref) json_t *tokens = NULL;
    CV_TRY(make_server(url, cancel, &server, error));
    CV_TRY(read_tokens(&tokens, error));
    const char *token = json_string_value(json_object_get(tokens, server->url));
    if (!token) {
        return cv_fail(error, CV_ERROR_AUTHENTICATION,
                       "you are not signed in to %s: cortana login %s", server->url, server->url);
    }
    set_token(server, token);
    *ret_server = cv_take(server);
    return 0;
}

/* ---- login and logout -------------------------------------------------------------------------- */

/* Reads a token from standard input: from a terminal without showing it. */
static int read_token(char token[TOKEN_MAX_LENGTH + 2], struct cv_error *error)
{
    struct termios before;
    bool is_terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (is_terminal) {
        struct termios hidden = before;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        (void)fputs("token: ", stderr);
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
    token[0] = '\0';
    (void)!fgets(token, TOKEN_MAX_LENGTH + 2, stdin);
    if (is_terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        (void)fputc('\n', stderr);
    }
    token[strcspn(token, " \t\r\n")] = '\0';
    return token[0] ? 0 : cv_fail(error, CV_ERROR_AUTHENTICATION, "standard input holds no token");
}

/* Exchanges the code of a link for its token, which the server sends as a cookie. */
static int exchange_code(struct cli_server *server, char token[TOKEN_MAX_LENGTH + 2],
                         struct cv_error *error)
{
    char url[URL_MAX_LENGTH + 32];
    cv_auto(cv_http_answer_deinit) struct cv_http_answer answer = {0};
    cv_auto(json_decref) json_t *answered = NULL;
    cv_auto(json_decref) json_t *body = json_pack("{s:s}", "token", token);
    CV_TRY_MEMORY(body, error, "a request");
    (void)snprintf(url, sizeof(url), "%s/api/v1/session", server->url);
    CV_TRY(send_request(server, "POST", url, body, NULL, NULL, &answer, error));
    CV_TRY(read_answer(server, &answer, &answered, error));
    const char *cookie = answer.head.data ? strcasestr(answer.head.data, "set-cookie:") : NULL;
    const char *value = cookie ? strchr(cookie, '=') : NULL;
    size_t length = value ? strcspn(value + 1, ";\r\n") : 0;
    if (length == 0 || length > TOKEN_MAX_LENGTH) {
        return cv_fail(error, CV_ERROR_SERVER, "%s answers without a token", server->url);
    }
    (void)snprintf(token, TOKEN_MAX_LENGTH + 2, "%.*s", (int)length, value + 1);
    return 0;
}

int cli_login(struct cli_call *call, struct cv_error *error)
{
    const char *url = call->arguments[0];
    const char *code = strstr(url, "#t=");
    char token[TOKEN_MAX_LENGTH + 2];
    char named[URL_MAX_LENGTH];
    cv_auto(json_decref) json_t *me = NULL;
    cv_auto(json_decref) json_t *tokens = NULL;
    cv_auto(cli_server_close) struct cli_server *server = NULL;
    CV_TRY(make_server(url, call->cancel, &server, error));
    (void)snprintf(named, sizeof(named), "%s", server->url);
    (void)snprintf(token, sizeof(token), "%s", code ? code + 3 : "");
    CV_TRY(code ? 0 : read_token(token, error));
    /* A JSON Web Token has dots and an API key begins with cvk_; anything else is a code. */
    if (!strchr(token, '.') && strncmp(token, "cvk_", 4) != 0) {
        CV_TRY(exchange_code(server, token, error));
    }
    set_token(server, token);
    call->server = cv_take(server);
    CV_TRY(cli_ask(call, "me", NULL, &me, error));
    CV_TRY(read_tokens(&tokens, error));
    CV_TRY_MEMORY(json_object_set_new(tokens, named, json_string(token)) == 0, error, "a token");
    CV_TRY(write_tokens(tokens, error));
    const char *role = json_string_value(json_object_get(me, "role"));
    return cli_print_outcome(call, json_pack("{s:s, s:s?}", "server", named, "role", role), error,
                             "signed in to %s as %s", named, role ? role : "somebody");
}

int cli_logout(struct cli_call *call, struct cv_error *error)
{
    cv_auto(json_decref) json_t *tokens = NULL;
    cv_auto(cli_server_close) struct cli_server *server = NULL;
    CV_TRY(make_server(call->arguments[0], call->cancel, &server, error));
    CV_TRY(read_tokens(&tokens, error));
    if (json_object_del(tokens, server->url) != 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "you are not signed in to %s", server->url);
    }
    CV_TRY(write_tokens(tokens, error));
    return cli_print_outcome(call, json_pack("{s:s}", "server", server->url), error,
                             "signed out of %s", server->url);
}
