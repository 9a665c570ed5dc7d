/* Writes the packets of one stream as segments of one format, each to a file; cv_segments decides
 * where segments begin and end. Private to workers/transcode/hls; used by one thread at a time. */
#pragma once

#include "workers/transcode/hls/finished_files.h"

#include <libavcodec/avcodec.h>

struct cv_segment_writer_params {
    const AVCodecContext *codec;
    const char *name;       /* of the rendition */
    struct cv_files *files; /* gets the files that are not segments */
    int64_t reorder;        /* as in cv_segments_params */
    bool goes_on;           /* the first segment follows one of another writer */
    /* Called for each key picture when its position in the current segment is known. */
    int (*key)(void *opaque, int64_t pts, int64_t offset, int64_t size, struct cv_error *error);
    void *opaque;
};

struct cv_segment_writer_type {
    const char *extension;
    bool global_header; /* parameter sets in the header, not in the stream */
    bool has_map;       /* open() writes init_NAME.mp4 */
    /* `ret_writer` is set as soon as there is something to close, even if open() fails. */
    int (*open)(const struct cv_segment_writer_params *params, void **ret_writer,
                struct cv_error *error);
    /* Starts a segment's file. */
    int (*begin)(void *writer, const char *path, struct cv_error *error);
    int (*write)(void *writer, AVPacket *packet, struct cv_error *error);
    /* Completes the file that begin() started and returns its size. `end`: the next packet's
     * decoding time, in ticks of the encoder. */
    int (*end)(void *writer, int64_t end, int64_t *ret_bytes, struct cv_error *error);
    void (*close)(void *writer);
};

/* MPEG-TS (ISO/IEC 13818-1), and fragmented MP4 according to CMAF (ISO/IEC 23000-19). */
extern const struct cv_segment_writer_type cv_segment_writer_ts;
extern const struct cv_segment_writer_type cv_segment_writer_mp4;
