/* Reading rows in portions, and passing on text. Private to this folder. */
#pragma once

#include "common/export/export.h"

enum { PORTION_ROWS = 1000 }; /* of the cursor in memory: some 300 KiB */

struct export
{
    struct cv_db *db;
    const struct cv_export_params *params;
    struct cv_buffer text; /* not yet passed on */
    int64_t rows;          /* of the list that is being written */
    bool is_of_hits;       /* the rows are hits of a search, from several videos */
};

/* Passes on the text when it is large enough. */
CV_MUST_CHECK int export_pass_piece(struct export *export, struct cv_error *error);

/* Opens the cursor that export_fetch() reads. A cursor that is read twice must be scrollable.
 * `parameter` is $1 of `sql`. */
CV_MUST_CHECK int export_open_rows(const struct export *export, const char *sql,
                                   const char *parameter, bool scrolls, struct cv_error *error);

/* Reads the next PORTION_ROWS rows; fewer at the end. */
CV_MUST_CHECK int export_fetch(const struct export *export, struct cv_db_result **ret_rows,
                               struct cv_error *error);

CV_MUST_CHECK int export_close_rows(const struct export *export, struct cv_error *error);

/* 01:02:03.400, with this sign before the milliseconds. */
void export_append_time(struct cv_buffer *text, int64_t ms, char point);

/* SubRip, WebVTT and ASS. */
CV_MUST_CHECK int export_subtitles(struct export *export, const char *sql, const char *parameter,
                                   struct cv_error *error);
