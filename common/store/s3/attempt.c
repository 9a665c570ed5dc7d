#include "common/store/s3/attempt.h"

#include <inttypes.h>
#include <string.h>

enum {
    CONNECT_TIMEOUT_MS = 10 * 1000, /* a server further away than that answers nothing in time */
    FAILURE_TEXT_MAX = 64 << 10,    /* an error's XML has some hundred bytes */
    BUFFER_SIZE = 256 << 10,        /* size of curl's buffers; fewer calls at high rates */
    ANSWER_BUFFER_SIZE = 16 << 10,  /* if the answer is short */
    /* Bytes per second. If a transfer is slower than the first rate for the stall time-out, it has
     * stalled; if its mean is below the second rate, it is given up even if it continues. Twelve
     * connections over a line of 2 Mbit/s have 20 KiB/s each. */
    RATE_MIN = 1 << 10,
    RATE_AVERAGE_MIN = 16 << 10,
    ANSWER_EXPECTED_MAX = 1 << 30, /* larger than any object; a caller's limit may be higher */
    STALLS_MAX = 3,                /* stalls of one request, in all its attempts … */
    PATIENCE_S = 30,               /* … and the additional time for an overloaded server */
    WITH_HEAD_MAX = 64 << 10,      /* up to this size curl sends head and body in one call */
};

/* ---- callbacks of curl ----------------------------------------------------------------------- */

static bool is_success(const struct cv_s3_request *request)
{
    return request->answer.status / 100 == 2;
}

static size_t receive_header(char *data, size_t size, size_t count, void *opaque)
{
    struct cv_s3_attempt *attempt = opaque;
    cv_s3_answer_header(&attempt->request->answer, data, size * count);
    return size * count;
}

/* Allocates room for the whole answer if its length is known. */
static void make_room(struct cv_s3_request *request)
{
    int64_t length = request->answer.content_length;
    if (request->text.length > 0 || length < 0 || (uint64_t)length > request->text_limit ||
        (size_t)length < request->text.capacity) {
        return;
    }
    char *data = realloc(request->text.data, (size_t)length + 1);
    if (data) {
        request->text.data = data;
        request->text.capacity = (size_t)length + 1;
    }
}

static size_t receive_body(char *data, size_t size, size_t count, void *opaque)
{
    struct cv_s3_attempt *attempt = opaque;
    struct cv_s3_request *request = attempt->request;
    size_t length = size * count;
    if (!is_success(request)) {
        if (request->text.length + length <= FAILURE_TEXT_MAX) {
            cv_buffer_append(&request->text, data, length);
        }
        return length;
    }
    if (!request->target) {
        attempt->is_too_long = length > request->text_limit - request->text.length;
        if (!attempt->is_too_long) {
            make_room(request);
            cv_buffer_append(&request->text, data, length);
        }
        return attempt->is_too_long || request->text.failed ? 0 : length;
    }
    attempt->is_too_long = length > request->target_size - request->received;
    if (attempt->is_too_long) {
        return 0;
    }
    memcpy((char *)request->target + request->received, data, length);
    request->received += length;
    return length;
}

static size_t give_body(char *data, size_t size, size_t count, void *opaque)
{
    struct cv_s3_attempt *attempt = opaque;
    const struct cv_s3_request *request = attempt->request;
    size_t left = request->body_size - attempt->sent;
    size_t length = size * count < left ? size * count : left;
    if (length == 0) {
        return 0;
    }
    if (request->body_fd < 0) {
        memcpy(data, (const char *)request->body + attempt->sent, length);
    } else {
        ssize_t got =
            pread(request->body_fd, data, length, request->body_offset + (int64_t)attempt->sent);
        if (got <= 0) {
            attempt->error_number = got < 0 ? errno : ENODATA;
            return CURL_READFUNC_ABORT;
        }
        length = (size_t)got;
    }
    attempt->sent += length;
    return length;
}

/* curl calls this to send the body again on a new connection, if the server had closed the old one. */
static int rewind_body(void *opaque, curl_off_t offset, int origin)
{
    struct cv_s3_attempt *attempt = opaque;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > attempt->request->body_size) {
        return CURL_SEEKFUNC_FAIL;
    }
    attempt->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static int make_path(const struct cv_s3_config *config, const struct cv_s3_request *request,
                     char **ret_path, struct cv_error *error)
{
    const char *key = request->key ? request->key : "";
    bool slash = request->key || config->base[0] == '\0';
    return cv_format(ret_path, error, "%s%s%s", config->base, slash ? "/" : "", key);
}

static void add_line(struct cv_s3_attempt *attempt, const char *line, bool *failed)
{
    struct curl_slist *lines = curl_slist_append(attempt->lines, line);
    attempt->lines = lines ? lines : attempt->lines;
    *failed |= !lines;
}

/* Makes the lines of all signed headers except Host, which curl writes itself. Headers that curl
 * would add are removed, because they are not signed and no server needs them. */
