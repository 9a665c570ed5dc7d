/* A container opened over a byte source: which streams there are, when the presentation starts,
 * packets one by one. Private to common/media.
 *
 * Nothing but the byte source is ever opened: containers that name other files (playlists, concat
 * lists) are not on the list of formats, and opening anything else is refused. */
#pragma once

#include "common/media/media.h"

#include <libavformat/avformat.h>

/* How the coded picture is to be turned to stand upright. */
struct cv_orientation {
    bool transpose; /* rows become columns, first */
    bool flip_x;    /* then mirrored left to right */
    bool flip_y;    /* then mirrored top to bottom */
};

struct cv_input {
    struct cv_byte_source source;
    struct cv_cancel *cancel;
    int64_t position;
    int64_t read_end; /* behind the newest read; reads that go on there grow */
    int read_size;
    struct cv_error read_error; /* what the byte source said, while read_failed */
    bool read_failed;
    AVIOContext *io;
    AVFormatContext *format;
    AVStream *video;
    AVStream *audio;                       /* NULL: no sound that can be decoded */
    AVStream *tracks[CV_MEDIA_TRACKS_MAX]; /* as in info; the first is `audio` */
    struct cv_orientation orientation;
    struct cv_media_info info;
    int64_t zero_us;  /* the container's time of the presentation's start */
    int64_t shift_us; /* added after the container's clock has jumped */
    int64_t last_dts_us[1 + CV_MEDIA_TRACKS_MAX]; /* video, tracks; AV_NOPTS_VALUE: none yet */
};

/* Errors as for cv_decoder_open. */
CV_MUST_CHECK int cv_input_open(const struct cv_byte_source *source, struct cv_cancel *cancel,
                                struct cv_input **ret_input, struct cv_error *error);
void cv_input_close(struct cv_input *input);
CV_DEFINE_CLEANUP(struct cv_input *, cv_input_close)

enum cv_input_outcome { CV_INPUT_PACKET = 0, CV_INPUT_END = 1 };

/* The next packet of the chosen streams in file order. Damaged stretches are passed over. */
CV_MUST_CHECK int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error);

/* Goes to the last key frame at or before `time_us`, to the beginning when the container cannot
 * seek. */
CV_MUST_CHECK int cv_input_seek(struct cv_input *input, int64_t time_us, struct cv_error *error);

/* The track that a stream is; -1: none. */
int cv_input_track(const struct cv_input *input, const AVStream *stream);

/* A stream's timestamp on the presentation's axis; AV_NOPTS_VALUE stays as it is. */
int64_t cv_input_time_us(const struct cv_input *input, const AVStream *stream, int64_t timestamp);
