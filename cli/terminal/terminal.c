#include "cli/terminal/terminal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <utf8proc.h>

enum { MS_PER_SECOND = 1000, MS_PER_MINUTE = 60000, MS_PER_HOUR = 3600000, MS_PER_DAY = 86400000 };

enum { COLUMNS_DEFAULT = 80, ROWS_DEFAULT = 24, COLUMNS_LEAST = 20 };

/* Longer than any video; sums of such times cannot overflow. */
static const int64_t time_max_ms = INT64_C(1000) * MS_PER_HOUR;

const char *cli_time(int64_t ms, char text[CLI_TIME_SIZE])
{
    int64_t hours = ms / MS_PER_HOUR;
    int minutes = (int)(ms / MS_PER_MINUTE % 60);
    int seconds = (int)(ms / MS_PER_SECOND % 60);
    if (hours > 0) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 ":%02d:%02d.%03d", hours, minutes, seconds,
                       (int)(ms % MS_PER_SECOND));
    } else {
        (void)snprintf(text, CLI_TIME_SIZE, "%d:%02d.%03d", minutes, seconds,
                       (int)(ms % MS_PER_SECOND));
    }
    return text;
}

const char *cli_duration(int64_t ms, char text[CLI_TIME_SIZE])
{
    if (ms < MS_PER_SECOND) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " ms", ms);
    } else if (ms < 2 * MS_PER_MINUTE) {
        (void)snprintf(text, CLI_TIME_SIZE, "%.1f s", (double)ms / MS_PER_SECOND);
    } else if (ms < 2 * MS_PER_HOUR) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " min", ms / MS_PER_MINUTE);
    } else if (ms < 2 * (int64_t)MS_PER_DAY) {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " h", ms / MS_PER_HOUR);
    } else {
        (void)snprintf(text, CLI_TIME_SIZE, "%" PRId64 " d", ms / MS_PER_DAY);
    }
    return text;
}

const char *cli_counted(int64_t number, const char *one, const char *many,
                        char text[CLI_COUNTED_SIZE])
{
    (void)snprintf(text, CLI_COUNTED_SIZE, "%" PRId64 " %s", number, number == 1 ? one : many);
    return text;
}

enum { COLONS_MAX = 2 }; /* H:M:S */

/* Parses "H:M:S.s" or "M:S.s": all parts but the last are whole numbers, and all but the first are
 * below 60. */
static bool parse_clock(const char *text, int64_t *ret_ms)
{
    int64_t whole = 0;
    const char *part = text;
    int colons = 0;
    for (const char *colon; (colon = strchr(part, ':')); part = colon + 1) {
        char number[16];
        int64_t value = 0;
        size_t length = (size_t)(colon - part);
        if (length == 0 || length >= sizeof(number) || ++colons > COLONS_MAX) {
            return false;
        }
        memcpy(number, part, length);
        number[length] = '\0';
        if (!cv_parse_int(number, 0, part == text ? 1000000 : 59, &value)) {
            return false;
        }
        whole = (whole + value) * 60;
        if (whole > time_max_ms / MS_PER_SECOND) {
            return false;
        }
    }
    double seconds = 0;
    if (!cv_parse_double(part, 0, part == text ? 1e6 : 59.9999, &seconds)) {
        return false;
    }
    *ret_ms = whole * MS_PER_SECOND + (int64_t)(seconds * MS_PER_SECOND + 0.5);
    return *ret_ms <= time_max_ms;
}

/* Parses "1h2m3.5s", "90s", "3400ms": numbers with units, each unit at most once, larger ones
 * first. */
static bool parse_units(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"h", MS_PER_HOUR}, {"m", MS_PER_MINUTE}, {"s", MS_PER_SECOND}, {"ms", 1}};
    double sum = 0;
    size_t unit = 0;
    for (const char *part = text; *part;) {
        char number[CLI_TIME_SIZE];
        double value = 0;
        size_t digits = strspn(part, "0123456789.");
        size_t letters = strspn(part + digits, "hms");
        (void)snprintf(number, sizeof(number), "%.*s", (int)digits, part);
        while (unit < CV_COUNT(units) && (strlen(units[unit].name) != letters ||
                                          strncmp(units[unit].name, part + digits, letters) != 0)) {
            unit++;
        }
        if (unit == CV_COUNT(units) || !cv_parse_double(number, 0, 1e12, &value)) {
            return false;
        }
        sum += value * (double)units[unit++].ms;
        part += digits + letters;
    }
    *ret_ms = (int64_t)(sum + 0.5);
    return sum <= (double)time_max_ms;
}

