/* Decodes a video file: upright frames and sound, with times on the presentation's axis. */
#pragma once

#include "common/media/info.h"
#include "common/media/subtitles.h"

#include <libavcodec/codec_par.h>
#include <libavcodec/packet.h>
#include <libavutil/frame.h>

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
    bool sound;               /* decode the best audio stream too, for cv_decoder_next_any */
    bool all_sound;           /* with `sound`: every track */
    bool sound_alone;         /* with `sound`: pictures are not decoded */
    bool sound_times; /* without `sound`: reads where it ends, for cv_decoder_sound_end_us */
    /* Borrowed: gets the lines of the text tracks whose packets are read, unsorted
     * (cv_subtitles_finish). NULL: these tracks are not read. */
    struct cv_subtitle_list *subtitles;
    struct cv_subtitle_pictures
        *subtitle_pictures; /* borrowed; of the other tracks; NULL: not read */
    bool whole;  /* each field of an interlaced frame becomes a picture (bwdif), before rotation */
    bool torn;   /* pictures that can be decoded in part are given, too, as players do */
    bool square; /* frames are scaled to square pixels (cv_shown_size), after rotation */
};

/* Opens the best video stream. A file that is not a video, has no pictures, or cannot be decoded by
 * this build fails with CV_ERROR_NOT_A_VIDEO, CV_ERROR_UNSUPPORTED_MEDIA (the message names the
 * codec), CV_ERROR_DECODE or CV_ERROR_LIMIT_EXCEEDED. Borrows what `source` points to. */
CV_MUST_CHECK int cv_decoder_open(const struct cv_byte_source *source,
                                  const struct cv_decoder_params *params,
                                  struct cv_decoder **ret_decoder, struct cv_error *error);
void cv_decoder_close(struct cv_decoder *decoder);
CV_DEFINE_CLEANUP(struct cv_decoder *, cv_decoder_close)

/* Borrowed. */
const struct cv_media_info *cv_decoder_info(const struct cv_decoder *decoder);

/* The parameters of the video stream as the container describes it; borrowed. */
const AVCodecParameters *cv_decoder_codec(const struct cv_decoder *decoder);

/* Calls `watch` with every coded picture before it is decoded, in decoding order; `pts_us` is
 * AV_NOPTS_VALUE if the time is unknown. The packet is borrowed for the call. If `watch` fails, the
 * reading function fails with the same error. */
typedef int (*cv_decoder_watch)(void *opaque, const AVPacket *packet, int64_t pts_us,
                                struct cv_error *error);
void cv_decoder_set_watch(struct cv_decoder *decoder, cv_decoder_watch watch, void *opaque);

/* One frame of the source, upright. It has the source's pixel format unless it had to be rotated or
 * scaled. */
struct cv_video_frame {
    const AVFrame *picture; /* borrowed until the next call; planes may be read, not written */
    int64_t pts_us;         /* strictly increasing from frame to frame */
    int64_t duration_us;    /* time until the next frame, as far as the source says; at least 1 */
    bool key_frame;
};

/* Returns the next frame in presentation order. Damaged frames are skipped
 * (but see `torn`). If no frame of the
 * source can be decoded, CV_ERROR_DECODE is returned at its end. */
CV_MUST_CHECK int cv_decoder_next(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                  struct cv_error *error);

/* A block of decoded sound, in the source's own rate, format and channels. */
struct cv_sound {
    const AVFrame *samples; /* borrowed until the next call */
    int64_t pts_us;         /* of the first sample; AV_NOPTS_VALUE: continues the block before */
    int track;              /* index into cv_media_info.tracks */
};

/* Leaves out pictures that no other picture refers to, as far as the codec tells, or no longer: from the next
 * packet on, so that a few more come. They are half of the pictures and of the CPU time of many
 * videos. The frame before a picture that is left out lasts longer; the other frames are the same.
 * Interlaced video is decoded in whole. */
void cv_decoder_leave_out(struct cv_decoder *decoder, bool unreferenced);

/* Returns the next frame (CV_DECODER_FRAME), the next block of sound (CV_DECODER_SOUND), or
 * CV_DECODER_END. Frames and sound each come in presentation order, interleaved as in the file.
 * Sound that cannot be decoded is skipped. */
CV_MUST_CHECK int cv_decoder_next_any(struct cv_decoder *decoder, struct cv_video_frame *ret_frame,
                                      struct cv_sound *ret_sound, struct cv_error *error);

/* Seeks to a key frame at or before `time_us`, or to the first key frame if there is none. The next
 * frame may be much earlier than `time_us`. Sound starts at least one packet before `time_us`, with
 * `sound_alone` as far as the index of the pictures is right. */
CV_MUST_CHECK int cv_decoder_seek(struct cv_decoder *decoder, int64_t time_us,
                                  struct cv_error *error);

/* Finds the end of the last picture from the packets at the end of the file, independently of the
 * header; 0 if no packet has a time. Decodes nothing, and reads only the packets behind the last
 * key frame that the index knows. Afterwards the next frame is the first one again. */
CV_MUST_CHECK int cv_decoder_find_end(struct cv_decoder *decoder, int64_t *ret_end_us,
                                      struct cv_error *error);

/* The end of the longest sound track, by the packets read so far; if none were read, by the header;
 * 0: unknown, or there is no sound. Needs `sound` or `sound_times`. */
int64_t cv_decoder_sound_end_us(const struct cv_decoder *decoder);

/* The part of the file's bytes that has been read since it was opened, 0..1. It does not depend on
 * time stamps. */
double cv_decoder_consumed(const struct cv_decoder *decoder);

/* The number of frames so far that could not be decoded, or only in part. */
int64_t cv_decoder_damaged_frames(const struct cv_decoder *decoder);

/* Whether the file is shorter than its header announces, as after an interrupted download. Known
 * when everything has been read. A file that announces no length and ends between two packets is
 * not noticed. */
bool cv_decoder_is_cut_off(const struct cv_decoder *decoder);
