/* The sources given to `cortana run`: files, folders, URLs, standard input; made available as files
 * with a name for people. */
#pragma once

#include "cli/commands/print.h"

enum cli_source_kind { CLI_SOURCE_FILE, CLI_SOURCE_URL, CLI_SOURCE_INPUT };

struct cli_source {
    enum cli_source_kind kind;
    char *place; /* a path, a URL, "-" */
};

struct cli_sources {
    struct cli_source *sources;
    size_t count;
    size_t bad; /* arguments, and files in folders, that were left out */
};

void cli_sources_deinit(struct cli_sources *sources);
CV_DEFINE_CLEANUP_ADDRESS(struct cli_sources, cli_sources_deinit)

/* Checks the arguments of the call before anything is started. A folder stands for the videos in
 * it, by their extensions and in the order of their names, with `recursive` also in its subfolders.
 * What cannot be read (a missing or unreadable file, a link to nothing, a folder without videos, a
 * URL without yt-dlp installed) is said on standard error, counted, and left out. */
CV_MUST_CHECK int cli_sources_find(const struct cli_call *call, struct cli_sources *sources,
                                   bool recursive, struct cv_error *error);

enum { CLI_SOURCE_UNREADABLE = 1 }; /* the error says why; other sources may be read */

typedef int cli_source_take(void *opaque, const char *path, const char *name,
                            struct cv_error *error);

/* Calls `take` for each file of a source: one, or as many as yt-dlp downloads for a URL. Downloads
 * are stored below `folder` and removed afterwards. CLI_SOURCE_UNREADABLE also if `take` returns
 * it. */
CV_MUST_CHECK int cli_source_open(const struct cli_source *source, const char *folder,
                                  const struct cli_call *call, cli_source_take *take, void *opaque,
                                  struct cv_error *error);
