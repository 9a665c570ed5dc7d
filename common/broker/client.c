#include "common/broker/broker.h"
#include "common/broker/wire.h"
#include "common/speech/speech.h"
#include "common/store/backend.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct broker_store {
    struct cv_store store;
    int fd, cancel_fd;
    struct cv_cancel *cancel; /* NULL: requests are not canceled */
    bool remote;              /* requests take time and can be canceled */
    bool is_canceled;         /* and the broker was told */
    bool is_lost;             /* the connection cannot be used any more */
};

struct broker_reader {
    struct cv_store_reader reader;
    struct broker_store *store;
    uint64_t handle;
    int fd; /* the opened object; -1: it is read through the broker */
};

struct cv_store_put {
    struct broker_store *store;
    uint64_t handle;
};

struct cv_store_get {
    struct broker_store *store;
    uint64_t handle;
    size_t limit;
};

/* ---- calls ----------------------------------------------------------------------------------- */

struct call {
    enum cv_wire_operation operation;
    uint64_t handle;
    int64_t offset;
    uint64_t length;
    json_t *text;     /* owned; freed by call() */
    bool needs_text;  /* a NULL text means that memory was lacking */
    const void *data; /* `data_length` bytes */
    size_t data_length;
};

struct reply {
    struct cv_wire_reply head;
    json_t *text;
    int fd;
};

static void reply_deinit(struct reply *reply)
{
    json_decref(reply->text);
    if (reply->fd >= 0) {
        close(reply->fd);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct reply, reply_deinit)

#define REPLY_INIT \
    {              \
        .fd = -1   \
    }

static struct broker_store *of_store(struct cv_store *store)
{
    return (struct broker_store *)store;
}

static int lose(struct broker_store *store, struct cv_error *error)
{
    store->is_lost = true;
    return cv_fail(error, CV_ERROR_CONNECTION, "the connection to the store's broker is lost");
}

/* Waits for the reply. If the request is canceled, tells the broker, which then ends it. */
static void wait_for_reply(struct broker_store *store)
{
    while (store->cancel && !store->is_canceled) {
        struct pollfd polls[] = {
            {.fd = store->fd, .events = POLLIN},
            {.fd = cv_cancel_fd(store->cancel), .events = POLLIN},
        };
        if (poll(polls, CV_COUNT(polls), -1) < 0 && errno != EINTR) {
            return;
        }
        if (polls[0].revents) {
            return;
        }
        if (cv_cancel_level(store->cancel) >= CV_CANCEL_ABORT) {
            store->is_canceled = true;
            (void)!send(store->cancel_fd, "", 1, MSG_NOSIGNAL);
        } else if (polls[1].revents) {
            return; /* a weaker request to cancel: its descriptor stays readable */
        }
    }
}

static bool receive_text(int fd, struct reply *reply)
{
    uint32_t length = reply->head.text_length;
    if (length == 0) {
        return true;
    }
    cv_auto_free char *text = length <= CV_WIRE_TEXT_MAX ? malloc(length) : NULL;
    if (!text || cv_wire_receive(fd, text, length, NULL) != 1) {
        return false;
    }
    json_error_t reason;
    reply->text = json_loadb(text, length, 0, &reason);
    return reply->text != NULL;
}

/* Sends a request and receives its reply, except the reply's data. */
static int exchange(struct broker_store *store, const struct call *call, struct reply *reply,
                    struct cv_error *error)
{
    cv_auto_free char *text = call->text ? json_dumps(call->text, JSON_COMPACT) : NULL;
    if (!text && call->needs_text) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a request to the store");
    }
    if (store->is_lost) {
        return lose(store, error);
    }
    bool cancelable = store->cancel && (store->remote || call->operation == CV_WIRE_TRANSCRIBE);
    if (cancelable && cv_cancel_level(store->cancel) >= CV_CANCEL_ABORT) {
        return cv_fail(error, CV_ERROR_CANCELED, "the request was stopped");
    }
    struct cv_wire_request head = {
        .magic = CV_WIRE_MAGIC,
        .operation = call->operation,
        .handle = call->handle,
        .offset = call->offset,
        .length = call->length,
        .data_length = call->data_length,
        .text_length = text ? (uint32_t)strlen(text) : 0,
        .flags = cancelable ? CV_WIRE_CANCELABLE : 0,
    };
    struct iovec parts[] = {
        {.iov_base = &head, .iov_len = sizeof(head)},
        {.iov_base = text, .iov_len = head.text_length},
        {.iov_base = (void *)call->data, .iov_len = call->data_length},
    };
    if (cv_wire_send(store->fd, parts, CV_COUNT(parts), -1) < 0) {
        return lose(store, error);
    }
    if (cancelable) {
        wait_for_reply(store);
    }
    if (cv_wire_receive(store->fd, &reply->head, sizeof(reply->head), &reply->fd) != 1 ||
        reply->head.magic != CV_WIRE_MAGIC || !receive_text(store->fd, reply)) {
        return lose(store, error);
    }
    return reply->head.result < 0 ? cv_wire_to_error(reply->text, error) : reply->head.result;
}

