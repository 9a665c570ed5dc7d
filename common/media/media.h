/* Moving pictures through FFmpeg's libraries: demux, decode on the presentation-time axis, upright
 * frames, JPEG; encode and mux for HLS and clips. Knows no queue and no store: bytes come from a
 * cv_byte_source, files go to paths.
 *
 * Time 0 is the start of the presentation: the earliest start of the container's audio and video
 * streams. All times are microseconds on that axis, taken from the source's own timestamps, never
 * from a frame count. A picture is upright: the display matrix has been applied, once. Attached
 * pictures (cover art) are not video.
 *
 * Hostile input is expected: every size, count and duration is bounded (CV_MEDIA_… below).
 * An object of this header is used by one thread at a time.
 */
#pragma once

#include "common/base/base.h"

#include <libavutil/frame.h>

enum {
    CV_MEDIA_SIDE_MAX = 16384,       /* pixels; wider or taller is CV_ERROR_LIMIT_EXCEEDED */
    CV_MEDIA_AREA_MAX = 8192 * 8192, /* pixels of one frame */
    CV_MEDIA_HOURS_MAX = 48,         /* of presentation; a day's recording, and as much again */
    CV_MEDIA_TRACKS_MAX = 8,         /* of sound; a film in eight languages */
};

/* ---- what a source is ------------------------------------------------------------------------ */

/* One track of sound. */
struct cv_media_track {
    char language[12]; /* as the container has it ("eng"); "" when it does not say */
    char title[64];    /* UTF-8 without quotes and control characters; "" without one */
};

struct cv_media_info {
    int width, height; /* pixels of the upright picture */
    int coded_width, coded_height;
    int rotation; /* degrees clockwise that were applied: 0, 90, 180, 270 */
    bool mirrored;
    AVRational sample_aspect; /* of the upright picture; 1/1 when square or unknown */
    AVRational time_base;     /* of the source's own video timestamps, seconds */
    double frame_rate;        /* average, per second; 0 when unknown (still picture, one frame) */
    bool variable_frame_rate;
    int64_t duration_us; /* of the presentation, as the header claims; 0 when unknown */
    char container[32];
    char video_codec[32];
    char pixel_format[32];
    char audio_codec[32]; /* "" without sound */
    int audio_channels;
    int audio_sample_rate;
    int audio_streams;
    struct cv_media_track tracks[CV_MEDIA_TRACKS_MAX]; /* that can be decoded; the best one first */
    int track_count;
    bool interlaced;
    bool high_dynamic_range;
};

/* ---- decoding -------------------------------------------------------------------------------- */

struct cv_decoder;

/* Named outcomes of cv_decoder_next. */
enum cv_decoder_outcome {
    CV_DECODER_FRAME = 0,
    CV_DECODER_END = 1,
    CV_DECODER_SOUND = 2, /* cv_decoder_next_any only */
};

struct cv_decoder_params {
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends reads with CV_ERROR_CANCELED */
    bool key_frames_only;     /* decode and return key frames alone */
    bool sound;               /* decode the best audio stream too, for cv_decoder_next_any */
    bool all_sound;           /* with `sound`: every track */
    bool sound_alone;         /* with `sound`: pictures are left out */
    bool whole;               /* woven half-pictures are made whole (bwdif), before turning */
};

/* Opens the best video stream. What is no video, has no picture, or cannot be decoded here fails
 * with CV_ERROR_NOT_A_VIDEO, CV_ERROR_UNSUPPORTED_MEDIA (codec named), CV_ERROR_DECODE or
 * CV_ERROR_LIMIT_EXCEEDED. Borrows what `source` points to. */
CV_MUST_CHECK int cv_decoder_open(const struct cv_byte_source *source,
                                  const struct cv_decoder_params *params,
                                  struct cv_decoder **ret_decoder, struct cv_error *error);
void cv_decoder_close(struct cv_decoder *decoder);
CV_DEFINE_CLEANUP(struct cv_decoder *, cv_decoder_close)

/* Borrowed. */
const struct cv_media_info *cv_decoder_info(const struct cv_decoder *decoder);

/* One source frame, upright, in the source's own pixel format unless it had to be turned. */
struct cv_video_frame {
    const AVFrame *picture; /* borrowed until the next call; planes may be read, not written */
    int64_t pts_us;         /* strictly growing from frame to frame */
    int64_t duration_us;    /* until the next frame as far as the source says; at least 1 */
    bool key_frame;
};

