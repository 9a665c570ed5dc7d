/* A queue of encoded packets. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/packet.h>

struct cv_packet_queue {
    AVPacket **packets;
    size_t first, count, capacity;
};

void cv_packet_queue_deinit(struct cv_packet_queue *queue);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_packet_queue, cv_packet_queue_deinit)

/* Appends the packet: moves its data and leaves it blank. */
CV_MUST_CHECK int cv_packet_queue_push(struct cv_packet_queue *queue, AVPacket *packet,
                                       struct cv_error *error);

/* The first packet, borrowed; NULL if the queue is empty. */
AVPacket *cv_packet_queue_peek(const struct cv_packet_queue *queue);

/* Removes the first packet and returns it; NULL if the queue is empty. av_packet_free the result. */
AVPacket *cv_packet_queue_pop(struct cv_packet_queue *queue);
