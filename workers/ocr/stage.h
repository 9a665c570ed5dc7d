/* The "ocr" stage: reads the kept frames of a video and turns what is written on them into rows of
 * `segments`.
 *
 * common/screen   lines of text in a picture, their ink, and which parts of the screen scroll
 * codes           QR and bar codes: where they may be, what they say, when each was visible
 * emoji           emoji of a line: found, compared, read
 * pictures        a line cut out of a frame, and kept in the store
 * reading         text of a line
 * tracks          lines followed from frame to frame; which readings are text; when each was visible
 * payload.c       the payload, checked
 * run.c           the stage process
 * read_packs.c    lines that were kept in the store, read again
 * read_subtitles.c  pictures of subtitles
 * commit.c        the supervisor's side
 *
 * A payload names lists of frames or frames themselves ("frame_paths"), or packs of lines
 * ("line_paths") that an earlier run of the stage has kept. The text of the latter waits in `pending_readings`
 * until segment_index puts it in the place of the text that is there.
 */
#pragma once

#include "common/worker/worker.h"

#include "workers/ocr/tracks/tracks.h"

enum {
    OCR_FRAMES_MAX = 500000,      /* of one video: 14 hours at ten a second */
    OCR_PACKS_MAX = 10000,        /* parts of one run */
    OCR_MOTIONS_MAX = 20000000,   /* source frames with a shift, of all kept frames */
    OCR_TIME_MAX_MS = 2000000000, /* 23 days; `segments` holds 32 bits */
};

/* The name under which a result's "unread" counts lines for which the budget of reading had no room. */
#define OCR_TRUNCATED "truncated"

/* The name under which it counts subtitles whose pictures could not be read; "pictures_hin" those in a language without a
 * model. */
#define OCR_PICTURES "pictures"

/* A payload, checked. Texts are borrowed from it. */
struct ocr_payload {
    const char *video_id;
    const char **frame_keys; /* in order of time */
    struct ocr_timing *timings;
    size_t frame_count;
    int64_t duration_ms; /* of the whole video, of which these frames may be a part; 0: unknown */
    const char **line_keys; /* of packs to read again; then there are no frames */
    size_t line_key_count;
    const char *languages[OCR_LANGUAGES_MAX];
    size_t language_count; /* 0: those of ocr_defaults_init */
    double min_confidence; /* of a line to be text at all: accept.h */
    bool with_evidence;    /* "evidence": true: tells what it does and why, and writes no object */
};

/* A payload whose "frame_paths" are lists (keys that end in ".json") as one that has "frame_paths", "frames", "subtitles"
 * and "duration_ms" of all of them; any other payload as it is. json_decref() it. CV_ERROR_OBJECT_NOT_FOUND: a list is
 * missing; CV_ERROR_INVALID_PAYLOAD: it is no list of frames. */
CV_MUST_CHECK int ocr_frame_list_expand(struct cv_stage_context *context, const json_t *payload,
                                        json_t **ret_payload, struct cv_error *error);

/* CV_ERROR_INVALID_PAYLOAD names the member. Free with ocr_payload_deinit also after a failure. */
CV_MUST_CHECK int ocr_payload_read(const json_t *json, struct ocr_payload *payload,
                                   struct cv_error *error);
void ocr_payload_deinit(struct ocr_payload *payload);
CV_DEFINE_CLEANUP_ADDRESS(struct ocr_payload, ocr_payload_deinit)

/* Whether the text that a video has is to stay until the new one is whole. */
bool ocr_payload_is_again(const json_t *json);

/* Reads the payload's packs; the result is as that of ocr_session_finish. CV_OCR_OTHER_MODELS: it has to be done again,
 * with the models that the engine has now. */
CV_MUST_CHECK int ocr_read_packs(struct cv_stage_context *context,
                                 const struct ocr_payload *payload, struct ocr_engine *engine,
                                 json_t **ret_result, struct cv_error *error);

/* Adds lines that were not read to a result's "unread". */
CV_MUST_CHECK int ocr_add_unread(json_t *result, const char *name, json_int_t lines,
                                 struct cv_error *error);

/* Reads the pictures of subtitles that `json`, a payload of ocr_frame_list_expand, has: each once, by the models of the language
 * that its track names, else by those that the engine has. Adds "subtitles", the lines, to the result, and what was
 * not read to its "unread". The engine has other models afterwards. */
CV_MUST_CHECK int ocr_read_subtitles(struct cv_stage_context *context, const json_t *json,
                                     const struct ocr_payload *payload, struct ocr_engine *engine,
                                     json_t *result, struct cv_error *error);

/* See struct cv_stage. */
CV_MUST_CHECK int ocr_run(struct cv_stage_context *context, const json_t *payload,
                          json_t **ret_result, struct cv_error *error);
CV_MUST_CHECK int ocr_commit(struct cv_db *db, const struct cv_job *job, const json_t *result,
                             struct cv_error *error);