/* Calls the broker with a request whose reply has no data. Takes ownership of the call's text. */
static int call_broker(struct broker_store *store, const struct call *call, struct reply *reply,
                       struct cv_error *error)
{
    int result = exchange(store, call, reply, error);
    json_decref(call->text);
    return result == 0 && reply->head.data_length > 0 ? lose(store, error) : result;
}

/* Calls the broker with a request whose reply has only a result. */
static int send_request(struct broker_store *store, const struct call *call, struct cv_error *error)
{
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    return call_broker(store, call, &reply, error);
}

/* Receives a reply's data into new memory with a NUL at the end. */
static int receive_data(struct broker_store *store, const struct reply *reply, size_t limit,
                        void **ret_data, size_t *ret_size, struct cv_error *error)
{
    size_t size = reply->head.data_length;
    cv_auto_free char *data = size <= limit ? malloc(size + 1) : NULL;
    if (!data) {
        (void)lose(store, error);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the %zu bytes of an object",
                       size);
    }
    if (size > 0 && cv_wire_receive(store->fd, data, size, NULL) != 1) {
        return lose(store, error);
    }
    data[size] = '\0';
    *ret_data = cv_take(data);
    *ret_size = size;
    return 0;
}

/* Calls the broker with a request whose reply is an object's content. */
static int call_for_data(struct broker_store *store, const struct call *call, size_t limit,
                         void **ret_data, size_t *ret_size, struct cv_error *error)
{
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    int result = exchange(store, call, &reply, error);
    json_decref(call->text);
    return result ? result : receive_data(store, &reply, limit, ret_data, ret_size, error);
}

static int read_info(struct broker_store *store, const struct reply *reply,
                     struct cv_object_info *ret_info, struct cv_error *error)
{
    return cv_wire_to_info(reply->text, ret_info) ? 0 : lose(store, error);
}

/* ---- objects --------------------------------------------------------------------------------- */

static int not_for_stages(const char *what, struct cv_error *error)
{
    return cv_fail(error, CV_ERROR_INTERNAL, "a stage may not %s", what);
}

static int head_object(struct cv_store *base, const char *key, struct cv_object_info *ret_info,
                       struct cv_metadata *metadata, struct cv_error *error)
{
    if (metadata) {
        return not_for_stages("read an object's metadata", error);
    }
    const struct call call = {
        .operation = CV_WIRE_HEAD, .text = json_pack("{s:s}", "key", key), .needs_text = true};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(of_store(base), &call, &reply, error));
    return read_info(of_store(base), &reply, ret_info, error);
}

static int get_begin(struct cv_store *store, const char *key, size_t limit,
                     struct cv_store_get **ret_get, struct cv_error *error)
{
    cv_auto_free struct cv_store_get *get = calloc(1, sizeof(*get));
    if (!get) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to get an object");
    }
    const struct call call = {.operation = CV_WIRE_GET_BEGIN,
                              .length = limit,
                              .text = json_pack("{s:s}", "key", key),
                              .needs_text = true};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(of_store(store), &call, &reply, error));
    *get = (struct cv_store_get){of_store(store), reply.head.handle, limit};
    *ret_get = cv_take(get);
    return 0;
}

