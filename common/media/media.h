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
};

/* ---- what a source is ------------------------------------------------------------------------ */

struct cv_media_info {
    int width, height; /* pixels of the upright picture */
    int coded_width, coded_height;
    int rotation; /* degrees clockwise that were applied: 0, 90, 180, 270 */
    bool mirrored;
    AVRational sample_aspect; /* of the upright picture; 1/1 when square or unknown */
    double frame_rate;        /* average, per second; 0 when unknown (still picture, one frame) */
    bool variable_frame_rate;
    int64_t duration_us; /* of the presentation; 0 when unknown */
    char container[32];
    char video_codec[32];
    char pixel_format[32];
    char audio_codec[32]; /* "" without sound */
    int audio_channels;
    int audio_sample_rate;
    int audio_streams;
    bool interlaced;
    bool high_dynamic_range;
};

/* ---- decoding -------------------------------------------------------------------------------- */

struct cv_decoder;

/* Named outcomes of cv_decoder_next. */
enum cv_decoder_outcome {
    CV_DECODER_FRAME = 0,
    CV_DECODER_END = 1,
};

struct cv_decoder_params {
    int threads;              /* 0 = 1 */
    struct cv_cancel *cancel; /* borrowed; an abort ends reads with CV_ERROR_CANCELED */
    bool key_frames_only;     /* decode and return key frames alone */
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

/* Goes to the last key frame at or before `time_us`; the next frame may lie before that time. */
CV_MUST_CHECK int cv_decoder_seek(struct cv_decoder *decoder, int64_t time_us,
                                  struct cv_error *error);

/* Frames that could not be decoded so far. */
int64_t cv_decoder_damaged_frames(const struct cv_decoder *decoder);

/* ---- pictures -------------------------------------------------------------------------------- */

/* 8-bit luma of a frame, full range (0 black … 255 white), `stride` bytes a row, in the caller's
 * buffer of at least stride × height bytes. Works for every pixel format. */
CV_MUST_CHECK int cv_picture_luma(const AVFrame *picture, uint8_t *luma, int stride,
                                  struct cv_error *error);

/* A JPEG (4:4:4, so that coloured text stays sharp) of the picture in fresh memory; free() it.
 * `quality` 1 (worst) … 100. `max_side` scales down to fit, 0 = as it is. */
CV_MUST_CHECK int cv_picture_jpeg(const AVFrame *picture, int quality, int max_side,
                                  void **ret_data, size_t *ret_size, struct cv_error *error);