bool cli_parse_time(const char *text, int64_t *ret_ms)
{
    size_t length = strlen(text);
    if (length == 0 || length >= CLI_TIME_SIZE || text[0] == '-') {
        return false;
    }
    return strpbrk(text, "hms") ? parse_units(text, ret_ms) : parse_clock(text, ret_ms);
}

/* Reads one character of `text` at *at; a blank for control characters, U+FFFD for bytes that are
 * not UTF-8. */
static utf8proc_int32_t next_character(const char *text, size_t length, size_t *at)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)text + *at,
                                             (utf8proc_ssize_t)(length - *at), &c);
    if (step <= 0) {
        *at += 1;
        return 0xfffd;
    }
    *at += (size_t)step;
    return c < 0x20 || (c >= 0x7f && c < 0xa0) ? ' ' : c;
}

static void put_character(FILE *file, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t length = utf8proc_encode_char(c, bytes);
    (void)fwrite(bytes, 1, length > 0 ? (size_t)length : 0, file);
}

void cli_put(FILE *file, const char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        put_character(file, next_character(text, length, &at));
    }
}

int cli_width(const char *text)
{
    int width = 0;
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        width += utf8proc_charwidth(next_character(text, length, &at));
    }
    return width;
}

/* The number of bytes of `text` that fit into `width` columns. */
static size_t fitting(const char *text, int width)
{
    size_t length = strlen(text);
    size_t end = 0;
    for (size_t at = 0; at < length; end = at) {
        width -= utf8proc_charwidth(next_character(text, length, &at));
        if (width < 0) {
            break;
        }
    }
    return end;
}

void cli_put_cut(FILE *file, const char *text, int width)
{
    bool is_cut = cli_width(text) > width;
    size_t end = fitting(text, is_cut ? width - 1 : width);
    for (size_t at = 0; at < end;) {
        put_character(file, next_character(text, end, &at));
    }
    if (is_cut && width > 0) {
        put_character(file, 0x2026);
    }
}

void cli_put_column(FILE *file, const char *text, int width)
{
    int whole = cli_width(text);
    cli_put_cut(file, text, width);
    if (whole < width) {
        (void)fprintf(file, "%*s", width - whole, "");
    }
}

/* Appends `text` to a buffer, cut to `width` columns. */
static void cli_append_cut(struct cv_buffer *buffer, const char *text, int width)
{
    bool is_cut = cli_width(text) > width;
    size_t end = fitting(text, is_cut ? width - 1 : width);
    for (size_t at = 0; at < end;) {
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t length = utf8proc_encode_char(next_character(text, end, &at), bytes);
        cv_buffer_append(buffer, bytes, length > 0 ? (size_t)length : 0);
    }
    if (is_cut && width > 0) {
        cv_buffer_text(buffer, "\u2026");
    }
}

/* ---- the terminal ---------------------------------------------------------------------------- */

bool cli_is_terminal(int fd)
{
    return isatty(fd) == 1 && strcmp(cv_env("TERM", "dumb"), "dumb") != 0;
}

bool cli_has_colors(void)
{
    return cli_is_terminal(STDOUT_FILENO) && !cv_env("NO_COLOR", NULL);
}

void cli_terminal_size(int fd, int *ret_columns, int *ret_rows)
{
    struct winsize size = {0};
    int64_t columns = COLUMNS_DEFAULT;
    int64_t rows = ROWS_DEFAULT;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        columns = size.ws_col;
        rows = size.ws_row;
    } else if (!cv_parse_int(cv_env("COLUMNS", "80"), COLUMNS_LEAST, INT16_MAX, &columns)) {
        columns = COLUMNS_DEFAULT;
    }
    *ret_columns = columns < COLUMNS_LEAST ? COLUMNS_LEAST : (int)columns;
    *ret_rows = (int)rows;
}

/* Whether the locale can print the block characters of bars. */
static bool cli_has_blocks(void)
{
    const char *locale = cv_env("LC_ALL", cv_env("LC_CTYPE", cv_env("LANG", "")));
    return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
}

/* ---- tables -------------------------------------------------------------------------------------- */

enum {
    GAP = 2,          /* blanks between columns */
    COLUMNS_MAX = 16, /* of one table */
    WIDTH_LEAST = 6,  /* least width of a column */
};

