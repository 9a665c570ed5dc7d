#include "cli/progress.h"

#include "cli/text.h"

#include <poll.h>
#include <string.h>

enum {
    REFRESH_MS = 200,
    BAR_WIDTH = 30,
    STAGE_COUNT = 4,
    FIRST_AGAIN = 2, /* a video that is read again begins here */
};

static const char *const stages[STAGE_COUNT] = {"transcode", "sample", "ocr", "segment_index"};

/* What a video's stage was last shown as. */
struct shown {
    char status[16];
    bool failed;
};

struct stage_sum {
    double progress;
    size_t done;
    size_t failed;
    int64_t running_ms;
    char doing[64];
};

struct watch {
    const struct cli_video_list *list;
    struct shown *shown; /* video × stage */
    bool is_terminal;
    bool has_blocks; /* the terminal can show them */
    int drawn;       /* lines of bars above the cursor */
};

static int stage_index(const char *name)
{
    for (int i = 0; i < STAGE_COUNT; i++) {
        if (strcmp(stages[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

static size_t video_index(const struct cli_video_list *list, const char *id)
{
    size_t i = 0;
    while (i < list->count && strcmp(list->videos[i].id, id) != 0) {
        i++;
    }
    return i;
}

/* The ids as PostgreSQL writes an array; `runs`: those of runs that read videos again. */
static int id_array(const struct cli_video_list *list, bool runs, char **ret_text,
                    struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    cv_buffer_text(&text, "{");
    for (size_t i = 0; i < list->count; i++) {
        const char *id = runs ? list->videos[i].run_id : list->videos[i].id;
        if (id[0] != '\0') {
            cv_buffer_printf(&text, "%s%s", text.length > 1 ? "," : "", id);
        }
    }
    cv_buffer_text(&text, "}");
    return cv_buffer_take(&text, ret_text, error);
}

static void erase_bars(struct watch *watch)
{
    if (watch->drawn > 0) {
        (void)printf("\033[%dA\033[J", watch->drawn);
        watch->drawn = 0;
    }
}

static void tell_failure(struct watch *watch, const char *name, const struct cv_db_result *rows,
                         int row)
{
    erase_bars(watch);
    (void)fflush(stdout);
    const char *retry = cv_db_text(rows, row, "retry_in_ms");
    char duration[CLI_TIME_SIZE];
    cli_put(stderr, name);
    (void)fprintf(stderr, ": %s failed: %s: ", cv_db_text(rows, row, "step"),
                  cv_db_text(rows, row, "error_type") ? cv_db_text(rows, row, "error_type")
                                                      : "Unknown");
    cli_put(stderr,
            cv_db_text(rows, row, "error_message") ? cv_db_text(rows, row, "error_message") : "");
    if (retry) {
        (void)fprintf(stderr, " (again in %s)",
                      cli_duration(cv_db_int(rows, row, "retry_in_ms", 0), duration));
    }
    (void)fputc('\n', stderr);
}

/* Tells what has changed of one stage of one video. */
static void tell_change(struct watch *watch, const struct cv_db_result *rows, int row)
{
    size_t video = video_index(watch->list, cv_db_text(rows, row, "video_id"));
    const char *step = cv_db_text(rows, row, "step");
    int stage = stage_index(step);
    if (video == watch->list->count || stage < 0 ||
        (stage < FIRST_AGAIN && watch->list->videos[video].run_id[0] != '\0')) {
        return;
    }
    struct shown *shown = &watch->shown[video * STAGE_COUNT + (size_t)stage];
    const char *status = cv_db_text(rows, row, "status");
    if (strcmp(shown->status, status) == 0) {
        return;
    }
    (void)snprintf(shown->status, sizeof(shown->status), "%s", status);
    const char *name = watch->list->videos[video].name;
    char duration[CLI_TIME_SIZE];
    if (strcmp(status, "failed") == 0) {
        tell_failure(watch, name, rows, row);
    } else if (!watch->is_terminal && strcmp(status, "queued") != 0) {
        cli_put(stdout, name);
        (void)fputs(": ", stdout);
        cli_put(stdout, step);
        (void)putchar(' ');
        cli_put(stdout, strcmp(status, "processing") == 0 ? "started" : status);
        if (strcmp(status, "done") == 0) {
            (void)printf(" in %s", cli_duration(cv_db_int(rows, row, "running_ms", 0), duration));
        }
        (void)putchar('\n');
    }
}

static void add_to_sum(struct stage_sum *sum, const struct cv_db_result *rows, int row)
{
    const char *status = cv_db_text(rows, row, "status");
    const char *doing = cv_db_text(rows, row, "progress_message");
    sum->progress += cv_db_double(rows, row, "progress", 0);
    sum->done += strcmp(status, "done") == 0;
    sum->failed += strcmp(status, "failed") == 0 && !cv_db_text(rows, row, "retry_in_ms");
    sum->running_ms += cv_db_int(rows, row, "running_ms", 0);
    if (strcmp(status, "processing") == 0) {
        (void)snprintf(sum->doing, sizeof(sum->doing), "%s", doing ? doing : "working");
    } else if (strcmp(status, "failed") == 0 && cv_db_text(rows, row, "retry_in_ms")) {
        (void)snprintf(sum->doing, sizeof(sum->doing), "waits for its next try");
    }
}

static void draw_bar(const struct watch *watch, const char *stage, const struct stage_sum *sum)
{
    size_t count = watch->list->count;
    double fraction = count > 0 ? sum->progress / (double)count : 0;
    int filled = (int)(fraction * BAR_WIDTH + 0.5);
    (void)printf("  %-14s ", stage);
    for (int i = 0; i < BAR_WIDTH; i++) {
        (void)fputs(i < filled ? (watch->has_blocks ? "█" : "#") : (watch->has_blocks ? "░" : "-"),
                    stdout);
    }
    (void)printf(" %3d %%  ", (int)(fraction * 100));
    char duration[CLI_TIME_SIZE];
    if (count > 1) {
        (void)printf("%zu of %zu  ", sum->done, count);
    }
    if (sum->done == count) {
        (void)printf("%s", cli_duration(sum->running_ms, duration));
    } else if (sum->failed > 0) {
        (void)printf("%zu failed", sum->failed);
    } else {
        cli_put(stdout, sum->doing);
    }
    (void)fputs("\033[K\n", stdout);
}

static void draw(struct watch *watch, const struct cv_db_result *rows)
{
    struct stage_sum sums[STAGE_COUNT] = {0};
    for (int i = 0; i < cv_db_rows(rows); i++) {
        int stage = stage_index(cv_db_text(rows, i, "step"));
        if (stage >= 0) {
            add_to_sum(&sums[stage], rows, i);
        }
    }
    if (watch->drawn > 0) {
        (void)printf("\033[%dA", watch->drawn);
    }
    for (int i = 0; i < STAGE_COUNT; i++) {
        draw_bar(watch, stages[i], &sums[i]);
    }
    watch->drawn = STAGE_COUNT;
}

static int look(struct cli_session *session, struct watch *watch, const char *ids, const char *runs,
                size_t *ret_waiting, size_t *ret_failed, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *counts = NULL;
    int result = cv_db_run(session->db, &rows, error,
                           "SELECT video_id, step, status, progress, progress_message, running_ms,"
                           " error_type, error_message, (extract(epoch FROM retry_at"
                           " - clock_timestamp()) * 1000)::bigint AS retry_in_ms"
                           " FROM pipeline_stages WHERE video_id = ANY ($1::uuid[])",
                           ids);
    result = result ? result
                    : cv_db_run(session->db, &counts, error,
                                "SELECT count(*) FILTER (WHERE v.status NOT IN ('ready', 'failed')"
                                " OR r.status = 'running') AS waiting,"
                                " count(*) FILTER (WHERE v.status = 'failed'"
                                " OR r.status IN ('failed', 'canceled')) AS failed"
                                " FROM videos v LEFT JOIN runs r"
                                " ON r.video_id = v.id AND r.id = ANY ($2::uuid[])"
                                " WHERE v.id = ANY ($1::uuid[])",
                                ids, runs);
    if (result) {
        return result;
    }
    for (int i = 0; i < cv_db_rows(rows); i++) {
        tell_change(watch, rows, i);
    }
    if (watch->is_terminal) {
        draw(watch, rows);
    }
    (void)fflush(stdout);
    *ret_waiting = (size_t)cv_db_int(counts, 0, "waiting", 0);
    *ret_failed = (size_t)cv_db_int(counts, 0, "failed", 0);
    return 0;
}

static bool terminal_has_blocks(void)
{
    const char *locale = cv_env("LC_ALL", cv_env("LC_CTYPE", cv_env("LANG", "")));
    return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
}

int cli_wait_for_videos(struct cli_session *session, struct cli_workers *workers,
                        const struct cli_video_list *list, struct cv_cancel *cancel,
                        size_t *ret_failed, struct cv_error *error)
{
    cv_auto_free char *ids = NULL;
    cv_auto_free char *runs = NULL;
    int result = id_array(list, false, &ids, error);
    result = result ? result : id_array(list, true, &runs, error);
    if (result) {
        return result;
    }
    cv_auto_free struct shown *shown = calloc(list->count * STAGE_COUNT + 1, sizeof(*shown));
    if (!shown) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the progress");
    }
    struct watch watch = {
        .list = list,
        .shown = shown,
        .is_terminal = isatty(STDOUT_FILENO) && strcmp(cv_env("TERM", "dumb"), "dumb") != 0,
        .has_blocks = terminal_has_blocks(),
    };
    for (;;) {
        size_t waiting = 0;
        result = look(session, &watch, ids, runs, &waiting, ret_failed, error);
        if (result || waiting == 0) {
            return result;
        }
        result = cli_workers_check(workers, error);
        struct pollfd wait = {.fd = cv_cancel_fd(cancel), .events = POLLIN};
        if (result || poll(&wait, 1, REFRESH_MS) > 0) {
            return result ? result : cv_fail(error, CV_ERROR_CANCELED, "interrupted");
        }
    }
}
