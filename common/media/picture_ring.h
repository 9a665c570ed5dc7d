/* Passes decoded pictures from one process to another. The samples of a picture are written to a ring of shared memory,
 * and a message over a socket describes them. The receiver checks every field of the message, copies the samples before
 * it uses them, and acknowledges the picture.
 *
 * Neither side trusts the other one, waits for it longer than PATIENCE_MS (picture_ring.c), or fails because of it. If the
 * connection breaks, each side continues alone. An object of this header is used by one thread at a time. */
#pragma once

#include "common/base/base.h"
#include "common/media/decode.h"

/* ---- the sender ------------------------------------------------------------------------------ */

struct cv_picture_sender;

/* Borrows `peer` and `cancel`. */
CV_MUST_CHECK int cv_picture_sender_new(const struct cv_peer *peer, struct cv_cancel *cancel,
                                        struct cv_picture_sender **ret_sender,
                                        struct cv_error *error);

/* Closes the connection. */
void cv_picture_sender_free(struct cv_picture_sender *sender);
CV_DEFINE_CLEANUP(struct cv_picture_sender *, cv_picture_sender_free)

/* Sends a copy of the picture; waits while the ring is full. Closes the connection if the receiver does not acknowledge
 * a picture for PATIENCE_MS, or if the sender has waited PATIENCE_MS longer than it has worked. */
void cv_picture_send(struct cv_picture_sender *sender, const struct cv_video_frame *frame);

/* Tells the receiver that the last picture was the last one of the source. */
void cv_picture_send_end(struct cv_picture_sender *sender);

/* Closes the connection and logs why. Nothing is sent from now on. */
void cv_picture_sender_give_up(struct cv_picture_sender *sender, const char *why);

/* ---- the receiver ---------------------------------------------------------------------------- */

struct cv_picture_receiver;

/* Borrows `peer` and `cancel`. */
CV_MUST_CHECK int cv_picture_receiver_new(const struct cv_peer *peer, struct cv_cancel *cancel,
                                          struct cv_picture_receiver **ret_receiver,
                                          struct cv_error *error);
void cv_picture_receiver_free(struct cv_picture_receiver *receiver);
CV_DEFINE_CLEANUP(struct cv_picture_receiver *, cv_picture_receiver_free)

enum cv_picture_received {
    CV_RECEIVED_PICTURE = 0,
    CV_RECEIVED_END = 1,     /* the sender says that the source has no more pictures */
    CV_RECEIVED_NOTHING = 2, /* the sender is gone, too slow or lies; the connection is closed */
};

/* The next picture, borrowed until the next call; the times of pictures increase. Only now the previous picture is
 * acknowledged and its message removed from the socket. So the next process that receives from this socket starts with
 * the picture that this one received last. */
CV_MUST_CHECK int cv_picture_receive(struct cv_picture_receiver *receiver,
                                     struct cv_video_frame *ret_frame, struct cv_error *error);

/* Closes the connection and logs why. */
void cv_picture_receiver_give_up(struct cv_picture_receiver *receiver, const char *why);
