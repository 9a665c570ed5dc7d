/* The messages between a stage and its broker. Both are the same program on the same machine, so
 * structs are sent unchanged. After the head come `text_length` bytes of JSON (an object) and
 * `data_length` bytes of an object's content. A descriptor is sent with a reply's head. */
#pragma once

#include "common/store/store.h"

#include <jansson.h>
#include <sys/uio.h>

enum cv_wire_operation {
    CV_WIRE_HELLO,     /* opens the store; reply: {"name", "remote"} */
    CV_WIRE_HEAD,      /* {"key"}; reply: an info */
    CV_WIRE_GET_BEGIN, /* {"key"}, length: the limit; reply: a handle */
    CV_WIRE_GET_END,   /* handle; reply: data */
    CV_WIRE_GET_STOP,  /* handle */
    CV_WIRE_OPEN,      /* {"key"}; reply: an info, and a descriptor or a handle */
    CV_WIRE_READ,      /* handle, offset, length; reply: data */
    CV_WIRE_CLOSE,     /* handle */
    CV_WIRE_PUT,       /* {"key"}, and data or {"file"} in scratch; reply: an info */
    CV_WIRE_PUT_BEGIN,
    CV_WIRE_PUT_END,
    CV_WIRE_PUT_STOP,
    CV_WIRE_DELETE,      /* {"key"} */
    CV_WIRE_DELETE_MANY, /* {"keys"} */
    CV_WIRE_LIST,       /* {"prefix", …}, length: the limit; reply: {"entries", "continuation"} */
    CV_WIRE_TRANSCRIBE, /* {"file"} in scratch; reply: {"status", "retry_after_ms"}, data */
    CV_WIRE_OPERATION_COUNT,
};

enum cv_wire_flag {
    CV_WIRE_CANCELABLE = 1, /* in a request: it can be canceled */
    CV_WIRE_HAS_HANDLE = 1, /* in a reply */
};

enum {
    CV_WIRE_MAGIC = 0x43564232,
    CV_WIRE_TEXT_MAX = 4 << 20,  /* a batch of CV_STORE_PAGE_MAX keys, or a page of a list */
    CV_WIRE_READ_MAX = 4 << 20,  /* bytes of one CV_WIRE_READ */
    CV_WIRE_DATA_MAX = 64 << 20, /* bytes put without a file */
};

struct cv_wire_request {
    uint32_t magic;
    uint32_t operation;
    uint64_t handle;
    int64_t offset;
    uint64_t length;
    uint64_t data_length;
    uint32_t text_length;
    uint32_t flags;
};

/* `result` is the result of the store's function; if it is a failure, the text is an error. */
struct cv_wire_reply {
    uint32_t magic;
    int32_t result;
    uint64_t handle;
    uint64_t data_length;
    uint32_t text_length;
    uint32_t flags;
};

/* Sends all parts, and with the first byte a descriptor (-1: none). A stage cannot send
 * descriptors: it may not call sendmsg(). */
CV_MUST_CHECK int cv_wire_send(int socket, const struct iovec *parts, size_t count, int fd);

/* Fills `data`: 1 when it is full, 0 at the end of the stream, -1 if the peer has failed or has
 * sent an unexpected descriptor. `ret_fd` (NULL: none is accepted) gets a descriptor that was sent
 * with it. */
CV_MUST_CHECK int cv_wire_receive(int socket, void *data, size_t size, int *ret_fd);

json_t *cv_wire_from_info(const struct cv_object_info *info);
CV_MUST_CHECK bool cv_wire_to_info(const json_t *json, struct cv_object_info *info);
json_t *cv_wire_from_error(const struct cv_error *error);
/* Fills the error in any case; returns -1. */
int cv_wire_to_error(const json_t *json, struct cv_error *error);
