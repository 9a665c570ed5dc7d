/* Cuts one encoded stream into segment files. Private to workers/transcode/hls.
 *
 * Used by one thread at a time, but for cv_segments_told and cv_segments_snapshot. */
#pragma once

#include "workers/transcode/hls/finished_files.h"
#include "workers/transcode/hls/playlist.h"

#include <libavcodec/avcodec.h>

enum {
    CV_HLS_KEY_US = 2 * 1000 * 1000,        /* Apple's authoring rules: a key frame every 2 s */
    CV_HLS_SEGMENT_US = CV_LADDER_CHUNK_US, /* two groups: quick seeks, few objects */
    CV_HLS_TAIL_US = 500 * 1000,            /* a shorter last segment joins the one before */
    CV_HLS_TARGET_COPIED_S = 15,            /* groups of 10 s and a half, cut where 4 s are over */
    CV_HLS_REORDER_US = 20 * 1000 * 1000,
    CV_HLS_TARGET_S = 5, /* a key frame comes half a second late at most, a tail is no longer */
};

struct cv_segments;

struct cv_segments_params {
    const char *name; /* of the rendition; borrowed */
    enum cv_segment_format format;
    const AVCodecContext *codec; /* borrowed while opening */
    struct cv_files *files;      /* borrowed; told of each segment when it is final */
    bool goes_on;                /* the first segment is not where the presentation begins */
    bool reordered; /* fragmented MP4: pictures may be shown before they are decoded, by less than
                       CV_HLS_REORDER_US */
};

CV_MUST_CHECK int cv_segments_new(const struct cv_segments_params *params,
                                  struct cv_segments **ret_segments, struct cv_error *error);
void cv_segments_free(struct cv_segments *segments);
CV_DEFINE_CLEANUP(struct cv_segments *, cv_segments_free)

/* Whether an encoder for this format keeps its parameter sets beside the stream. */
bool cv_segments_wants_global_header(enum cv_segment_format format);

/* The next packet by decoding time, in its encoder's time base (1/90000 pictures, 1/48000 sound);
 * leaves it blank. A segment begins at the first key packet at or after each multiple of its
 * length. */
CV_MUST_CHECK int cv_segments_write(struct cv_segments *segments, AVPacket *packet,
                                    struct cv_error *error);

/* Ends the last segment at `end`, ticks of 90 kHz. */
CV_MUST_CHECK int cv_segments_finish(struct cv_segments *segments, int64_t end,
                                     struct cv_error *error);

/* How files of a format are called; `name` is borrowed. */
struct cv_playlist_names cv_segments_format_names(enum cv_segment_format format, const char *name);

/* After cv_segments_finish; borrowed. */
const struct cv_segment_list *cv_segments_list(const struct cv_segments *segments);
struct cv_playlist_names cv_segments_names(const struct cv_segments *segments);

/* Any thread: how many segments lie in files that cv_files has been told of so far, and the first `count` of them;
 * cv_segment_list_deinit it. */
size_t cv_segments_told(struct cv_segments *segments);
CV_MUST_CHECK int cv_segments_snapshot(struct cv_segments *segments, size_t count,
                                       struct cv_segment_list *ret_list, struct cv_error *error);

/* RFC 6381's name of what is in the stream, from the stream itself: "avc1.64002A", "mp4a.40.2".
 * "" before the first packet. */
const char *cv_segments_codec(const struct cv_segments *segments);
