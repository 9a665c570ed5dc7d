/* Videos on their way in: known by their bytes, stored, enqueued. */
#pragma once

#include "cli/commands/tell.h"

enum cli_video_state { CLI_VIDEO_NEW, CLI_VIDEO_RESUMED, CLI_VIDEO_KNOWN, CLI_VIDEO_AGAIN };

struct cli_video {
    char id[CLI_UUID_SIZE];
    char *name;                 /* the file's, for people */
    char run_id[CLI_UUID_SIZE]; /* CLI_VIDEO_AGAIN: of the run that reads it; else "" */
    enum cli_video_state state;
    bool is_own; /* named on this command line; else left by an earlier run */
};

struct cli_video_list {
    struct cli_video *videos;
    size_t count;
};

void cli_video_list_deinit(struct cli_video_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_video_list, cli_video_list_deinit)

/* Adds a video that is on its way; one that the list has already is not added twice. */
CV_MUST_CHECK int cli_video_list_add(struct cli_video_list *list, const struct cli_video *video,
                                     struct cv_error *error);

/* What is to be made of videos. */
struct cli_wishes {
    json_t *options; /* members for the payloads of the first jobs, handed on to later stages */
    bool text_only;  /* no playback; it is made when the video is brought in again without this */
};

/* Brings the file at `path` in, called `name`, or finds that it is known; one that is known with other languages than
 * those of the wishes is read again. A failed one is tried again. Each step can be repeated: a run that is killed
 * in between is completed by the next. */
CV_MUST_CHECK int cli_ingest(struct cli_session *session, const char *path, const char *name,
                             const struct cli_wishes *wishes, struct cv_cancel *cancel,
                             struct cli_video_list *list, struct cv_error *error);

/* Makes jobs that a dead run left (leases, retries put off) claimable at once; *ret_count is how many videos they belong
 * to that are not in the list. For an installation whose one `run` we are. */
CV_MUST_CHECK int cli_resume(struct cli_session *session, const struct cli_video_list *list,
                             size_t *ret_count, struct cv_error *error);

/* Starts a run that reads `video` again, with `languages` or, when that is NULL, those of the last
 * time, and notes it in `video` (CLI_VIDEO_AGAIN). CV_ERROR_CONFLICT when it is being worked on;
 * CV_ERROR_OBJECT_NOT_FOUND when nothing is kept that could be read. */
CV_MUST_CHECK int cli_reindex_start(struct cli_session *session, const json_t *languages,
                                    struct cli_video *video, struct cv_error *error);