static int get_end(struct cv_store_get *given, void **ret_data, size_t *ret_size,
                   struct cv_error *error)
{
    cv_auto_free struct cv_store_get *get = given;
    const struct call call = {.operation = CV_WIRE_GET_END, .handle = get->handle};
    return call_for_data(get->store, &call, get->limit, ret_data, ret_size, error);
}

static void get_stop(struct cv_store_get *given)
{
    cv_auto_free struct cv_store_get *get = given;
    const struct call call = {.operation = CV_WIRE_GET_STOP, .handle = get->handle};
    struct cv_error ignored;
    (void)!send_request(get->store, &call, &ignored);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_part(struct broker_reader *reader, int64_t offset, void *data, size_t length,
                     size_t *ret_read, struct cv_error *error)
{
    const struct call call = {
        .operation = CV_WIRE_READ, .handle = reader->handle, .offset = offset, .length = length};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(exchange(reader->store, &call, &reply, error));
    size_t size = reply.head.data_length;
    if (size > length || (size > 0 && cv_wire_receive(reader->store->fd, data, size, NULL) != 1)) {
        return lose(reader->store, error);
    }
    *ret_read = size;
    return 0;
}

static int read_object(struct cv_store_reader *base, int64_t offset, void *data, size_t length,
                       size_t *ret_read, struct cv_error *error)
{
    struct broker_reader *reader = (struct broker_reader *)base;
    if (reader->fd >= 0) {
        return cv_store_read_file(reader->fd, offset, data, length, ret_read, error);
    }
    size_t done = 0;
    while (done < length) {
        size_t left = length - done, step = 0;
        size_t wanted = left < CV_WIRE_READ_MAX ? left : (size_t)CV_WIRE_READ_MAX;
        CV_TRY(
            read_part(reader, offset + (int64_t)done, (char *)data + done, wanted, &step, error));
        done += step;
        if (step < wanted) {
            break;
        }
    }
    *ret_read = done;
    return 0;
}

static void close_reader(struct cv_store_reader *base)
{
    struct broker_reader *reader = (struct broker_reader *)base;
    if (reader->fd >= 0) {
        close(reader->fd);
    } else {
        const struct call call = {.operation = CV_WIRE_CLOSE, .handle = reader->handle};
        struct cv_cancel *cancel = reader->store->cancel;
        struct cv_error ignored;
        reader->store->cancel = NULL; /* closing works even if the stage is being stopped */
        (void)!send_request(reader->store, &call, &ignored);
        reader->store->cancel = cancel;
    }
    free(reader);
}

static const struct cv_store_reader_backend reader_backend = {
    .read = read_object,
    .close = close_reader,
};

static int open_reader(struct cv_store *store, const char *key, struct cv_store_reader **ret_reader,
                       struct cv_error *error)
{
    cv_auto_free struct broker_reader *reader = calloc(1, sizeof(*reader));
    CV_TRY_MEMORY(reader, error, "a reader");
    const struct call call = {
        .operation = CV_WIRE_OPEN, .text = json_pack("{s:s}", "key", key), .needs_text = true};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(of_store(store), &call, &reply, error));
    CV_TRY(read_info(of_store(store), &reply, &reader->reader.info, error));
    reader->reader.backend = &reader_backend;
    reader->store = of_store(store);
    reader->handle = reply.head.handle;
    reader->fd = cv_take_fd(&reply.fd);
    *ret_reader = &cv_take(reader)->reader;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int make_put(const struct cv_new_object *object, const struct cv_store_input *input,
                    struct call *call, struct cv_error *error)
{
    bool is_file = input->fd >= 0;
    if (object->metadata || object->sha256 || object->create_only) {
        return not_for_stages("put objects with conditions or metadata", error);
    }
    if (!is_file && input->size > CV_WIRE_DATA_MAX) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED,
                       "%s has more than %d bytes: put them into a file first", object->key,
                       CV_WIRE_DATA_MAX);
    }
    call->text =
        json_pack("{s:s, s:s*}", "key", object->key, "file", is_file ? object->path : NULL);
    call->needs_text = true;
    call->data = is_file ? NULL : input->data;
    call->data_length = is_file ? 0 : input->size;
    return 0;
}

