#include "cli/commands/clip.h"
#include "cli/commands/export.h"
#include "cli/commands/ingest.h"
#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/page.h"
#include "cli/commands/sources.h"
#include "cli/commands/subtitles.h"
#include "cli/commands/verbs.h"
#include "cli/commands/wait.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FPS_MAX = 120,
    LINES_SHOWN = 20, /* of a video's text; more would push names and links off the screen */
};

struct run {
    struct cli_call *call;
    struct cli_import_options import;
    struct cli_sources sources;
    struct cli_video_list list;
    struct cli_workers workers;
    char *link; /* to the example in the page; NULL: nothing was found, or no page is available */
};

static void run_deinit(struct run *run)
{
    cli_workers_stop(&run->workers);
    free(run->link);
    cli_video_list_deinit(&run->list);
    cli_sources_deinit(&run->sources);
    json_decref(run->import.options);
}
CV_DEFINE_CLEANUP_ADDRESS(struct run, run_deinit)

/* ---- the command line ------------------------------------------------------------------------ */

static int read_fps(struct cli_call *call, json_t *payload)
{
    double fps = 0;
    const char *text = cli_value(call, "target-fps");
    if (text && !cv_parse_double(text, 0.1, FPS_MAX, &fps)) {
        return cli_usage(call, "--target-fps takes a number from 0.1 to %d, not '%s'", FPS_MAX,
                         text);
    }
    bool is_whole = fps == (double)(int)fps;
    return text && json_object_set_new(payload, "target_fps",
                                       is_whole ? json_integer((int)fps) : json_real(fps))
               ? cli_usage(call, "no memory for --target-fps")
               : 0;
}

/* Checks the folder of --export, models and files before hours of work. */
static int check(struct run *run, struct cv_error *error)
{
    struct cli_call *call = run->call;
    const char *export_path = cli_value(call, "export");
    const char *workers = cli_value(call, "workers");
    json_t *languages = NULL;
    CV_TRY(cli_read_languages(call, true, &languages));
    if (languages && json_object_set_new(run->import.options, "languages", languages)) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "no memory for the languages");
    }
    CV_TRY(read_fps(call, run->import.options));
    if (workers && !cli_workers_parse(&run->workers, workers)) {
        return cli_usage(call, "--workers takes STAGE=N,… with N from 1 to %d, not '%s'",
                         CLI_SLOTS_MAX, workers);
    }
    if (call->count == 0 &&
        (export_path || run->import.text_only || json_object_size(run->import.options) > 0)) {
        return cli_usage(
            call,
            "--export, --languages, --target-fps and --text-only are for videos that are named");
    }
    if (export_path) {
        char format[CLI_EXTENSION_SIZE];
        CV_TRY(cli_output_format(call, export_path, CV_EXPORT_FORMATS, format));
        const char *slash = strrchr(export_path, '/');
        char folder[PATH_MAX];
        (void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - export_path) + 1 : 1,
                       slash ? export_path : ".");
        CV_TRY_ERRNO(access(folder, W_OK) == 0, error, "cannot write %s into %s", export_path,
                     folder);
    }
    CV_TRY(cli_sources_find(call, &run->sources, cli_given(call, "recursive"), error));
    return run->sources.bad > 0 && run->sources.count == 0 ? CLI_EXIT_FAILED : 0;
}

/* ---- taking in ------------------------------------------------------------------------------- */

static void say(const struct run *run, const char *format, ...) CV_PRINTF(2, 3);

static void say(const struct run *run, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (run->call->quiet || run->call->json) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    cli_put(stderr, text);
    (void)fputc('\n', stderr);
}

static int add_path(void *opaque, const char *path, const char *name, struct cv_error *error)
{
    struct run *run = opaque;
    struct cli_call *call = run->call;
    size_t before = run->list.count;
    CV_TRY(cli_ingest(&call->session, path, name, &run->import, call->cancel, &run->list, error));
    if (run->list.count == before) {
        say(run, "%s is left out: it has the same bytes as another file of this command", path);
        return 0;
    }
    const struct cli_video *video = &run->list.videos[before];
    CV_TRY(cli_add_subtitles_beside(call, video->id, path, error));
    if (video->state != CLI_VIDEO_NEW) {
        say(run, "%s %s: video %s", video->name,
            video->state == CLI_VIDEO_KNOWN      ? "is known already"
            : video->state == CLI_VIDEO_AGAIN    ? "is read again"
            : video->state == CLI_VIDEO_PLAYBACK ? "has its text, and gets playback"
                                                 : "goes on",
            video->id);
    }
    return 0;
}

