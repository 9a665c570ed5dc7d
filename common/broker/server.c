#include "common/broker/broker.h"
#include "common/broker/sound.h"
#include "common/broker/wire.h"
#include "common/store/backend.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The limits of one job. A stage uses one or two readers, and as many gets and puts at once as
 * cv_downloads and cv_uploads start. The totals are more than the longest recording needs, and keep
 * a compromised stage from causing unlimited costs. */
enum {
    READERS_MAX = 16,
    GETS_MAX = CV_DOWNLOADS_MAX + 1, /* theirs, and one cv_store_get() meanwhile */
    GET_BYTES_MAX = 64 << 20, /* bytes of each of these, as of a frame; held in memory here */
    PUTS_MAX = 2 * CV_UPLOADS_MAX,
    SENT_BYTES_MAX =
        CV_UPLOADS_BYTES_MAX + CV_WIRE_DATA_MAX, /* bytes in memory of puts under way */
    TEXT_SMALL_MAX = 16 << 10, /* text of any request except a batch: a key and a few words */
    REQUESTS_MAX = 50 * 1000 * 1000,
};

struct put {
    struct cv_store_put *put; /* NULL: the slot is free */
    void *data;               /* its source: bytes, or … */
    size_t data_length;
    int fd; /* … a file */
};

struct server {
    struct cv_broker *broker;
    struct cv_cancel *cancel;
    struct cv_store *store; /* NULL: not opened yet */
    int scratch_fd;
    struct cv_store_reader *readers[READERS_MAX];
    struct cv_store_get *gets[GETS_MAX];
    struct put puts[PUTS_MAX];
    size_t sent_bytes;
    int64_t requests, objects, stored_bytes;
    bool has_transcribed;
    char *buffer; /* CV_WIRE_READ_MAX bytes, allocated at the first read */
};

/* One request with its text, data and descriptor. */
struct request {
    struct cv_wire_request head;
    json_t *text;
    void *data; /* head.data_length bytes */
    int fd;     /* -1: none */
};

struct answer {
    json_t *text;
    void *owned; /* data to free, or NULL */
    const void *data;
    size_t data_length;
    uint64_t handle;
    bool has_handle;
    int fd; /* borrowed; -1: none */
};

static void request_deinit(struct request *request)
{
    json_decref(request->text);
    free(request->data);
    if (request->fd >= 0) {
        close(request->fd);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct request, request_deinit)

static void answer_deinit(struct answer *answer)
{
    json_decref(answer->text);
    free(answer->owned);
}
CV_DEFINE_CLEANUP_ADDRESS(struct answer, answer_deinit)

/* ---- checks ---------------------------------------------------------------------------------- */

static int refuse(const char *what, const char *key, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INVALID_KEY, "this job may not %s %.200s", what, key);
}

static const char *member(const struct request *request, const char *name)
{
    return json_string_value(json_object_get(request->text, name));
}

/* Reads the request's key, and checks that a grant allows this access. */
static int read_key(const struct server *server, const struct request *request, unsigned access,
                    const char **ret_key, struct cv_error *error)
{
    const json_t *value = json_object_get(request->text, "key");
    const char *key = json_string_value(value);
    if (!key || strlen(key) != json_string_length(value)) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "a request to the broker names no object key");
    }
    CV_TRY(cv_store_check_key(key, error));
    if (!cv_grants_allow(server->broker->grants, access, key)) {
        return refuse(access == CV_GRANT_READ    ? "read"
                      : access == CV_GRANT_WRITE ? "write"
                                                 : "delete",
                      key, error);
    }
    *ret_key = key;
    return 0;
}

static int bad_handle(struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INTERNAL,
                   "a request to the broker names an object or transfer that is not open");
}

static int too_many(const char *what, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "this job asks the broker for too many %s",
                   what);
}

static int answer_info(const struct cv_object_info *info, struct answer *answer,
                       struct cv_error *error)
{
    answer->text = cv_wire_from_info(info);
    return answer->text ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a reply");
}

/* ---- opening, looking ------------------------------------------------------------------------ */

typedef int operation(struct server *server, struct request *request, struct answer *answer,
                      struct cv_error *error);

