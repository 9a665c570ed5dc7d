#include "cli/export.h"

#include <string.h>
#include <sys/stat.h>

static const char *const names[] = {
    [CLI_EXPORT_JSON] = "json",
    [CLI_EXPORT_CSV] = "csv",
    [CLI_EXPORT_SRT] = "srt",
    [CLI_EXPORT_VTT] = "vtt",
};

bool cli_export_format_parse(const char *name, enum cli_export_format *ret_format)
{
    for (size_t i = 0; i < CV_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_format = (enum cli_export_format)i;
            return true;
        }
    }
    return false;
}

static int export_json(struct cv_db *db, const char *video_id, struct cv_buffer *text,
                       struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(db, &rows, error, "SELECT video_export($1::uuid) AS export", video_id);
    if (result) {
        return result;
    }
    const char *object = cv_db_text(rows, 0, "export");
    if (!object) {
        return cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "there is no video %s", video_id);
    }
    cv_buffer_text(text, object);
    cv_buffer_text(text, "\n");
    return 0;
}

/* RFC 4180: quotes around every text, quotes in it doubled. */
static void append_csv(struct cv_buffer *text, const char *value)
{
    cv_buffer_text(text, "\"");
    for (const char *c = value ? value : ""; *c; c++) {
        cv_buffer_append(text, c, 1);
        if (*c == '"') {
            cv_buffer_append(text, c, 1);
        }
    }
    cv_buffer_text(text, "\"");
}

static void append_csv_row(struct cv_buffer *text, const struct cv_db_result *rows, int row)
{
    static const char *const columns[] = {
        "id",       "t_start", "t_end", "text",  "normalized_text", "confidence",
        "language", "x",       "y",     "width", "height",          "entities"};
    for (size_t i = 0; i < CV_COUNT(columns); i++) {
        cv_buffer_text(text, i ? "," : "");
        append_csv(text, cv_db_text(rows, row, columns[i]));
    }
    cv_buffer_text(text, "\r\n");
}

/* A cue's text is one line; in WebVTT "&", "<" and ">" are entities, in SubRip, which has none, an
 * arrow is broken up. */
static void append_cue_text(struct cv_buffer *text, const char *value, bool is_vtt)
{
    for (const char *c = value; *c; c++) {
        if (*c == '\n' || *c == '\r') {
            cv_buffer_text(text, " ");
        } else if (is_vtt && *c == '&') {
            cv_buffer_text(text, "&amp;");
        } else if (is_vtt && *c == '<') {
            cv_buffer_text(text, "&lt;");
        } else if (is_vtt && *c == '>') {
            cv_buffer_text(text, "&gt;");
        } else if (strncmp(c, "-->", 3) == 0) {
            cv_buffer_text(text, "->");
            c += 2;
        } else {
            cv_buffer_append(text, c, 1);
        }
    }
}

static void append_cue_time(struct cv_buffer *text, int64_t ms, bool is_vtt)
{
    cv_buffer_printf(text, "%02lld:%02d:%02d%c%03d", (long long)(ms / 3600000),
                     (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), is_vtt ? '.' : ',',
                     (int)(ms % 1000));
}

static void append_cue(struct cv_buffer *text, const struct cv_db_result *rows, int row,
                       bool is_vtt)
{
    int64_t start = cv_db_int(rows, row, "t_start", 0);
    int64_t end = cv_db_int(rows, row, "t_end", 0);
    cv_buffer_printf(text, "%d\n", row + 1);
    append_cue_time(text, start, is_vtt);
    cv_buffer_text(text, " --> ");
    append_cue_time(text, end > start ? end : start + 1, is_vtt); /* a cue must last */
    cv_buffer_text(text, "\n");
    append_cue_text(text, cv_db_text(rows, row, "text"), is_vtt);
    cv_buffer_text(text, "\n\n");
}

static int export_rows(struct cv_db *db, const char *video_id, enum cli_export_format format,
                       struct cv_buffer *text, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    int result = cv_db_run(
        db, &rows, error,
        "SELECT id, t_start, t_end, text, normalized_text, confidence, language,"
        " bounding_box ->> 'x' AS x, bounding_box ->> 'y' AS y, bounding_box ->> 'width' AS width,"
        " bounding_box ->> 'height' AS height, (SELECT string_agg(e.entity_type || ':' || e.value,"
        " ' ' ORDER BY e.entity_type, e.value) FROM entities e WHERE e.segment_id = s.id)"
        " AS entities FROM segments s WHERE video_id = $1::uuid"
        " ORDER BY t_start, (bounding_box ->> 'y')::numeric, id",
        video_id);
    if (result) {
        return result;
    }
    if (format == CLI_EXPORT_CSV) {
        cv_buffer_text(text, "id,t_start,t_end,text,normalized_text,confidence,language,x,y,width,"
                             "height,entities\r\n");
    } else if (format == CLI_EXPORT_VTT) {
        cv_buffer_text(text, "WEBVTT\n\n");
    }
    for (int i = 0; i < cv_db_rows(rows); i++) {
        if (format == CLI_EXPORT_CSV) {
            append_csv_row(text, rows, i);
        } else {
            append_cue(text, rows, i, format == CLI_EXPORT_VTT);
        }
    }
    return 0;
}

int cli_export(struct cv_db *db, const char *video_id, enum cli_export_format format,
               struct cv_buffer *text, struct cv_error *error)
{
    int result = format == CLI_EXPORT_JSON ? export_json(db, video_id, text, error)
                                           : export_rows(db, video_id, format, text, error);
    cv_buffer_text(text, "");
    if (result == 0 && text->failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the export");
    }
    return result;
}

int cli_export_file(struct cv_db *db, const char *video_id, enum cli_export_format format,
                    const char *path, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    int result = cli_export(db, video_id, format, &text, error);
    if (result) {
        return result;
    }
    cv_auto_free char *temporary = NULL;
    struct stat status;
    bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode); /* /dev/stdout */
    result = cv_format(&temporary, error, is_special ? "%s" : "%s.part", path);
    if (result) {
        return result;
    }
    FILE *file = fopen(temporary, "we");
    if (!file) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    size_t written = fwrite(text.data, 1, text.length, file);
    int error_number = errno;
    if (fclose(file) || written != text.length ||
        (!is_special && rename(temporary, path) && (error_number = errno))) {
        if (!is_special) {
            (void)unlink(temporary);
        }
        return cv_fail_errno(error, error_number, "write %s", path);
    }
    return 0;
}
