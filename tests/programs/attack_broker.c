/* What a stage that was taken over would ask its broker for: other videos' objects, files that are not its own, and
 * what is no request at all. attack.c runs the rows. */
#include "common/broker/wire.h"

#include "tests/programs/attack.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The first socket from `fd` on, or -1. */
static int socket_from(int fd)
{
    struct stat status;
    while (fd < 64 && (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode))) {
        fd++;
    }
    return fd < 64 ? fd : -1;
}

static int broker_fd(void)
{
    return socket_from(STDERR_FILENO + 1);
}

static int receive_reply(int fd)
{
    struct cv_wire_reply reply;
    char text[8192];
    cv_auto_fd int object = -1;
    if (cv_wire_receive(fd, &reply, sizeof(reply), &object) != 1) {
        return EPIPE;
    }
    for (size_t left = reply.text_length + reply.data_length; left > 0;) {
        size_t step = left < sizeof(text) ? left : sizeof(text);
        if (cv_wire_receive(fd, text, step, NULL) != 1) {
            return EPIPE;
        }
        left -= step;
    }
    return reply.result < 0 ? EACCES : 0;
}

/* Asks for something; '@' in the text stands for the other video's id, '#' for the job's own. */
static int ask_for(enum cv_wire_operation operation, const char *form, const char *data,
                   uint64_t length)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (const char *c = form; *c; c++) {
        const char *id = *c == '@' ? given("CORTANA_ATTACK_OTHER") : given("CORTANA_ATTACK_OWN");
        cv_buffer_append(&text, *c == '@' || *c == '#' ? id : c,
                         *c == '@' || *c == '#' ? strlen(id) : 1);
    }
    struct cv_wire_request head = {
        .magic = CV_WIRE_MAGIC,
        .operation = operation,
        .handle = 12, /* not one that the stage has opened */
        .length = length,
        .data_length = data ? strlen(data) : 0,
        .text_length = (uint32_t)text.length,
    };
    struct iovec parts[] = {
        {&head, sizeof(head)}, {text.data, head.text_length}, {(void *)data, head.data_length}};
    int fd = broker_fd();
    if (fd < 0) {
        return ENOTSOCK;
    }
    return cv_wire_send(fd, parts, CV_COUNT(parts), -1) ? EPIPE : receive_reply(fd);
}

static int ask(enum cv_wire_operation operation, const char *form, const char *data)
{
    return ask_for(operation, form, data, 1000);
}