static int make_lines(struct cv_s3_attempt *attempt, const struct cv_s3_pairs *headers,
                      const char *authorization, struct cv_error *error)
{
    bool failed = false;
    bool has_type = false;
    for (size_t i = 0; i < headers->count; i++) {
        const struct cv_s3_pair *pair = &headers->items[i];
        cv_auto_free char *line = NULL;
        CV_TRY(pair->value[0] ? cv_format(&line, error, "%s: %s", pair->name, pair->value)
                              : cv_format(&line, error, "%s;", pair->name));
        has_type |= strcmp(pair->name, "content-type") == 0;
        if (strcmp(pair->name, "host") != 0) {
            add_line(attempt, line, &failed);
        }
    }
    cv_auto_free char *line = NULL;
    CV_TRY(cv_format(&line, error, "authorization: %s", authorization));
    add_line(attempt, line, &failed);
    add_line(attempt, "Expect:", &failed);
    add_line(attempt, "Accept:", &failed);
    if (!has_type) {
        add_line(attempt, "Content-Type:", &failed);
    }
    return failed ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request") : 0;
}

/* Signs the request and makes its header lines. */
static int sign(struct cv_s3_attempt *attempt, struct cv_s3_client *client, const char *path,
                struct cv_error *error)
{
    const struct cv_s3_request *request = attempt->request;
    const struct cv_s3_config *config = cv_s3_client_config(client);
    cv_auto(cv_s3_credentials_deinit) struct cv_s3_credentials credentials = {0};
    CV_TRY(cv_s3_identity_get(cv_s3_client_identity(client), &credentials, error));
    const struct cv_s3_signing signing = {
        .access_key = credentials.access_key,
        .secret_key = credentials.secret_key,
        .region = config->region,
        .service = "s3",
        .time_s = cv_wall_ms() / 1000,
    };
    char date[CV_S3_DATE_SIZE];
    cv_s3_format_date(signing.time_s, date);
    cv_auto(cv_s3_pairs_deinit) struct cv_s3_pairs headers = {0};
    for (size_t i = 0; i < request->headers.count; i++) {
        cv_s3_pairs_add(&headers, request->headers.items[i].name, request->headers.items[i].value);
    }
    headers.failed |= request->headers.failed;
    cv_s3_pairs_add(&headers, "host", config->host);
    cv_s3_pairs_add(&headers, "x-amz-date", date);
    cv_s3_pairs_add(&headers, "x-amz-content-sha256", request->payload_hash);
    if (credentials.session_token) {
        cv_s3_pairs_add(&headers, "x-amz-security-token", credentials.session_token);
    }
    const struct cv_s3_message message = {
        .method = request->method,
        .path = path,
        .query = &request->query,
        .headers = &headers,
        .payload_hash = request->payload_hash,
    };
    cv_auto_free char *authorization = NULL;
    CV_TRY(cv_s3_sign(&signing, &message, &authorization, error));
    return make_lines(attempt, &headers, authorization, error);
}

static int make_url(const struct cv_s3_config *config, const struct cv_s3_request *request,
                    const char *path, char **ret_url, struct cv_error *error)
{
    cv_auto_free char *query = NULL;
    CV_TRY(cv_s3_query_text(&request->query, &query, error));
    cv_auto(cv_buffer_deinit) struct cv_buffer url = CV_BUFFER_INIT;
    cv_buffer_printf(&url, "%s://%s", config->scheme, config->host);
    cv_percent_encode(&url, path, true);
    cv_buffer_printf(&url, "%s%s", query[0] ? "?" : "", query);
    return cv_buffer_detach(&url, ret_url, error);
}

/* curl defines the type of each option; a wrong type gives a compiler warning, and setting an
 * option fails only without memory. */
#define SET(option, value) good = good && curl_easy_setopt(attempt->easy, option, value) == CURLE_OK

static bool set_body(struct cv_s3_attempt *attempt)
{
    const struct cv_s3_request *request = attempt->request;
    bool good = true;
    if (strcmp(request->method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    } else if (strcmp(request->method, "GET") == 0) {
        SET(CURLOPT_HTTPGET, 1L);
    } else if (strcmp(request->method, "DELETE") == 0) {
        SET(CURLOPT_CUSTOMREQUEST, "DELETE");
    } else if (request->body && request->body_fd < 0 && request->body_size <= WITH_HEAD_MAX) {
        SET(CURLOPT_POSTFIELDS, request->body);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    } else {
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_CUSTOMREQUEST, request->method);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_size);
        SET(CURLOPT_READFUNCTION, give_body);
        SET(CURLOPT_READDATA, attempt);
        SET(CURLOPT_SEEKFUNCTION, rewind_body);
        SET(CURLOPT_SEEKDATA, attempt);
        SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_SIZE);
    }
    return good;
}

static int64_t stall_timeout_s(const struct cv_s3_request *request,
                               const struct cv_s3_config *config)
{
    return request->stall_timeout_s > 0 ? request->stall_timeout_s : config->stall_timeout_s;
}