static int import_videos(struct run *run, struct cv_error *error)
{
    struct cli_call *call = run->call;
    char folder[PATH_MAX + 16];
    size_t others = 0;
    (void)snprintf(folder, sizeof(folder), "%s/scratch", call->session.installation.directory);
    for (size_t i = 0; i < run->sources.count; i++) {
        const struct cli_source *source = &run->sources.sources[i];
        if (source->kind == CLI_SOURCE_URL) {
            say(run, "fetching %s", source->place);
        }
        int result = cli_source_open(source, folder, call, add_path, run, error);
        if (result == CLI_SOURCE_UNREADABLE) {
            cli_put_failure(call, cv_error_type_name(error->type), error->message);
            run->sources.bad++;
            continue;
        }
        CV_TRY(result);
    }
    CV_TRY(cli_resume(&call->session, &run->list, &others, error));
    if (others > 0) {
        say(run, "%zu video%s of earlier runs go%s on as well: cortana videos says how far %s",
            others, others > 1 ? "s" : "", others > 1 ? "" : "es",
            others > 1 ? "they are" : "it is");
    }
    return 0;
}

/* ---- the results ----------------------------------------------------------------------------- */

static void print_head(const json_t *video)
{
    char duration[CLI_TIME_SIZE], texts[CLI_COUNTED_SIZE];
    const char *title = json_string_value(json_object_get(video, "title"));
    const char *id = json_string_value(json_object_get(video, "id"));
    const char *resolution = json_string_value(json_object_get(video, "resolution"));
    const char *trouble = json_string_value(json_object_get(video, "trouble"));
    double fps = json_number_value(json_object_get(video, "fps"));
    (void)putchar('\n');
    cli_put(stdout, title ? title : id);
    (void)printf(
        "  %s  %g fps  %s  %s\n", resolution ? resolution : "", round(fps * 100) / 100,
        cli_time((int64_t)json_number_value(json_object_get(video, "duration_ms")), duration),
        cli_counted(json_integer_value(json_object_get(video, "lines")), "text", "texts", texts));
    (void)printf("video %s\n", id);
    if (trouble) {
        (void)puts(trouble);
    }
    (void)putchar('\n');
}

/* Prints which lines no model has read. */
static void print_unread(const json_t *video)
{
    char text[CLI_UNREAD_TEXT_SIZE];
    size_t i;
    json_t *item;
    const json_t *unread = json_object_get(video, "unread");
    json_array_foreach(unread, i, item)
    {
        (void)printf("%s%s\n",
                     cli_unread_text(item, json_string_value(json_object_get(video, "id")), text),
                     i + 1 < json_array_size(unread) ? "" : "\n");
    }
}

/* Prints the first of the video's texts with their time ranges and entities. */
static int print_texts(struct cli_call *call, const struct cli_video *video, int64_t texts,
                       struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT s.t_start, s.t_end, s.text, (SELECT string_agg(e.entity_type"
                     " || ' ' || e.value, '   ' ORDER BY e.entity_type, e.value)"
                     " FROM entities e WHERE e.segment_id = s.id) AS entities"
                     " FROM segments s WHERE s.video_id = $1::uuid"
                     " ORDER BY s.t_start, s.place, s.id LIMIT $2::bigint",
                     video->id, cv_db_number(LINES_SHOWN).text));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        char start[CLI_TIME_SIZE];
        char end[CLI_TIME_SIZE];
        (void)printf("%11s – %-11s  ", cli_time(cv_db_int(rows, i, "t_start", 0), start),
                     cli_time(cv_db_int(rows, i, "t_end", 0), end));
        cli_put(stdout, cv_db_text(rows, i, "text"));
        (void)putchar('\n');
        if (cv_db_text(rows, i, "entities")) {
            (void)printf("%28s", "");
            cli_put(stdout, cv_db_text(rows, i, "entities"));
            (void)putchar('\n');
        }
    }
    if (texts > cv_db_rows(rows)) {
        char more[CLI_COUNTED_SIZE];
        (void)printf("%28s… and %s: cortana export %.8s has them all\n", "",
                     cli_counted(texts - cv_db_rows(rows), "more line", "more lines", more),
                     video->id);
    }
    return 0;
}

/* Chooses the longest word of the best-read text, as a person might search for it. In a video
 * without words it is a number or some characters; empty if there is no text. */
static int choose_query(struct cli_call *call, const char *video_id, char *query, size_t size,
                        struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT word FROM segments s,"
                     " regexp_split_to_table(s.text, '\\s+') AS piece,"
                     " btrim(piece, '.,;:!?()[]\"''') AS word"
                     " WHERE s.video_id = $1::uuid AND s.source = 'screen'"
                     " AND length(word) BETWEEN 1 AND 24"
                     " AND s.t_end > s.t_start"
                     " ORDER BY word ~ '^[[:alpha:]]{3,}$' DESC, s.confidence >= 0.9 DESC,"
                     " length(word) BETWEEN 5 AND 12 DESC, s.confidence DESC,"
                     " length(word) DESC, word LIMIT 1",
                     video_id));
    (void)snprintf(query, size, "%s", cv_db_rows(rows) > 0 ? cv_db_text(rows, 0, "word") : "");
    return 0;
}

