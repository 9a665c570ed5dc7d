#include "common/export/rows.h"

#include <string.h>

enum { PIECE_BYTES = 64 * 1024 };

bool cv_export_format_of(const char *name, enum cv_export_format *ret_format)
{
    static const char *const names[] = {
        [CV_EXPORT_JSON] = "json", [CV_EXPORT_JSONL] = "jsonl", [CV_EXPORT_CSV] = "csv",
        [CV_EXPORT_SRT] = "srt",   [CV_EXPORT_VTT] = "vtt",     [CV_EXPORT_ASS] = "ass",
        [CV_EXPORT_TXT] = "txt",   [CV_EXPORT_MD] = "md",
    };
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_format = (enum cv_export_format)i;
            return true;
        }
    }
    return false;
}

const char *cv_export_media_type(enum cv_export_format format)
{
    static const char *const types[] = {
        [CV_EXPORT_JSON] = "application/json",
        [CV_EXPORT_JSONL] = "application/jsonl; charset=utf-8",
        [CV_EXPORT_CSV] = "text/csv; charset=utf-8",
        [CV_EXPORT_SRT] = "application/x-subrip; charset=utf-8",
        [CV_EXPORT_VTT] = "text/vtt; charset=utf-8",
        [CV_EXPORT_ASS] = "text/x-ssa; charset=utf-8",
        [CV_EXPORT_TXT] = "text/plain; charset=utf-8",
        [CV_EXPORT_MD] = "text/markdown; charset=utf-8",
    };
    return types[format];
}

/* ---- rows in, text out ----------------------------------------------------------------------- */

static int pass_on(struct export *export, struct cv_error *error)
{
    struct cv_buffer *text = &export->text;
    CV_TRY_MEMORY(!text->failed, error, "the export");
    CV_TRY(text->length == 0
               ? 0
               : export->params->write(export->params->opaque, text->data, text->length, error));
    cv_buffer_clear(text);
    return 0;
}

int export_pass_piece(struct export *export, struct cv_error *error)
{
    return export->text.length < PIECE_BYTES && !export->text.failed ? 0 : pass_on(export, error);
}

int export_open_rows(const struct export *export, const char *sql, const char *parameter,
                     bool scrolls, struct cv_error *error)
{
    cv_auto_free char *statement = NULL;
    CV_TRY(cv_format(&statement, error, "DECLARE export_rows %s CURSOR FOR %s",
                     scrolls ? "SCROLL" : "NO SCROLL", sql));
    return cv_db_run(export->db, NULL, error, statement, parameter);
}

int export_fetch(const struct export *export, struct cv_db_result **ret_rows,
                 struct cv_error *error)
{
    _Static_assert(PORTION_ROWS == 1000, "the statement says it, too");
    return cv_db_run(export->db, ret_rows, error, "FETCH FORWARD 1000 FROM export_rows");
}

int export_close_rows(const struct export *export, struct cv_error *error)
{
    return cv_db_run(export->db, NULL, error, "CLOSE export_rows");
}

typedef void append_row(struct export *export, const struct cv_db_result *rows, int row);

