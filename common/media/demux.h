/* Reads a container through a byte source: chooses its streams, finds the start of the
 * presentation, and returns packets one by one.
 *
 * Nothing but the byte source is ever opened: formats that name other files (playlists, concat
 * lists) are not in the list of formats, and a request of libavformat to open anything else is
 * refused. */
#pragma once

#include "common/media/info.h"
#include "common/media/subtitles.h"
#include "common/media/timeline.h"

#include <libavformat/avformat.h>

enum {
    CV_INPUT_AHEAD_MAX =
        64, /* packets that are read ahead to judge the times of the first of them */
    CV_SOURCE_RATE_MIN = 2000, /* samples per second; a lower rate makes hours of few bytes */
};

/* The operations that bring the coded picture upright. */
struct cv_orientation {
    bool transpose; /* rows become columns, first */
    bool flip_x;    /* then mirrored left to right */
    bool flip_y;    /* then mirrored top to bottom */
};

struct cv_input {
    struct cv_byte_source source;
    struct cv_cancel *cancel;
    int64_t position;
    int64_t read_end; /* end of the newest read; reads that continue there become larger */
    int read_size;
    struct cv_error read_error; /* the byte source's error if read_failed */
    bool read_failed;
    AVIOContext *io;
    AVFormatContext *format;
    AVStream *video;
    AVStream *audio;                       /* NULL: no sound that can be decoded */
    AVStream *tracks[CV_MEDIA_TRACKS_MAX]; /* in the order of info; the first is `audio` */
    struct cv_subtitle_tracks *subtitles;  /* read on the way; NULL: none */
    struct cv_orientation orientation;
    struct cv_media_info info;
    int64_t zero_us; /* the start of the presentation, as the container's time */
    struct cv_timeline timeline;
    AVPacket *ahead[CV_INPUT_AHEAD_MAX]; /* the next packets, in file order */
    size_t ahead_count, ahead_bytes;
    bool knows_movie;    /* the movie header's length was asked for */
    int64_t left_out_us; /* the earliest picture behind all shown ones, as far as was read, that an
                           * edit list leaves out; INT64_MAX: none */
    bool ended;
    bool last_is_corrupt; /* libavformat could not read all bytes of the newest packet */
    int64_t read_end_us;  /* the latest end of a packet that was read */
    bool cut_off;         /* the file is shorter than it announces */
    int64_t packet_bytes; /* of all packets so far */
    int64_t seek_bytes;   /* of the packets since the last seek */
};

/* Errors as for cv_decoder_open. */
CV_MUST_CHECK int cv_input_open(const struct cv_byte_source *source, struct cv_cancel *cancel,
                                struct cv_input **ret_input, struct cv_error *error);
void cv_input_close(struct cv_input *input);
CV_DEFINE_CLEANUP(struct cv_input *, cv_input_close)

enum cv_input_outcome { CV_INPUT_PACKET = 0, CV_INPUT_END = 1 };

/* Returns the next packet of the chosen streams in file order. Damaged parts of the file are
 * skipped. Times that are not plausible (timeline.h) are removed or shifted. */
CV_MUST_CHECK int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error);

/* Seeks to the last key frame at or before `time_us`, or to the beginning if the container cannot
 * seek. */
CV_MUST_CHECK int cv_input_seek(struct cv_input *input, int64_t time_us, struct cv_error *error);

/* The index of a stream among the sound tracks; -1 if it is none of them. */
int cv_input_track(const struct cv_input *input, const AVStream *stream);

/* The bytes of all packets read since the file was opened, as a part of the file (0..1). */
double cv_input_consumed(const struct cv_input *input);

/* The end of a stream by the container's header; 0: unknown or not plausible. */
int64_t cv_input_claimed_end_us(const struct cv_input *input, const AVStream *stream);

/* Converts a stream's time stamp to the presentation's axis, µs; AV_NOPTS_VALUE stays as it is. */
int64_t cv_input_time_us(const struct cv_input *input, const AVStream *stream, int64_t timestamp);