/* The next frame in presentation order. A damaged frame is skipped as long as any frame decodes: a
 * source without a single good frame is CV_ERROR_DECODE at its end. */
CV_MUST_CHECK int cv_decoder_next(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                  struct cv_error *error);

/* A stretch of decoded sound, in the source's own rate, format and channels. */
struct cv_sound {
    const AVFrame *samples; /* borrowed until the next call */
    int64_t pts_us;         /* of the first sample; AV_NOPTS_VALUE: follows the stretch before */
    int track;              /* index into cv_media_info.tracks */
};

/* The next frame (CV_DECODER_FRAME), the next stretch of sound (CV_DECODER_SOUND), or
 * CV_DECODER_END; frames and sound each in presentation order, interleaved as they lie in the
 * file. Sound that cannot be decoded is left out. */
CV_MUST_CHECK int cv_decoder_next_any(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                      struct cv_sound *ret_sound, struct cv_error *error);

/* Goes to a key frame at or before `time_us`, the first one when there is none; the next frame may
 * lie well before that time. Sound starts at least one packet before `time_us` too. */
CV_MUST_CHECK int cv_decoder_seek(struct cv_decoder *decoder, int64_t time_us,
                                  struct cv_error *error);

/* Frames that could not be decoded so far. */
int64_t cv_decoder_damaged_frames(const struct cv_decoder *decoder);

/* ---- pictures -------------------------------------------------------------------------------- */

/* 8-bit luma of a frame, full range (0 black … 255 white), `stride` bytes a row, in the caller's
 * buffer of at least stride × height bytes. Works for every pixel format. */
CV_MUST_CHECK int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride,
                                  struct cv_error *error);

/* A JPEG of the picture in fresh memory; free() it. Chroma keeps the resolution that it has: 4:2:0
 * stays 4:2:0, all else becomes 4:4:4, so that coloured text stays as sharp as it was.
 * `quality` 1 (worst) … 100. `max_side` scales down to fit, 0 = as it is. */
CV_MUST_CHECK int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);

/* A JPEG as planes: red, green, blue and luma of BT.601, full range, `width` bytes a row. */
struct cv_jpeg_picture {
    int width, height;
    int reduction;     /* 1, 2, 4 or 8: pixels here × reduction = pixels of the JPEG */
    uint8_t *plane[4]; /* one allocation; free(plane[0]) */
};

/* Reads a JPEG of any origin; one with more than `area_max` pixels at a half, a quarter or an
 * eighth of its sides. CV_ERROR_DECODE when it is none, or is damaged in any place;
 * CV_ERROR_LIMIT_EXCEEDED when a side is longer than CV_MEDIA_SIDE_MAX. */
CV_MUST_CHECK int cv_jpeg_read(const void *data, size_t size, int area_max,
                               struct cv_jpeg_picture *ret_picture, struct cv_error *error);

/* ---- renditions ------------------------------------------------------------------------------ */

enum {
    CV_LADDER_RUNGS_MAX = 8,
    CV_LADDER_NAME_SIZE = 16, /* "16384x16384", NUL included */
};

/* Whether there is a preset of this short side: 2160, 1440, 1080, 720, 480, 360, 240. */
bool cv_ladder_is_rung(int short_side);

enum cv_segment_format {
    CV_SEGMENT_TS,  /* MPEG-TS: segment_….ts */
    CV_SEGMENT_MP4, /* fragmented MP4 (CMAF): init_….mp4, segment_….m4s */
};

/* Where a file belongs. */
enum cv_ladder_part {
    CV_LADDER_STREAM, /* playlists and what they name */
    CV_LADDER_THUMBS, /* poster.jpg, sprite_000.jpg …, thumbnails.vtt */
};

/* A file that is complete. All texts are borrowed for the call. */
struct cv_ladder_file {
    enum cv_ladder_part part;
    const char *name; /* as other files name it */
    const char *path; /* NULL: it was told of by a chunk */
    const char *content_type;
    bool provisional; /* a playlist that grows: told of again, and at last in full */
};

/* Told of every file as soon as it is complete, in an order in which they may be published: nothing
 * names a file that was not told of before; index.m3u8 comes last, but for provisional ones. Called on the thread that calls
 * the ladder, from within cv_ladder_frame, cv_ladder_sound and cv_ladder_finish; a failure is passed
 * up. */
typedef int (*cv_ladder_finished)(void *opaque, const struct cv_ladder_file *file,
                                  struct cv_error *error);

