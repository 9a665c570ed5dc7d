/* Parses coded pictures as far as copying them requires: H.264, HEVC or AV1 in MP4 and Matroska.
 * Private to workers/transcode/hls; decodes nothing. */
#pragma once

#include "common/media/media.h"

#include <libavcodec/avcodec.h>

enum {
    CV_CODEC_NAME_SIZE = 64, /* RFC 6381: "hvc1.2.20000000.H183.B0.00.00.00.00.01" and more */
};

struct cv_coded {
    enum AVCodecID id;
    struct cv_h264_sets sets; /* of H.264 */
    uint8_t *record;          /* HEVC and AV1: hvcC unchanged, av1C without units; padded */
    size_t size;
    uint8_t *sequence; /* AV1: the sequence header, known from the first key picture on */
    size_t sequence_size;
};

/* Reads a stream's parameter sets; false if they cannot be parsed, or if the codec is another one. */
CV_MUST_CHECK bool cv_coded_open(struct cv_coded *coded, const AVCodecParameters *codec);
void cv_coded_deinit(struct cv_coded *coded);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_coded, cv_coded_deinit)

/* The reason why browsers cannot play pictures with these parameter sets; NULL if they can. */
const char *cv_coded_refusal(const struct cv_coded *coded, const AVCodecParameters *codec);

/* Classifies a packet. No picture after a key picture needs one before it. */
enum cv_h264_picture cv_coded_classify(struct cv_coded *coded, const AVPacket *packet);

/* Converts a packet to the form of a segment: pictures, without parameter sets for H.264 and HEVC. */
CV_MUST_CHECK int cv_coded_repack(const struct cv_coded *coded, AVPacket *packet,
                                  struct cv_error *error);

/* Gives `target` the codec, its sample entry and its parameter sets. */
CV_MUST_CHECK int cv_coded_describe(const struct cv_coded *coded, AVCodecContext *target,
                                    struct cv_error *error);

/* Writes the RFC 6381 codec name for `data`: a configuration record of MP4, or H.264 with start
 * codes. "" if it cannot be determined. */
void cv_coded_name(enum AVCodecID id, const uint8_t *data, size_t size,
                   char ret_name[CV_CODEC_NAME_SIZE]);
