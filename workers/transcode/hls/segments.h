/* Cuts one encoded stream into segment files. Private to workers/transcode/hls. Used by one thread
 * at a time. */
#pragma once

#include "workers/transcode/hls/finished_files.h"
#include "workers/transcode/hls/playlist.h"

#include <libavcodec/avcodec.h>

enum {
    CV_HLS_KEY_US = 2 * 1000 * 1000,        /* Apple's authoring rules: a key frame every 2 s */
    CV_HLS_SEGMENT_US = CV_LADDER_CHUNK_US, /* two groups of pictures: quick seeks, few objects */
    CV_HLS_TAIL_US = 500 * 1000, /* a shorter last segment is merged into the one before */
};

struct cv_segments;

struct cv_segments_params {
    const char *name; /* of the rendition; borrowed */
    enum cv_segment_format format;
    const AVCodecContext *codec; /* borrowed while opening */
    struct cv_files *files;      /* borrowed; gets each segment when it is final */
    int64_t reorder; /* MP4: packets may be decoded this many ticks after the time at which they are
                      * shown; an edit list takes the time out of the presentation */
    bool goes_on;    /* the first segment is not the start of the presentation */
};

CV_MUST_CHECK int cv_segments_new(const struct cv_segments_params *params,
                                  struct cv_segments **ret_segments, struct cv_error *error);
void cv_segments_free(struct cv_segments *segments);
CV_DEFINE_CLEANUP(struct cv_segments *, cv_segments_free)

/* Whether an encoder for this format must put its parameter sets in the header. */
bool cv_segments_wants_global_header(enum cv_segment_format format);

/* Adds the next packet in decoding order, in its encoder's time base (1/90000 for pictures, 1/48000
 * for sound); leaves it blank. A segment begins at the first key packet at or after each multiple
 * of its length. */
CV_MUST_CHECK int cv_segments_write(struct cv_segments *segments, AVPacket *packet,
                                    struct cv_error *error);

/* Ends the last segment at `end`, ticks of 90 kHz. */
CV_MUST_CHECK int cv_segments_finish(struct cv_segments *segments, int64_t end,
                                     struct cv_error *error);

/* The names of files of a format; `name` is borrowed. */
struct cv_playlist_names cv_segments_format_names(enum cv_segment_format format, const char *name);

/* After cv_segments_finish; borrowed. */
const struct cv_segment_list *cv_segments_list(const struct cv_segments *segments);
struct cv_playlist_names cv_segments_names(const struct cv_segments *segments);

/* The RFC 6381 codec name, from the stream itself: "avc1.64002A", "mp4a.40.2". "" before the first
 * packet. */
const char *cv_segments_codec(const struct cv_segments *segments);
