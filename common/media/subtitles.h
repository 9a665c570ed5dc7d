/* Lines of text tracks (SubRip, SSA/ASS, WebVTT, 3GPP timed text, CEA-608), of captions in the pictures' data (CEA-608)
 * and of files of subtitles, without their styling; and the pictures of tracks that have pictures in place of text. */
#pragma once

#include "common/base/base.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

enum {
    CV_SUBTITLE_LINES_MAX = 50000, /* two days of a line in 3.5 s */
    CV_SUBTITLE_BYTES_MAX = 2000,  /* of one line's text; what is behind is left out */
    CV_SUBTITLE_LANGUAGE_SIZE = 12,
    CV_SUBTITLE_TRACKS_MAX = 32, /* that are read; a film in thirty languages */
    CV_SUBTITLE_NAME_SIZE = 160,
    CV_SUBTITLE_FILE_MAX = 8 << 20, /* bytes; a film's have a tenth of one MiB */
};

struct cv_subtitle {
    int64_t start_ms, end_ms; /* of the presentation; the end is later than the start */
    char language[CV_SUBTITLE_LANGUAGE_SIZE]; /* "deu", as ISO 639-3 has it; "" if not known */
    char *text; /* valid UTF-8, not blank; in rows until the list is finished */
};

struct cv_subtitle_list {
    struct cv_subtitle *items;
    size_t count;
};

void cv_subtitle_list_deinit(struct cv_subtitle_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cv_subtitle_list, cv_subtitle_list_deinit)

/* Adds a line in plain text, which is copied: white space becomes one blank, line breaks begin rows, and what is behind
 * CV_SUBTITLE_BYTES_MAX is left out. A blank text, and a line behind CV_SUBTITLE_LINES_MAX, is not added. */
CV_MUST_CHECK int cv_subtitle_list_add(struct cv_subtitle_list *list,
                                       const struct cv_subtitle *said, struct cv_error *error);

/* Makes lines of the events, in the order of their times. Events, and rows of roll-up captions, that say the
 * same in one language without a pause between them become one line. */
CV_MUST_CHECK int cv_subtitles_finish(struct cv_subtitle_list *list, struct cv_error *error);

/* What tracks of pictures (PGS, DVB, VobSub, XSUB) show. */
struct cv_subtitle_pictures {
    /* Borrows a picture of dark letters on white (GRAY8), and gives it a name; the same for a picture that it had. Returns 0
     * or an error. */
    int (*keep)(void *opaque, const AVFrame *picture, int64_t start_ms,
                char name[CV_SUBTITLE_NAME_SIZE], struct cv_error *error);
    void *opaque;
    struct cv_subtitle_list list; /* the name of the picture in place of the text */
    int64_t lost;                 /* events whose pictures are damaged, too large or too many */
    int64_t pixels;               /* of their rects so far */
    /* What each track shows; line.text is NULL or the name. */
    struct cv_subtitle_shown {
        struct cv_subtitle line;
        char name[CV_SUBTITLE_NAME_SIZE];
    } shown[CV_SUBTITLE_TRACKS_MAX];
};

/* Ends what is still shown when the last packet was read, and finishes the list. What begins at `until_ms` or later and has
 * no end is left out: the part of the video that begins there reads it. */
CV_MUST_CHECK int cv_subtitle_pictures_finish(struct cv_subtitle_pictures *pictures,
                                              int64_t until_ms, struct cv_error *error);

/* The text tracks of a container, and its tracks of pictures. */
struct cv_subtitle_tracks;

/* Opens the decoders of all these tracks and has the container return their packets. Lines are added to
 * `list`, and pictures to `pictures`, both borrowed; NULL: tracks of pictures are not read. A track that cannot be opened is
 * left out. */
CV_MUST_CHECK int cv_subtitle_tracks_open(AVFormatContext *format, struct cv_subtitle_list *list,
                                          struct cv_subtitle_pictures *pictures,
                                          struct cv_subtitle_tracks **ret_tracks,
                                          struct cv_error *error);
void cv_subtitle_tracks_close(struct cv_subtitle_tracks *tracks);
CV_DEFINE_CLEANUP(struct cv_subtitle_tracks *, cv_subtitle_tracks_close)

/* Reads a packet if it is of such a track (*ret_is_one); a damaged packet has no lines. `zero_us` is
 * the start of the presentation, as the container's time. */
CV_MUST_CHECK int cv_subtitle_tracks_read(struct cv_subtitle_tracks *tracks, AVPacket *packet,
                                          int64_t zero_us, bool *ret_is_one,
                                          struct cv_error *error);

/* Reads the captions in the data of a picture, the pictures in the order of their times. `tracks` may be
 * NULL. Those of damaged data are left out. */
CV_MUST_CHECK int cv_subtitle_tracks_see(struct cv_subtitle_tracks *tracks, const AVFrame *picture,
                                         int64_t pts_us, struct cv_error *error);

/* Reads the captions that no other one has ended when the file is over. `tracks` may be NULL. */
CV_MUST_CHECK int cv_subtitle_tracks_end(struct cv_subtitle_tracks *tracks, int64_t zero_us,
                                         struct cv_error *error);

/* Reads a file of subtitles, which has a name like "talk.en.srt": SubRip, WebVTT or SSA/ASS, in UTF-8. A language in
 * its name ("en", "eng", "pt-BR") becomes that of the lines. Lines are added to `list` as for tracks.
 * CV_ERROR_UNSUPPORTED_MEDIA or CV_ERROR_LIMIT_EXCEEDED, and how to mend the file, if it is not such a file. */
CV_MUST_CHECK int cv_subtitle_file_read(const struct cv_byte_source *source, const char *name,
                                        struct cv_subtitle_list *list, struct cv_error *error);
