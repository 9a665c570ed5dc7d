/* A container opened over a byte source: which streams there are, when the presentation starts,
 * packets one by one.
 *
 * Nothing but the byte source is ever opened: containers that name other files (playlists, concat
 * lists) are not on the list of formats, and opening anything else is refused. */
#pragma once

#include "common/media/info.h"
#include "common/media/timeline.h"

#include <libavformat/avformat.h>

enum {
    CV_INPUT_AHEAD_MAX = 64,   /* packets that are read to judge the times of the one before them */
    CV_SOURCE_RATE_MIN = 2000, /* samples a second; sound of fewer would grow to hours of it */
};

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
    int64_t zero_us; /* the container's time of the presentation's start */
    struct cv_timeline timeline;
    AVPacket *ahead[CV_INPUT_AHEAD_MAX]; /* the next packets, in file order */
    size_t ahead_count, ahead_bytes;
    bool doubted; /* a time stamp was suspicious */
    bool ended;
    bool last_is_corrupt; /* the packet read last: libavformat had not all of its bytes */
    int64_t read_end_us;  /* the latest end of a packet that was read */
    bool cut_off;         /* the file ends before what it announces */
    int64_t packet_bytes; /* of all packets so far */
    int64_t seek_bytes;   /* of those since the last seek */
};

/* Errors as for cv_decoder_open. */
CV_MUST_CHECK int cv_input_open(const struct cv_byte_source *source, struct cv_cancel *cancel,
                                struct cv_input **ret_input, struct cv_error *error);
void cv_input_close(struct cv_input *input);
CV_DEFINE_CLEANUP(struct cv_input *, cv_input_close)

enum cv_input_outcome { CV_INPUT_PACKET = 0, CV_INPUT_END = 1 };

/* The next packet of the chosen streams in file order. Damaged stretches are passed over. Times that
 * are not believed (timeline.h) are taken away or moved. */
CV_MUST_CHECK int cv_input_read(struct cv_input *input, AVPacket *packet, struct cv_error *error);

/* Goes to the last key frame at or before `time_us`, to the beginning when the container cannot
 * seek. */
CV_MUST_CHECK int cv_input_seek(struct cv_input *input, int64_t time_us, struct cv_error *error);

/* The track that a stream is; -1: none. */
int cv_input_track(const struct cv_input *input, const AVStream *stream);

/* The part of the file, 0..1, that the packets read since it was opened make up. */
double cv_input_consumed(const struct cv_input *input);

/* Notes where a packet that was read ends. */
void cv_input_note_end(struct cv_input *input, const AVPacket *packet);

/* Whether the packets noted so far end before what the file announces. */
bool cv_input_ends_early(const struct cv_input *input);

/* A stream's timestamp on the presentation's axis; AV_NOPTS_VALUE stays as it is. */
int64_t cv_input_time_us(const struct cv_input *input, const AVStream *stream, int64_t timestamp);