static int hello(struct server *server, struct request *request, struct answer *answer,
                 struct cv_error *error)
{
    (void)request;
    CV_TRY(server->store ? 0 : cv_store_open(NULL, &server->store, error));
    answer->text = json_pack("{s:s, s:b}", "name", cv_store_name(server->store), "remote",
                             server->store->backend->put_begin != NULL);
    return answer->text ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a reply");
}

static int head(struct server *server, struct request *request, struct answer *answer,
                struct cv_error *error)
{
    const char *key = NULL;
    struct cv_object_info info;
    CV_TRY(read_key(server, request, CV_GRANT_READ, &key, error));
    CV_TRY(cv_store_head(server->store, key, &info, error));
    return answer_info(&info, answer, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int get_begin(struct server *server, struct request *request, struct answer *answer,
                     struct cv_error *error)
{
    const struct cv_store_backend *backend = server->store->backend;
    const char *key = NULL;
    size_t free_place = 0;
    CV_TRY(read_key(server, request, CV_GRANT_READ, &key, error));
    if (!backend->get_begin) {
        return cv_fail(error, CV_ERROR_INTERNAL,
                       "objects of a directory are read through a descriptor");
    }
    while (free_place < GETS_MAX && server->gets[free_place]) {
        free_place++;
    }
    if (free_place == GETS_MAX) {
        return too_many("objects at once", error);
    }
    size_t limit = request->head.length < GET_BYTES_MAX ? request->head.length : GET_BYTES_MAX;
    answer->handle = free_place;
    answer->has_handle = true;
    return backend->get_begin(server->store, key, limit, &server->gets[free_place], error);
}

static struct cv_store_get *remove_get(struct server *server, const struct request *request)
{
    uint64_t handle = request->head.handle;
    return handle < GETS_MAX ? cv_take(server->gets[handle]) : NULL;
}

static int get_end(struct server *server, struct request *request, struct answer *answer,
                   struct cv_error *error)
{
    struct cv_store_get *under_way = remove_get(server, request);
    if (!under_way) {
        return bad_handle(error);
    }
    int result =
        server->store->backend->get_end(under_way, &answer->owned, &answer->data_length, error);
    answer->data = answer->owned;
    return result;
}

static int get_stop(struct server *server, struct request *request, struct answer *answer,
                    struct cv_error *error)
{
    (void)answer;
    struct cv_store_get *under_way = remove_get(server, request);
    if (!under_way) {
        return bad_handle(error);
    }
    server->store->backend->get_stop(under_way);
    return 0;
}

static int open_object(struct server *server, struct request *request, struct answer *answer,
                       struct cv_error *error)
{
    const char *key = NULL;
    size_t free_place = 0;
    while (free_place < READERS_MAX && server->readers[free_place]) {
        free_place++;
    }
    if (free_place == READERS_MAX) {
        return too_many("open objects", error);
    }
    struct cv_store_reader *reader = NULL;
    CV_TRY(read_key(server, request, CV_GRANT_READ, &key, error));
    CV_TRY(cv_store_reader_open(server->store, key, &reader, error));
    server->readers[free_place] = reader;
    answer->handle = free_place;
    answer->has_handle = true;
    answer->fd = cv_store_reader_fd(reader);
    return answer_info(cv_store_reader_info(reader), answer, error);
}

static struct cv_store_reader **find_reader(struct server *server, const struct request *request)
{
    uint64_t handle = request->head.handle;
    return handle < READERS_MAX && server->readers[handle] ? &server->readers[handle] : NULL;
}

static int read_object(struct server *server, struct request *request, struct answer *answer,
                       struct cv_error *error)
{
    struct cv_store_reader **reader = find_reader(server, request);
    if (!reader) {
        return bad_handle(error);
    }
    server->buffer = server->buffer ? server->buffer : malloc(CV_WIRE_READ_MAX);
    if (!server->buffer || request->head.length > CV_WIRE_READ_MAX) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to read an object");
    }
    struct cv_byte_source source = cv_store_reader_source(*reader);
    answer->data = server->buffer;
    return source.read(source.opaque, request->head.offset, server->buffer, request->head.length,
                       &answer->data_length, error);
}

static int close_object(struct server *server, struct request *request, struct answer *answer,
                        struct cv_error *error)
{
    (void)answer;
    struct cv_store_reader **reader = find_reader(server, request);
    if (!reader) {
        return bad_handle(error);
    }
    cv_store_reader_close(cv_take(*reader));
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Opens a file of the scratch directory by its path. It must be a regular file, so that reading it
 * cannot wait. Its content need not be checked. */
static int open_file(const struct server *server, const char *path, struct request *request,
                     struct cv_store_input *input, struct cv_error *error)
{
    const char *scratch = server->broker->scratch;
    size_t length = strlen(scratch);
    struct stat status = {.st_mode = 0};
    if (strncmp(path, scratch, length) == 0 && path[length] == '/') {
        request->fd = cv_open_file_below(server->scratch_fd, path + length + 1);
    }
    if (request->fd < 0 || fstat(request->fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return cv_fail(error, CV_ERROR_INVALID_KEY,
                       "what is to be stored is not a file of the scratch directory");
    }
    input->fd = request->fd;
    input->size = (size_t)status.st_size;
    return 0;
}

static int prepare_put(struct server *server, struct request *request, struct cv_new_object *object,
                       struct cv_store_input *input, struct cv_error *error)
{
    *object = (struct cv_new_object){0};
    int result = read_key(server, request, CV_GRANT_WRITE, &object->key, error);
    const char *path = member(request, "file");
    *input =
        (struct cv_store_input){.data = request->data, .size = request->head.data_length, .fd = -1};
    if (result == 0 && path) {
        result = open_file(server, path, request, input, error);
    }
    result = result ? result : cv_store_check_put(object, error);
    if (result) {
        return result;
    }
    if ((int64_t)input->size > server->broker->file_bytes) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "an object of %zu bytes is larger than a job may store", input->size);
    }
    server->objects++;
    server->stored_bytes += (int64_t)input->size;
    if (server->objects > server->broker->objects ||
        server->stored_bytes > server->broker->stored_bytes) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "the job stores more than it may");
    }
    return 0;
}

