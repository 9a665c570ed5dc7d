/* A video's text as a file of other tools. */
#pragma once

#include "cli/commands/verb.h"

enum cli_export_format {
    CLI_EXPORT_JSON,
    CLI_EXPORT_CSV,
    CLI_EXPORT_SRT,
    CLI_EXPORT_VTT,
    CLI_EXPORT_ASS,
    CLI_EXPORT_TXT,
    CLI_EXPORT_MD,
};

/* The names of the formats, which are the extensions of their files, in the order above. */
#define CLI_EXPORT_FORMATS "json csv srt vtt ass txt md"

struct cli_export_params {
    enum cli_export_format format;
    bool bom;          /* CSV: a byte order mark in front */
    bool no_positions; /* VTT: as SRT, instead of each line where it stood */
};

/* The format that a name or a file's extension says; false when it is none of them. */
bool cli_export_format_of(const char *name, enum cli_export_format *ret_format);

/* Writes the video's text to `path`, whole or not at all ("-": standard output). */
CV_MUST_CHECK int cli_export_file(struct cv_db *db, const char *video_id,
                                  const struct cli_export_params *params, const char *path,
                                  struct cv_error *error);
