/* What a stage sends to its broker, before an empty store in a directory: requests made of the input's fields, and, where
 * the first byte is 0xff, any bytes. Nothing may be stored but what the one grant covers. */
#include "common/broker/broker.h"
#include "common/broker/wire.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUESTS_MAX = 16 };

static char root[] = "/dev/shm/fuzz-broker-XXXXXX";

static void remove_root(void)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    (void)!system(command);
}

static void set_up(void)
{
    char store[64], scratch[64];
    if (!mkdtemp(root) || atexit(remove_root) != 0) {
        abort();
    }
    (void)snprintf(store, sizeof(store), "dir:%s/store", root);
    (void)snprintf(scratch, sizeof(scratch), "%s/scratch", root);
    if (setenv("STORE_URL", store, 1) || mkdir(store + 4, 0700) || mkdir(scratch, 0700)) {
        abort();
    }
}

static void *swallow(void *opaque)
{
    char bytes[65536];
    while (read(*(int *)opaque, bytes, sizeof(bytes)) > 0) {
    }
    return NULL;
}

struct input {
    const uint8_t *data;
    size_t size;
};

static uint8_t next(struct input *input)
{
    uint8_t byte = input->size > 0 ? *input->data : 0;
    input->data += input->size > 0;
    input->size -= input->size > 0;
    return byte;
}

static size_t next_length(struct input *input)
{
    size_t length = (size_t)next(input) * 4;
    return length < input->size ? length : input->size;
}

/* One request; its text and data are the bytes that follow. */
static void write_request(int fd, struct input *input)
{
    struct cv_wire_request head = {.magic = CV_WIRE_MAGIC};
    head.operation = next(input) % (CV_WIRE_OPERATION_COUNT + 1);
    head.handle = next(input);
    head.offset = (int64_t)(int8_t)next(input);
    head.length = next(input);
    head.text_length = (uint32_t)next_length(input);
    const struct iovec text = {(void *)input->data, head.text_length};
    input->data += text.iov_len;
    input->size -= text.iov_len;
    head.data_length = next_length(input);
    const struct iovec parts[] = {
        {&head, sizeof(head)}, text, {(void *)input->data, head.data_length}};
    input->data += head.data_length;
    input->size -= head.data_length;
    (void)!cv_wire_send(fd, parts, CV_COUNT(parts), -1);
}

static void look_at_store(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/store", root);
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "own") != 0) {
            abort();
        }
    }
    (void)closedir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_set_up;
    struct input input = {data, size};
    struct cv_broker_line line;
    struct cv_error error;
    char scratch[64];
    pthread_t reader;
    if (!is_set_up) {
        set_up();
        is_set_up = true;
    }
    if (cv_broker_line_init(&line, &error) < 0) {
        abort();
    }
    if (size > 0 && data[0] == 0xff) {
        (void)!send(line.stage_fd, data, size, MSG_NOSIGNAL);
    }
    for (int i = 0; i < REQUESTS_MAX && input.size > 0 && data[0] != 0xff; i++) {
        write_request(line.stage_fd, &input);
    }
    (void)shutdown(line.stage_fd, SHUT_WR);
    (void)shutdown(line.stage_cancel_fd, SHUT_WR);
    if (pthread_create(&reader, NULL, swallow, &line.stage_fd) != 0) {
        abort();
    }
    (void)snprintf(scratch, sizeof(scratch), "%s/scratch", root);
    cv_auto(json_decref) json_t *grants =
        json_pack("[[i, s]]", CV_GRANT_READ | CV_GRANT_WRITE | CV_GRANT_DELETE, "own/*");
    struct cv_broker broker = {
        .fd = cv_take_fd(&line.broker_fd),
        .cancel_fd = cv_take_fd(&line.broker_cancel_fd),
        .grants = grants,
        .scratch = scratch,
        .file_bytes = 1 << 20,
        .stored_bytes = 1 << 24,
        .objects = 64,
    };
    cv_broker_serve(&broker);
    (void)pthread_join(reader, NULL);
    cv_broker_line_deinit(&line);
    look_at_store();
    return 0;
}
