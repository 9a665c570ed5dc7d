/* Writes HLS playlists (RFC 8216, and the draft of its second edition) and calculates the figures
 * in them. Pure functions. */
#pragma once

#include "common/base/base.h"

#include "workers/transcode/hls/hls.h"

/* Ticks of 90 kHz, as in MPEG-TS. */
enum { CV_PLAYLIST_CLOCK = 90000 };

struct cv_segment {
    int64_t start, duration; /* ticks */
    int64_t bytes;
    int64_t frames; /* pictures, or packets of sound */
};

/* The position of a key picture, so that a player can fetch it alone. */
struct cv_key {
    int64_t pts; /* ticks */
    size_t segment;
    int64_t offset, size; /* bytes, from the start of the segment */
};

/* The finished segments of one rendition. */
struct cv_segment_list {
    struct cv_segment *segments;
    size_t count;
    struct cv_key *keys;
    size_t key_count;
};

void cv_segment_list_deinit(struct cv_segment_list *list);
CV_MUST_CHECK int cv_segment_list_add(struct cv_segment_list *list,
                                      const struct cv_segment *segment, struct cv_error *error);
CV_MUST_CHECK int cv_segment_list_add_key(struct cv_segment_list *list, const struct cv_key *key,
                                          struct cv_error *error);

/* The end of the last segment, ticks. */
int64_t cv_segment_list_end(const struct cv_segment_list *list);

/* The smallest number of whole seconds that no rounded duration exceeds. */
int cv_segment_list_target(const struct cv_segment_list *list);

/* The mean and the peak bit rate, bits per second. The peak is the highest rate of any run of
 * neighbouring segments that lasts 0.5 to 1.5 times `target` seconds (or of the whole, if it is
 * shorter). */
int64_t cv_segment_list_average(const struct cv_segment_list *list);
int64_t cv_segment_list_peak(const struct cv_segment_list *list, int target);

/* The highest picture rate of a segment of at least a second; of the whole if no segment is that
 * long; 0 for a single picture. */
double cv_segment_list_frame_rate(const struct cv_segment_list *list);

/* The names of a rendition's files. */
struct cv_playlist_names {
    const char *name;      /* of the rendition: segment_NAME_00000 */
    const char *extension; /* "ts" */
    bool has_map;          /* every segment needs init_NAME.mp4 before it */
};

enum { CV_SEGMENT_NAME_SIZE = 64 };

/* Writes the file name of the segment that starts at `start` (ticks). Its number is that of the period of
 * CV_LADDER_CHUNK_US in which it begins. At most one segment of a rendition begins in a period, and in
 * some none. */
void cv_segment_name(const struct cv_playlist_names *names, int64_t start,
                     char name[CV_SEGMENT_NAME_SIZE]);

/* Writes a media playlist; free() the text. */
CV_MUST_CHECK int cv_playlist_media(const struct cv_segment_list *list,
                                    const struct cv_playlist_names *names, int target,
                                    char **ret_text, struct cv_error *error);

/* Writes the playlist of key pictures, by byte ranges. */
CV_MUST_CHECK int cv_playlist_key_frames(const struct cv_segment_list *list,
                                         const struct cv_playlist_names *names, char **ret_text,
                                         struct cv_error *error);

/* One rendition in the multivariant playlist. */
struct cv_playlist_variant {
    const char *name; /* NAME.m3u8, NAME_keys.m3u8 */
    const char *codecs;
    int width, height;
    double frame_rate; /* 0: left out */
    const struct cv_segment_list *list;
};

/* One sound track; players begin with the first of a list. */
struct cv_playlist_sound {
    const char *name;     /* NAME.m3u8 */
    const char *language; /* as in containers ("eng", "de"); "" if unknown */
    const char *title;    /* "" without one */
    const char *codecs;
    const struct cv_segment_list *list;
};

/* Writes the group "sound": a line for each track, each with a unique name. */
void cv_playlist_sound_lines(struct cv_buffer *text, const struct cv_playlist_sound *sounds,
                             size_t count);

struct cv_playlist_index {
    const struct cv_playlist_variant *variants; /* largest first */
    size_t count;
    const struct cv_playlist_sound *sounds;
    size_t sound_count; /* 0: silent */
    int target;         /* seconds of the longest segment */
};

/* Writes the multivariant playlist, with those of key frames. Players begin with the first variant:
 * the best that a mobile connection can carry. */
CV_MUST_CHECK int cv_playlist_multivariant(const struct cv_playlist_index *index, char **ret_text,
                                           struct cv_error *error);