static int for_each_row(struct export *export, const char *sql, const char *parameter,
                        append_row *append, struct cv_error *error)
{
    int result = export_open_rows(export, sql, parameter, false, error);
    export->rows = 0;
    for (int count = PORTION_ROWS; result == 0 && count == PORTION_ROWS;) {
        cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
        result = export_fetch(export, &rows, error);
        count = result ? 0 : cv_db_rows(rows);
        for (int row = 0; result == 0 && row < count; row++) {
            append(export, rows, row);
            export->rows++;
            result = export_pass_piece(export, error);
        }
    }
    return result ? result : export_close_rows(export, error);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void append_item(struct export *export, const struct cv_db_result *rows, int row)
{
    cv_buffer_text(&export->text, export->rows == 0 ? "\n  " : ",\n  ");
    cv_buffer_text(&export->text, cv_db_text(rows, row, "object"));
}

/* The condition on the source of a line, with its comma or AND; "" without one. Names have letters alone. */
static int add_source(const struct export *export, struct cv_buffer *sql, const char *before,
                      struct cv_error *error)
{
    const char *source = export->params->source;
    if (source && source[strspn(source, "abcdefghijklmnopqrstuvwxyz")] != '\0') {
        return cv_fail(error, CV_ERROR_INVALID_PAYLOAD, "%s is no source of lines", source);
    }
    if (source) {
        cv_buffer_printf(sql, "%s'%s'", before, source);
    }
    return 0;
}

/* Appends what a function of a video, and of a source, returns. */
static int for_each_object(struct export *export, const char *function, const char *video_id,
                           append_row *append, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer sql = CV_BUFFER_INIT;
    cv_auto_free char *statement = NULL;
    cv_buffer_printf(&sql, "SELECT %s($1::uuid", function);
    CV_TRY(add_source(export, &sql, ", ", error));
    cv_buffer_text(&sql, ") AS object");
    CV_TRY(cv_buffer_detach(&sql, &statement, error));
    return for_each_row(export, statement, video_id, append, error);
}

/* All times are milliseconds: a duration in seconds becomes duration_ms. */
static int export_json(struct export *export, const char *video_id, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(export->db, &rows, error,
                     "SELECT to_jsonb(v) - '{duration,original_name}'::text[]"
                     " || jsonb_build_object('name', v.original_name,"
                     " 'duration_ms', round(v.duration * 1000))"
                     " AS video FROM videos v WHERE v.id = $1::uuid",
                     video_id));
    if (cv_db_rows(rows) == 0) {
        return cv_fail(error, CV_ERROR_NOT_FOUND, "there is no video %s", video_id);
    }
    cv_buffer_printf(&export->text, "{\n \"video\": %s,\n \"segments\": [",
                     cv_db_text(rows, 0, "video"));
    CV_TRY(for_each_object(export, "export_segments", video_id, append_item, error));
    cv_buffer_text(&export->text, "],\n \"entities\": [");
    CV_TRY(for_each_object(export, "export_entities", video_id, append_item, error));
    cv_buffer_text(&export->text, "]\n}\n");
    return 0;
}

static void append_object(struct export *export, const struct cv_db_result *rows, int row)
{
    cv_buffer_text(&export->text, cv_db_text(rows, row, "object"));
    cv_buffer_text(&export->text, "\n");
}

/* ---- what the others are made of ------------------------------------------------------------- */

enum column_kind {
    COLUMN,
    COLUMN_TIME,    /* milliseconds, written as 01:02:03.400 */
    COLUMN_OF_HITS, /* not in the export of one video */
};

/* The columns of CSV, in their order; the other formats read some of them, too. A value is computed
 * from s (segments), v (videos), and h, which has the line as it was found. */
static const struct column {
    const char *name, *value;
    enum column_kind kind;
} columns[] = {
    {"video", "coalesce(v.title, v.original_name, v.id::text)", COLUMN},
    {"start", "h.t_start", COLUMN_TIME},
    {"end", "h.t_end", COLUMN_TIME},
    {"t_start_ms", "h.t_start", COLUMN},
    {"t_end_ms", "h.t_end", COLUMN},
    {"text", "h.text", COLUMN},
    {"normalized_text", "s.normalized_text", COLUMN},
    {"confidence", "h.confidence", COLUMN},
    {"language", "h.language", COLUMN},
    {"source", "s.source", COLUMN},
    {"x", "h.box ->> 'x'", COLUMN},
    {"y", "h.box ->> 'y'", COLUMN},
    {"width", "h.box ->> 'width'", COLUMN},
    {"height", "h.box ->> 'height'", COLUMN},
    {"entities",
     "(SELECT string_agg(e.entity_type || ':' || e.value, ' ' ORDER BY e.entity_type, e.value)"
     " FROM entities e WHERE e.segment_id = s.id)",
     COLUMN},
    {"id", "s.id", COLUMN},
    {"video_id", "v.id", COLUMN_OF_HITS},
    {"link", "h.link", COLUMN_OF_HITS},
    {"shown_at",
     "to_char((v.recorded_at + h.t_start * interval '1 ms') AT TIME ZONE 'UTC',"
     " 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')",
     COLUMN},
};

