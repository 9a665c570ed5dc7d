/* Checks what the transcode stage has left in the store: playlists against segments, segments
 * against the bits in them. It reads objects and believes none of what made them, so that it finds
 * mistakes of the writer; it shares no code with it.
 */
#pragma once

#include "common/base/base.h"
#include "common/store/store.h"

/* Told of everything that is wrong: the object's name (without its prefix), and one line. Both are
 * borrowed for the call. */
typedef void (*cv_hls_finding)(void *opaque, const char *where, const char *what);

struct cv_hls_summary {
    int renditions; /* of pictures */
    int segments;   /* of everything */
    int key_frames; /* of one rendition */
    int tiles;      /* small pictures for the seek bar */
    bool sound;
    double duration; /* seconds */
    int findings;
};

/* Reads everything under videos/proxy/{video_id}/ and thumbs/{video_id}/ and checks:
 *   - every object that a playlist or the WebVTT names is there, every one that is there is named;
 *   - segments begin where the durations before them end (1 ms), with a key frame that is shown
 *     first and decoded no earlier (players shift what is); decoding times grow; sound has no gap and ends with the pictures;
 *   - all renditions show the same frames and have the same key frames, at most ten seconds and a
 *     half apart;
 *   - playlists of key frames: each range is one key frame, and none is left out;
 *   - CODECS, RESOLUTION, FRAME-RATE, BANDWIDTH and AVERAGE-BANDWIDTH say what is in the bits;
 *   - the poster and the sheets are WebP; cues follow each other from 0 to the end and lie on their sheets.
 * A video without index.m3u8 is one finding. Failures are those of the store, and CV_ERROR_CANCELED.
 * Reads one segment at a time. */
CV_MUST_CHECK int cv_hls_check(struct cv_store *store, const char *video_id,
                               struct cv_cancel *cancel, cv_hls_finding finding, void *opaque,
                               struct cv_hls_summary *ret_summary, struct cv_error *error);
