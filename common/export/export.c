#include "common/export/export.h"

#include <jansson.h>
#include <string.h>

enum {
    SHOWN_MAX = 4,         /* lines at once of subtitles: what can be read over a picture */
    SHOWN_LEAST_MS = 1000, /* a line gives its place to a waiting one after that */
    CUE_LEAST_MS = 1,      /* a cue must last */
    REAL_DIGITS = 9,       /* what a real of the database has, and no more */
};

bool cv_export_format_of(const char *name, enum cv_export_format *ret_format)
{
    static const char *const names[] = {
        [CV_EXPORT_JSON] = "json", [CV_EXPORT_CSV] = "csv", [CV_EXPORT_SRT] = "srt",
        [CV_EXPORT_VTT] = "vtt",   [CV_EXPORT_ASS] = "ass", [CV_EXPORT_TXT] = "txt",
        [CV_EXPORT_MD] = "md",
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
        [CV_EXPORT_CSV] = "text/csv; charset=utf-8",
        [CV_EXPORT_SRT] = "application/x-subrip; charset=utf-8",
        [CV_EXPORT_VTT] = "text/vtt; charset=utf-8",
        [CV_EXPORT_ASS] = "text/x-ssa; charset=utf-8",
        [CV_EXPORT_TXT] = "text/plain; charset=utf-8",
        [CV_EXPORT_MD] = "text/markdown; charset=utf-8",
    };
    return types[format];
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Times are milliseconds throughout: a duration in seconds becomes duration_ms. */
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
        return cv_fail(error, CV_ERROR_NOT_FOUND, "there is no video %s", video_id);
    }
    cv_auto(json_decref) json_t *export = json_loads(object, 0, NULL);
    json_t *video = json_object_get(export, "video");
    double seconds = json_number_value(json_object_get(video, "duration"));
    bool good = json_object_del(video, "duration") == 0 &&
                json_object_set_new(video, "duration_ms",
                                    json_integer((json_int_t)(seconds * 1000 + 0.5))) == 0;
    cv_auto_free char *lines =
        good ? json_dumps(export, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
    if (!lines) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the export");
    }
    cv_buffer_text(text, lines);
    cv_buffer_text(text, "\n");
    return 0;
}

/* ---- what the others are made of ------------------------------------------------------------- */

static int read_rows(struct cv_db *db, const char *video_id, struct cv_db_result **ret_rows,
                     struct cv_error *error)
{
    return cv_db_run(
        db, ret_rows, error,
        "SELECT s.id, s.t_start, s.t_end, s.text, s.normalized_text, s.confidence, s.language,"
        " s.bounding_box ->> 'x' AS x, s.bounding_box ->> 'y' AS y,"
        " s.bounding_box ->> 'width' AS width, s.bounding_box ->> 'height' AS height,"
        " (SELECT string_agg(e.entity_type || ':' || e.value, ' ' ORDER BY e.entity_type, e.value)"
        " FROM entities e WHERE e.segment_id = s.id) AS entities,"
        " coalesce(v.original_name, v.title, v.id::text) AS name, v.resolution"
        " FROM segments s JOIN videos v ON v.id = s.video_id WHERE s.video_id = $1::uuid"
        " ORDER BY s.t_start, (s.bounding_box ->> 'y')::numeric, s.id",
        video_id);
}

static void append_time(struct cv_buffer *text, int64_t ms, char point)
{
    cv_buffer_printf(text, "%02lld:%02d:%02d%c%03d", (long long)(ms / 3600000),
                     (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), point, (int)(ms % 1000));
}