/* Makes a link to a clip that is a file of the store, whose own name is two UUIDs:
 * DIR/clips/feed_0m03.400s-0m05.900s.mp4. Gone with the clip, it points at nothing. */
static int link_clip(const struct run *run, const json_t *clip, const char *path, char **ret_link,
                     struct cv_error *error)
{
    cv_auto_free char *folder = NULL;
    const char *name = json_string_value(json_object_get(clip, "name"));
    cv_auto_free char *link = NULL;
    CV_TRY(cv_format(&folder, error, "%s/clips", run->call->session.installation.directory));
    CV_TRY(cv_format(&link, error, "%s/%s", folder, name));
    CV_TRY_ERRNO(mkdir(folder, 0700) == 0 || errno == EEXIST, error, "make %s", folder);
    CV_TRY_ERRNO(unlink(link) == 0 || errno == ENOENT, error, "replace %s", link);
    CV_TRY_ERRNO(symlink(path, link) == 0, error, "make the link %s", link);
    *ret_link = cv_take(link);
    return 0;
}

/* Searches the video for a word of its own, prints the hit, and cuts a clip around it. */
static int print_example(struct run *run, const struct cli_video *video, struct cv_error *error)
{
    struct cli_call *call = run->call;
    char query[128];
    CV_TRY(choose_query(call, video->id, query, sizeof(query), error));
    if (query[0] == '\0') {
        return 0;
    }
    bool has_colors = cli_has_colors();
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT snippet, t_start, t_end, match_kind"
                     " FROM search_segments($1, $2::uuid, 1, '[', ']')",
                     query, video->id));
    if (cv_db_rows(rows) == 0) {
        return 0;
    }
    int64_t at_ms = cv_db_int(rows, 0, "t_start", 0);
    int64_t end_ms = cv_db_int(rows, 0, "t_end", 0);
    cv_auto(json_decref) json_t *clip = NULL;
    cv_auto(json_decref) json_t *values =
        json_pack("{s:s, s:I, s:I, s:i}", "video_id", video->id, "t_start", (json_int_t)at_ms,
                  "t_end", (json_int_t)end_ms, "padding_ms", CLI_CLIP_PADDING_MS);
    CV_TRY_MEMORY(values, error, "a request");
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    (void)printf("\n%ssearch %s%s\n%11s – %-11s  ", has_colors ? "\033[1m" : "", query,
                 has_colors ? "\033[0m" : "", cli_time(at_ms, start), cli_time(end_ms, end));
    cli_put(stdout, cv_db_text(rows, 0, "snippet"));
    (void)putchar('\n');
    (void)fflush(stdout);

    cv_auto_free char *path = NULL;
    CV_TRY(cli_clip_make(call, &run->workers, "request_clip", values, &clip, error));
    cv_auto_free char *key = cli_clip_key(clip);
    CV_TRY_MEMORY(key, error, "a clip");
    CV_TRY(cli_object_path(call->session.store, key, &path, error));
    cv_auto_free char *link = NULL;
    CV_TRY(path[0] == '/' ? link_clip(run, clip, path, &link, error) : 0);
    (void)printf("clip %s\n", link ? link : path);
    const struct cli_moment moment = {.video_id = video->id, .query = query, .at_ms = at_ms};
    int result = cli_page_link(call, &moment, &run->link, error);
    return result < 0 ? result : 0;
}

/* Exports one video: to FILE.json, or to FILE-1.json, FILE-2.json … if there are several. */
static int export_one(struct run *run, const char *video_id, size_t number, struct cv_error *error)
{
    const char *wanted = cli_value(run->call, "export");
    const char *slash = strrchr(wanted, '/');
    const char *dot = strrchr(slash ? slash : wanted, '.');
    size_t stem = dot ? (size_t)(dot - wanted) : strlen(wanted);
    cv_auto(json_decref) json_t *values = json_pack("{s:s}", "id", video_id);
    CV_TRY_MEMORY(values, error, "a request");
    cv_auto_free char *path = NULL;
    char format[CLI_EXTENSION_SIZE];
    CV_TRY(cli_output_format(run->call, wanted, CV_EXPORT_FORMATS, format));
    CV_TRY(run->list.count == 1
               ? cv_format(&path, error, "%s", wanted)
               : cv_format(&path, error, "%.*s-%zu%s", (int)stem, wanted, number, dot ? dot : ""));
    return cli_export_file(run->call, values, format, path, error);
}

