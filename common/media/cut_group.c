#include "common/media/cut_group.h"

#include "common/media/cleanup.h"

#include <string.h>

enum { LENGTH_SIZE = 4 }; /* of a unit in the packets that are written */

void cv_cut_group_clear(struct cv_cut_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        av_packet_free(&group->pictures[i].packet);
    }
    group->count = 0;
    group->bytes = 0;
}

void cv_cut_group_deinit(struct cv_cut_group *group)
{
    cv_cut_group_clear(group);
    free(group->pictures);
    *group = (struct cv_cut_group){0};
}

int cv_cut_group_push(struct cv_cut_group *group, AVPacket *packet, int64_t time_us,
                      struct cv_error *error)
{
    if (group->count == group->capacity) {
        size_t capacity = group->capacity ? 2 * group->capacity : 256;
        struct cv_cut_picture *pictures =
            reallocarray(group->pictures, capacity, sizeof(*pictures));
        if (!pictures) {
            return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for coded pictures");
        }
        group->pictures = pictures;
        group->capacity = capacity;
    }
    AVPacket *kept = av_packet_alloc();
    if (!kept) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for coded pictures");
    }
    av_packet_move_ref(kept, packet);
    int64_t before_us = group->count > 0 ? group->pictures[group->count - 1].latest_us : INT64_MIN;
    group->pictures[group->count++] = (struct cv_cut_picture){
        .packet = kept,
        .time_us = time_us,
        .latest_us = time_us > before_us ? time_us : before_us,
        .hidden = (kept->flags & AV_PKT_FLAG_DISCARD) != 0,
    };
    group->bytes += kept->size;
    return 0;
}

size_t cv_cut_group_prefix(const struct cv_cut_group *group, int64_t end_us)
{
    int64_t dropped_us = INT64_MAX; /* the earliest of what would be dropped */
    size_t kept = group->count;
    while (kept > 0 && (group->pictures[kept - 1].latest_us >= end_us ||
                        group->pictures[kept - 1].latest_us >= dropped_us)) {
        kept--;
        int64_t time_us = group->pictures[kept].time_us;
        dropped_us = time_us < dropped_us ? time_us : dropped_us;
    }
    return kept;
}

/* ---- units ----------------------------------------------------------------------------------- */

static bool is_dropped(const struct cv_h264_nal *nal)
{
    return nal->type == CV_H264_SPS || nal->type == CV_H264_PPS || nal->type == CV_H264_AUD ||
           nal->type == CV_H264_FILLER;
}

enum cv_cut_kind cv_cut_look(const struct cv_h264_sets *sets, const AVPacket *packet)
{
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, sets->length_size};
    struct cv_h264_nal nal;
    enum cv_h264_step step;
    enum cv_cut_kind kind = CV_CUT_DEPENDENT;
    bool pictures = false;
    while ((step = cv_h264_next(&cursor, &nal)) == CV_H264_NAL) {
        bool is_set = nal.type == CV_H264_SPS || nal.type == CV_H264_PPS;
        if (is_set && !cv_h264_sets_have(sets, &nal)) {
            return CV_CUT_CHANGED;
        }
        kind = nal.type == CV_H264_SLICE_IDR ? CV_CUT_IDR : kind;
        pictures = pictures || (nal.type >= 1 && nal.type <= CV_H264_SLICE_IDR);
    }
    return step == CV_H264_END && pictures ? kind : CV_CUT_BROKEN;
}

int cv_cut_repack(const struct cv_h264_sets *sets, AVPacket *packet, struct cv_error *error)
{
    struct cv_h264_cursor cursor = {packet->data, packet->data + packet->size, sets->length_size};
    struct cv_h264_nal nal;
    size_t size = 0;
    bool dropped = false;
    while (cv_h264_next(&cursor, &nal) == CV_H264_NAL) {
        dropped = dropped || is_dropped(&nal);
        size += is_dropped(&nal) ? 0 : LENGTH_SIZE + nal.size;
    }
    if (sets->length_size == LENGTH_SIZE && !dropped) {
        return 0;
    }
    AVPacket *plain = av_packet_alloc();
    if (!plain || size > INT32_MAX || av_new_packet(plain, (int)size) < 0 ||
        av_packet_copy_props(plain, packet) < 0) {
        av_packet_free(&plain);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a coded picture");
    }
    cursor = (struct cv_h264_cursor){packet->data, packet->data + packet->size, sets->length_size};
    uint8_t *at = plain->data;
    while (cv_h264_next(&cursor, &nal) == CV_H264_NAL) {
        if (is_dropped(&nal)) {
            continue;
        }
        for (int shift = 24; shift >= 0; shift -= 8) {
            *at++ = (uint8_t)(nal.size >> shift);
        }
        (void)memcpy(at, nal.data, nal.size);
        at += nal.size;
    }
    av_packet_unref(packet);
    av_packet_move_ref(packet, plain);
    av_packet_free(&plain);
    return 0;
}