static const char lines_of_a_video[] =
    " FROM segments s JOIN videos v ON v.id = s.video_id,"
    " LATERAL (SELECT s.t_start, s.t_end, s.text, s.confidence, s.language, s.bounding_box) AS"
    " h (t_start, t_end, text, confidence, language, box)"
    " WHERE s.video_id = $1::uuid";
static const char lines_of_hits[] =
    " FROM api.search_hits($1::jsonb) AS h JOIN segments s ON s.id = h.segment_id"
    " JOIN videos v ON v.id = s.video_id ORDER BY h.place";

static bool has_column(const struct export *export, const struct column *column)
{
    return export->is_of_hits || column->kind != COLUMN_OF_HITS;
}

static int make_statement(const struct export *export, char **ret_sql, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer sql = CV_BUFFER_INIT;
    cv_buffer_text(&sql, "SELECT v.resolution");
    for (size_t i = 0; i < CV_COUNT(columns); i++) {
        if (has_column(export, &columns[i])) {
            cv_buffer_printf(&sql, ", %s AS \"%s\"", columns[i].value, columns[i].name);
        }
    }
    cv_buffer_text(&sql, export->is_of_hits ? lines_of_hits : lines_of_a_video);
    if (!export->is_of_hits) {
        CV_TRY(add_source(export, &sql, " AND s.source = ", error));
        cv_buffer_text(&sql, " ORDER BY s.t_start, s.place, s.id");
    }
    return cv_buffer_detach(&sql, ret_sql, error);
}

void export_append_time(struct cv_buffer *text, int64_t ms, char point)
{
    cv_buffer_printf(text, "%02lld:%02d:%02d%c%03d", (long long)(ms / 3600000),
                     (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), point, (int)(ms % 1000));
}

