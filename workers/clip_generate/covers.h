/* What a clip is not to show: opaque boxes that follow their texts. */
#pragma once

#include "common/media/media.h"
#include "common/store/store.h"
#include "common/text/text.h"

#include "workers/clip_generate/follow.h"

/* A box with the path of its upper left corner, in pixels of the upright original. */
struct clip_cover {
    int64_t from_ms, to_ms;           /* in a picture of this time it is drawn, both included */
    int64_t seen_from_ms, seen_to_ms; /* when the line was read */
    int width, height;
    struct cv_path_point *points; /* in order of time; straight between them */
    size_t count;                 /* at least 1 */
    bool moves_sideways;

    /* The picture of the whole line in a pack of the store, and where the box is from its corner. */
    char *pack;
    int64_t offset, bytes;
    int x, y;
    struct clip_look look;
    struct clip_place places[CLIP_PLACES_MAX]; /* of the line, in the last picture with any */
    size_t place_count;
    bool is_found;         /* in the last picture */
    int64_t look_again_ms; /* in the whole picture: not before */
};

struct clip_covers {
    bool wanted; /* the clip is redacted, even if nothing has to be covered */
    struct clip_cover *items;
    size_t count;
};

void clip_covers_deinit(struct clip_covers *covers);

/* Reads "covers" of a payload, as SQL's plan_redaction() makes them. A payload with "redact" and
 * without "covers" is refused, because it would show everything. CV_ERROR_INVALID_PAYLOAD. */
CV_MUST_CHECK int clip_covers_read(const json_t *payload, struct clip_covers *ret_covers,
                                   struct cv_error *error);

/* Reads the pictures of the lines. One that is no longer there is left out: its track alone says
 * then where the line is. */
CV_MUST_CHECK int clip_covers_read_looks(struct clip_covers *covers, struct cv_store *store,
                                         struct cv_error *error);

/* Covers the texts in a picture of the time `pts_us`, and removes what it has as text (captions).
 * *picture is replaced by a copy if its memory is shared. Does nothing if the clip is not redacted.
 * CV_ERROR_UNSUPPORTED_MEDIA: pictures of this form cannot be drawn on. */
CV_MUST_CHECK int clip_covers_draw(struct clip_covers *covers, const struct cv_media_info *info,
                                   int64_t pts_us, AVFrame **picture, struct cv_error *error);
