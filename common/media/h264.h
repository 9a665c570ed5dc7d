/* H.264 as bytes: NAL units, parameter sets, and the configuration record of MP4 (ITU-T H.264 7.3,
 * ISO/IEC 14496-15 5.3.3). Decodes nothing. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/packet.h>

enum cv_h264_nal_type {
    CV_H264_SLICE_IDR = 5,
    CV_H264_SPS = 7,
    CV_H264_PPS = 8,
};

struct cv_h264_nal {
    const uint8_t *data; /* without length or start code */
    size_t size;         /* at least 1 */
    int type;
};

/* Walks through NAL units. `length_size` 0: start codes, else bytes of a unit's length. */
struct cv_h264_cursor {
    const uint8_t *at, *end;
    int length_size;
};

enum cv_h264_step { CV_H264_NAL = 0, CV_H264_END = 1, CV_H264_BROKEN = 2 };

/* The next unit; empty ones are passed over. */
enum cv_h264_step cv_h264_next(struct cv_h264_cursor *cursor, struct cv_h264_nal *ret_nal);

enum {
    CV_H264_SETS_MAX = 64,   /* parameter sets of one stream; encoders make two */
    CV_H264_SET_BYTES = 1024 /* of one set; scaling lists and all stay below */
};

struct cv_h264_set {
    uint8_t *data;
    size_t size;
    int type, id;
};

/* The parameter sets of a stream, and how its packets are put together. */
struct cv_h264_sets {
    struct cv_h264_set sets[CV_H264_SETS_MAX];
    size_t count;
    int length_size; /* of the packets, as for a cursor */
};

void cv_h264_sets_deinit(struct cv_h264_sets *sets);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_h264_sets, cv_h264_sets_deinit)

/* Reads a stream's extradata, "avcC" or start codes; false: none that can be understood. */
CV_MUST_CHECK bool cv_h264_sets_read(struct cv_h264_sets *sets, const uint8_t *data, size_t size);

/* Whether this very parameter set is among them. */
CV_MUST_CHECK bool cv_h264_sets_have(const struct cv_h264_sets *sets,
                                     const struct cv_h264_nal *nal);

/* Takes over copies of the sets of `other`; false: an identifier is taken, or no memory. */
CV_MUST_CHECK bool cv_h264_sets_join(struct cv_h264_sets *sets, const struct cv_h264_sets *other);

/* An identifier that neither a sequence nor a picture parameter set has yet; -1: all are taken. */
int cv_h264_sets_free_id(const struct cv_h264_sets *sets);

struct cv_h264_sps {
    int profile, constraints, level;
    int chroma_format, bit_depth;
    bool frames_only; /* no field pictures, no interlaced macroblocks */
};

/* The head of a sequence parameter set; false: broken. */
CV_MUST_CHECK bool cv_h264_sps_read(const struct cv_h264_set *set, struct cv_h264_sps *ret_sps);

/* The configuration record with all sets, for packets with lengths of four bytes, in fresh memory
 * of av_malloc with the padding that FFmpeg wants. The sequence sets must have one profile. */
CV_MUST_CHECK int cv_h264_sets_write(const struct cv_h264_sets *sets, uint8_t **ret_data,
                                     int *ret_size, struct cv_error *error);

/* What a coded picture is made of. */
enum cv_h264_picture {
    CV_H264_PICTURE_DEPENDENT, /* needs pictures before it */
    CV_H264_PICTURE_IDR,       /* nothing behind it needs anything before it */
    CV_H264_PICTURE_BROKEN,    /* cannot be taken apart */
    CV_H264_PICTURE_CHANGED,   /* brings parameter sets that the stream's header does not have */
};
enum cv_h264_picture cv_h264_look(const struct cv_h264_sets *sets, const AVPacket *packet);

/* Brings a packet into the form of MP4: slices with lengths of four bytes, and nothing else.
 * Untouched when it has that form already. */
CV_MUST_CHECK int cv_h264_repack(const struct cv_h264_sets *sets, AVPacket *packet,
                                 struct cv_error *error);
