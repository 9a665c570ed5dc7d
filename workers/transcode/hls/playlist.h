/* HLS playlists (RFC 8216, and its second edition's draft) and the figures in them. Private to
 * common/media; plain text from plain numbers. */
#pragma once

#include "common/base/base.h"

#include "workers/transcode/hls/hls.h"

/* Ticks of 90 kHz, as in MPEG-TS. */
enum { CV_PLAYLIST_CLOCK = 90000 };

struct cv_segment {
    int64_t start, duration; /* ticks */
    int64_t bytes;
    int64_t frames; /* pictures, or packets of sound */
    int64_t object; /* the number of the first segment in the object that holds it */
    int64_t offset; /* in that object, bytes */
};

/* The number of a segment that starts there: of the stretch of CV_LADDER_CHUNK_US in which it begins. No two of a
 * rendition begin in one; there may be some in which none does. */
int64_t cv_segment_number(int64_t start);

/* Where a key picture lies, so that a player can fetch it alone. */
struct cv_key {
    int64_t pts; /* ticks */
    size_t segment;
    int64_t offset, size; /* bytes, from the segment's first */
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

/* Where the last segment ends, ticks. */
int64_t cv_segment_list_end(const struct cv_segment_list *list);

/* The least whole number of seconds that no rounded duration is above. */
int cv_segment_list_target(const struct cv_segment_list *list);

/* Bits per second over all, and at most: the peak over every run of neighbours that lasts half to one
 * and a half times `target` seconds (and over the whole, when that is shorter). */
int64_t cv_segment_list_average(const struct cv_segment_list *list);
int64_t cv_segment_list_peak(const struct cv_segment_list *list, int target);

/* The most pictures per second that a segment of at least a second shows; over the whole where none
 * is that long; 0 for a single picture. */
double cv_segment_list_frame_rate(const struct cv_segment_list *list);

/* How the files of a rendition are called. */
struct cv_playlist_names {
    const char *name; /* of the rendition: segment_NAME_00000 …, by the number of an object */
    const char *extension; /* "ts" */
    bool has_map;          /* init_NAME.mp4 goes before every segment */
};

enum { CV_PLAYLIST_OBJECT_NAME_SIZE = 64 };

/* What the object of that number is called. */
void cv_playlist_object_name(const struct cv_playlist_names *names, int64_t object,
                             char name[CV_PLAYLIST_OBJECT_NAME_SIZE]);

/* A media playlist; `ended` false: more segments follow. Segments that share an object are told by byte ranges.
 * free() the text. */
CV_MUST_CHECK int cv_playlist_media(const struct cv_segment_list *list,
                                    const struct cv_playlist_names *names, int target, bool ended,
                                    char **ret_text, struct cv_error *error);

/* The key pictures alone, by byte range. */
CV_MUST_CHECK int cv_playlist_key_frames(const struct cv_segment_list *list,
                                         const struct cv_playlist_names *names, char **ret_text,
                                         struct cv_error *error);

/* One rendition as the multivariant playlist tells it. */
struct cv_playlist_variant {
    const char *name; /* NAME.m3u8, NAME_keys.m3u8 */
    const char *codecs;
    int width, height;
    double frame_rate; /* 0: not told */
    const struct cv_segment_list *list;
};

/* One track of sound; the first of a list is what players begin with. */
struct cv_playlist_sound {
    const char *name;     /* NAME.m3u8 */
    const char *language; /* as containers have it ("eng", "de"); "" unknown */
    const char *title;    /* "" without one */
    const char *codecs;
    const struct cv_segment_list *list;
};

/* The group "sound": a line for each track, each with a name of its own. */
void cv_playlist_sound_lines(struct cv_buffer *text, const struct cv_playlist_sound *sounds,
                             size_t count);

struct cv_playlist_index {
    const struct cv_playlist_variant *variants; /* largest first */
    size_t count;
    const struct cv_playlist_sound *sounds;
    size_t sound_count; /* 0: silent */
    int target;         /* seconds of the longest segment */
    bool key_frames;    /* playlists of key frames are named, too */
};

/* The multivariant playlist. The first variant that it names is what players begin with: the best that a
 * telephone's connection carries. */
CV_MUST_CHECK int cv_playlist_multivariant(const struct cv_playlist_index *index, char **ret_text,
                                           struct cv_error *error);
