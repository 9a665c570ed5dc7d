#include "common/media/picture_source.h"

#include "common/media/picture_ring.h"
#include "common/media/timeline.h"

struct cv_picture_source {
    struct cv_decoder *decoder;
    struct cv_picture_receiver *receiver; /* NULL: pictures are decoded here */
    int64_t last_us, end_us;              /* of the last picture received; -1: none */
};

int cv_picture_source_new(struct cv_decoder *decoder, const struct cv_peer *peer,
                          struct cv_cancel *cancel, struct cv_picture_source **ret_source,
                          struct cv_error *error)
{
    cv_auto(cv_picture_source_free) struct cv_picture_source *source = calloc(1, sizeof(*source));
    CV_TRY_MEMORY(source, error, "a source of pictures");
    source->decoder = decoder;
    source->last_us = -1;
    CV_TRY(peer ? cv_picture_receiver_new(peer, cancel, &source->receiver, error) : 0);
    *ret_source = cv_take(source);
    return 0;
}

void cv_picture_source_free(struct cv_picture_source *source)
{
    if (source) {
        cv_picture_receiver_free(source->receiver);
        free(source);
    }
}

/* Decodes the first picture between the two times, or else the first one after them. If the file has no index, or the
 * index is wrong, decodes from the beginning. */
static int decode_from(struct cv_decoder *decoder, int64_t first_us, int64_t last_us,
                       struct cv_video_frame *ret_frame, struct cv_error *error)
{
    bool can_seek = last_us > 0 && cv_can_seek(cv_decoder_info(decoder));
    int result = 0;
    for (int i = can_seek ? 0 : 1; i < 2; i++) {
        result = cv_decoder_seek(decoder, i == 0 ? last_us : 0, error);
        while (result == 0 && (result = cv_decoder_next(decoder, ret_frame, error)) == 0) {
            if (ret_frame->pts_us >= first_us && (ret_frame->pts_us <= last_us || i == 1)) {
                return 0;
            }
            if (ret_frame->pts_us > last_us) {
                break;
            }
        }
        if (result < 0) {
            return result;
        }
    }
    return result;
}

/* Decodes here from now on, starting after the last picture received. */
static int go_on_alone(struct cv_picture_source *source, struct cv_video_frame *ret_frame,
                       struct cv_error *error)
{
    cv_picture_receiver_free(cv_take(source->receiver));
    if (source->last_us < 0) {
        return cv_decoder_next(source->decoder, ret_frame, error);
    }
    int result = decode_from(source->decoder, source->last_us, source->last_us, ret_frame, error);
    return result != 0 || ret_frame->pts_us > source->last_us
               ? result
               : cv_decoder_next(source->decoder, ret_frame, error);
}

/* A sender could end the video anywhere, or send a picture with a time so late that nothing would be decoded after it. So
 * the end and the times of pictures must agree with the duration in the file's header. NULL: they do. */
static const char *contradiction(const struct cv_picture_source *source, int result,
                                 const struct cv_video_frame *frame)
{
    int64_t duration_us = cv_decoder_info(source->decoder)->duration_us;
    if (result == CV_RECEIVED_END &&
        (source->last_us < 0 || source->end_us < duration_us - CV_TIMELINE_STEP_US)) {
        return "the other stage has ended before the end of the video";
    }
    return result == CV_RECEIVED_PICTURE && duration_us > 0 &&
                   frame->pts_us > duration_us + CV_TIMELINE_STEP_US
               ? "the other stage has sent a picture after the end of the video"
               : NULL;
}

int cv_picture_source_next(struct cv_picture_source *source, struct cv_video_frame *ret_frame,
                           struct cv_error *error)
{
    if (!source->receiver) {
        return cv_decoder_next(source->decoder, ret_frame, error);
    }
    int result = cv_picture_receive(source->receiver, ret_frame, error);
    const char *why = contradiction(source, result, ret_frame);
    if (why) {
        cv_picture_receiver_give_up(source->receiver, why);
        return go_on_alone(source, ret_frame, error);
    }
    if (result == CV_RECEIVED_PICTURE) {
        source->last_us = ret_frame->pts_us;
        source->end_us = ret_frame->pts_us + ret_frame->duration_us;
        return CV_DECODER_FRAME;
    }
    if (result == CV_RECEIVED_END) {
        return CV_DECODER_END;
    }
    return result < 0 ? result : go_on_alone(source, ret_frame, error);
}

int cv_picture_source_start(struct cv_picture_source *source, int64_t time_ms,
                            struct cv_video_frame *ret_frame, struct cv_error *error)
{
    int64_t first_us = time_ms * 1000 - 500, last_us = time_ms * 1000 + 499;
    if (source->receiver) {
        int result = cv_picture_source_next(source, ret_frame, error);
        if (result != 0 || time_ms == 0 ||
            (ret_frame->pts_us >= first_us && ret_frame->pts_us <= last_us)) {
            return result;
        }
        if (source->receiver) {
            cv_picture_receiver_give_up(source->receiver,
                                        "the other stage is at another time of the video");
            cv_picture_receiver_free(cv_take(source->receiver));
        }
    }
    return decode_from(source->decoder, first_us, time_ms > 0 ? last_us : 0, ret_frame, error);
}