/* Line ends as blanks. */
static void append_line(struct cv_buffer *text, const char *value)
{
    for (const char *c = value; *c; c++) {
        cv_buffer_append(text, *c == '\n' || *c == '\r' ? " " : c, 1);
    }
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* RFC 4180: quotes around every text, quotes in it doubled. A cell that a spreadsheet would take for a formula begins with
 * an apostrophe, which spreadsheets do not show (OWASP, "CSV Injection"). */
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

static void export_csv(const struct cv_db_result *rows, bool bom, struct cv_buffer *text)
{
    static const char *const columns[] = {"t_start",    "t_end",    "text",     "normalized_text",
                                          "confidence", "language", "x",        "y",
                                          "width",      "height",   "entities", "id"};
    cv_buffer_text(text, bom ? "\xEF\xBB\xBF" : "");
    cv_buffer_text(text, "video,start,end,t_start_ms,t_end_ms,text,normalized_text,confidence,"
                         "language,x,y,width,height,entities,id\r\n");
    for (int row = 0; row < cv_db_rows(rows); row++) {
        append_cell(text, cv_db_text(rows, row, "name"));
        cv_buffer_text(text, ",");
        append_time(text, cv_db_int(rows, row, "t_start", 0), '.');
        cv_buffer_text(text, ",");
        append_time(text, cv_db_int(rows, row, "t_end", 0), '.');
        for (size_t i = 0; i < CV_COUNT(columns); i++) {
            const char *value = cv_db_text(rows, row, columns[i]);
            cv_buffer_text(text, ",");
            append_cell(text, value ? value : "");
        }
        cv_buffer_text(text, "\r\n");
    }
}

/* ---- which lines are shown when -------------------------------------------------------------- */

/* A line of a subtitle: the row it comes from, and when it is shown. */
struct cue {
    int row;
    int64_t start, end; /* ms; end 0: not shown yet */
};

struct schedule {
    const struct cv_db_result *rows;
    struct cue *cues; /* one a row; shown when end > 0 */
    int shown[SHOWN_MAX];
    int shown_count;
};

static int64_t row_start(const struct schedule *schedule, int row)
{
    return cv_db_int(schedule->rows, row, "t_start", 0);
}

static int64_t row_end(const struct schedule *schedule, int row)
{
    int64_t start = row_start(schedule, row);
    int64_t end = cv_db_int(schedule->rows, row, "t_end", 0);
    return end > start ? end : start + CUE_LEAST_MS;
}

/* Takes the shown line at `place` away at `now`. */
static void take_away(struct schedule *schedule, int place, int64_t now)
{
    schedule->cues[schedule->shown[place]].end = now;
    memmove(&schedule->shown[place], &schedule->shown[place + 1],
            (size_t)(schedule->shown_count - place - 1) * sizeof(schedule->shown[0]));
    schedule->shown_count--;
}

/* Where a waiting line may go: a free place, or that of the line that was shown longest, and long enough. */
static bool make_room(struct schedule *schedule, int64_t now)
{
    if (schedule->shown_count < SHOWN_MAX) {
        return true;
    }
    int64_t since = schedule->cues[schedule->shown[0]].start; /* the longest shown is first */
    if (now - since < SHOWN_LEAST_MS) {
        return false;
    }
    take_away(schedule, 0, now);
    return true;
}

/* The next moment after `now` at which anything changes; -1: nothing will. `next` is the first row that has not begun. */
static int64_t next_moment(const struct schedule *schedule, int next, int64_t now, bool is_waiting)
{
    int64_t moment = next < cv_db_rows(schedule->rows) ? row_start(schedule, next) : -1;
    for (int i = 0; i < schedule->shown_count; i++) {
        int row = schedule->shown[i];
        int64_t end = row_end(schedule, row);
        int64_t ripe = schedule->cues[row].start + SHOWN_LEAST_MS;
        end = is_waiting && ripe > now && ripe < end ? ripe : end;
        moment = moment < 0 || end < moment ? end : moment;
    }
    return moment;
}

/* At most SHOWN_MAX lines at once, new ones first; those that began together follow one another while they stand on screen.
 * A line that was gone before its turn came is not shown. */
static void plan_cues(struct schedule *schedule)
{
    int count = cv_db_rows(schedule->rows);
    int begun = 0;   /* rows before it have begun */
    int waiting = 0; /* rows before it were shown or are gone */
    for (int64_t now = count > 0 ? row_start(schedule, 0) : -1; now >= 0;) {
        for (int i = schedule->shown_count; i-- > 0;) {
            if (row_end(schedule, schedule->shown[i]) <= now) {
                take_away(schedule, i, row_end(schedule, schedule->shown[i]));
            }
        }
        int first_new = begun;
        while (begun < count && row_start(schedule, begun) <= now) {
            begun++;
        }
        bool is_waiting = false;
        /* The rows that begin now in their order on screen, then older ones, the latest first. */
        for (int pass = 0; pass < 2; pass++) {
            int from = pass == 0 ? first_new : first_new - 1;
            int step = pass == 0 ? 1 : -1;
            for (int row = from; pass == 0 ? row < begun : row >= waiting; row += step) {
                struct cue *cue = &schedule->cues[row];
                if (cue->start >= 0 || row_end(schedule, row) <= now) {
                    continue;
                }
                if (!make_room(schedule, now)) {
                    is_waiting = true;
                    continue;
                }
                cue->start = now;
                schedule->shown[schedule->shown_count++] = row;
            }
        }
        while (waiting < begun &&
               (schedule->cues[waiting].start >= 0 || row_end(schedule, waiting) <= now)) {
            waiting++;
        }
        now = next_moment(schedule, begun, now, is_waiting);
    }
}

static int compare_cues(const void *left, const void *right)
{
    const struct cue *a = left;
    const struct cue *b = right;
    return a->start != b->start ? (a->start < b->start ? -1 : 1) : a->row - b->row;
}

/* The cues in the order of their beginnings; free() them. */
static int make_cues(const struct cv_db_result *rows, bool everything, struct cue **ret_cues,
                     int *ret_count, struct cv_error *error)
{
    int count = cv_db_rows(rows);
    struct schedule schedule = {.rows = rows,
                                .cues = calloc((size_t)count + 1, sizeof(struct cue))};
    if (!schedule.cues) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the subtitles");
    }
    for (int i = 0; i < count; i++) {
        schedule.cues[i] = (struct cue){.row = i,
                                        .start = everything ? row_start(&schedule, i) : -1,
                                        .end = everything ? row_end(&schedule, i) : 0};
    }
    if (!everything) {
        plan_cues(&schedule);
    }
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (schedule.cues[i].start >= 0 && schedule.cues[i].end > schedule.cues[i].start) {
            schedule.cues[kept++] = schedule.cues[i];
        }
    }
    qsort(schedule.cues, (size_t)kept, sizeof(schedule.cues[0]), compare_cues);
    *ret_cues = schedule.cues;
    *ret_count = kept;
    return 0;
}

