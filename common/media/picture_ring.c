#include "common/media/picture_ring.h"

#include "common/media/libav.h"
#include "common/media/scale.h"

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PICTURES_MAX = 4,           /* unacknowledged ones; more only cost memory and cache */
    ALIGNMENT = 64,             /* bytes; of rows and planes */
    PATIENCE_MS = 30 * 1000,    /* encoding a picture of 8K takes a second */
    MESSAGE_MAGIC = 0x43565031, /* change it when struct message changes */
};

enum message_kind { MESSAGE_PICTURE = 1, MESSAGE_SAME = 2, MESSAGE_END = 3 };

/* One picture, or the end. MESSAGE_SAME: the samples are those of the previous picture. */
struct message {
    uint32_t magic, kind;
    uint64_t offset; /* of the samples in the shared memory: the planes of av_image_fill_arrays() */
    int64_t pts_us, duration_us;
    int32_t format, width, height;
    int32_t color_range, color_primaries, color_trc, colorspace, chroma_location;
    int32_t key_frame, reserved;
};

/* Waits until the socket is ready or the time is up; CV_ERROR_CANCELED if the job is stopped. */
static int wait_for(int socket, short events, int64_t wait_ms, struct cv_cancel *cancel,
                    struct cv_error *error)
{
    struct pollfd polls[] = {{.fd = socket, .events = events},
                             {.fd = cancel ? cv_cancel_fd(cancel) : -1, .events = POLLIN}};
    int64_t until_ms = cv_monotonic_ms() + wait_ms;
    while (wait_ms > 0 && polls[0].revents == 0) {
        if (cv_cancel_level(cancel) >= CV_CANCEL_ABORT) {
            return cv_fail(error, CV_ERROR_CANCELED, "stopped while waiting for a picture");
        }
        (void)poll(polls, CV_COUNT(polls), (int)wait_ms);
        wait_ms = until_ms - cv_monotonic_ms();
    }
    return 0;
}

/* ---- the sender ------------------------------------------------------------------------------ */

struct cv_picture_sender {
    struct cv_peer peer;
    struct cv_cancel *cancel;
    bool is_open;
    AVFrame *last; /* the picture that was sent last */
    size_t picture_bytes;
    size_t places, next_place; /* the ring's places for such pictures */
    size_t unanswered;
    int64_t began_ms, waited_ms;
};

int cv_picture_sender_new(const struct cv_peer *peer, struct cv_cancel *cancel,
                          struct cv_picture_sender **ret_sender, struct cv_error *error)
{
    struct cv_picture_sender *sender = calloc(1, sizeof(*sender));
    if (!sender || !(sender->last = av_frame_alloc())) {
        free(sender);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a ring of pictures");
    }
    sender->peer = *peer;
    sender->cancel = cancel;
    sender->is_open = true;
    sender->began_ms = cv_monotonic_ms();
    *ret_sender = sender;
    return 0;
}

void cv_picture_sender_give_up(struct cv_picture_sender *sender, const char *why)
{
    if (sender->is_open) {
        cv_log(CV_LOG_INFO, "decoded pictures are not shared any more: %s", why);
        (void)shutdown(sender->peer.socket, SHUT_RDWR);
        av_frame_unref(sender->last);
        sender->is_open = false;
    }
}

void cv_picture_sender_free(struct cv_picture_sender *sender)
{
    if (sender) {
        (void)shutdown(sender->peer.socket, SHUT_RDWR);
        av_frame_free(&sender->last);
        free(sender);
    }
}

/* Reads acknowledgements; waits for them while more than `most` pictures are unacknowledged. */
static bool take_answers(struct cv_picture_sender *sender, size_t most)
{
    for (;;) {
        char answer;
        ssize_t got = recv(sender->peer.socket, &answer, sizeof(answer), MSG_DONTWAIT);
        if (got == (ssize_t)sizeof(answer) && sender->unanswered > 0) {
            sender->unanswered--;
            continue;
        }
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            cv_picture_sender_give_up(sender, "the other stage has closed the connection");
            return false;
        }
        if (sender->unanswered <= most) {
            return true;
        }
        int64_t now_ms = cv_monotonic_ms();
        int64_t worked_ms = now_ms - sender->began_ms - sender->waited_ms;
        int64_t left_ms = PATIENCE_MS + worked_ms - sender->waited_ms;
        left_ms = left_ms < PATIENCE_MS ? left_ms : PATIENCE_MS;
        struct cv_error ignored; /* the caller notices the cancellation itself */
        int result = wait_for(sender->peer.socket, POLLIN, left_ms, sender->cancel, &ignored);
        int64_t lasted_ms = cv_monotonic_ms() - now_ms;
        sender->waited_ms += lasted_ms;
        if (result != 0 || lasted_ms >= left_ms) {
            cv_picture_sender_give_up(sender, "the other stage receives them too slowly");
            return false;
        }
    }
}