#define ORIGINAL "{\"key\": \"videos/original/@/master.mp4\"}"
static int broker_head(void)
{
    return ask(CV_WIRE_HEAD, ORIGINAL, NULL);
}
static int broker_get(void)
{
    return ask(CV_WIRE_GET_BEGIN, ORIGINAL, NULL);
}
static int broker_get_much(void)
{
    int result = 0;
    for (int i = 0; i < 18 && result == 0; i++) {
        result = ask_for(CV_WIRE_GET_BEGIN, "{\"key\": \"videos/original/#/master.mp4\"}", NULL,
                         64 << 20);
    }
    return result;
}
static int broker_open(void)
{
    return ask(CV_WIRE_OPEN, ORIGINAL, NULL);
}
static int broker_delete(void)
{
    return ask(CV_WIRE_DELETE, ORIGINAL, NULL);
}
static int broker_put(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"frames/@/0.jpg\"}", "x");
}
static int broker_put_begin(void)
{
    return ask(CV_WIRE_PUT_BEGIN, "{\"key\": \"frames/@/0.jpg\"}", "x");
}
static int broker_climb(void)
{
    return ask(CV_WIRE_OPEN, "{\"key\": \"frames/@/../../videos/original/@/master.mp4\"}", NULL);
}
static int broker_list_all(void)
{
    return ask(CV_WIRE_LIST, "{\"prefix\": \"\"}", NULL);
}
static int broker_list_other(void)
{
    return ask(CV_WIRE_LIST, "{\"prefix\": \"frames/@/\"}", NULL);
}
static int broker_delete_many(void)
{
    return ask(CV_WIRE_DELETE_MANY, "{\"keys\": [\"frames/@/0.jpg\", \"frames/@/1.jpg\"]}", NULL);
}
static int broker_overwrite_original(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"videos/original/#/master.mp4\"}", "x");
}
static int broker_put_document(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"frames/#/x.html\", \"content_type\": \"text/html\"}",
               "<script>fetch('/api/v1/keys')</script>");
}
static int broker_put_drawing(void)
{
    return ask(CV_WIRE_PUT, "{\"key\": \"frames/#/x.svg\"}", "<svg onload=\"alert(1)\"/>");
}
static int put_file(const char *path)
{
    char text[8192];
    (void)snprintf(text, sizeof(text), "{\"key\": \"frames/#/attack.jpg\", \"file\": \"%s\"}",
                   path);
    return ask(CV_WIRE_PUT, text, NULL);
}
static int broker_put_process_file(void)
{
    return put_file("/proc/self/maps");
}
static int broker_put_secret(void)
{
    return put_file(given("CORTANA_ATTACK_SECRET"));
}
static int broker_put_climbing(void)
{
    char path[4096];
    return put_file(in_scratch(path, "../../secret"));
}
static int broker_put_link(void)
{
    char path[4096];
    (void)unlink(in_scratch(path, "link to a secret"));
    return symlink(given("CORTANA_ATTACK_SECRET"), path) ? errno : put_file(path);
}
static int broker_put_directory(void)
{
    return put_file(given("TMPDIR"));
}
static int broker_delete_words(void)
{
    return ask(CV_WIRE_DELETE_MANY, "{\"keys\": [1, null, {}]}", NULL);
}
static int broker_list_from_elsewhere(void)
{
    return ask(CV_WIRE_LIST,
               "{\"prefix\": \"videos/original/\", \"continuation\": \"videos/original/@/\"}",
               NULL);
}
/* The socket that only ever says "stop": nobody takes what is sent with it. */
static int send_descriptor(void)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {(char *)"", 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &null, sizeof(null));
    int result = outcome(sendmsg(socket_from(broker_fd() + 1), &message, MSG_NOSIGNAL));
    close(null);
    return result;
}
/* A file that it was given to be read, opened once more by its number. */
static int reopen_to_write(void)
{
    int result = EBADF;
    for (int fd = STDERR_FILENO + 1; fd < 64; fd++) {
        char path[64];
        struct stat status;
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
            (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
            cv_auto_fd int again = open(path, O_WRONLY | O_CLOEXEC);
            result = result ? outcome(again) : 0;
        }
    }
    return result;
}
static int broker_read_nothing(void)
{
    return ask(CV_WIRE_READ, "{}", NULL);
}
static int broker_end_nothing(void)
{
    return ask(CV_WIRE_PUT_END, "{}", NULL);
}
const struct attack attack_broker_rows[] = {
    {"broker: head", broker_head},
    {"broker: get", broker_get},
    {"broker: get much at once", broker_get_much},
    {"broker: open", broker_open},
    {"broker: delete", broker_delete},
    {"broker: put", broker_put},
    {"broker: begin a put", broker_put_begin},
    {"broker: climb", broker_climb},
    {"broker: list all", broker_list_all},
    {"broker: list another", broker_list_other},
    {"broker: delete many", broker_delete_many},
    {"broker: overwrite an original", broker_overwrite_original},
    {"broker: put a document with a script", broker_put_document},
    {"broker: put a drawing with a script", broker_put_drawing},
    {"broker: put a file of /proc", broker_put_process_file},
    {"broker: put a secret", broker_put_secret},
    {"broker: put by climbing", broker_put_climbing},
    {"broker: put by a link", broker_put_link},
    {"broker: put a directory", broker_put_directory},
    {"broker: delete what is no key", broker_delete_words},
    {"broker: list from elsewhere", broker_list_from_elsewhere},
    {"broker: read nothing", broker_read_nothing},
    {"broker: end nothing", broker_end_nothing},
    {"hand a descriptor over", send_descriptor},
    {"write to what may be read", reopen_to_write},
    {NULL, NULL},
};

/* ---- garbage for the broker ------------------------------------------------------------------ */

static void send_all(const void *data, size_t size)
{
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    int result = cv_wire_send(broker_fd(), &part, 1, -1);
    (void)fprintf(stderr, "ATTACK sent: %s\n", result ? strerrorname_np(errno) : "all");
}

static void send_head(struct cv_wire_request head)
{
    head.magic = CV_WIRE_MAGIC;
    send_all(&head, sizeof(head));
}

void attack_send_garbage(const char *kind)
{
    static char noise[1 << 20];
    (void)memset(noise, 0xa5, sizeof(noise));
    if (strcmp(kind, "noise") == 0) {
        send_all(noise, sizeof(noise));
    } else if (strcmp(kind, "long text") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_HEAD, .text_length = UINT32_MAX});
    } else if (strcmp(kind, "long data") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_PUT, .data_length = UINT64_MAX});
    } else if (strcmp(kind, "no JSON") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_HEAD, .text_length = 100});
        send_all(noise, 100);
    } else if (strcmp(kind, "unknown operation") == 0) {
        send_head((struct cv_wire_request){.operation = CV_WIRE_OPERATION_COUNT});
    } else if (strcmp(kind, "end in a key") == 0) {
        (void)ask(CV_WIRE_HEAD, "{\"key\": \"frames/#/x\\u0000\"}", NULL);
    } else if (strcmp(kind, "two keys") == 0) {
        (void)ask(CV_WIRE_PUT, "{\"key\": \"frames/#/x\", \"key\": \"frames/@/x\"}", "x");
    } else if (strcmp(kind, "half a head") == 0) {
        send_all(noise, sizeof(struct cv_wire_request) / 2);
        _exit(0);
    }
}
