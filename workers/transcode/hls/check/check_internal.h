/* The parts of the check: playlists as data, packets of a segment, and who is told. Private to workers/transcode/hls/check. */
#pragma once

#include "workers/transcode/hls/check/check.h"

enum { CV_HLS_CLOCK = 90000, CV_HLS_NAME_SIZE = 128 };

struct cv_hls_checker {
    struct cv_store *store;
    struct cv_cancel *cancel;
    cv_hls_finding finding;
    void *opaque;
    char stream_prefix[96], thumbs_prefix[96];
    struct cv_hls_summary *summary;
    char **named; /* keys that something names */
    size_t named_count;
};

void cv_hls_tell(struct cv_hls_checker *checker, const char *where, const char *format, ...)
    CV_PRINTF(3, 4);

/* An object as text or bytes in fresh memory, noted as named; a missing one is a finding, and *ret_data
 * is NULL. */
CV_MUST_CHECK int cv_hls_get(struct cv_hls_checker *checker, const char *prefix, const char *name,
                             void **ret_data, size_t *ret_size, struct cv_error *error);

/* ---- playlists ------------------------------------------------------------------------------- */

struct cv_hls_entry {
    double duration;      /* seconds */
    int64_t offset, size; /* of its byte range; size 0: the whole object */
    char name[CV_HLS_NAME_SIZE];
};

struct cv_hls_media {
    int target;
    bool ended, independent, key_frames_only;
    char map[CV_HLS_NAME_SIZE]; /* what goes before every segment; "" in MPEG-TS */
    struct cv_hls_entry *entries;
    size_t count;
};

/* The bytes of an entry that has a range, as cv_hls_get; a range that does not lie in its object is a finding, and
 * *ret_data is NULL. */
CV_MUST_CHECK int cv_hls_get_range(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                                   void **ret_data, struct cv_error *error);

void cv_hls_media_deinit(struct cv_hls_media *media);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_hls_media, cv_hls_media_deinit)

/* Reads a media playlist; what cannot be understood is a finding. `text` is changed. */
CV_MUST_CHECK int cv_hls_read_media(struct cv_hls_checker *checker, const char *name, char *text,
                                    struct cv_hls_media *media, struct cv_error *error);

/* ---- packets --------------------------------------------------------------------------------- */

struct cv_hls_packet {
    int64_t pts, dts; /* 90 kHz, from the presentation's start */
    bool key;
};

struct cv_hls_packets {
    struct cv_hls_packet *packets; /* as they lie in the segment */
    size_t count;
    int streams;
    bool is_video;
    int width, height;
    char codec[64]; /* RFC 6381, from the bits; "" when there are no parameter sets */
};

void cv_hls_packets_deinit(struct cv_hls_packets *packets);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_hls_packets, cv_hls_packets_deinit)

/* What goes before every segment: the head of an MP4; none in MPEG-TS. */
struct cv_hls_map {
    void *data;
    size_t size;
};

/* Gives the packets of a segment the times that its fragments' tables say; false: the tables are broken,
 * or are of other packets. */
bool cv_hls_read_fragment_times(const struct cv_hls_map *map, const void *data, size_t size,
                                struct cv_hls_packets *packets);

/* ---- renditions ------------------------------------------------------------------------------ */

/* What one media playlist was found to hold. */
struct cv_hls_rendition {
    char name[CV_HLS_NAME_SIZE]; /* its playlist */
    struct cv_hls_map map;
    int64_t *times; /* of all packets, in the order of presentation; from 0 */
    size_t count;
    int64_t *keys;
    size_t key_count;
    double seconds, bits;
    double peak;        /* bits per second */
    double most_frames; /* per second, of a segment of a second or more; else of all */
    int target;
    int width, height;
    char codec[64];
};

void cv_hls_rendition_deinit(struct cv_hls_rendition *rendition);

CV_MUST_CHECK int cv_hls_check_media(struct cv_hls_checker *checker, const char *name,
                                     bool is_video, struct cv_hls_rendition *rendition,
                                     struct cv_error *error);
CV_MUST_CHECK int cv_hls_check_keys(struct cv_hls_checker *checker, const char *name,
                                    const struct cv_hls_rendition *rendition,
                                    struct cv_error *error);