static int put(struct server *server, struct request *request, struct answer *answer,
               struct cv_error *error)
{
    struct cv_new_object object;
    struct cv_store_input input;
    struct cv_object_info info;
    CV_TRY(prepare_put(server, request, &object, &input, error));
    CV_TRY(server->store->backend->put(server->store, &object, &input, &info, error));
    return answer_info(&info, answer, error);
}

/* Begins a put. Without a handle in the answer, the store can only put objects one at a time, and
 * nothing has begun. */
static int put_begin(struct server *server, struct request *request, struct answer *answer,
                     struct cv_error *error)
{
    const struct cv_store_backend *backend = server->store->backend;
    size_t free_place = 0;
    while (free_place < PUTS_MAX && server->puts[free_place].put) {
        free_place++;
    }
    if (free_place == PUTS_MAX || server->sent_bytes + request->head.data_length > SENT_BYTES_MAX) {
        return too_many("objects at once", error);
    }
    struct cv_new_object object;
    struct cv_store_input input;
    struct cv_store_put *under_way = NULL;
    CV_TRY(prepare_put(server, request, &object, &input, error));
    if (backend->put_begin) {
        CV_TRY(backend->put_begin(server->store, &object, &input, &under_way, error));
    }
    if (!under_way) {
        return 0;
    }
    server->puts[free_place] = (struct put){
        .put = under_way,
        .data = cv_take(request->data),
        .data_length = request->head.data_length,
        .fd = cv_take_fd(&request->fd),
    };
    server->sent_bytes += request->head.data_length;
    answer->handle = free_place;
    answer->has_handle = true;
    return 0;
}

static struct put *find_put(struct server *server, const struct request *request)
{
    uint64_t handle = request->head.handle;
    return handle < PUTS_MAX && server->puts[handle].put ? &server->puts[handle] : NULL;
}

static void forget_put(struct server *server, struct put *place)
{
    free(place->data);
    if (place->fd >= 0) {
        close(place->fd);
    }
    server->sent_bytes -= place->data_length;
    *place = (struct put){.fd = -1};
}

