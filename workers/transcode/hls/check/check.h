/* Checks the objects that the transcode stage has stored: playlists against segments, and segments
 * against the bits in them. To find errors of the writer, it trusts nothing but the stored objects
 * and shares no code with it. */
#pragma once

#include "common/base/base.h"
#include "common/store/store.h"

/* Called for every error found: the object's name (without its prefix), and a description in one
 * line. Both are borrowed for the call. */
typedef void (*cv_hls_finding)(void *opaque, const char *where, const char *what);

struct cv_hls_summary {
    int renditions; /* renditions of pictures */
    int segments;   /* of pictures and sound */
    int key_frames; /* key frames of one rendition */
    int tiles;      /* small pictures of the seek bar */
    bool sound;
    double duration; /* seconds */
    int findings;
};

/* Reads all objects under videos/proxy/{video_id}/ and thumbs/{video_id}/ and checks:
 *
 * - every object named in a playlist or the WebVTT exists, and every object that exists is named;
 * - each segment begins where the durations before it end (1 ms), with a key frame that is shown
 *   first and not decoded before it is shown (players would shift the segment); decoding times
 *   increase; sound has no gap and ends with the pictures;
 * - all renditions show the same frames and have the same key frames, at most 10.5 s apart;
 * - playlists of key frames: each range is exactly one key frame, and none is missing;
 * - CODECS, RESOLUTION, FRAME-RATE, BANDWIDTH and AVERAGE-BANDWIDTH agree with the bits;
 * - the poster is JPEG (or WebP, as it was called poster.webp), the sheets are WebP; cues are
 *   continuous from 0 to the end and lie within their sheets.
 *
 * A missing index.m3u8 is a single finding. Fails only with errors of the store and with
 * CV_ERROR_CANCELED. Holds one segment in memory at a time. */
CV_MUST_CHECK int cv_hls_check(struct cv_store *store, const char *video_id,
                               struct cv_cancel *cancel, cv_hls_finding finding, void *opaque,
                               struct cv_hls_summary *ret_summary, struct cv_error *error);
