/* The payload of clip_generate. */
#pragma once

#include "common/worker/worker.h"

#include "workers/clip_generate/covers.h"

enum {
    CLIP_QUOTE_LINES_MAX = 4,
    CLIP_PARTS_MAX = 100, /* of a reel */
};

enum clip_mode {
    CLIP_SMART,  /* copied where the source allows it, encoded where it does not */
    CLIP_ENCODE, /* encoded, every picture */
};

enum clip_format {
    CLIP_MP4,
    CLIP_WEBM,
    CLIP_GIF,
    CLIP_JPG, /* a still picture: the one shown at t_start */
};

/* A part of the upright picture, pixels. */
struct clip_box {
    int x, y, width, height; /* width 0: all of it */
};

struct clip_request {
    const char *video_id, *clip_id, *original; /* borrowed from the payload */
    int64_t t_start_ms, t_end_ms, padding_ms;
    enum clip_mode mode;
    enum clip_format format;
    int max_height; /* pixels; 0: as it is */
    bool mute;
    struct clip_box crop;
    struct clip_covers covers;
    /* What is written below a still picture, or on the card before a part: a list of texts; NULL: nothing. */
    const json_t *quote;
    const json_t *parts; /* of a reel: payloads of clips, cut one behind the other; NULL: no reel */
    char *key;           /* of the clip's object */
};

void clip_request_deinit(struct clip_request *request);
CV_DEFINE_CLEANUP_ADDRESS(struct clip_request, clip_request_deinit)

/* Reads and checks a payload. CV_ERROR_INVALID_PAYLOAD names the member with an impossible value.
 */
CV_MUST_CHECK int clip_request_read(const json_t *payload, struct clip_request *request,
                                    struct cv_error *error);

/* The range with its padding, limited to the video's start. */
int64_t clip_request_start_us(const struct clip_request *request);
int64_t clip_request_end_us(const struct clip_request *request);
