/* Whether the stored playback of a video is whole. */
#pragma once

#include "common/store/store.h"

/* Called for each fault: the object's name without its prefix, and what is wrong with it. Both are
 * borrowed for the call. */
typedef void (*cli_playback_fault)(void *opaque, const char *name, const char *what);

struct cli_playback {
    int playlists, objects; /* that were read; that they and the WebVTT name */
    double seconds;         /* of the first playlist of segments */
};

/* Reads the playlists, from index.m3u8 on, and the WebVTT of the seek bar: each must end, each object
 * that they name must exist and have the bytes that they name, and all playlists of segments must last
 * equally long. Reads no segment. Fails only with errors of the store. */
CV_MUST_CHECK int cli_playback_check(struct cv_store *store, const char *video_id,
                                     cli_playback_fault fault, void *opaque,
                                     struct cli_playback *ret_playback, struct cv_error *error);
