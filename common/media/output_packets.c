#include "common/media/averror.h"
#include "common/media/cleanup.h"
#include "common/media/output_internal.h"

/* By decoding time; a key picture by its presentation time, so that the sound of the segment before
 * a cut is written before the cut. */
static bool sound_is_next(const struct cv_output *output, const AVPacket *video,
                          const AVPacket *sound)
{
    int64_t time = video->flags & AV_PKT_FLAG_KEY ? video->pts : video->dts;
    return av_compare_ts(sound->dts, (AVRational){1, CV_SOUND_RATE}, time, output->clock) < 0;
}

static int write_packets(struct cv_output *output, struct cv_error *error)
{
    for (;;) {
        const AVPacket *video = cv_packet_queue_peek(&output->video_packets);
        const AVPacket *sound = cv_packet_queue_peek(&output->sound_packets);
        bool more_video = !video && !output->video_done;
        bool more_sound = !sound && output->sound && !output->sound_done;
        if (more_video || more_sound || (!video && !sound)) {
            return 0;
        }
        bool is_video = !sound || (video && !sound_is_next(output, video, sound));
        cv_auto(cv_av_packet_free) AVPacket *packet =
            cv_packet_queue_pop(is_video ? &output->video_packets : &output->sound_packets);
        int result = output->type->write(output->sink, packet, is_video, error);
        if (result != 0) {
            return result;
        }
    }
}

static int64_t duration_of(const struct cv_output *output, int64_t ticks)
{
    int64_t oldest = output->frames > IN_FLIGHT ? output->frames - IN_FLIGHT : 0;
    for (int64_t i = output->frames - 1; i >= oldest; i--) {
        if (output->shown[i % IN_FLIGHT].ticks == ticks) {
            return output->shown[i % IN_FLIGHT].duration;
        }
    }
    return 0;
}

static int collect_video(struct cv_output *output, struct cv_error *error)
{
    for (;;) {
        int result = avcodec_receive_packet(output->video, output->packet);
        if (result == AVERROR(EAGAIN)) {
            return 0;
        }
        if (result == AVERROR_EOF) {
            output->video_done = true;
            return 0;
        }
        if (result < 0) {
            return cv_fail_av(error, result, CV_ERROR_ENCODE, "cannot encode a picture");
        }
        output->packet->duration = duration_of(output, output->packet->pts);
        result = cv_packet_queue_push(&output->video_packets, output->packet, error);
        if (result != 0) {
            return result;
        }
    }
}

static int collect_sound(struct cv_output *output, struct cv_error *error)
{
    while (output->sound && !output->sound_done) {
        int result = cv_sound_encoder_packet(output->sound, output->packet, error);
        if (result == CV_SOUND_END) {
            output->sound_done = true;
        }
        if (result != CV_SOUND_PACKET) {
            return result < 0 ? result : 0;
        }
        result = cv_packet_queue_push(&output->sound_packets, output->packet, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

int cv_output_pump(struct cv_output *output, struct cv_error *error)
{
    int result = collect_sound(output, error);
    if (result != 0 || !output->video) {
        return result;
    }
    result = collect_video(output, error);
    return result ? result : write_packets(output, error);
}
