/* Parameter sets and packets of a stranger's H.264, as cutting without encoding reads them. The first
 * byte says how long the extradata is (in sixteenths of the rest); what follows it is one packet. */
#include "workers/clip_generate/cut/group.h"

#include <libavcodec/packet.h>
#include <libavutil/mem.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_packet(const struct cv_h264_sets *sets, const uint8_t *data, size_t size)
{
    AVPacket *packet = av_packet_alloc();
    if (packet && size > 0 && av_new_packet(packet, (int)size) == 0) {
        struct cv_error error;
        (void)memcpy(packet->data, data, size);
        if (cv_h264_look(sets, packet) != CV_H264_PICTURE_BROKEN) {
            (void)(cv_h264_repack(sets, packet, &error) == 0);
        }
    }
    av_packet_free(&packet);
}

static void join(const struct cv_h264_sets *sets)
{
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets all = {0};
    uint8_t *record = NULL;
    int size = 0;
    struct cv_error error;
    if (!cv_h264_sets_join(&all, sets) || cv_h264_sets_free_id(&all) > 31) {
        return;
    }
    if (cv_h264_sets_write(&all, &record, &size, &error) == 0) {
        cv_auto(cv_h264_sets_deinit) struct cv_h264_sets again = {0};
        if (!cv_h264_sets_read(&again, record, (size_t)size)) {
            __builtin_trap(); /* what is written can be read */
        }
    }
    av_free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t extradata = (size - 1) * (data[0] % 17) / 16;
    cv_auto(cv_h264_sets_deinit) struct cv_h264_sets sets = {0};
    if (cv_h264_sets_read(&sets, data + 1, extradata)) {
        bool same_profile = true;
        int profile = -1;
        for (size_t i = 0; i < sets.count; i++) {
            struct cv_h264_sps sps;
            if (sets.sets[i].type == CV_H264_SPS) {
                bool good = cv_h264_sps_read(&sets.sets[i], &sps);
                same_profile = same_profile && good && (profile < 0 || profile == sps.profile);
                profile = good ? sps.profile : profile;
            }
        }
        if (same_profile && profile >= 0) {
            join(&sets);
        }
        take_packet(&sets, data + 1 + extradata, size - 1 - extradata);
    }
    return 0;
}