static int put_end(struct server *server, struct request *request, struct answer *answer,
                   struct cv_error *error)
{
    struct put *place = find_put(server, request);
    struct cv_object_info info;
    if (!place) {
        return bad_handle(error);
    }
    int result = server->store->backend->put_end(place->put, &info, error);
    forget_put(server, place);
    return result ? result : answer_info(&info, answer, error);
}

static int put_stop(struct server *server, struct request *request, struct answer *answer,
                    struct cv_error *error)
{
    (void)answer;
    struct put *place = find_put(server, request);
    if (!place) {
        return bad_handle(error);
    }
    server->store->backend->put_stop(place->put);
    forget_put(server, place);
    return 0;
}

/* ---- deleting, listing ----------------------------------------------------------------------- */

static int delete_object(struct server *server, struct request *request, struct answer *answer,
                         struct cv_error *error)
{
    (void)answer;
    const char *key = NULL;
    CV_TRY(read_key(server, request, CV_GRANT_DELETE, &key, error));
    return cv_store_delete(server->store, key, error);
}

static int delete_many(struct server *server, struct request *request, struct answer *answer,
                       struct cv_error *error)
{
    (void)answer;
    const json_t *list = json_object_get(request->text, "keys");
    const char *keys[CV_STORE_PAGE_MAX];
    size_t count = json_array_size(list);
    if (count > CV_COUNT(keys)) {
        return too_many("keys at once", error);
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = json_string_value(json_array_get(list, i));
        CV_TRY(cv_store_check_key(keys[i], error));
        if (!cv_grants_allow(server->broker->grants, CV_GRANT_DELETE, keys[i])) {
            return refuse("delete", keys[i], error);
        }
    }
    return cv_store_delete_many(server->store, keys, count, error);
}

static int check_prefix(const struct server *server, const char *prefix, struct cv_error *error)
{
    char key[CV_STORE_KEY_MAX + 1];
    size_t length = strlen(prefix);
    if (length > CV_STORE_KEY_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "a prefix is longer than a key");
    }
    memcpy(key, prefix, length + 1);
    if (length > 0 && key[length - 1] == '/') {
        key[length - 1] = '\0';
    }
    CV_TRY(length > 0 ? cv_store_check_key(key, error) : 0);
    if (!cv_grants_allow_list(server->broker->grants, prefix)) {
        return refuse("list", prefix, error);
    }
    return 0;
}

static int answer_list(const struct cv_object_list *list, struct answer *answer,
                       struct cv_error *error)
{
    json_t *entries = json_array();
    bool failed = !entries;
    for (size_t i = 0; !failed && i < list->count; i++) {
        const struct cv_object_entry *entry = &list->entries[i];
        failed = json_array_append_new(
                     entries, json_pack("[s, I, I, s]", entry->key, (json_int_t)entry->size,
                                        (json_int_t)entry->modified_ms, entry->etag)) != 0;
    }
    answer->text = json_pack("{s:o, s:s?}", "entries", entries, "continuation", list->continuation);
    return failed || !answer->text
               ? cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a list of objects")
               : 0;
}

static int list_objects(struct server *server, struct request *request, struct answer *answer,
                        struct cv_error *error)
{
    const struct cv_listing listing = {
        .prefix = member(request, "prefix"),
        .start_after = member(request, "start_after"),
        .continuation = member(request, "continuation"),
        .limit = request->head.length,
    };
    if (!listing.prefix || listing.limit < 1 || listing.limit > CV_STORE_PAGE_MAX) {
        return cv_fail(error, CV_ERROR_INVALID_KEY, "a request for a list has no prefix or limit");
    }
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    CV_TRY(check_prefix(server, listing.prefix, error));
    CV_TRY(server->store->backend->list(server->store, &listing, &list, error));
    return answer_list(&list, answer, error);
}

