/* Parses H.264 without decoding it: NAL units, parameter sets, and the configuration record of MP4
 * (ITU-T H.264 7.3, ISO/IEC 14496-15 5.3.3). */
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

/* Iterates over NAL units. `length_size` is the number of bytes of a unit's length; 0: units are
 * separated by start codes. */
struct cv_h264_cursor {
    const uint8_t *at, *end;
    int length_size;
};

enum cv_h264_step { CV_H264_NAL = 0, CV_H264_END = 1, CV_H264_BROKEN = 2 };

/* Returns the next unit; empty units are skipped. */
enum cv_h264_step cv_h264_next(struct cv_h264_cursor *cursor, struct cv_h264_nal *ret_nal);

enum {
    CV_H264_SETS_MAX = 64,   /* parameter sets of one stream; encoders write two */
    CV_H264_SET_BYTES = 1024 /* of one set; even with scaling lists sets are smaller */
};

struct cv_h264_set {
    uint8_t *data;
    size_t size;
    int type, id;
};

/* The parameter sets of a stream, and the framing of its packets. */
struct cv_h264_sets {
    struct cv_h264_set sets[CV_H264_SETS_MAX];
    size_t count;
    int length_size; /* of the packets, as for a cursor */
};

void cv_h264_sets_deinit(struct cv_h264_sets *sets);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_h264_sets, cv_h264_sets_deinit)

/* Reads a stream's extradata, "avcC" or with start codes; false if it cannot be parsed. */
CV_MUST_CHECK bool cv_h264_sets_read(struct cv_h264_sets *sets, const uint8_t *data, size_t size);

/* Whether an identical parameter set is among them. */
CV_MUST_CHECK bool cv_h264_sets_have(const struct cv_h264_sets *sets,
                                     const struct cv_h264_nal *nal);

/* Adds copies of the sets of `other`; false if an identifier is taken already, or if memory is
 * lacking. */
CV_MUST_CHECK bool cv_h264_sets_join(struct cv_h264_sets *sets, const struct cv_h264_sets *other);

/* An identifier that no sequence or picture parameter set uses yet; -1 if all are used. */
int cv_h264_sets_free_id(const struct cv_h264_sets *sets);

struct cv_h264_sps {
    int profile, constraints, level;
    int chroma_format, bit_depth;
    bool frames_only; /* no field pictures, no interlaced macroblocks */
};

/* Parses the beginning of a sequence parameter set; false if it is malformed. */
CV_MUST_CHECK bool cv_h264_sps_read(const struct cv_h264_set *set, struct cv_h264_sps *ret_sps);

/* Writes the configuration record with all sets, for packets with unit lengths of four bytes. The
 * memory comes from av_malloc and has the padding that FFmpeg requires. The sequence parameter sets
 * must have the same profile. */
CV_MUST_CHECK int cv_h264_sets_write(const struct cv_h264_sets *sets, uint8_t **ret_data,
                                     int *ret_size, struct cv_error *error);

/* What a coded picture depends on. */
enum cv_h264_picture {
    CV_H264_PICTURE_DEPENDENT, /* needs earlier pictures */
    CV_H264_PICTURE_IDR,       /* no later picture needs a picture before it */
    CV_H264_PICTURE_BROKEN,    /* cannot be parsed */
    CV_H264_PICTURE_CHANGED,   /* has parameter sets that the stream's header does not have */
};
enum cv_h264_picture cv_h264_look(const struct cv_h264_sets *sets, const AVPacket *packet);

/* Converts a packet to MP4's format: only slices, each preceded by its length in four bytes. A
 * packet that has this format already is not changed. */
CV_MUST_CHECK int cv_h264_repack(const struct cv_h264_sets *sets, AVPacket *packet,
                                 struct cv_error *error);
