/* Makes HLS in several sizes from one decoding pass, with a poster and small pictures for the seek
 * bar. Has no access to the store: it writes files into a directory, and reports each one when it
 * is complete. */
#pragma once

#include "common/media/media.h"

enum {
    CV_LADDER_RENDITIONS_MAX = 8,
    CV_LADDER_NAME_SIZE = 16, /* "16384x16384", NUL included */
    CV_LADDER_REASON_SIZE = 96,
};

/* Whether a preset with this shorter side exists: 2160, 1440, 1080, 720, 480, 360, 240. */
bool cv_ladder_is_preset(int short_side);

enum cv_segment_format {
    CV_SEGMENT_TS,  /* MPEG-TS: segment_….ts */
    CV_SEGMENT_MP4, /* fragmented MP4 (CMAF): init_….mp4, segment_….m4s */
};

/* The group of a file. */
enum cv_ladder_part {
    CV_LADDER_STREAM, /* playlists and the files that they name */
    CV_LADDER_THUMBS, /* poster.jpg, sprite_000.webp …, thumbnails.vtt */
};

/* A file that is complete. All texts are borrowed for the call. */
struct cv_ladder_file {
    enum cv_ladder_part part;
    const char *name; /* the name by which other files refer to it */
    const char *path; /* NULL: the file of a chunk that was joined */
};

/* Called for every file as soon as it is complete, in an order in which the files may be
 * published: no file names a file that was not reported before, and index.m3u8 comes last. Called
 * on the thread that calls the ladder, from within cv_ladder_frame, cv_ladder_sound and
 * cv_ladder_finish; a failure is passed up. */
typedef int (*cv_ladder_finished)(void *opaque, const struct cv_ladder_file *file,
                                  struct cv_error *error);

/* A part of a video that is encoded separately: the pictures with from_us <= time < until_us, or,
 * where the source is copied, from the first keyframe at or after from_us to the first at or after
 * until_us. Everything in it is as in the whole video. The joining job makes the sound. */
struct cv_ladder_chunk {
    int number;
    int64_t from_us;  /* a multiple of CV_LADDER_CHUNK_US */
    int64_t until_us; /* likewise; INT64_MAX: the end */
};

enum { CV_LADDER_CHUNK_US = 4 * 1000 * 1000 }; /* distance of the times at which segments begin */

struct cv_ladder_params {
    const char *directory;              /* an existing one, for all files */
    const struct cv_media_info *source; /* borrowed until the ladder is freed */
    int64_t source_bytes;               /* of the whole file */
    struct cv_cancel *cancel;           /* borrowed; an abort ends what takes long; may be NULL */
    int threads;                        /* for encoding, all renditions together; 0 = 1 */
    const int *short_sides; /* presets (cv_ladder_is_preset); none given: 1080, 720, 480, 360 */
    size_t short_side_count;
    bool
        for_reading; /* without short_sides: no rendition below 720, unless the source is smaller */
    enum cv_segment_format format;
    const struct cv_ladder_chunk *chunk; /* NULL: the whole */
    const AVCodecParameters
        *copied;   /* the source's stream, copied as the largest rendition; NULL: none */
    bool any_size; /* a copy may have a size that is not in short_sides */
    bool joins;    /* joins chunks: it gets chunks and sound, no frames */
    cv_ladder_finished finished;
    void *opaque;
};

struct cv_rendition_summary {
    char name[CV_LADDER_NAME_SIZE]; /* NAME.m3u8 */
    int width, height;
    int64_t frames; /* number of frames, repeated ones included */
    int segments;
    int64_t bandwidth, average_bandwidth; /* bits per second: measured peak and mean, no sound */
    char codec[64];                       /* RFC 6381 */
    bool copied;                          /* a copy of the source's coded pictures */
};

struct cv_ladder_summary {
    struct cv_rendition_summary renditions[CV_LADDER_RENDITIONS_MAX]; /* largest first */
    size_t count;
    int64_t duration_us;
    bool sound;
    int sprite_tiles;
};

