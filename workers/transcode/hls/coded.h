/* What lies in a source's packets, as far as copying them needs to know: H.264, HEVC or AV1, as MP4 and
 * Matroska hold them. Private to workers/transcode/hls; decodes nothing. */
#pragma once

#include "common/media/media.h"

#include <libavcodec/avcodec.h>

enum {
    CV_CODEC_NAME_SIZE = 64, /* RFC 6381: "hvc1.2.20000000.H183.B0.00.00.00.00.01" and more */
};

struct cv_coded {
    enum AVCodecID id;
    struct cv_h264_sets sets; /* of H.264 */
    uint8_t *record;          /* of the others: hvcC as it came, av1C without units; with padding */
    size_t size;
    uint8_t *sequence; /* of AV1: its sequence header, since the first key picture */
    size_t sequence_size;
};

/* Reads a stream's parameter sets; false: none that can be understood, or another codec. */
CV_MUST_CHECK bool cv_coded_open(struct cv_coded *coded, const AVCodecParameters *codec);
void cv_coded_deinit(struct cv_coded *coded);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_coded, cv_coded_deinit)

/* Why browsers would not play pictures with these parameter sets; NULL: they would. */
const char *cv_coded_refusal(const struct cv_coded *coded, const AVCodecParameters *codec);

/* What a packet is. A key picture is one behind which nothing needs anything before it. */
enum cv_h264_picture cv_coded_look(struct cv_coded *coded, const AVPacket *packet);

/* Brings a packet into the form of a segment: pictures, and no parameter sets of H.264 and HEVC. */
CV_MUST_CHECK int cv_coded_repack(const struct cv_coded *coded, AVPacket *packet,
                                  struct cv_error *error);

/* Gives `target` the codec, its sample entry and its parameter sets. */
CV_MUST_CHECK int cv_coded_describe(const struct cv_coded *coded, AVCodecContext *target,
                                    struct cv_error *error);

/* RFC 6381's name of what `data` describes: a configuration record of MP4, or H.264 with start codes. ""
 * when it cannot be told. */
void cv_coded_name(enum AVCodecID id, const uint8_t *data, size_t size,
                   char ret_name[CV_CODEC_NAME_SIZE]);