/* A stretch of a video that is encoded on its own: the pictures with from_us <= time < until_us.
 * Everything in it is as it would be in the whole; the sound is left to who joins. */
struct cv_ladder_chunk {
    int number;
    int64_t from_us;  /* a multiple of CV_LADDER_CHUNK_US */
    int64_t until_us; /* likewise; INT64_MAX: the end */
};

enum { CV_LADDER_CHUNK_US = 4 * 1000 * 1000 }; /* where segments begin */

struct cv_ladder_params {
    const char *directory;              /* an existing one, for all files */
    const struct cv_media_info *source; /* borrowed until the ladder is freed */
    int threads;                        /* for encoding, all renditions together; 0 = 1 */
    const int *short_sides;             /* presets (cv_ladder_is_rung); NULL: 1080, 720, 480, 360 */
    size_t short_side_count;
    enum cv_segment_format format;
    bool progressive; /* provisional playlists of the smallest rendition, from its first segment */
    const struct cv_ladder_chunk *chunk; /* NULL: the whole */
    bool joins;                          /* made of chunks: cv_ladder_join and sound, no frames */
    cv_ladder_finished finished;
    void *opaque;
};

struct cv_rendition {
    char name[CV_LADDER_NAME_SIZE]; /* NAME.m3u8 */
    int width, height;
    int64_t frames; /* shown; repeated ones included */
    int segments;
    int64_t bandwidth, average_bandwidth; /* bits per second: peak and mean, measured, no sound */
    char codec[32];                       /* RFC 6381 */
};

struct cv_ladder_summary {
    struct cv_rendition renditions[CV_LADDER_RUNGS_MAX]; /* largest first */
    size_t count;
    int64_t duration_us;
    bool sound;
    int sprite_tiles;
};

/* HLS out of one decoding: H.264 (High, 4:2:0, libx264) in several sizes, stereo AAC at 48 kHz as a
 * group of its own, playlists of key frames, a poster, sheets of small pictures with their WebVTT.
 *
 * Time 0 of the playlists is time 0 of the presentation; the first picture stands from there on.
 * Every rendition shows the same frames at the source's own times, exact to 1/90000 s, at most 60 a
 * second in the long run; key frames every two seconds by time, the same ones everywhere. A picture
 * that stands long is shown again at key times. Pixels are square, lines progressive, colours of
 * ordinary range. Without threads to spare (1) all is done within the calls; else each rendition has
 * a thread, and a few frames wait between them. */
struct cv_ladder;
CV_MUST_CHECK int cv_ladder_new(const struct cv_ladder_params *params,
                                struct cv_ladder **ret_ladder, struct cv_error *error);
void cv_ladder_free(struct cv_ladder *ladder);
CV_DEFINE_CLEANUP(struct cv_ladder *, cv_ladder_free)

/* A chunk's frame that lies behind its end: nothing more is needed. */
enum cv_ladder_outcome { CV_LADDER_TAKEN = 0, CV_LADDER_FULL = 1 };

/* Frames and sound each in presentation order. The picture is referred to, not copied. A chunk wants
 * at least one frame from before its beginning. */