/* Makes the text of a cell; free() it. */
static int make_cell(const json_t *row, const struct cli_column *column, bool is_short,
                     char **ret_text, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    char pattern[80];
    bool is_pattern = strpbrk(column->name, "{[") != NULL;
    (void)snprintf(pattern, sizeof(pattern), "{%.77s}", column->name);
    cli_expand(&text, is_pattern ? column->name : pattern, row, is_short);
    CV_TRY(cv_buffer_detach(&text, ret_text, error));
    cv_redact(*ret_text);
    return 0;
}

/* Narrows the widest columns until the line fits. */
static void fit(int widths[COLUMNS_MAX], size_t count, int line)
{
    int sum = (int)(count - 1) * GAP;
    for (size_t i = 0; i < count; i++) {
        sum += widths[i];
    }
    while (sum > line) {
        size_t widest = 0;
        for (size_t i = 1; i < count; i++) {
            widest = widths[i] >= widths[widest] ? i : widest;
        }
        if (widths[widest] <= WIDTH_LEAST) {
            break;
        }
        widths[widest]--;
        sum--;
    }
}

static void print_cell(const char *text, int width, bool is_last)
{
    if (is_last) {
        cli_put_cut(stdout, text, width);
        (void)putchar('\n');
    } else {
        cli_put_column(stdout, text, width);
        (void)printf("%*s", GAP, "");
    }
}

int cli_print_table(const json_t *rows, const struct cli_column *columns, size_t count,
                    struct cv_error *error)
{
    bool is_terminal = isatty(STDOUT_FILENO) == 1;
    int widths[COLUMNS_MAX] = {0};
    size_t at;
    json_t *row;
    assert(count <= COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) {
        widths[i] = cli_width(columns[i].title);
        json_array_foreach(rows, at, row)
        {
            cv_auto_free char *text = NULL;
            CV_TRY(make_cell(row, &columns[i], is_terminal, &text, error));
            widths[i] = cv_max(cli_width(text), widths[i]);
        }
    }
    if (is_terminal) {
        int line = 0;
        int height = 0;
        cli_terminal_size(STDOUT_FILENO, &line, &height);
        fit(widths, count, line);
    }
    for (size_t i = 0; i < count; i++) {
        print_cell(columns[i].title, widths[i], i + 1 == count);
    }
    json_array_foreach(rows, at, row)
    {
        for (size_t i = 0; i < count; i++) {
            cv_auto_free char *text = NULL;
            CV_TRY(make_cell(row, &columns[i], is_terminal, &text, error));
            print_cell(text, widths[i], i + 1 == count);
        }
    }
    return 0;
}

int cli_print_objects(const json_t *rows, struct cv_error *error)
{
    size_t at;
    json_t *row;
    json_array_foreach(rows, at, row)
    {
        cv_auto_free char *line = json_dumps(row, JSON_COMPACT | JSON_ENCODE_ANY);
        CV_TRY_MEMORY(line, error, "a line");
        cv_redact(line);
        (void)puts(line);
    }
    return 0;
}

/* ---- progress ------------------------------------------------------------------------------------ */

enum {
    LABEL_LEAST = 14, /* columns: the longest name of a stage */
    LABEL_MAX = 24,
    BAR_MAX = 30,
    BAR_LEAST = 8,         /* columns; a shorter bar is less exact than its number */
    NOTE_WANTED = 24,      /* columns kept for the note before the bar gets any */
    PERCENT_COLUMNS = 7,   /* " 100 % " */
    TELL_EVERY_MS = 30000, /* between plain lines: 120 in an hour's log */
};

void cli_progress_init(struct cli_progress *progress, bool quiet, bool plain)
{
    *progress = (struct cli_progress){
        .is_drawn = !quiet && !plain && cli_is_terminal(STDERR_FILENO),
        .has_blocks = cli_has_blocks(),
        .told_at_ms = cv_monotonic_ms(),
        .frame = CV_BUFFER_INIT,
    };
    progress->is_told = !quiet && !progress->is_drawn;
    if (plain) {
        progress->told_at_ms = INT64_MAX / 2; /* no more lines */
    }
}

void cli_progress_deinit(struct cli_progress *progress)
{
    cv_buffer_deinit(&progress->frame);
}

void cli_progress_begin(struct cli_progress *progress)
{
    cv_buffer_clear(&progress->frame);
    progress->new_count = 0;
    cli_terminal_size(STDERR_FILENO, &progress->columns, &progress->rows);
}