static int show_one(struct run *run, const struct cli_video *video, size_t number,
                    bool *has_example, struct cv_error *error)
{
    struct cli_call *call = run->call;
    cv_auto(json_decref) json_t *found = NULL;
    cv_auto(json_decref) json_t *values = json_pack("{s:s}", "id", video->id);
    CV_TRY_MEMORY(values, error, "a request");
    int result = cli_ask(call, "video", values, &found, error);
    if (result) {
        return error->type == CV_ERROR_NOT_FOUND ? 0 : result; /* it was deleted meanwhile */
    }
    int64_t texts = json_integer_value(json_object_get(found, "lines"));
    const char *status = json_string_value(json_object_get(found, "status"));
    if (call->json) {
        CV_TRY(
            cli_print_outcome(call,
                              json_pack("{s:s, s:s, s:s?, s:I, s:O}", "video", video->id, "name",
                                        video->name, "status", status, "texts", (json_int_t)texts,
                                        "unread", json_object_get(found, "unread")),
                              error, "%s", ""));
    }
    if (!status || strcmp(status, "ready") != 0) {
        return 0;
    }
    CV_TRY(cli_given(call, "export") ? export_one(run, video->id, number, error) : 0);
    if (call->json || call->quiet) {
        return 0;
    }
    print_head(found);
    print_unread(found);
    CV_TRY(print_texts(call, video, texts, error));
    if (*has_example || texts == 0) {
        return 0;
    }
    *has_example = true;
    return print_example(run, video, error);
}

/* ---- the page -------------------------------------------------------------------------------- */

static int open_page(struct run *run, struct cv_error *error)
{
    struct cli_installation *installation = &run->call->session.installation;
    const char *address = NULL;
    cv_auto_free char *link = NULL;
    CV_TRY(cli_workers_start_gateway(&run->workers, &address, error));
    CV_TRY(cli_installation_announce_page(installation, address, error));
    CV_TRY(cli_page_link(run->call, NULL, &link, error));
    say(run, "page: %s", link);
    return 0;
}

/* Keeps the page available if a person at a terminal may want to look at it; a script wants the
 * command to end. */
static int keep_page(struct run *run, struct cv_error *error)
{
    const struct cli_call *call = run->call;
    if (!run->link || call->quiet || call->json || !cli_is_terminal(STDOUT_FILENO) ||
        !cli_is_terminal(STDERR_FILENO)) {
        return 0;
    }
    (void)fputc('\n', stderr);
    say(run, "page: %s", run->link);
    return cli_watch_inbox(run->call, &run->workers, error);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int work(struct run *run, struct cv_error *error)
{
    struct cli_call *call = run->call;
    if (call->session.installation.notice[0] != '\0') {
        say(run, "note: %s", call->session.installation.notice);
    }
    const char *directory = call->session.installation.directory;
    CV_TRY(cli_installation_lock_run(&call->session.installation, error));
    CV_TRY(cli_tokens_prepare(directory, call->session.owner_id, error));
    CV_TRY(cv_db_run(call->session.db, NULL, error,
                     "INSERT INTO installation AS i (owner_id) VALUES ($1::uuid)"
                     " ON CONFLICT (is_only) DO UPDATE SET owner_id = excluded.owner_id"
                     " WHERE i.owner_id <> excluded.owner_id",
                     call->session.owner_id));
    CV_TRY(cli_given(call, "no-page") ? 0 : open_page(run, error));
    CV_TRY(import_videos(run, error));
    if (call->count == 0) {
        return cli_watch_inbox(call, &run->workers, error);
    }
    size_t on_their_way = 0;
    size_t failed = 0;
    bool has_example = false;
    for (size_t i = 0; i < run->list.count; i++) {
        on_their_way += run->list.videos[i].state != CLI_VIDEO_KNOWN;
    }
    if (on_their_way > 0) {
        CV_TRY(cli_workers_start(&run->workers, NULL, error));
        CV_TRY(cli_wait_for_videos(call, &run->workers, &run->list, &failed, error));
    }
    for (size_t i = 0; i < run->list.count; i++) {
        CV_TRY(show_one(run, &run->list.videos[i], i + 1, &has_example, error));
    }
    CV_TRY(keep_page(run, error));
    return failed > 0 || run->sources.bad > 0 ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int cli_run(struct cli_call *call, struct cv_error *error)
{
    cv_auto(run_deinit) struct run run = {
        .call = call,
        .import = {.options = json_object(), .text_only = cli_given(call, "text-only")}};
    cli_workers_init(&run.workers, &call->session);
    CV_TRY_MEMORY(run.import.options, error, "a payload");
    CV_TRY(check(&run, error));
    (void)umask(077); /* what it and its programs write is for its user alone */
    CV_TRY(cli_open(call, error));
    int result = work(&run, error);
    if (result < 0 && call->count > 0 && cv_cancel_level(call->cancel) != CV_CANCEL_NONE) {
        (void)fprintf(stderr, "\ninterrupted; the same command carries on from here\n");
    }
    return result;
}
