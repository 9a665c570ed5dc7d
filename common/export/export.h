/* A video's text as a file of other tools. The command and the HTTP API write the same bytes. */
#pragma once

#include "common/db/db.h"

enum cv_export_format {
    CV_EXPORT_JSON,
    CV_EXPORT_CSV,
    CV_EXPORT_SRT,
    CV_EXPORT_VTT,
    CV_EXPORT_ASS,
    CV_EXPORT_TXT,
    CV_EXPORT_MD,
};

/* The names of the formats, which are the extensions of their files, in the order above. */
#define CV_EXPORT_FORMATS "json csv srt vtt ass txt md"

struct cv_export_params {
    enum cv_export_format format;
    bool bom;          /* CSV: a byte order mark in front */
    bool no_positions; /* VTT: as SRT, instead of each line where it stood */
};

/* The format that a name or a file's extension says; false when it is none of them. */
bool cv_export_format_of(const char *name, enum cv_export_format *ret_format);

/* The media type of a format; static text. */
const char *cv_export_media_type(enum cv_export_format format);

/* Appends the text of a video, as far as the connection's role sees it. CV_ERROR_NOT_FOUND for JSON of a video that is
 * not there; the other formats of it are empty. Holds the whole in memory: some 200 bytes a line of text. */
CV_MUST_CHECK int cv_export_text(struct cv_db *db, const char *video_id,
                                 const struct cv_export_params *params, struct cv_buffer *text,
                                 struct cv_error *error);
