/* A part of a video, as a player that may see nothing else gets it. */
#pragma once

#include "common/base/base.h"

/* From one time to another, ms of the video; zeros: all of it. */
struct media_part {
    int64_t from_ms, to_ms;
};

static inline bool media_part_is_set(const struct media_part *part)
{
    return part->to_ms > 0;
}

/* Bytes of an object, from `first` up to and without `end`. */
struct media_bytes {
    int64_t first, end;
};

/* Makes the playlist of a part of the same video: segments that overlap the part stay. Those before
 * it become gaps without a name (EXT-X-GAP), so that times stay as they are; those behind it are left
 * out. A playlist of playlists stays as it is. free() *ret_playlist. */
CV_MUST_CHECK int media_part_playlist(const struct media_part *part, const char *playlist,
                                      char **ret_playlist, struct cv_error *error);

/* Which bytes of the object `name` such a playlist refers to; false: none. The object of EXT-X-MAP, and
 * of a segment that is an object by itself: all. */
CV_MUST_CHECK bool media_part_bytes(const char *playlist, const char *name,
                                    struct media_bytes *ret_bytes);