/* ---- subtitles ------------------------------------------------------------------------------- */

/* In WebVTT "&", "<" and ">" are entities; in SubRip, which has none, an arrow is broken up; in ASS braces begin a command
 * and a backslash a code. */
static void append_cue_text(struct cv_buffer *text, const char *value, enum cv_export_format format)
{
    for (const char *c = value; *c; c++) {
        if (*c == '\n' || *c == '\r') {
            cv_buffer_text(text, " ");
        } else if (format == CV_EXPORT_VTT && strchr("&<>", *c)) {
            cv_buffer_text(text, *c == '&' ? "&amp;" : *c == '<' ? "&lt;" : "&gt;");
        } else if (format == CV_EXPORT_ASS && strchr("{}\\", *c)) {
            cv_buffer_text(text, *c == '{' ? "(" : *c == '}' ? ")" : "/");
        } else if (strncmp(c, "-->", 3) == 0) {
            cv_buffer_text(text, "->");
            c += 2;
        } else {
            cv_buffer_append(text, c, 1);
        }
    }
}

/* The picture that the boxes are of; false when it is not known. */
static bool read_size(const struct cv_db_result *rows, int *ret_width, int *ret_height)
{
    const char *resolution = cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "resolution") : NULL;
    return resolution && sscanf(resolution, "%6dx%6d", ret_width, ret_height) == 2 &&
           *ret_width > 0 && *ret_height > 0;
}

static double percent(const struct cv_db_result *rows, int row, const char *column, int whole)
{
    double value = 100 * cv_db_double(rows, row, column, 0) / whole;
    return value < 0 ? 0 : value > 100 ? 100 : value;
}

static int export_subtitles(const struct cv_db_result *rows, const struct cv_export_params *params,
                            struct cv_buffer *text, struct cv_error *error)
{
    bool is_vtt = params->format == CV_EXPORT_VTT;
    int width = 0;
    int height = 0;
    bool positioned = is_vtt && !params->no_positions && read_size(rows, &width, &height);
    cv_auto_free struct cue *cues = NULL;
    int count = 0;
    int result = make_cues(rows, positioned, &cues, &count, error);
    cv_buffer_text(text, is_vtt ? "WEBVTT\n\n" : "");
    for (int i = 0; result == 0 && i < count; i++) {
        cv_buffer_printf(text, "%d\n", i + 1);
        append_time(text, cues[i].start, is_vtt ? '.' : ',');
        cv_buffer_text(text, " --> ");
        append_time(text, cues[i].end, is_vtt ? '.' : ',');
        if (positioned) {
            double x = percent(rows, cues[i].row, "x", width);
            double size = percent(rows, cues[i].row, "width", width);
            cv_buffer_printf(text, " line:%.1f%% position:%.1f%%,line-left size:%.1f%% align:left",
                             percent(rows, cues[i].row, "y", height), x,
                             size < 100 - x ? size : 100 - x);
        }
        cv_buffer_text(text, "\n");
        append_cue_text(text, cv_db_text(rows, cues[i].row, "text"), params->format);
        cv_buffer_text(text, "\n\n");
    }
    return result;
}