CV_MUST_CHECK int cv_ladder_frame(struct cv_ladder *ladder, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_ladder_sound(struct cv_ladder *ladder, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Ends a chunk. *ret_text (free() it) is what cv_ladder_join wants to know of it. */
CV_MUST_CHECK int cv_ladder_finish_chunk(struct cv_ladder *ladder, char **ret_text,
                                         struct cv_error *error);

/* Takes the next chunk's text in; its files are told of without a path. Text that does not fit is
 * CV_ERROR_INVALID_PAYLOAD. */
CV_MUST_CHECK int cv_ladder_join(struct cv_ladder *ladder, const char *text,
                                 struct cv_error *error);

/* Of a ladder that joins: the chunk whose chunk_NNNNN.jpg is the best poster; -1: none. */
int cv_ladder_poster_chunk(const struct cv_ladder *ladder);

/* Ends picture and sound together, where the longer of the two ends, and completes the files; but
 * for the poster of a ladder that joins. */
CV_MUST_CHECK int cv_ladder_finish(struct cv_ladder *ladder, struct cv_ladder_summary *ret_summary,
                                   struct cv_error *error);

/* ---- encoding -------------------------------------------------------------------------------- */

enum cv_output_kind {
    CV_OUTPUT_MP4,  /* H.264 and AAC, index in front */
    CV_OUTPUT_WEBM, /* VP9 and Opus; times to the millisecond, which is what WebM counts in */
    CV_OUTPUT_GIF,  /* 256 colours a picture, silent; times to the hundredth of a second */
};

struct cv_output_params {
    enum cv_output_kind kind;
    const char *path;                   /* the file */
    const struct cv_media_info *source; /* borrowed until the output is freed */
    int threads;                        /* 0 = 1 */
    int max_side;                       /* longest side in pixels; 0 = that of the source */
    int max_frame_rate;                 /* frames per second in the long run; 0 = all frames */
};

struct cv_output_summary {
    int width, height;
    int64_t frames;      /* shown; repeated ones included */
    int64_t duration_us; /* of the output */
    bool sound;
};

/* Encodes one file: H.264 (High, 4:2:0, libx264) and stereo AAC at 48 kHz, or what the kind says;
 * sound when the source has any. Time 0 is the first frame, and the sound is cut to the sample at
 * both ends. Even sizes, never enlarged; times are those of the frames, exact to the source's tick
 * in MP4. */
struct cv_output;
CV_MUST_CHECK int cv_output_new(const struct cv_output_params *params,
                                struct cv_output **ret_output, struct cv_error *error);
void cv_output_free(struct cv_output *output);
CV_DEFINE_CLEANUP(struct cv_output *, cv_output_free)

/* Frames and sound each in presentation order, interleaved as a decoder hands them out. An MP4
 * starts with its first frame: sound before that is left out. */
CV_MUST_CHECK int cv_output_frame(struct cv_output *output, const struct cv_video_frame *frame,
                                  struct cv_error *error);
CV_MUST_CHECK int cv_output_sound(struct cv_output *output, const struct cv_sound *sound,
                                  struct cv_error *error);

/* Ends picture and sound together: where the longer of the two ends, in an MP4 at the end of the
 * last frame (but the last frame is held for sound that goes on much longer), and never after
 * `end_us` on the source's presentation axis (INT64_MAX: no bound). Completes the files. */
CV_MUST_CHECK int cv_output_finish(struct cv_output *output, int64_t end_us,
                                   struct cv_output_summary *ret_summary, struct cv_error *error);

/* ---- cutting without encoding ---------------------------------------------------------------- */

enum { CV_CUT_REASON_SIZE = 192 };

/* Named outcomes of cv_cut. */
enum cv_cut_outcome {
    CV_CUT_DONE = 0,
    CV_CUT_REFUSED = 1, /* this source or range has to be encoded; `reason` says why */
};

struct cv_cut_params {
    int64_t start_us, end_us; /* pictures with start_us <= time < end_us */
    int64_t late_us;          /* refused when the first of them comes this long after start_us */
    int max_side, max_height; /* pixels; larger pictures are refused, 0: none are */
    const char *path;         /* the MP4 to write */
    bool sound;
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends with CV_ERROR_CANCELED */
    /* Told how far the cut is, 0..1; may be NULL. */
    void (*progress)(void *opaque, double fraction);
    void *opaque;
};

struct cv_cut_report {
    int64_t first_us, last_us; /* of the source's pictures that went in */
    int64_t source_end_us;     /* where the source ends, INT64_MAX when the cut ended before it */
    int64_t copied, encoded;   /* pictures */
    struct cv_output_summary summary;
    char reason[CV_CUT_REASON_SIZE];
};

/* Cuts a stretch out of an H.264 video: pictures are copied bit by bit, but for those between the
 * start and the next key frame, and for the few that are reordered over the end; these are encoded
 * (libx264, CRF 18). The result is an MP4 as CV_OUTPUT_MP4 makes it, with the rotation signalled
 * instead of applied; sound is encoded. Only the container's index and the range are read, from the
 * key frame before it on.
 *
 * Nothing is taken on trust: a group of pictures counts as closed when it starts with an IDR picture
 * and no time of it reaches into a neighbour; other parameter sets within the range, interlacing,
 * pictures hidden by an edit list, damage, high dynamic range, mirrored pictures and everything but
 * 4:2:0 of 8 bits are refused. The file is read back and decoded before it counts: number, times
 * and order of the pictures, what the first and the last show, the sound's length. A refusal may
 * leave a useless file. Errors as for cv_decoder_open; *ret_report is written for both outcomes. */
CV_MUST_CHECK int cv_cut(const struct cv_byte_source *source, const struct cv_cut_params *params,
                         struct cv_cut_report *ret_report, struct cv_error *error);
