/* What `cortana run` is given: files, folders, URLs, standard input; as files with a name for people. */
#pragma once

#include "cli/commands/tell.h"

enum cli_source_kind { CLI_SOURCE_FILE, CLI_SOURCE_URL, CLI_SOURCE_INPUT };

struct cli_source {
    enum cli_source_kind kind;
    char *place; /* a path, a URL, "-" */
};

struct cli_sources {
    struct cli_source *sources;
    size_t count;
};

void cli_sources_deinit(struct cli_sources *sources);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_sources, cli_sources_deinit)

/* Looks at the arguments before anything is started. A folder becomes the videos in it, by their extensions and in the
 * order of their names, with `recursive` those of the folders within, too. A file that cannot be read, a folder without
 * a video, a URL without yt-dlp are failures that say so. */
CV_MUST_CHECK int cli_sources_find(struct cli_sources *sources, char **arguments, int count,
                                   bool recursive, struct cv_error *error);

typedef int cli_source_take(void *opaque, const char *path, const char *name,
                            struct cv_error *error);

/* Calls `take` for each file that a source is: one, or as many as yt-dlp fetches for a URL. What had to be fetched lies below
 * `folder` and is removed afterwards. */
CV_MUST_CHECK int cli_source_open(const struct cli_source *source, const char *folder,
                                  struct cv_cancel *cancel, cli_source_take *take, void *opaque,
                                  struct cv_error *error);
