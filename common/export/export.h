/* Lines of text as a file of other tools. The command and the HTTP API write the same bytes. */
#pragma once

#include "common/db/db.h"

enum cv_export_format {
    CV_EXPORT_JSON,
    CV_EXPORT_JSONL,
    CV_EXPORT_CSV,
    CV_EXPORT_SRT,
    CV_EXPORT_VTT,
    CV_EXPORT_ASS,
    CV_EXPORT_TXT,
    CV_EXPORT_MD,
};

/* The names of the formats, which are the extensions of their files, in the order above. */
#define CV_EXPORT_FORMATS "json jsonl csv srt vtt ass txt md"

struct cv_export_params {
    enum cv_export_format format;
    bool bom;          /* CSV: a byte order mark in front */
    bool no_positions; /* VTT: as SRT, instead of each line where it stood */
    /* Takes the text, a piece at a time. 0, or what ends the export. */
    int (*write)(void *opaque, const char *text, size_t length, struct cv_error *error);
    void *opaque;
};

/* The format that a name or a file's extension says; false when it is none of them. */
bool cv_export_format_of(const char *name, enum cv_export_format *ret_format);

/* The media type of a format; static text. */
const char *cv_export_media_type(enum cv_export_format format);

/* Writes the text of a video, as far as the connection's role sees it, in a transaction of its own where there is none.
 * CV_ERROR_NOT_FOUND for JSON of a video that is not there; the other formats of it are empty. Holds a thousand lines
 * in memory; subtitles hold 40 bytes of each line, too. */
CV_MUST_CHECK int cv_export_video(struct cv_db *db, const char *video_id,
                                  const struct cv_export_params *params, struct cv_error *error);

/* The same for the hits of a search: `request` is the JSON that api.search_hits() takes. JSON is written as JSONL. */
CV_MUST_CHECK int cv_export_hits(struct cv_db *db, const char *request,
                                 const struct cv_export_params *params, struct cv_error *error);
