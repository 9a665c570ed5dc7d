/* Exports the text of a video in formats of other tools. The command line and the HTTP API write
 * the same bytes. */
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
    bool bom;           /* CSV: a byte order mark in front */
    bool no_positions;  /* VTT: like SRT, instead of each line where it was on screen */
    const char *source; /* of a video: only lines with this segments.source; NULL: all */
    /* Receives the text piece by piece. Returns 0, or a failure that ends the export. */
    int (*write)(void *opaque, const char *text, size_t length, struct cv_error *error);
    void *opaque;
};

/* Finds the format with this name or file extension; false when there is none. */
bool cv_export_format_of(const char *name, enum cv_export_format *ret_format);

/* The media type of a format; static text. */
const char *cv_export_media_type(enum cv_export_format format);

/* Writes the text of a video, as far as the connection's role may see it, in its own transaction
 * unless one is open. CV_ERROR_NOT_FOUND for JSON of a video that does not exist; other formats
 * are then empty. Holds a thousand lines in memory; subtitles also 40 bytes for each line. */
CV_MUST_CHECK int cv_export_video(struct cv_db *db, const char *video_id,
                                  const struct cv_export_params *params, struct cv_error *error);

/* The same for the hits of a search. `request` is the JSON that api.search_hits() takes. The
 * format JSON is written as JSONL. */
CV_MUST_CHECK int cv_export_hits(struct cv_db *db, const char *request,
                                 const struct cv_export_params *params, struct cv_error *error);
