/* The parts of the check: playlists as data, renditions, and findings. Private to
 * workers/transcode/hls/check. */
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
    char **named; /* keys of all objects that are named somewhere */
    size_t named_count;
};

void cv_hls_tell(struct cv_hls_checker *checker, const char *where, const char *format, ...)
    CV_PRINTF(3, 4);

/* Reads an object into new memory and records it as named. A missing object is a finding, and
 * *ret_data is NULL. */
CV_MUST_CHECK int cv_hls_get(struct cv_hls_checker *checker, const char *prefix, const char *name,
                             void **ret_data, size_t *ret_size, struct cv_error *error);

/* ---- playlists ------------------------------------------------------------------------------- */

struct cv_hls_entry {
    double duration;      /* seconds */
    int64_t offset, size; /* its byte range; size 0: the whole object */
    char name[CV_HLS_NAME_SIZE];
};

struct cv_hls_media {
    int target;
    bool ended, independent, key_frames_only;
    char map[CV_HLS_NAME_SIZE]; /* the file needed before every segment; "" in MPEG-TS */
    struct cv_hls_entry *entries;
    size_t count;
};

/* Reads the byte range of an entry, like cv_hls_get. A range beyond the object's end is a finding,
 * and *ret_data is NULL. */
CV_MUST_CHECK int cv_hls_get_range(struct cv_hls_checker *checker, const struct cv_hls_entry *entry,
                                   void **ret_data, struct cv_error *error);

void cv_hls_media_deinit(struct cv_hls_media *media);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_hls_media, cv_hls_media_deinit)

/* Reads a media playlist; lines that cannot be parsed are findings. `text` is changed. */
CV_MUST_CHECK int cv_hls_read_media(struct cv_hls_checker *checker, const char *name, char *text,
                                    struct cv_hls_media *media, struct cv_error *error);

/* The data needed before every segment: the head of an MP4; empty for MPEG-TS. */
struct cv_hls_map {
    void *data;
    size_t size;
};

/* ---- renditions ------------------------------------------------------------------------------ */

/* What was found in one media playlist. */
struct cv_hls_rendition {
    char name[CV_HLS_NAME_SIZE]; /* its playlist */
    struct cv_hls_map map;
    int64_t *times; /* times of all packets in presentation order; from 0 */
    size_t count;
    int64_t *keys;
    size_t key_count;
    int64_t reorder; /* ticks from decoding a segment's first picture to showing it, in all alike */
    double seconds, bits;
    double peak;        /* bits per second */
    double most_frames; /* most frames per second of a segment of at least 1 s, or else of all */
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
