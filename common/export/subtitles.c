#include "common/export/rows.h"

#include <string.h>

enum {
    SHOWN_MAX = 4,         /* lines at once of subtitles: what can be read over a picture */
    SHOWN_LEAST_MS = 1000, /* a line gives its place to a waiting one after that */
    CUE_LEAST_MS = 1,      /* a cue must last */
};

/* ---- which lines are shown when -------------------------------------------------------------- */

/* A line of a subtitle: its row, when the row was on screen, and when it is shown. */
struct cue {
    int row;
    int64_t from, until; /* ms */
    int64_t start, end;  /* ms; end 0: not shown yet */
};

struct schedule {
    struct cue *cues; /* one per row; shown when end > 0 */
    int count, room;
    int shown[SHOWN_MAX];
    int shown_count;
};

static int64_t row_start(const struct schedule *schedule, int row)
{
    return schedule->cues[row].from;
}

static int64_t row_end(const struct schedule *schedule, int row)
{
    return schedule->cues[row].until;
}

/* Ends the line that is shown at `place`, at time `now`. */
static void end_line(struct schedule *schedule, int place, int64_t now)
{
    schedule->cues[schedule->shown[place]].end = now;
    memmove(&schedule->shown[place], &schedule->shown[place + 1],
            (size_t)(schedule->shown_count - place - 1) * sizeof(schedule->shown[0]));
    schedule->shown_count--;
}

/* The place for a waiting line: a free place, or that of the line that was shown longest, if it
 * was shown long enough. */
static bool make_room(struct schedule *schedule, int64_t now)
{
    if (schedule->shown_count < SHOWN_MAX) {
        return true;
    }
    int64_t since = schedule->cues[schedule->shown[0]].start; /* the longest shown is first */
    if (now - since < SHOWN_LEAST_MS) {
        return false;
    }
    end_line(schedule, 0, now);
    return true;
}

/* The next time after `now` at which anything changes; -1 if there is none. `next` is the first
 * row that has not begun. */
static int64_t next_moment(const struct schedule *schedule, int next, int64_t now, bool is_waiting)
{
    int64_t moment = next < schedule->count ? row_start(schedule, next) : -1;
    for (int i = 0; i < schedule->shown_count; i++) {
        int row = schedule->shown[i];
        int64_t end = row_end(schedule, row);
        int64_t ripe = schedule->cues[row].start + SHOWN_LEAST_MS;
        end = is_waiting && ripe > now && ripe < end ? ripe : end;
        moment = moment < 0 || end < moment ? end : moment;
    }
    return moment;
}

/* Shows at most SHOWN_MAX lines at once, new ones first. Lines that began together are shown one
 * after another while they are on screen. A line that ended before its turn is not shown. */