/* Makes room for a picture of so many bytes. */
static bool make_room(struct cv_picture_sender *sender, int bytes)
{
    size_t size = bytes > 0 ? FFALIGN((size_t)bytes, ALIGNMENT) : SIZE_MAX;
    if (size > sender->peer.bytes) {
        cv_picture_sender_give_up(sender, "they do not fit into the shared memory");
        return false;
    }
    if (size != sender->picture_bytes) {
        if (!take_answers(sender, 0)) {
            return false;
        }
        size_t fit = sender->peer.bytes / size;
        sender->places = fit < PICTURES_MAX ? fit : PICTURES_MAX;
        sender->picture_bytes = size;
        sender->next_place = 0;
        av_frame_unref(sender->last);
    }
    return take_answers(sender, sender->places - 1);
}

static void send_message(struct cv_picture_sender *sender, struct message *message)
{
    message->magic = MESSAGE_MAGIC;
    ssize_t sent =
        send(sender->peer.socket, message, sizeof(*message), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != (ssize_t)sizeof(*message)) {
        cv_picture_sender_give_up(sender, "the other stage has closed the connection");
        return;
    }
    sender->unanswered++;
}

void cv_picture_send(struct cv_picture_sender *sender, const struct cv_video_frame *frame)
{
    const AVFrame *picture = frame->picture;
    int bytes =
        av_image_get_buffer_size(picture->format, picture->width, picture->height, ALIGNMENT);
    if (!sender->is_open || !make_room(sender, bytes)) {
        return;
    }
    /* A receiver may start at a key frame, and then it has no previous picture. */
    bool is_same =
        !frame->key_frame && sender->last->buf[0] && cv_picture_equals(sender->last, picture);
    size_t offset = sender->next_place * sender->picture_bytes;
    struct message message = {
        .kind = is_same ? MESSAGE_SAME : MESSAGE_PICTURE,
        .offset = is_same ? 0 : offset,
        .pts_us = frame->pts_us,
        .duration_us = frame->duration_us,
        .format = picture->format,
        .width = picture->width,
        .height = picture->height,
        .color_range = picture->color_range,
        .color_primaries = picture->color_primaries,
        .color_trc = picture->color_trc,
        .colorspace = picture->colorspace,
        .chroma_location = picture->chroma_location,
        .key_frame = frame->key_frame,
    };
    if (!is_same) {
        uint8_t *planes[4];
        int strides[4];
        av_frame_unref(sender->last);
        if (av_image_fill_arrays(planes, strides, (uint8_t *)sender->peer.memory + offset,
                                 picture->format, picture->width, picture->height, ALIGNMENT) < 0 ||
            av_frame_ref(sender->last, picture) < 0) {
            cv_picture_sender_give_up(sender, "a picture cannot be copied");
            return;
        }
        av_image_copy(planes, strides, (const uint8_t **)(void *)picture->data, picture->linesize,
                      picture->format, picture->width, picture->height);
        sender->next_place = (sender->next_place + 1) % sender->places;
    }
    send_message(sender, &message);
}

void cv_picture_send_end(struct cv_picture_sender *sender)
{
    if (sender->is_open && take_answers(sender, PICTURES_MAX)) {
        send_message(sender, &(struct message){.kind = MESSAGE_END});
    }
}

/* ---- the receiver ---------------------------------------------------------------------------- */

struct cv_picture_receiver {
    struct cv_peer peer;
    struct cv_cancel *cancel;
    AVFrame *picture;
    AVBufferPool *pool;
    size_t pool_bytes;
    int64_t last_us; /* of the newest picture; -1: none yet */
    bool is_unanswered;
};

int cv_picture_receiver_new(const struct cv_peer *peer, struct cv_cancel *cancel,
                            struct cv_picture_receiver **ret_receiver, struct cv_error *error)
{
    struct cv_picture_receiver *receiver = calloc(1, sizeof(*receiver));
    if (!receiver || !(receiver->picture = av_frame_alloc())) {
        free(receiver);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a ring of pictures");
    }
    receiver->peer = *peer;
    receiver->cancel = cancel;
    receiver->last_us = -1;
    *ret_receiver = receiver;
    return 0;
}

void cv_picture_receiver_free(struct cv_picture_receiver *receiver)
{
    if (receiver) {
        av_frame_free(&receiver->picture);
        av_buffer_pool_uninit(&receiver->pool);
        free(receiver);
    }
}

void cv_picture_receiver_give_up(struct cv_picture_receiver *receiver, const char *why)
{
    cv_log(CV_LOG_INFO, "pictures are decoded here from now on: %s", why);
    (void)shutdown(receiver->peer.socket, SHUT_RDWR);
}

static int give_up(struct cv_picture_receiver *receiver, const char *why)
{
    cv_picture_receiver_give_up(receiver, why);
    return CV_RECEIVED_NOTHING;
}