static void append_ass_time(struct cv_buffer *text, int64_t ms)
{
    cv_buffer_printf(text, "%lld:%02d:%02d.%02d", (long long)(ms / 3600000), (int)(ms / 60000 % 60),
                     (int)(ms / 1000 % 60), (int)(ms % 1000 / 10));
}

/* Every line where it stood, as high as it was. */
static int export_ass(const struct cv_db_result *rows, struct cv_buffer *text,
                      struct cv_error *error)
{
    int width = 1920;
    int height = 1080;
    bool positioned = read_size(rows, &width, &height);
    cv_auto_free struct cue *cues = NULL;
    int count = 0;
    int result = make_cues(rows, positioned, &cues, &count, error);
    cv_buffer_printf(text,
                     "[Script Info]\nScriptType: v4.00+\nPlayResX: %d\nPlayResY: %d\n"
                     "WrapStyle: 2\n\n[V4+ Styles]\n"
                     "Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BackColour, "
                     "BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n"
                     "Style: Default,Sans,%d,&H00FFFFFF,&H00000000,&H80000000,3,1,0,%d,10,10,10\n\n"
                     "[Events]\nFormat: Layer, Start, End, Style, Text\n",
                     width, height, height / 20, positioned ? 7 : 2);
    for (int i = 0; result == 0 && i < count; i++) {
        int row = cues[i].row;
        cv_buffer_text(text, "Dialogue: 0,");
        append_ass_time(text, cues[i].start);
        cv_buffer_text(text, ",");
        append_ass_time(text, cues[i].end);
        cv_buffer_text(text, ",Default,");
        if (positioned) {
            cv_buffer_printf(text, "{\\pos(%.0f,%.0f)\\fs%.0f}", cv_db_double(rows, row, "x", 0),
                             cv_db_double(rows, row, "y", 0), cv_db_double(rows, row, "height", 0));
        }
        append_cue_text(text, cv_db_text(rows, row, "text"), CV_EXPORT_ASS);
        cv_buffer_text(text, "\n");
    }
    return result;
}

/* ---- text and Markdown ----------------------------------------------------------------------- */

static void export_txt(const struct cv_db_result *rows, struct cv_buffer *text)
{
    cv_buffer_text(text, "");
    for (int row = 0; row < cv_db_rows(rows); row++) {
        append_line(text, cv_db_text(rows, row, "text"));
        cv_buffer_text(text, "\n");
    }
}

/* As people write it: 1:02:03.400, 2:03.400. */
static void append_short_time(struct cv_buffer *text, int64_t ms)
{
    if (ms >= 3600000) {
        cv_buffer_printf(text, "%lld:%02d", (long long)(ms / 3600000), (int)(ms / 60000 % 60));
    } else {
        cv_buffer_printf(text, "%d", (int)(ms / 60000));
    }
    cv_buffer_printf(text, ":%02d.%03d", (int)(ms / 1000 % 60), (int)(ms % 1000));
}

static void export_md(const struct cv_db_result *rows, struct cv_buffer *text)
{
    static const char special[] = "\\`*_{}[]<>#|~";
    cv_buffer_printf(text, "# %s\n\n| start | end | text |\n| --- | --- | --- |\n",
                     cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "name") : "no text");
    for (int row = 0; row < cv_db_rows(rows); row++) {
        cv_buffer_text(text, "| ");
        append_short_time(text, cv_db_int(rows, row, "t_start", 0));
        cv_buffer_text(text, " | ");
        append_short_time(text, cv_db_int(rows, row, "t_end", 0));
        cv_buffer_text(text, " | ");
        for (const char *c = cv_db_text(rows, row, "text"); *c; c++) {
            cv_buffer_text(text, strchr(special, *c) ? "\\" : "");
            cv_buffer_append(text, *c == '\n' || *c == '\r' ? " " : c, 1);
        }
        cv_buffer_text(text, " |\n");
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

int cv_export_text(struct cv_db *db, const char *video_id, const struct cv_export_params *params,
                   struct cv_buffer *text, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (params->format == CV_EXPORT_JSON) {
        return export_json(db, video_id, text, error);
    }
    int result = read_rows(db, video_id, &rows, error);
    if (result) {
        return result;
    }
    switch (params->format) {
    case CV_EXPORT_CSV:
        export_csv(rows, params->bom, text);
        break;
    case CV_EXPORT_ASS:
        result = export_ass(rows, text, error);
        break;
    case CV_EXPORT_TXT:
        export_txt(rows, text);
        break;
    case CV_EXPORT_MD:
        export_md(rows, text);
        break;
    default:
        result = export_subtitles(rows, params, text, error);
    }
    if (result == 0 && text->failed) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the export");
    }
    return result;
}