static int transcribe(struct server *server, struct request *request, struct answer *answer,
                      struct cv_error *error)
{
    const char *path = member(request, "file");
    struct cv_store_input input = {.fd = -1};
    if (!path || !cv_grants_allow(server->broker->grants, CV_GRANT_TRANSCRIBE, CV_GRANTED_SOUND)) {
        return refuse("transcribe", path ? path : "", error);
    }
    if (server->has_transcribed) {
        return too_many("transcriptions", error);
    }
    server->has_transcribed = true;
    CV_TRY(open_file(server, path, request, &input, error));
    int result = broker_send_sound(&input, server->cancel, &answer->text, &answer->owned,
                                   &answer->data_length, error);
    answer->data = answer->owned;
    return result;
}

/* ---- requests -------------------------------------------------------------------------------- */

static operation *const operations[CV_WIRE_OPERATION_COUNT] = {
    [CV_WIRE_HELLO] = hello,
    [CV_WIRE_HEAD] = head,
    [CV_WIRE_GET_BEGIN] = get_begin,
    [CV_WIRE_GET_END] = get_end,
    [CV_WIRE_GET_STOP] = get_stop,
    [CV_WIRE_OPEN] = open_object,
    [CV_WIRE_READ] = read_object,
    [CV_WIRE_CLOSE] = close_object,
    [CV_WIRE_PUT] = put,
    [CV_WIRE_PUT_BEGIN] = put_begin,
    [CV_WIRE_PUT_END] = put_end,
    [CV_WIRE_PUT_STOP] = put_stop,
    [CV_WIRE_DELETE] = delete_object,
    [CV_WIRE_LIST] = list_objects,
    [CV_WIRE_DELETE_MANY] = delete_many,
    [CV_WIRE_TRANSCRIBE] = transcribe,
};

/* Why a head is not valid for a request; NULL if it is. */
static const char *fault_of_head(const struct server *server, const struct request *request)
{
    const struct cv_wire_request *head = &request->head;
    bool is_put = head->operation == CV_WIRE_PUT || head->operation == CV_WIRE_PUT_BEGIN;
    if (head->magic != CV_WIRE_MAGIC || head->operation >= CV_WIRE_OPERATION_COUNT) {
        return "it is not a request";
    }
    if (!server->store && head->operation != CV_WIRE_HELLO) {
        return "the store is not open";
    }
    if (head->text_length >
        (head->operation == CV_WIRE_DELETE_MANY ? (uint32_t)CV_WIRE_TEXT_MAX : TEXT_SMALL_MAX)) {
        return "its text is too long";
    }
    if (head->data_length > (is_put ? (uint64_t)CV_WIRE_DATA_MAX : 0)) {
        return "it brings too many bytes";
    }
    return server->requests > REQUESTS_MAX ? "there were too many before it" : NULL;
}

static bool receive_text(int fd, struct request *request)
{
    if (request->head.text_length == 0) {
        return true;
    }
    cv_auto_free char *text = malloc(request->head.text_length);
    if (!text || cv_wire_receive(fd, text, request->head.text_length, NULL) != 1) {
        return false;
    }
    json_error_t reason;
    request->text = json_loadb(text, request->head.text_length, JSON_REJECT_DUPLICATES, &reason);
    return json_is_object(request->text);
}

static bool receive_data(int fd, struct request *request)
{
    if (request->head.data_length == 0) {
        return true;
    }
    request->data = malloc(request->head.data_length);
    return request->data &&
           cv_wire_receive(fd, request->data, request->head.data_length, NULL) == 1;
}

/* Receives a request; false if the stage has exited or breaks the protocol. */
static bool receive_request(struct server *server, struct request *request)
{
    int fd = server->broker->fd;
    int received = cv_wire_receive(fd, &request->head, sizeof(request->head), NULL);
    const char *fault = received == 1  ? fault_of_head(server, request)
                        : received < 0 ? "it is not whole, or brings a descriptor"
                                       : NULL;
    if (received == 1 && !fault && !(receive_text(fd, request) && receive_data(fd, request))) {
        fault = "it is not whole";
    }
    if (fault) {
        cv_log(CV_LOG_WARN, "the stage violated the broker's protocol: in request %lld, %s",
               (long long)server->requests, fault);
    }
    return received == 1 && !fault;
}