/* The next message; it stays in the socket. */
static int peek(struct cv_picture_receiver *receiver, struct message *message,
                struct cv_error *error)
{
    CV_TRY(wait_for(receiver->peer.socket, POLLIN, PATIENCE_MS, receiver->cancel, error));
    ssize_t got =
        recv(receiver->peer.socket, message, sizeof(*message), MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
    if (got < 0 && errno == EAGAIN) {
        return give_up(receiver, "the other stage has sent none in time");
    }
    if (got <= 0) {
        return give_up(receiver, "the other stage has ended");
    }
    return got == (ssize_t)sizeof(*message) && message->magic == MESSAGE_MAGIC
               ? 0
               : give_up(receiver, "the other stage has sent an unknown message");
}

/* Removes the message of the previous picture and acknowledges it. If the sender has ended, that fails, but the pictures
 * that it sent can still be read. */
static void answer(struct cv_picture_receiver *receiver)
{
    struct message old;
    if (receiver->is_unanswered) {
        receiver->is_unanswered = false;
        ssize_t got = recv(receiver->peer.socket, &old, sizeof(old), MSG_DONTWAIT);
        got = got > 0 ? send(receiver->peer.socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) : got;
        (void)got;
    }
}

static bool is_within(int32_t value, int end)
{
    return value >= 0 && value < end;
}

/* Whether the message describes a possible picture within the shared memory. Sets *ret_bytes. */
static bool is_possible(const struct cv_picture_receiver *receiver, const struct message *message,
                        size_t *ret_bytes)
{
    static const int64_t latest_us = INT64_C(3600) * 1000 * 1000 * CV_MEDIA_HOURS_MAX;
    const uint64_t refused =
        AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(message->format);
    if (!format || (format->flags & refused) != 0 || message->pts_us <= receiver->last_us ||
        message->pts_us > latest_us || message->duration_us < 1 ||
        message->duration_us > latest_us || !is_within(message->key_frame, 2) ||
        !is_within(message->color_range, AVCOL_RANGE_NB) ||
        !is_within(message->color_primaries, AVCOL_PRI_NB) ||
        !is_within(message->color_trc, AVCOL_TRC_NB) ||
        !is_within(message->colorspace, AVCOL_SPC_NB) ||
        !is_within(message->chroma_location, AVCHROMA_LOC_NB) || message->width < 1 ||
        message->width > CV_MEDIA_SIDE_MAX || message->height < 1 ||
        message->height > CV_MEDIA_SIDE_MAX ||
        (int64_t)message->width * message->height > CV_MEDIA_AREA_MAX) {
        return false;
    }
    int bytes =
        av_image_get_buffer_size(message->format, message->width, message->height, ALIGNMENT);
    if (bytes <= 0 || (size_t)bytes > receiver->peer.bytes) {
        return false;
    }
    *ret_bytes = (size_t)bytes;
    if (message->kind == MESSAGE_SAME) {
        const AVFrame *last = receiver->picture;
        return last->buf[0] && last->format == message->format && last->width == message->width &&
               last->height == message->height;
    }
    return message->kind == MESSAGE_PICTURE && message->offset <= receiver->peer.bytes - *ret_bytes;
}

/* Copies the samples, because the sender can still change the ring. */
static int copy_samples(struct cv_picture_receiver *receiver, const struct message *message,
                        size_t bytes, struct cv_error *error)
{
    AVFrame *picture = receiver->picture;
    av_frame_unref(picture);
    if (bytes != receiver->pool_bytes) {
        av_buffer_pool_uninit(&receiver->pool);
        receiver->pool =
            av_buffer_pool_init(bytes + ALIGNMENT, NULL); /* vector code reads beyond the end */
        receiver->pool_bytes = bytes;
    }
    picture->buf[0] = receiver->pool ? av_buffer_pool_get(receiver->pool) : NULL;
    CV_TRY_MEMORY(picture->buf[0] &&
                      av_image_fill_arrays(picture->data, picture->linesize, picture->buf[0]->data,
                                           message->format, message->width, message->height,
                                           ALIGNMENT) >= 0,
                  error, "a picture");
    picture->format = message->format;
    picture->width = message->width;
    picture->height = message->height;
    memcpy(picture->buf[0]->data, (const uint8_t *)receiver->peer.memory + message->offset, bytes);
    return 0;
}

int cv_picture_receive(struct cv_picture_receiver *receiver, struct cv_video_frame *ret_frame,
                       struct cv_error *error)
{
    struct message message;
    size_t bytes = 0;
    answer(receiver);
    CV_TRY(peek(receiver, &message, error));
    if (message.kind == MESSAGE_END) {
        return CV_RECEIVED_END;
    }
    if (!is_possible(receiver, &message, &bytes)) {
        return give_up(receiver, "the other stage has sent an impossible picture");
    }
    CV_TRY(message.kind == MESSAGE_SAME ? 0 : copy_samples(receiver, &message, bytes, error));
    AVFrame *picture = receiver->picture;
    picture->color_range = (enum AVColorRange)message.color_range;
    picture->color_primaries = (enum AVColorPrimaries)message.color_primaries;
    picture->color_trc = (enum AVColorTransferCharacteristic)message.color_trc;
    picture->colorspace = (enum AVColorSpace)message.colorspace;
    picture->chroma_location = (enum AVChromaLocation)message.chroma_location;
    receiver->is_unanswered = true;
    receiver->last_us = message.pts_us;
    *ret_frame = (struct cv_video_frame){.picture = picture,
                                         .pts_us = message.pts_us,
                                         .duration_us = message.duration_us,
                                         .key_frame = message.key_frame != 0};
    return CV_RECEIVED_PICTURE;
}
