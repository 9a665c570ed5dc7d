/* Decodes the packets of one video stream to pictures, with FFmpeg's own decoder or on a device. A
 * device that fails before its first picture is replaced by FFmpeg's own decoder, which gets the same
 * packets; the log says why. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

struct cv_hardware;
struct cv_picture_codec;

/* Opens a decoder for a stream of any kind. `hardware`: the device that it uses; NULL: none. */
CV_MUST_CHECK int cv_codec_open(const AVStream *stream, int threads, struct cv_hardware *hardware,
                                AVCodecContext **ret_context, struct cv_error *error);

/* `device`: see cv_env_device; NULL: none. `stream` is borrowed. */
CV_MUST_CHECK int cv_picture_codec_open(const AVStream *stream, int threads, const char *device,
                                        struct cv_picture_codec **ret_codec,
                                        struct cv_error *error);
void cv_picture_codec_close(struct cv_picture_codec *codec);

/* Named outcomes of the functions below. A device that fails after its first picture is CV_ERROR_IO:
 * other pictures may depend on packets that are gone. */
enum cv_picture_codec_outcome {
    CV_PICTURE_TAKEN = 0,
    CV_PICTURE_NEEDS_PACKET = 1,
    CV_PICTURE_END = 2,
    CV_PICTURE_DAMAGED = 3, /* a picture or a packet was skipped */
    CV_PICTURE_TORN = 4,    /* a picture that could be decoded in part */
};

/* Sends a packet, or with NULL the end; only after cv_picture_codec_receive has asked for one. */
CV_MUST_CHECK int cv_picture_codec_send(struct cv_picture_codec *codec, const AVPacket *packet,
                                        struct cv_error *error);

/* Takes the next picture, in presentation order, into `picture`, which is empty. */
CV_MUST_CHECK int cv_picture_codec_receive(struct cv_picture_codec *codec, AVFrame *picture,
                                           struct cv_error *error);

/* Forgets everything that was sent, for packets from another place. */
void cv_picture_codec_flush(struct cv_picture_codec *codec);