static bool send_answer(const struct server *server, int result, struct answer *answer,
                        const struct cv_error *error)
{
    cv_auto(json_decref) json_t *failure = result < 0 ? cv_wire_from_error(error) : NULL;
    const json_t *text = failure ? failure : answer->text;
    cv_auto_free char *json = text ? json_dumps(text, JSON_COMPACT) : NULL;
    bool is_good = result == 0;
    struct cv_wire_reply reply = {
        .magic = CV_WIRE_MAGIC,
        .result = result,
        .handle = answer->handle,
        .data_length = is_good ? answer->data_length : 0,
        .text_length = json ? (uint32_t)strlen(json) : 0,
        .flags = is_good && answer->has_handle ? CV_WIRE_HAS_HANDLE : 0,
    };
    struct iovec parts[] = {
        {.iov_base = &reply, .iov_len = sizeof(reply)},
        {.iov_base = json, .iov_len = reply.text_length},
        {.iov_base = (void *)answer->data, .iov_len = reply.data_length},
    };
    return cv_wire_send(server->broker->fd, parts, CV_COUNT(parts), is_good ? answer->fd : -1) == 0;
}

static bool serve_one(struct server *server)
{
    cv_auto(request_deinit) struct request request = {.fd = -1};
    cv_auto(answer_deinit) struct answer answer = {.fd = -1};
    struct cv_error error;
    server->requests++;
    if (!receive_request(server, &request)) {
        return false;
    }
    if (server->store) {
        bool cancelable = request.head.flags & CV_WIRE_CANCELABLE;
        cv_store_set_cancel(server->store, cancelable ? server->cancel : NULL);
    }
    int result = operations[request.head.operation](server, &request, &answer, &error);
    bool sent = send_answer(server, result, &answer, &error);
    if (answer.fd >= 0) {
        /* The stage gets the opened file, so it does not read through the broker. */
        cv_store_reader_close(cv_take(server->readers[answer.handle]));
    }
    return sent;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Watches the second socket: a byte in it, or its end, cancels the current request. */
static void *watch_cancel(void *opaque)
{
    const struct server *server = opaque;
    struct pollfd wait = {.fd = server->broker->cancel_fd, .events = POLLIN};
    while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
    }
    cv_cancel_request(server->cancel, CV_CANCEL_ABORT);
    return NULL;
}

static void stop_everything(struct server *server)
{
    for (size_t i = 0; i < GETS_MAX; i++) {
        if (server->gets[i]) {
            server->store->backend->get_stop(server->gets[i]);
        }
    }
    for (size_t i = 0; i < PUTS_MAX; i++) {
        if (server->puts[i].put) {
            server->store->backend->put_stop(server->puts[i].put);
            forget_put(server, &server->puts[i]);
        }
    }
    for (size_t i = 0; i < READERS_MAX; i++) {
        cv_store_reader_close(server->readers[i]);
    }
    cv_store_close(server->store);
    close(server->scratch_fd);
    free(server->buffer);
}

static int serve(struct server *server, struct cv_error *error)
{
    server->scratch_fd = open(server->broker->scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CV_TRY_ERRNO(server->scratch_fd >= 0, error, "look at the scratch directory");
    pthread_t watcher;
    CV_TRY(cv_cancel_new(&server->cancel, error));
    if (pthread_create(&watcher, NULL, watch_cancel, server) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "the broker cannot start a thread");
    }
    while (serve_one(server)) {
    }
    close(cv_take_fd(&server->broker->fd)); /* tells a stage that still runs that the broker ends */
    stop_everything(server);
    (void)pthread_join(watcher, NULL); /* it ends with the stage at the latest */
    return 0;
}

void cv_broker_serve(struct cv_broker *broker)
{
    struct server server = {.broker = broker};
    for (size_t i = 0; i < PUTS_MAX; i++) {
        server.puts[i].fd = -1;
    }
    struct cv_error error;
    if (serve(&server, &error) < 0) {
        cv_log_error(&error, "broker");
    }
    cv_cancel_free(server.cancel);
    if (broker->fd >= 0) {
        close(cv_take_fd(&broker->fd));
    }
    close(cv_take_fd(&broker->cancel_fd));
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    cv_log(CV_LOG_DEBUG, "broker: %lld requests, %lld objects stored, %ld ms of CPU time",
           (long long)server.requests - 1, (long long)server.objects,
           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
}
