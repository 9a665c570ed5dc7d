/* Tells whether a file was cut off, as by an interrupted download. */
#include "common/media/demux.h"

#include <string.h>

enum {
    TOLERANCE_PARTS = 50
}; /* tolerated part of the duration: muxers round, and sound ends at its last packet */

void cv_input_note_end(struct cv_input *input, const AVPacket *packet)
{
    const AVStream *stream = input->format->streams[packet->stream_index];
    input->last_is_corrupt = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    int64_t time_us = cv_input_time_us(input, stream, packet->pts);
    int64_t duration_us = av_rescale_q(packet->duration, stream->time_base, AV_TIME_BASE_Q);
    if (time_us != AV_NOPTS_VALUE && av_sat_add64(time_us, duration_us) > input->read_end_us) {
        input->read_end_us = av_sat_add64(time_us, duration_us);
    }
}

bool cv_input_ends_early(const struct cv_input *input)
{
    /* In MP4, the packets in the index show it; the duration in the header of a fragmented MP4
     * means nothing. */
    if (input->last_is_corrupt || strstr(input->format->iformat->name, "mp4")) {
        return input->last_is_corrupt;
    }
    for (unsigned i = 0; i < input->format->nb_streams; i++) {
        const AVStream *stream = input->format->streams[i];
        if (stream != input->video && cv_input_track(input, stream) < 0) {
            return false; /* a stream that is not read, such as subtitles, may be longer */
        }
    }
    int64_t tolerance_us = input->info.duration_us / TOLERANCE_PARTS;
    tolerance_us = tolerance_us > AV_TIME_BASE ? tolerance_us : AV_TIME_BASE;
    return input->info.duration_us - input->read_end_us > tolerance_us;
}
