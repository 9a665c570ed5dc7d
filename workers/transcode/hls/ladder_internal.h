/* The internals of a ladder: frames and sound are ordered, encoded in renditions, cut into
 * segments, and listed in playlists. Private to workers/transcode/hls. */
#pragma once

#include "common/media/media.h"

#include "workers/transcode/hls/copy.h"
#include "workers/transcode/hls/rendition.h"

enum {
    CV_LADDER_PAUSE_US =
        500 * 1000, /* a picture shown for longer is repeated at times of key frames */
    /* With sound, pictures from the last key frame on, if that is also the first, or such a pause
     * before the end. Chromium shows a picture when its decoder has some more, or knows that none
     * follow; with separate sound, hls.js 1.7 tells it that only when a picture was shown. Of small
     * pictures 4 are enough in MP4 and 6 in MPEG-TS; of 1440p it decodes five at once. */
    CV_LADDER_LAST_PICTURES = 8,
};

struct cv_ladder_track {
    char name[CV_LADDER_NAME_SIZE]; /* NAME.m3u8: "sound", "sound_2" … */
    struct cv_ladder *ladder;
    struct cv_sound_encoder *encoder;
    struct cv_segments *segments;
};

/* One rendition of a ladder that joins. */
struct cv_ladder_joined {
    char codec[64];
    int64_t frames;
    struct cv_segment_list list;
};

struct cv_ladder {
    const struct cv_media_info *source;
    struct cv_cancel *cancel;
    int threads;
    enum cv_segment_format format;
    cv_ladder_finished finished;
    void *opaque;
    struct cv_files *files;
    struct cv_rendition_size sizes[CV_LADDER_RENDITIONS_MAX];
    struct cv_rendition
        *renditions[CV_LADDER_RENDITIONS_MAX]; /* largest first; NULL before the first picture */
    size_t count;
    struct cv_copy
        *copy; /* the copy; it replaces the encoder of the largest rendition; NULL: none */
    size_t first_encoded; /* the largest encoded rendition; may be `count` */
    AVRational shape;     /* aspect ratio of the source's pixels as shown */
    struct cv_sprites *sprites;
    struct cv_poster poster;
    struct cv_ladder_track sounds[CV_MEDIA_TRACKS_MAX]; /* in the order of the source's tracks */
    int sound_count;
    struct cv_cadence cadence;
    AVFrame *last; /* the newest picture; NULL before the first */
    AVPacket *packet;
    int64_t last_ticks;
    int64_t video_end_us; /* end of the newest frame */
    bool is_chunk, is_full;
    struct cv_ladder_chunk chunk; /* from 0 to INT64_MAX for the whole video */
    int64_t full_ticks;           /* the first picture after the end of a full chunk */
    int64_t heard_us;             /* end of a chunk's sound */
    bool joins;
    struct cv_ladder_joined joined[CV_LADDER_RENDITIONS_MAX];
    struct cv_buffer cues;
    int joined_chunks, joined_tiles;
    int poster_chunk;
    double poster_score;
};

/* Reports complete files to the caller. */
CV_MUST_CHECK int cv_ladder_report(struct cv_ladder *ladder, struct cv_error *error);

/* Plans the renditions of a ladder, largest first. Returns 0 if a copy is not possible
 * (cv_ladder_plan_copied). */
size_t cv_ladder_sizes(const struct cv_ladder_params *params, bool copied,
                       struct cv_rendition_size sizes[CV_LADDER_RENDITIONS_MAX]);

/* Opens the copied rendition; `codec` describes the source's stream. */
CV_MUST_CHECK int cv_ladder_open_copy(struct cv_ladder *ladder, const AVCodecParameters *codec,
                                      struct cv_error *error);
/* Passes the newest picture to the encoded renditions, the poster and the sheets. */
CV_MUST_CHECK int cv_ladder_show_copied(struct cv_ladder *ladder, int64_t ticks,
                                        struct cv_error *error);
/* Ends the copy at `end` ticks; CV_LADDER_UNSUITABLE if the source cannot be copied. */
CV_MUST_CHECK int cv_ladder_end_copied(struct cv_ladder *ladder, int64_t end,
                                       struct cv_error *error);

/* The segments of one rendition being written; NULL before its first picture. */
struct cv_segments *cv_ladder_segments(const struct cv_ladder *ladder, size_t rendition);

/* The list of one rendition's segments, whether they were made here or joined. */
const struct cv_segment_list *cv_ladder_list(const struct cv_ladder *ladder, size_t rendition);
const char *cv_ladder_codec(const struct cv_ladder *ladder, size_t rendition);
struct cv_playlist_names cv_ladder_names(const struct cv_ladder *ladder, size_t rendition,
                                         char name[CV_LADDER_NAME_SIZE]);
int64_t cv_ladder_frames(const struct cv_ladder *ladder, size_t rendition);

/* Ends the pictures of a chunk and waits for them. */
CV_MUST_CHECK int cv_ladder_end_chunk(struct cv_ladder *ladder, struct cv_error *error);

/* Ends the lists and cues of joined pictures at `end_us`, the end of the longer of sound and
 * pictures. */
void cv_ladder_end_joined(struct cv_ladder *ladder, int64_t end_us);
CV_MUST_CHECK int cv_ladder_write_cues(struct cv_ladder *ladder, struct cv_error *error);
void cv_ladder_free_joined(struct cv_ladder *ladder);

CV_MUST_CHECK int cv_ladder_write_poster(struct cv_ladder *ladder, const char *name,
                                         struct cv_error *error);