static int put_object(struct cv_store *store, const struct cv_new_object *object,
                      const struct cv_store_input *input, struct cv_object_info *ret_info,
                      struct cv_error *error)
{
    struct call call = {.operation = CV_WIRE_PUT};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(make_put(object, input, &call, error));
    CV_TRY(call_broker(of_store(store), &call, &reply, error));
    return read_info(of_store(store), &reply, ret_info, error);
}

static int put_begin(struct cv_store *store, const struct cv_new_object *object,
                     const struct cv_store_input *input, struct cv_store_put **ret_put,
                     struct cv_error *error)
{
    *ret_put = NULL;
    if (!of_store(store)->remote) {
        return 0;
    }
    cv_auto_free struct cv_store_put *put = calloc(1, sizeof(*put));
    if (!put) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory to put an object");
    }
    struct call call = {.operation = CV_WIRE_PUT_BEGIN};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(make_put(object, input, &call, error));
    CV_TRY(call_broker(of_store(store), &call, &reply, error));
    if (reply.head.flags & CV_WIRE_HAS_HANDLE) {
        *put = (struct cv_store_put){of_store(store), reply.head.handle};
        *ret_put = cv_take(put);
    }
    return 0;
}

static int put_end(struct cv_store_put *given, struct cv_object_info *ret_info,
                   struct cv_error *error)
{
    cv_auto_free struct cv_store_put *put = given;
    const struct call call = {.operation = CV_WIRE_PUT_END, .handle = put->handle};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(put->store, &call, &reply, error));
    return read_info(put->store, &reply, ret_info, error);
}

static void put_stop(struct cv_store_put *given)
{
    cv_auto_free struct cv_store_put *put = given;
    const struct call call = {.operation = CV_WIRE_PUT_STOP, .handle = put->handle};
    struct cv_error ignored;
    (void)!send_request(put->store, &call, &ignored);
}

/* ---- deleting, listing ----------------------------------------------------------------------- */

static int delete_object(struct cv_store *store, const char *key, struct cv_error *error)
{
    const struct call call = {
        .operation = CV_WIRE_DELETE, .text = json_pack("{s:s}", "key", key), .needs_text = true};
    return send_request(of_store(store), &call, error);
}

static int delete_many(struct cv_store *store, const char *const *keys, size_t count,
                       struct cv_error *error)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, json_string(keys[i])) != 0) {
            json_decref(cv_take(list));
        }
    }
    const struct call call = {.operation = CV_WIRE_DELETE_MANY,
                              .text = list ? json_pack("{s:o}", "keys", list) : NULL,
                              .needs_text = true};
    return send_request(of_store(store), &call, error);
}

static int read_list(struct broker_store *store, const struct reply *reply,
                     struct cv_object_list *ret_list, struct cv_error *error)
{
    cv_auto(cv_object_list_deinit) struct cv_object_list list = {0};
    const json_t *entries = json_object_get(reply->text, "entries");
    const char *continuation = json_string_value(json_object_get(reply->text, "continuation"));
    for (size_t i = 0; i < json_array_size(entries); i++) {
        struct cv_object_info info = {0};
        json_int_t size = 0, modified_ms = 0;
        const char *key = NULL, *etag = NULL;
        if (json_unpack(json_array_get(entries, i), "[s, I, I, s]", &key, &size, &modified_ms,
                        &etag) != 0) {
            return lose(store, error);
        }
        info.size = size;
        info.modified_ms = modified_ms;
        (void)snprintf(info.etag, sizeof(info.etag), "%s", etag);
        CV_TRY(cv_object_list_add(&list, key, &info, error));
    }
    if (continuation) {
        CV_TRY(cv_format(&list.continuation, error, "%s", continuation));
    }
    *ret_list = list;
    list = (struct cv_object_list){0};
    return 0;
}

