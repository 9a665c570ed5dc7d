#include "gateway/relay.h"

#include "common/store/store.h"

#include <string.h>

enum {
    PIECE_BYTES = 256 * 1024, /* of each reader; a request to the bucket takes some 5 ms */
    BLOCK_BYTES = 32 * 1024,  /* of the library's */
};

struct relay {
    struct exchange *exchange;
    bool (*hand_over)(struct exchange *);
    char *key;
    int64_t at, end; /* of the object: what is not read yet */
    char *piece;     /* NULL: none */
    size_t given, filled;
    bool has_failed;
};

int relay_begin(struct exchange *exchange, const char *key, int64_t offset, int64_t length,
                struct cv_error *error)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    char *own_key = strdup(key);
    if (!relay || !own_key) {
        free(relay);
        free(own_key);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for an object");
    }
    *relay =
        (struct relay){.exchange = exchange, .key = own_key, .at = offset, .end = offset + length};
    exchange->answer.relay = relay;
    return 0;
}

void relay_free(struct relay *relay)
{
    if (relay) {
        free(relay->key);
        free(relay->piece);
        free(relay);
    }
}

/* In a thread of the store. */
static void read_piece(struct cv_store *store, struct exchange *exchange)
{
    struct relay *relay = exchange->answer.relay;
    struct cv_error error;
    size_t wanted = relay->end - relay->at < PIECE_BYTES ? (size_t)(relay->end - relay->at)
                                                         : (size_t)PIECE_BYTES;
    relay->piece = store ? malloc(wanted) : NULL;
    relay->given = 0;
    relay->filled = 0;
    int result = relay->piece ? cv_store_get_range(store, relay->key, relay->at, relay->piece,
                                                   wanted, &relay->filled, &error)
                              : 1;
    if (result < 0) {
        cv_log_error(&error, "an object that passes through");
    }
    relay->at += (int64_t)relay->filled;
    /* What is shorter by now is another object: the connection ends before the length that was said. */
    relay->has_failed = result != 0 || relay->filled < wanted;
}

/* In a thread of the server. */
static ssize_t give(void *opaque, uint64_t position, char *data, size_t size)
{
    struct relay *relay = opaque;
    (void)position;
    if (relay->has_failed) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (relay->piece) {
        size_t left = relay->filled - relay->given;
        size_t length = left < size ? left : size;
        (void)memcpy(data, relay->piece + relay->given, length);
        relay->given += length;
        if (relay->given == relay->filled) {
            free(cv_take(relay->piece));
        }
        return (ssize_t)length;
    }
    if (relay->at == relay->end) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    relay->exchange->work = read_piece;
    return relay->hand_over(relay->exchange) ? 0 : MHD_CONTENT_READER_END_WITH_ERROR;
}

struct MHD_Response *relay_respond(struct exchange *exchange, bool (*hand_over)(struct exchange *))
{
    struct relay *relay = exchange->answer.relay;
    relay->hand_over = hand_over;
    return MHD_create_response_from_callback((uint64_t)(relay->end - relay->at), BLOCK_BYTES, give,
                                             relay, NULL);
}