int64_t cv_s3_attempt_patience_ms(const struct cv_s3_request *request,
                                  const struct cv_s3_config *config)
{
    bool is_get = strcmp(request->method, "GET") == 0;
    size_t answer = request->target ? request->target_size : is_get ? request->text_limit : 0;
    answer = answer < ANSWER_EXPECTED_MAX ? answer : ANSWER_EXPECTED_MAX;
    int64_t bytes = (int64_t)request->body_size + (int64_t)answer;
    return (PATIENCE_S + STALLS_MAX * stall_timeout_s(request, config) + bytes / RATE_AVERAGE_MIN) *
           1000;
}

static bool set_options(struct cv_s3_attempt *attempt, const struct cv_s3_config *config,
                        const char *url)
{
    const struct cv_s3_request *request = attempt->request;
    int64_t stall_s = stall_timeout_s(request, config);
    bool is_get = strcmp(request->method, "GET") == 0;
    bool good = true;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PROTOCOLS_STR, config->tls ? "https" : "http");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_HTTPHEADER, attempt->lines);
    SET(CURLOPT_USERAGENT, "cortana-vision/" CV_VERSION);
    SET(CURLOPT_PRIVATE, attempt);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, attempt->detail);
    SET(CURLOPT_HEADERFUNCTION, receive_header);
    SET(CURLOPT_HEADERDATA, attempt);
    SET(CURLOPT_WRITEFUNCTION, receive_body);
    SET(CURLOPT_WRITEDATA, attempt);
    SET(CURLOPT_BUFFERSIZE, (long)(is_get ? BUFFER_SIZE : ANSWER_BUFFER_SIZE));
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)RATE_MIN);
    SET(CURLOPT_LOW_SPEED_TIME, (long)stall_s);
    SET(CURLOPT_TIMEOUT_MS, (long)cv_s3_attempt_patience_ms(request, config));
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    if (config->ca_file) {
        SET(CURLOPT_CAINFO, config->ca_file);
    }
    return good && set_body(attempt);
}

int cv_s3_attempt_begin(struct cv_s3_attempt *attempt, struct cv_s3_client *client,
                        struct cv_s3_request *request, CURL *easy, struct cv_error *error)
{
    *attempt = (struct cv_s3_attempt){.request = request, .easy = easy};
    cv_s3_answer_deinit(&request->answer);
    cv_s3_answer_init(&request->answer);
    cv_buffer_clear(&request->text);
    request->received = 0;
    const struct cv_s3_config *config = cv_s3_client_config(client);
    cv_auto_free char *path = NULL;
    cv_auto_free char *url = NULL;
    int result = make_path(config, request, &path, error);
    result = result ? result : make_url(config, request, path, &url, error);
    result = result ? result : sign(attempt, client, path, error);
    if (result == 0 && !set_options(attempt, config, url)) {
        result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a request");
    }
    if (result) {
        cv_s3_attempt_end(attempt);
    }
    return result;
}

void cv_s3_attempt_end(struct cv_s3_attempt *attempt)
{
    curl_easy_reset(attempt->easy);
    curl_slist_free_all(attempt->lines);
    attempt->lines = NULL;
}

/* ---- judging --------------------------------------------------------------------------------- */

static enum cv_s3_remedy judge_success(struct cv_s3_attempt *attempt, int *ret_result,
                                       struct cv_error *error)
{
    struct cv_s3_request *request = attempt->request;
    if (request->target && request->received != request->target_size) {
        *ret_result = cv_fail(error, CV_ERROR_CONNECTION, "the answer has %zu bytes instead of %zu",
                              request->received, request->target_size);
        return CV_S3_RETRY;
    }
    *ret_result = request->check ? request->check(request, error) : 0;
    bool may_help = error->verdict == CV_VERDICT_RETRY && error->type != CV_ERROR_CONFLICT;
    return *ret_result && may_help ? CV_S3_RETRY : CV_S3_GIVE_UP;
}

enum cv_s3_remedy cv_s3_attempt_judge(struct cv_s3_attempt *attempt, CURLcode code, int *ret_result,
                                      struct cv_error *error)
{
    struct cv_s3_request *request = attempt->request;
    *ret_result = -1;
    if (attempt->error_number) {
        *ret_result = cv_fail_errno(error, attempt->error_number, "read the file to be stored");
        return CV_S3_GIVE_UP;
    }
    if (attempt->is_too_long) {
        *ret_result = cv_fail(error, CV_ERROR_SERVER, "the answer is longer than %zu bytes",
                              request->target ? request->target_size : request->text_limit);
        return CV_S3_GIVE_UP;
    }
    if (request->text.failed) {
        *ret_result = cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for an answer");
        return CV_S3_GIVE_UP;
    }
    /* A server may answer and close the connection while the body is still being sent. */
    bool answered = code == CURLE_OK || (request->answer.status >= 400 && code == CURLE_SEND_ERROR);
    if (!answered) {
        return cv_s3_transfer_failure(code, attempt->detail, error);
    }
    if (is_success(request)) {
        return judge_success(attempt, ret_result, error);
    }
    return cv_s3_answer_failure(&request->answer, request->text.data, request->text.length, error);
}
