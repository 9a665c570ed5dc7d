/* Clips, cut by clip_generate jobs. */
#pragma once

#include "cli/commands/tell.h"

#define CLI_CLIP_FORMATS "mp4 webm gif jpg"

struct cli_clip {
    const char *video_id;
    const char *name;   /* the video's name, for people */
    int64_t t_start;    /* ms */
    int64_t t_end;      /* ignored if format is "jpg" */
    int64_t duration;   /* of the video, ms; 0: not known yet */
    int64_t padding_ms; /* added on both sides */
    const char *mode;   /* "smart", "encode"; NULL: the default, as below */
    const char *format; /* "mp4", "webm", "gif", "jpg" */
    int64_t max_height; /* pixels; 0: as it is */
    bool mute;
    struct {
        int x, y, width, height; /* pixels of the upright picture; width 0: all of it */
    } crop;
};

/* Names a clip's file: "feed.mp4", 3.4 s to 5.9 s gives "feed_0m03.400s-0m05.900s.mp4", or an
 * earlier end if the video ends before. free() it. */
CV_MUST_CHECK int cli_clip_file(const struct cli_clip *clip, char **ret_path,
                                struct cv_error *error);

enum { CLI_CLIP_PADDING_MS = 2000 }; /* default of padding_ms */

/* Has a clip cut and waits for it; *ret_key is its object's key (free() it). The same request again
 * gives the same object at no cost. A local installation's worker is started if it does not run. */
CV_MUST_CHECK int cli_clip_make(struct cli_call *call, struct cli_workers *workers,
                                const struct cli_clip *clip, char **ret_key,
                                struct cv_error *error);
