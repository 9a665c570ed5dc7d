/* Imports videos: identifies them by their bytes, stores them, and enqueues their jobs. */
#pragma once

#include "cli/commands/sources.h"

enum cli_video_state {
    CLI_VIDEO_NEW,
    CLI_VIDEO_RESUMED,
    CLI_VIDEO_KNOWN,
    CLI_VIDEO_AGAIN,    /* its kept lines are read again */
    CLI_VIDEO_PLAYBACK, /* it has its text, and gets playback */
};

struct cli_video {
    char id[CLI_UUID_SIZE];
    char *name;                 /* the file's name, for people */
    char run_id[CLI_UUID_SIZE]; /* CLI_VIDEO_AGAIN, CLI_VIDEO_PLAYBACK: their run; else "" */
    enum cli_video_state state;
};

struct cli_video_list {
    struct cli_video *videos;
    size_t count;
};

void cli_video_list_deinit(struct cli_video_list *list);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_video_list, cli_video_list_deinit)

/* Adds a video in progress, unless the list has it already. */
CV_MUST_CHECK int cli_video_list_add(struct cli_video_list *list, const struct cli_video *video,
                                     struct cv_error *error);

/* What to do with videos. */
struct cli_import_options {
    json_t *options; /* members for the payloads of the first jobs, passed on to later stages */
    bool text_only;  /* no playback; it is made if the video is imported again without this */
};

/* Imports the file at `path`, called `name`, unless it is known. A known video is read again if
 * the options name other languages, and tried again if it has failed. Every step can be repeated:
 * after a killed run the next one completes them. CLI_SOURCE_UNREADABLE if the file cannot be read. */
CV_MUST_CHECK int cli_ingest(struct cli_session *session, const char *path, const char *name,
                             const struct cli_import_options *import, struct cv_cancel *cancel,
                             struct cli_video_list *list, struct cv_error *error);

/* Makes jobs that a dead run left (leases, postponed retries) claimable at once; *ret_count is the
 * number of their videos that are not in the list. Only for the one `run` of an installation. */
CV_MUST_CHECK int cli_resume(struct cli_session *session, const struct cli_video_list *list,
                             size_t *ret_count, struct cv_error *error);

/* Starts a run that reads `video` again, with `languages` or, if that is NULL, those of the last
 * time, and records it in `video` (CLI_VIDEO_AGAIN). CV_ERROR_CONFLICT if the video is in progress;
 * CV_ERROR_OBJECT_NOT_FOUND if no readable object is left. */
CV_MUST_CHECK int cli_reindex_start(struct cli_session *session, const json_t *languages,
                                    struct cli_video *video, struct cv_error *error);