static int list_objects(struct cv_store *store, const struct cv_listing *listing,
                        struct cv_object_list *ret_list, struct cv_error *error)
{
    const struct call call = {
        .operation = CV_WIRE_LIST,
        .length = listing->limit,
        .text = json_pack("{s:s, s:s*, s:s*}", "prefix", listing->prefix, "start_after",
                          listing->start_after, "continuation", listing->continuation),
        .needs_text = true,
    };
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(of_store(store), &call, &reply, error));
    return read_list(of_store(store), &reply, ret_list, error);
}

static int move(struct cv_store *store, const struct cv_object_move *move,
                struct cv_object_info *ret_info, struct cv_error *error)
{
    (void)store;
    (void)move;
    (void)ret_info;
    return not_for_stages("move objects", error);
}

static int presign(struct cv_store *store, const struct cv_signed_url *allowed, char **ret_url,
                   struct cv_error *error)
{
    (void)store;
    (void)allowed;
    (void)ret_url;
    return not_for_stages("hand out URLs", error);
}

/* ---- speech ---------------------------------------------------------------------------------- */

int cv_broker_transcribe(struct cv_store *base, const char *file, struct cv_http_answer *ret_answer,
                         struct cv_error *error)
{
    struct broker_store *store = of_store(base);
    const struct call call = {.operation = CV_WIRE_TRANSCRIBE,
                              .text = json_pack("{s:s}", "file", file),
                              .needs_text = true};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    void *body = NULL;
    size_t length = 0;
    int result = exchange(store, &call, &reply, error);
    json_decref(call.text);
    CV_TRY(result);
    CV_TRY(receive_data(store, &reply, CV_SPEECH_ANSWER_MAX, &body, &length, error));
    *ret_answer = (struct cv_http_answer){
        .status = (long)json_integer_value(json_object_get(reply.text, "status")),
        .body = {.data = body, .length = length, .capacity = length + 1},
        .retry_after_ms = json_integer_value(json_object_get(reply.text, "retry_after_ms"))};
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void set_cancel(struct cv_store *store, struct cv_cancel *cancel)
{
    of_store(store)->cancel = cancel;
}

static void close_store(struct cv_store *base)
{
    struct broker_store *store = of_store(base);
    close(store->fd);
    close(store->cancel_fd);
    free(store->store.name);
    free(store);
}

/* An S3 store gets and puts several objects at once, and gets small ones whole; objects of a
 * directory store are read from files. */
#define COMMON_FUNCTIONS                                                                      \
    .close = close_store, .head = head_object, .open_reader = open_reader, .put = put_object, \
    .delete = delete_object, .delete_many = delete_many, .move = move, .list = list_objects,  \
    .presign = presign, .set_cancel = set_cancel

static const struct cv_store_backend remote_backend = {
    COMMON_FUNCTIONS,       .get_begin = get_begin, .get_end = get_end,   .get_stop = get_stop,
    .put_begin = put_begin, .put_end = put_end,     .put_stop = put_stop,
};
static const struct cv_store_backend local_backend = {COMMON_FUNCTIONS};

int cv_broker_store_open(int fd, int cancel_fd, struct cv_store **ret_store, struct cv_error *error)
{
    struct broker_store *store = calloc(1, sizeof(*store));
    if (!store) {
        close(fd);
        close(cancel_fd);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for a store");
    }
    store->store.backend = &local_backend;
    store->fd = fd;
    store->cancel_fd = cancel_fd;
    cv_auto(cv_store_close) struct cv_store *base = &store->store;
    const struct call call = {.operation = CV_WIRE_HELLO};
    cv_auto(reply_deinit) struct reply reply = REPLY_INIT;
    CV_TRY(call_broker(store, &call, &reply, error));
    const char *name = json_string_value(json_object_get(reply.text, "name"));
    if (!name) {
        CV_TRY(lose(store, error));
    }
    CV_TRY(cv_format(&store->store.name, error, "%s", name));
    store->remote = json_is_true(json_object_get(reply.text, "remote"));
    store->store.backend = store->remote ? &remote_backend : &local_backend;
    *ret_store = cv_take(base);
    return 0;
}
