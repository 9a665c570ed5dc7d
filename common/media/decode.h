/* Decoding: upright frames and sound on the presentation's axis. */
#pragma once

#include "common/media/info.h"

#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavutil/frame.h>

struct cv_decoder;

/* Named outcomes of cv_decoder_next. */
enum cv_decoder_outcome {
    CV_DECODER_FRAME = 0,
    CV_DECODER_END = 1,
    CV_DECODER_SOUND = 2, /* cv_decoder_next_any only */
};

struct cv_decoder_params {
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends reads with CV_ERROR_CANCELED */
    bool sound;               /* decode the best audio stream too, for cv_decoder_next_any */
    bool all_sound;           /* with `sound`: every track */
    bool sound_alone;         /* with `sound`: pictures are left out */
    bool whole;               /* woven half-pictures are made whole (bwdif), before turning */
    bool square;              /* pixels are made square (cv_shown_size), after turning */
};

/* Opens the best video stream. What is not a video, has no picture, or cannot be decoded here fails
 * with CV_ERROR_NOT_A_VIDEO, CV_ERROR_UNSUPPORTED_MEDIA (codec named), CV_ERROR_DECODE or
 * CV_ERROR_LIMIT_EXCEEDED. Borrows what `source` points to. */
CV_MUST_CHECK int cv_decoder_open(const struct cv_byte_source *source,
                                  const struct cv_decoder_params *params,
                                  struct cv_decoder **ret_decoder, struct cv_error *error);
void cv_decoder_close(struct cv_decoder *decoder);
CV_DEFINE_CLEANUP(struct cv_decoder *, cv_decoder_close)

/* Borrowed. */
const struct cv_media_info *cv_decoder_info(const struct cv_decoder *decoder);

/* The pictures' stream as its container describes it; borrowed. */
const AVCodecParameters *cv_decoder_codec(const struct cv_decoder *decoder);

/* Shows every coded picture to `watch` before it is decoded, in decoding order; `pts_us` is
 * AV_NOPTS_VALUE where nobody knows it. The packet is borrowed for the call; a failure is passed up
 * by the call that reads. */
typedef int (*cv_decoder_watch)(void *opaque, const AVPacket *packet, int64_t pts_us,
                                struct cv_error *error);
void cv_decoder_set_watch(struct cv_decoder *decoder, cv_decoder_watch watch, void *opaque);

/* Sends every frame that cv_decoder_next_any returns, and the end, to another process. Stops at the first damage and at
 * the first suspicious time stamp, because a decoder that reads other streams of the file might return other frames from
 * there on. Sends nothing if pixels are not square. `sender` is borrowed. */
struct cv_picture_sender;
void cv_decoder_set_sender(struct cv_decoder *decoder, struct cv_picture_sender *sender);

/* One source frame, upright, in the source's own pixel format unless it had to be turned or made square. */
struct cv_video_frame {
    const AVFrame *picture; /* borrowed until the next call; planes may be read, not written */
    int64_t pts_us;         /* strictly growing from frame to frame */
    int64_t duration_us;    /* until the next frame as far as the source says; at least 1 */
    bool key_frame;
};

/* The next frame in presentation order. A damaged frame is skipped as long as any frame decodes: a
 * source without a single good frame is CV_ERROR_DECODE at its end. */
CV_MUST_CHECK int cv_decoder_next(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                  struct cv_error *error);

/* A stretch of decoded sound, in the source's own rate, format and channels. */
struct cv_sound {
    const AVFrame *samples; /* borrowed until the next call */
    int64_t pts_us;         /* of the first sample; AV_NOPTS_VALUE: follows the stretch before */
    int track;              /* index into cv_media_info.tracks */
};

/* The next frame (CV_DECODER_FRAME), the next stretch of sound (CV_DECODER_SOUND), or
 * CV_DECODER_END; frames and sound each in presentation order, interleaved as they lie in the
 * file. Sound that cannot be decoded is left out. */
CV_MUST_CHECK int cv_decoder_next_any(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                      struct cv_sound *ret_sound, struct cv_error *error);

/* Goes to a key frame at or before `time_us`, the first one when there is none; the next frame may
 * lie well before that time. Sound starts at least one packet before `time_us` too. */
CV_MUST_CHECK int cv_decoder_seek(struct cv_decoder *decoder, int64_t time_us,
                                  struct cv_error *error);

/* When the last picture ends as the packets say that lie at the end, whatever the header claims; 0 where
 * none has a time. Decodes nothing, and reads no more than the packets behind the last key frame that an index
 * leads to. The next frame is the first one again. */
CV_MUST_CHECK int cv_decoder_find_end(struct cv_decoder *decoder, int64_t *ret_end_us,
                                      struct cv_error *error);

/* How much of the file has been taken in since it was opened, 0..1 of its bytes. It grows with what
 * is read, whatever the time stamps say. */
double cv_decoder_consumed(const struct cv_decoder *decoder);

/* Frames that could not be decoded so far. */
int64_t cv_decoder_damaged_frames(const struct cv_decoder *decoder);

/* Whether the file ends before what it announces, as after an interrupted download. Known when everything
 * has been read; a file that announces no length and is cut between two packets is not noticed. */
bool cv_decoder_is_cut_off(const struct cv_decoder *decoder);