/* Makes HLS from one decoding pass: H.264 (High, 4:2:0, libx264) in several sizes, stereo AAC at 48
 * kHz as a group of its own, playlists of key frames, a poster, and sheets of small pictures with
 * their WebVTT.
 *
 * Time 0 of the playlists is time 0 of the presentation; the first picture is shown from there on.
 * Every rendition shows the same frames at the source's own times, exact to 1/90000 s, at most 60
 * per second in the long run, with key frames at the same times, every two seconds. A picture that
 * is shown for long is repeated at the times of key frames. Pixels are square, frames progressive,
 * colours of ordinary dynamic range.
 *
 * With one thread everything is done within the calls; with more, each rendition has a thread, and
 * a few frames are queued between them. */
struct cv_ladder;
CV_MUST_CHECK int cv_ladder_new(const struct cv_ladder_params *params,
                                struct cv_ladder **ret_ladder, struct cv_error *error);
void cv_ladder_free(struct cv_ladder *ladder);
CV_DEFINE_CLEANUP(struct cv_ladder *, cv_ladder_free)

/* Whether the source's coded pictures can be the largest rendition, as far as its header says. It
 * requires fragmented MP4, H.264 that browsers
 * play, an upright progressive picture with square pixels, at most 60 pictures per second, and no
 * higher bit rate than a rendition of that size may have. `reason` is written if they cannot. */
bool cv_ladder_suits(const struct cv_ladder_params *params, const AVCodecParameters *codec,
                     char reason[CV_LADDER_REASON_SIZE]);

enum cv_ladder_outcome {
    CV_LADDER_TAKEN = 0,
    CV_LADDER_FULL = 1,       /* the frame is after the chunk's end: no more frames are needed */
    CV_LADDER_UNSUITABLE = 2, /* the source cannot be copied after all: cv_ladder_refusal */
};

/* For a ladder that copies: called with each coded picture before the decoder gets it, in decoding
 * order. A cv_decoder_watch function; `ladder` is its opaque argument. */
CV_MUST_CHECK int cv_ladder_packet(void *ladder, const AVPacket *packet, int64_t pts_us,
                                   struct cv_error *error);
/* Why the source cannot be copied after all; "" if it still can. */
const char *cv_ladder_refusal(const struct cv_ladder *ladder);
/* Refuses the copy for a reason known to the caller; does nothing for a ladder that encodes
 * everything. */
void cv_ladder_refuse(struct cv_ladder *ladder, const char *reason);

/* Adds a frame or sound, each in presentation order. The picture is referred to, not copied. A
 * chunk needs at least one frame from before its beginning. */
CV_MUST_CHECK int cv_ladder_frame(struct cv_ladder *ladder, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_ladder_sound(struct cv_ladder *ladder, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Ends a chunk. *ret_text (free() it) is the description of the chunk for cv_ladder_join.
 * CV_LADDER_UNSUITABLE as for cv_ladder_frame. */
CV_MUST_CHECK int cv_ladder_finish_chunk(struct cv_ladder *ladder, char **ret_text,
                                         struct cv_error *error);

/* Adds the next chunk by its description; its files are reported without a path.
 * CV_ERROR_INVALID_PAYLOAD for a description that does not fit. */
CV_MUST_CHECK int cv_ladder_join(struct cv_ladder *ladder, const char *text,
                                 struct cv_error *error);

/* For a ladder that joins: the chunk whose chunk_NNNNN.jpg is the best poster; -1: none. */
int cv_ladder_poster_chunk(const struct cv_ladder *ladder);

/* Ends pictures and sound at the end of the longer of the two, and completes the files, except for
 * the poster of a ladder that joins. CV_LADDER_UNSUITABLE as for cv_ladder_frame. */
CV_MUST_CHECK int cv_ladder_finish(struct cv_ladder *ladder, struct cv_ladder_summary *ret_summary,
                                   struct cv_error *error);
