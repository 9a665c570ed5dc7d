#include "common/media/packet_queue.h"

#include <string.h>

enum { FIRST_CAPACITY = 256 };

void cv_packet_queue_deinit(struct cv_packet_queue *queue)
{
    for (size_t i = 0; i < queue->count; i++) {
        av_packet_free(&queue->packets[queue->first + i]);
    }
    free(queue->packets);
    *queue = (struct cv_packet_queue){0};
}

int cv_packet_queue_push(struct cv_packet_queue *queue, AVPacket *packet, struct cv_error *error)
{
    bool at_end = queue->first + queue->count == queue->capacity;
    if (at_end && queue->first > queue->count) {
        (void)memmove(queue->packets, queue->packets + queue->first,
                      queue->count * sizeof(AVPacket *));
        queue->first = 0;
        at_end = false;
    }
    if (at_end) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : FIRST_CAPACITY;
        AVPacket **packets = reallocarray(queue->packets, capacity, sizeof(AVPacket *));
        CV_TRY_MEMORY(packets, error, "packets");
        queue->packets = packets;
        queue->capacity = capacity;
    }
    AVPacket *own = av_packet_alloc();
    CV_TRY_MEMORY(own, error, "packets");
    av_packet_move_ref(own, packet);
    queue->packets[queue->first + queue->count++] = own;
    return 0;
}

AVPacket *cv_packet_queue_peek(const struct cv_packet_queue *queue)
{
    return queue->count > 0 ? queue->packets[queue->first] : NULL;
}

AVPacket *cv_packet_queue_pop(struct cv_packet_queue *queue)
{
    if (queue->count == 0) {
        return NULL;
    }
    AVPacket *packet = queue->packets[queue->first++];
    queue->count--;
    if (queue->count == 0) {
        queue->first = 0;
    }
    return packet;
}
