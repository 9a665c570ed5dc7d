/* HLS media playlists (RFC 8216). Private to common/media. */
#pragma once

#include "common/base/base.h"

/* Ticks of 90 kHz, as in MPEG-TS. */
enum { CV_PLAYLIST_CLOCK = 90000 };

struct cv_playlist {
    int64_t *durations; /* of each segment, ticks */
    size_t count, capacity;
};

void cv_playlist_deinit(struct cv_playlist *playlist);

CV_MUST_CHECK int cv_playlist_add(struct cv_playlist *playlist, int64_t ticks,
                                  struct cv_error *error);

/* The text of a complete playlist of segment_00000.ts, segment_00001.ts, …; free() it. */
CV_MUST_CHECK int cv_playlist_text(const struct cv_playlist *playlist, char **ret_text,
                                   struct cv_error *error);