/* Replaces line ends by spaces. */
static void append_line(struct cv_buffer *text, const char *value)
{
    for (const char *c = value; *c; c++) {
        cv_buffer_append(text, *c == '\n' || *c == '\r' ? " " : c, 1);
    }
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* RFC 4180: every text is quoted, and quotes in it are doubled. A cell that a spreadsheet would
 * take for a formula begins with an apostrophe, which spreadsheets do not show (OWASP, "CSV
 * Injection"). */
static void append_cell(struct cv_buffer *text, const char *value)
{
    bool is_formula = value[0] != '\0' && strchr("=+-@\t\r", value[0]);
    cv_buffer_text(text, is_formula ? "\"'" : "\"");
    for (const char *c = value; *c; c++) {
        cv_buffer_append(text, c, 1);
        if (*c == '"') {
            cv_buffer_append(text, c, 1);
        }
    }
    cv_buffer_text(text, "\"");
}

static void append_csv(struct export *export, const struct cv_db_result *rows, int row)
{
    struct cv_buffer *text = &export->text;
    const char *separator = "";
    for (size_t i = 0; i < CV_COUNT(columns); i++) {
        const struct column *column = &columns[i];
        if (!has_column(export, column)) {
            continue;
        }
        cv_buffer_text(text, separator);
        separator = ",";
        if (column->kind == COLUMN_TIME) {
            export_append_time(text, cv_db_int(rows, row, column->name, 0), '.');
        } else {
            const char *value = cv_db_text(rows, row, column->name);
            append_cell(text, value ? value : "");
        }
    }
    cv_buffer_text(text, "\r\n");
}

static void append_csv_head(struct export *export)
{
    cv_buffer_text(&export->text, export->params->bom ? "\xEF\xBB\xBF" : "");
    for (size_t i = 0; i < CV_COUNT(columns); i++) {
        if (has_column(export, &columns[i])) {
            cv_buffer_printf(&export->text, "%s%s", i > 0 ? "," : "", columns[i].name);
        }
    }
    cv_buffer_text(&export->text, "\r\n");
}

/* ---- text and Markdown ----------------------------------------------------------------------- */

static void append_txt(struct export *export, const struct cv_db_result *rows, int row)
{
    append_line(&export->text, cv_db_text(rows, row, "text"));
    cv_buffer_text(&export->text, "\n");
}

/* A time for people: 1:02:03.400, 2:03.400. */
static void append_short_time(struct cv_buffer *text, int64_t ms)
{
    if (ms >= 3600000) {
        cv_buffer_printf(text, "%lld:%02d", (long long)(ms / 3600000), (int)(ms / 60000 % 60));
    } else {
        cv_buffer_printf(text, "%d", (int)(ms / 60000));
    }
    cv_buffer_printf(text, ":%02d.%03d", (int)(ms / 1000 % 60), (int)(ms % 1000));
}

static void append_md_head(struct cv_buffer *text, const char *name)
{
    cv_buffer_printf(text, "# %s\n\n| start | end | text |\n| --- | --- | --- |\n", name);
}

static void append_md(struct export *export, const struct cv_db_result *rows, int row)
{
    static const char special[] = "\\`*_{}[]<>#|~";
    struct cv_buffer *text = &export->text;
    if (export->rows == 0) {
        append_md_head(text, cv_db_text(rows, row, "video"));
    }
    cv_buffer_text(text, "| ");
    append_short_time(text, cv_db_int(rows, row, "t_start_ms", 0));
    cv_buffer_text(text, " | ");
    append_short_time(text, cv_db_int(rows, row, "t_end_ms", 0));
    cv_buffer_text(text, " | ");
    for (const char *c = cv_db_text(rows, row, "text"); *c; c++) {
        cv_buffer_text(text, strchr(special, *c) ? "\\" : "");
        cv_buffer_append(text, *c == '\n' || *c == '\r' ? " " : c, 1);
    }
    cv_buffer_text(text, " |\n");
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int export_lines(struct export *export, const char *parameter, struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    CV_TRY(make_statement(export, &sql, error));
    int result = 0;
    switch (export->params->format) {
    case CV_EXPORT_CSV:
        append_csv_head(export);
        return for_each_row(export, sql, parameter, append_csv, error);
    case CV_EXPORT_TXT:
        return for_each_row(export, sql, parameter, append_txt, error);
    case CV_EXPORT_MD:
        result = for_each_row(export, sql, parameter, append_md, error);
        if (result == 0 && export->rows == 0) {
            append_md_head(&export->text, "no text");
        }
        return result;
    default:
        return export_subtitles(export, sql, parameter, error);
    }
}

static int run_export(struct export *export, const char *video_id, const char *request,
                      struct cv_error *error)
{
    enum cv_export_format format = export->params->format;
    const char *parameter = video_id ? video_id : request;
    CV_TRY(video_id && format == CV_EXPORT_JSON ? export_json(export, video_id, error)
           : format != CV_EXPORT_JSON && format != CV_EXPORT_JSONL
               ? export_lines(export, parameter, error)
           : video_id ? for_each_object(export, "export_segments", video_id, append_object, error)
                      : for_each_row(export, "SELECT object FROM api.search_hits($1::jsonb)",
                                     request, append_object, error));
    return pass_on(export, error);
}

static int export_all(struct cv_db *db, const char *video_id, const char *request,
                      const struct cv_export_params *params, struct cv_error *error)
{
    struct export export = {
        .db = db, .params = params, .text = CV_BUFFER_INIT, .is_of_hits = !video_id};
    bool is_ours = !cv_db_in_transaction(db);
    int result = is_ours ? cv_db_begin(db, error) : 0;
    result = result ? result : run_export(&export, video_id, request, error);
    cv_buffer_deinit(&export.text);
    if (is_ours && result == 0) {
        result = cv_db_commit(db, error);
    } else if (is_ours) {
        cv_db_rollback(db);
    }
    return result;
}

int cv_export_video(struct cv_db *db, const char *video_id, const struct cv_export_params *params,
                    struct cv_error *error)
{
    return export_all(db, video_id, NULL, params, error);
}

int cv_export_hits(struct cv_db *db, const char *request, const struct cv_export_params *params,
                   struct cv_error *error)
{
    return export_all(db, NULL, request, params, error);
}