static void append_bar(struct cli_progress *progress, double fraction, int width)
{
    int filled = (int)(fraction * width + 0.5);
    const char *full = progress->has_blocks ? "█" : "#";
    const char *empty = progress->has_blocks ? "░" : "-";
    for (int i = 0; i < width; i++) {
        cv_buffer_text(&progress->frame, i < filled ? full : empty);
    }
}

void cli_progress_row(struct cli_progress *progress, const char *label, double fraction,
                      const char *note)
{
    /* The last column stays empty, because some terminals wrap a full line. */
    int left = progress->columns - 1;
    int label_width = cli_width(label);
    label_width = label_width < LABEL_LEAST ? LABEL_LEAST
                  : label_width > LABEL_MAX ? LABEL_MAX
                                            : label_width;
    label_width = label_width > left / 2 ? left / 2 : label_width;
    int bar = left - label_width - PERCENT_COLUMNS - 2 - NOTE_WANTED;
    bar = bar > BAR_MAX ? BAR_MAX : bar;
    if (progress->new_count == CLI_PROGRESS_ROWS || progress->new_count >= progress->rows - 1) {
        return;
    }
    size_t start = progress->frame.length;
    cli_append_cut(&progress->frame, label, label_width);
    if (progress->is_drawn) {
        for (int i = cli_width(label); i < label_width; i++) {
            cv_buffer_text(&progress->frame, " ");
        }
        left -= label_width;
    }
    if (fraction >= 0) {
        cv_buffer_text(&progress->frame, " ");
        if (progress->is_drawn && bar >= BAR_LEAST) {
            append_bar(progress, fraction, bar);
            left -= bar;
        }
        cv_buffer_printf(&progress->frame, "%4d %% ", (int)(fraction * 100));
        left -= PERCENT_COLUMNS + 1;
    }
    if (note[0] != '\0' && left > 1) {
        cv_buffer_text(&progress->frame, " ");
        cli_append_cut(&progress->frame, note, progress->is_drawn ? left - 1 : INT16_MAX);
    }
    size_t width = progress->frame.failed ? 0 : (size_t)cli_width(progress->frame.data + start);
    cv_buffer_text(&progress->frame, progress->is_drawn ? "\033[K\n" : "\n");
    if (!progress->frame.failed) {
        progress->new_widths[progress->new_count++] = (int)width;
    }
}

/* The rows that the lines take now: if the window became narrower, a line may take several. */
static int rows_above(const struct cli_progress *progress)
{
    int columns = 0;
    int height = 0;
    int rows = 0;
    cli_terminal_size(STDERR_FILENO, &columns, &height);
    for (int i = 0; i < progress->row_count; i++) {
        rows += progress->widths[i] > columns ? (progress->widths[i] + columns - 1) / columns : 1;
    }
    return rows;
}

void cli_progress_erase(struct cli_progress *progress)
{
    if (progress->row_count > 0) {
        (void)fprintf(stderr, "\033[%dA\r\033[J", rows_above(progress));
        (void)fflush(stderr);
    }
    progress->row_count = 0;
}

void cli_progress_end(struct cli_progress *progress)
{
    int64_t now_ms = cv_monotonic_ms();
    if (progress->frame.failed || progress->new_count == 0) {
        return;
    }
    if (progress->is_drawn) {
        /* Writes over the old rows and erases their rests row by row. Erasing from the first row on
         * would make tmux keep a copy of the screen. */
        int rows = rows_above(progress);
        int left_over = rows - progress->new_count;
        if (rows > 0) {
            (void)fprintf(stderr, "\033[%dA\r", rows);
        }
        (void)fputs(progress->frame.data, stderr);
        for (int i = 0; i < left_over; i++) {
            (void)fputs("\033[K\n", stderr);
        }
        if (left_over > 0) {
            (void)fprintf(stderr, "\033[%dA", left_over);
        }
        memcpy(progress->widths, progress->new_widths, sizeof(progress->widths));
        progress->row_count = progress->new_count;
    } else if (progress->is_told && now_ms >= progress->told_at_ms + TELL_EVERY_MS) {
        (void)fputs(progress->frame.data, stderr);
        progress->told_at_ms = now_ms;
    }
    (void)fflush(stderr);
}

void cli_progress_say(struct cli_progress *progress, const char *text)
{
    if (!progress->is_drawn && !progress->is_told) {
        return;
    }
    cli_progress_erase(progress);
    cli_put(stderr, text);
    (void)fputc('\n', stderr);
    (void)fflush(stderr);
}