static void plan_cues(struct schedule *schedule)
{
    int count = schedule->count;
    int begun = 0;   /* rows before it have begun */
    int waiting = 0; /* rows before it were shown or are gone */
    for (int64_t now = count > 0 ? row_start(schedule, 0) : -1; now >= 0;) {
        for (int i = schedule->shown_count; i-- > 0;) {
            if (row_end(schedule, schedule->shown[i]) <= now) {
                end_line(schedule, i, row_end(schedule, schedule->shown[i]));
            }
        }
        int first_new = begun;
        while (begun < count && row_start(schedule, begun) <= now) {
            begun++;
        }
        bool is_waiting = false;
        /* First the rows that begin now, in their order on screen, then older ones, the latest first. */
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

/* Makes cues from the rows, in the order of their beginnings. */
static void make_cues(struct schedule *schedule, bool everything)
{
    for (int i = 0; i < schedule->count; i++) {
        schedule->cues[i].start = everything ? row_start(schedule, i) : -1;
        schedule->cues[i].end = everything ? row_end(schedule, i) : 0;
    }
    if (!everything) {
        plan_cues(schedule);
    }
    int kept = 0;
    for (int i = 0; i < schedule->count; i++) {
        if (schedule->cues[i].start >= 0 && schedule->cues[i].end > schedule->cues[i].start) {
            schedule->cues[kept++] = schedule->cues[i];
        }
    }
    schedule->count = kept;
    if (kept > 0) {
        qsort(schedule->cues, (size_t)kept, sizeof(schedule->cues[0]), compare_cues);
    }
}

static int add_times(struct schedule *schedule, const struct cv_db_result *rows,
                     struct cv_error *error)
{
    int more = cv_db_rows(rows);
    if (schedule->count + more > schedule->room) {
        int room = 2 * schedule->room + PORTION_ROWS;
        struct cue *cues = reallocarray(schedule->cues, (size_t)room, sizeof(*cues));
        CV_TRY_MEMORY(cues, error, "the subtitles");
        schedule->cues = cues;
        schedule->room = room;
    }
    for (int row = 0; row < more; row++) {
        int64_t from = cv_db_int(rows, row, "t_start_ms", 0);
        int64_t until = cv_db_int(rows, row, "t_end_ms", 0);
        schedule->cues[schedule->count] =
            (struct cue){schedule->count, from, until > from ? until : from + CUE_LEAST_MS, -1, 0};
        schedule->count++;
    }
    return 0;
}

/* ---- subtitles ------------------------------------------------------------------------------- */

/* Escapes text. In WebVTT "&", "<" and ">" become entities. SubRip has no entities, so an arrow is
 * broken up. In ASS a brace begins a command and a backslash a code. */
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

/* The size of the picture to which the boxes refer; false when it is not known. */
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

/* The state of writing subtitles: the cues, and the rows in memory. */
struct subtitles {
    struct schedule schedule;
    bool is_positioned;
    int width, height; /* of the picture */
    struct cv_db_result *rows;
    int first; /* of the rows in memory */
    int at;    /* the row that the cursor gives next */
};

static void subtitles_deinit(struct subtitles *subtitles)
{
    free(subtitles->schedule.cues);
    cv_db_result_free(subtitles->rows);
}
CV_DEFINE_CLEANUP_ADDRESS(struct subtitles, subtitles_deinit)

static int read_portion(const struct export *export, struct subtitles *subtitles,
                        struct cv_error *error)
{
    cv_db_result_free(cv_take(subtitles->rows));
    int result = export_fetch(export, &subtitles->rows, error);
    subtitles->first = subtitles->at;
    subtitles->at += result ? 0 : cv_db_rows(subtitles->rows);
    return result;
}

/* Loads the row of a cue. Cues are nearly in the order of rows, because a line that waited for its
 * turn comes later. */
static int find_row(const struct export *export, struct subtitles *subtitles, int row,
                    struct cv_error *error)
{
    if (row < subtitles->first) {
        char statement[64];
        /* Cues of earlier rows may follow. */
        int at = row < PORTION_ROWS / 4 ? 0 : row - PORTION_ROWS / 4;
        (void)snprintf(statement, sizeof(statement), "MOVE ABSOLUTE %d FROM export_rows", at);
        CV_TRY(cv_db_run(export->db, NULL, error, statement));
        subtitles->at = at;
        CV_TRY(read_portion(export, subtitles, error));
    }
    while (row >= subtitles->at) {
        int before = subtitles->at;
        CV_TRY(read_portion(export, subtitles, error));
        if (subtitles->at == before) {
            return cv_fail(error, CV_ERROR_INTERNAL, "a line of the export is gone");
        }
    }
    return 0;
}

/* Reads the times of all rows, makes the cues, and goes back to the first row. */
static int begin_subtitles(struct export *export, const char *sql, const char *parameter,
                           struct subtitles *subtitles, struct cv_error *error)
{
    enum cv_export_format format = export->params->format;
    CV_TRY(export_open_rows(export, sql, parameter, true, error));
    for (int count = PORTION_ROWS; count == PORTION_ROWS;) {
        CV_TRY(read_portion(export, subtitles, error));
        count = cv_db_rows(subtitles->rows);
        if (subtitles->first == 0) {
            bool wanted = format == CV_EXPORT_ASS ||
                          (format == CV_EXPORT_VTT && !export->params->no_positions);
            subtitles->is_positioned =
                wanted && read_size(subtitles->rows, &subtitles->width, &subtitles->height);
        }
        CV_TRY(add_times(&subtitles->schedule, subtitles->rows, error));
    }
    make_cues(&subtitles->schedule, subtitles->is_positioned);
    CV_TRY(cv_db_run(export->db, NULL, error, "MOVE ABSOLUTE 0 FROM export_rows"));
    subtitles->at = 0;
    return read_portion(export, subtitles, error);
}

/* SubRip and WebVTT. The time of day is a comment, which players do not show; SubRip has none. */
static void append_cue(struct export *export, const struct subtitles *subtitles, int number,
                       const struct cue *cue, int row)
{
    struct cv_buffer *text = &export->text;
    bool is_vtt = export->params->format == CV_EXPORT_VTT;
    const char *shown_at = cv_db_text(subtitles->rows, row, "shown_at");
    if (is_vtt && shown_at) {
        cv_buffer_printf(text, "NOTE %s\n\n", shown_at);
    }
    cv_buffer_printf(text, "%d\n", number);
    export_append_time(text, cue->start, is_vtt ? '.' : ',');
    cv_buffer_text(text, " --> ");
    export_append_time(text, cue->end, is_vtt ? '.' : ',');
    if (subtitles->is_positioned && cv_db_text(subtitles->rows, row, "x")) {
        double x = percent(subtitles->rows, row, "x", subtitles->width);
        double size = percent(subtitles->rows, row, "width", subtitles->width);
        cv_buffer_printf(text, " line:%.1f%% position:%.1f%%,line-left size:%.1f%% align:left",
                         percent(subtitles->rows, row, "y", subtitles->height), x,
                         size < 100 - x ? size : 100 - x);
    }
    cv_buffer_text(text, "\n");
    append_cue_text(text, cv_db_text(subtitles->rows, row, "text"), export->params->format);
    cv_buffer_text(text, "\n\n");
}

static void append_ass_time(struct cv_buffer *text, int64_t ms)
{
    cv_buffer_printf(text, "%lld:%02d:%02d.%02d", (long long)(ms / 3600000), (int)(ms / 60000 % 60),
                     (int)(ms / 1000 % 60), (int)(ms % 1000 / 10));
}

static void append_ass_head(struct cv_buffer *text, const struct subtitles *subtitles)
{
    cv_buffer_printf(text,
                     "[Script Info]\nScriptType: v4.00+\nPlayResX: %d\nPlayResY: %d\n"
                     "WrapStyle: 2\n\n[V4+ Styles]\n"
                     "Format: Name, Fontname, Fontsize, PrimaryColour, OutlineColour, BackColour, "
                     "BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV\n"
                     "Style: Default,Sans,%d,&H00FFFFFF,&H00000000,&H80000000,3,1,0,%d,10,10,10\n\n"
                     "[Events]\nFormat: Layer, Start, End, Style, Name, Text\n",
                     subtitles->width, subtitles->height, subtitles->height / 20,
                     subtitles->is_positioned ? 7 : 2);
}

/* Writes every line at its place on screen, in its height. Its time of day is the name, which players do not show. */
static void append_ass(struct cv_buffer *text, const struct subtitles *subtitles,
                       const struct cue *cue, int row)
{
    const struct cv_db_result *rows = subtitles->rows;
    cv_buffer_text(text, "Dialogue: 0,");
    append_ass_time(text, cue->start);
    cv_buffer_text(text, ",");
    append_ass_time(text, cue->end);
    const char *shown_at = cv_db_text(rows, row, "shown_at");
    cv_buffer_printf(text, ",Default,%s,", shown_at ? shown_at : "");
    if (subtitles->is_positioned && cv_db_text(rows, row, "x")) {
        cv_buffer_printf(text, "{\\pos(%.0f,%.0f)\\fs%.0f}", cv_db_double(rows, row, "x", 0),
                         cv_db_double(rows, row, "y", 0), cv_db_double(rows, row, "height", 0));
    }
    append_cue_text(text, cv_db_text(rows, row, "text"), CV_EXPORT_ASS);
    cv_buffer_text(text, "\n");
}

int export_subtitles(struct export *export, const char *sql, const char *parameter,
                     struct cv_error *error)
{
    cv_auto(subtitles_deinit) struct subtitles subtitles = {.width = 1920, .height = 1080};
    enum cv_export_format format = export->params->format;
    CV_TRY(begin_subtitles(export, sql, parameter, &subtitles, error));
    if (format == CV_EXPORT_ASS) {
        append_ass_head(&export->text, &subtitles);
    } else {
        cv_buffer_text(&export->text, format == CV_EXPORT_VTT ? "WEBVTT\n\n" : "");
    }
    for (int i = 0; i < subtitles.schedule.count; i++) {
        const struct cue *cue = &subtitles.schedule.cues[i];
        CV_TRY(find_row(export, &subtitles, cue->row, error));
        int row = cue->row - subtitles.first;
        if (format == CV_EXPORT_ASS) {
            append_ass(&export->text, &subtitles, cue, row);
        } else {
            append_cue(export, &subtitles, i + 1, cue, row);
        }
        CV_TRY(export_pass_piece(export, error));
    }
    return export_close_rows(export, error);
}
