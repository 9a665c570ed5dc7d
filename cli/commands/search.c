#include "common/embed/embed.h"

#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/page.h"
#include "cli/commands/verbs.h"

#include <inttypes.h>
#include <string.h>

enum { LIMIT_DEFAULT = 20, LIMIT_MAX = 1000, CONTEXT_MAX = 50 };

/* The SQLSTATE with which search_segments() refuses a query, in words for the user. */
#define REFUSED_QUERY "22023"

/* A search as a FROM clause and its parameters. */
struct search {
    const char *query;
    const char *from;
    const char *parameters[5];
    size_t count;
    char *vector;
};

static void search_deinit(struct search *search)
{
    free(search->vector);
}
CV_DEFINE_CLEANUP_ADDRESS(struct search, search_deinit)

/* ---- the query ------------------------------------------------------------------------------- */

/* Joins the words of the command line to one query. A single word is taken unchanged; of several,
 * one with blanks was quoted in the shell, so it is a phrase. */
static int join_words(const struct cli_call *call, char **ret_query, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer query = CV_BUFFER_INIT;
    for (int i = 0; i < call->count; i++) {
        const char *word = call->arguments[i];
        bool is_phrase = call->count > 1 && strchr(word, ' ') && !strchr(word, '"');
        size_t sign = is_phrase && word[0] == '-' ? 1 : 0;
        cv_buffer_printf(&query, "%s%.*s%s%s%s", i ? " " : "", (int)sign, word,
                         is_phrase ? "\"" : "", word + sign, is_phrase ? "\"" : "");
    }
    return cv_buffer_detach(&query, ret_query, error);
}

/* Embeds the query as a vector, in PostgreSQL's form of an array. */
static int embed_query(const char *query, const char *model, struct cv_cancel *cancel,
                       char **ret_vector, struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {0};
    CV_TRY(cv_embedder_open(&embedder, error));
    CV_TRY(cv_embed(embedder, model, &query, 1, cancel, &found, error));
    cv_auto(cv_buffer_deinit) struct cv_buffer text = CV_BUFFER_INIT;
    for (size_t i = 0; i < found.dimensions; i++) {
        cv_buffer_printf(&text, "%s%.7g", i ? "," : "{", (double)found.values[i]);
    }
    cv_buffer_text(&text, "}");
    return cv_buffer_detach(&text, ret_vector, error);
}

static int prepare_semantic(struct cli_call *call, const char *query, const char *video_id,
                            const char *limit, struct cv_db_result **ret_model,
                            struct search *ret_search, struct cv_error *error)
{
    int result = cv_db_run(call->session.db, ret_model, error,
                           "SELECT coalesce($1, embedding_model_in_use()) AS name",
                           cli_value(call, "model"));
    const char *model = result ? NULL : cv_db_text(*ret_model, 0, "name");
    if (result == 0 && !model) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "no model is in use; name one with --model, or see cortana embeddings --help");
    }
    result = result ? result : embed_query(query, model, call->cancel, &ret_search->vector, error);
    ret_search->from = "search_semantic($1::real[], $2, $3, $4::uuid, $5::int)";
    ret_search->count = 5;
    ret_search->parameters[0] = ret_search->vector;
    ret_search->parameters[1] = model;
    ret_search->parameters[2] = cli_value(call, "filter");
    ret_search->parameters[3] = video_id;
    ret_search->parameters[4] = limit;
    return result;
}

static void prepare_words(const struct cli_call *call, const char *query, const char *video_id,
                          const char *limit, struct search *ret_search)
{
    *ret_search = (struct search){
        .from = call->json ? "search_segments($1, $2::uuid, $3::int)"
                           : "search_segments($1, $2::uuid, $3::int, E'\\x01', E'\\x02')",
        .query = query,
        .parameters = {query, video_id, limit},
        .count = 3,
    };
}

/* ---- the hits -------------------------------------------------------------------------------- */

/* Prints the snippet with its marks (control characters, which no text has) as bold or brackets. */
static void print_snippet(const char *snippet, bool has_colors)
{
    for (const char *part = snippet; *part;) {
        size_t length = strcspn(part, "\001\002");
        char piece[512];
        (void)snprintf(piece, sizeof(piece), "%.*s",
                       (int)(length < sizeof(piece) ? length : sizeof(piece) - 1), part);
        cli_put(stdout, piece);
        part += strlen(piece);
        if (*part == '\001') {
            (void)fputs(has_colors ? "\033[1;33m" : "[", stdout);
            part++;
        } else if (*part == '\002') {
            (void)fputs(has_colors ? "\033[0m" : "]", stdout);
            part++;
        }
    }
    (void)putchar('\n');
}

/* Prints the lines above and below the hit at its moment, nearest first in each direction, as on
 * screen. */
static int print_context(struct cli_call *call, const struct cv_db_result *hits, int hit,
                         const char *lines, bool below, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(call->session.db, &rows, error,
                     "SELECT text FROM (SELECT s.text, (s.bounding_box ->> 'y')::numeric AS y"
                     " FROM segments s JOIN segments h ON h.video_id = s.video_id"
                     " AND s.t_start <= h.t_start AND s.t_end >= h.t_start AND s.id <> h.id"
                     " AND ((s.bounding_box ->> 'y')::numeric"
                     " >= (h.bounding_box ->> 'y')::numeric) = $3::boolean"
                     " WHERE h.id = $1::uuid ORDER BY abs((s.bounding_box ->> 'y')::numeric"
                     " - (h.bounding_box ->> 'y')::numeric), s.id LIMIT $2::int) AS near"
                     " ORDER BY y",
                     cv_db_text(hits, hit, "segment_id"), lines, below ? "true" : "false"));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        (void)fputs("  - ", stdout);
        cli_put(stdout, cv_db_text(rows, i, "text"));
        (void)putchar('\n');
    }
    return 0;
}

static int print_hit(struct cli_call *call, const struct cv_db_result *rows, int row,
                     struct cv_error *error)
{
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    const char *lines = cli_value(call, "context");
    cli_put(stdout, cv_db_text(rows, row, "name"));
    (void)printf("  %s – %s  ", cli_time(cv_db_int(rows, row, "t_start", 0), start),
                 cli_time(cv_db_int(rows, row, "t_end", 0), end));
    if (cv_db_text(rows, row, "x")) {
        (void)printf("at %s,%s  %s×%s  ", cv_db_text(rows, row, "x"), cv_db_text(rows, row, "y"),
                     cv_db_text(rows, row, "width"), cv_db_text(rows, row, "height"));
    }
    (void)printf("%s %.2f  video %.8s\n", cv_db_text(rows, row, "match_kind"),
                 cv_db_double(rows, row, "rank", 0), cv_db_text(rows, row, "video_id"));
    int result = lines ? print_context(call, rows, row, lines, false, error) : 0;
    (void)fputs("    ", stdout);
    print_snippet(cv_db_text(rows, row, "snippet"), cli_has_colors());
    return result || !lines ? result : print_context(call, rows, row, lines, true, error);
}

/* Prints that nothing was found, and whether there is text that no model has read. */
static int say_nothing_found(struct cli_call *call, const char *video_id, struct cv_error *error)
{
    char text[CLI_UNREAD_TEXT_SIZE];
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    cli_print_note(call, "nothing found");
    CV_TRY(cli_unread_find(call->session.db, video_id, &rows, error));
    for (int i = 0; i < cv_db_rows(rows); i++) {
        cli_print_note(call, "%s", cli_unread_text(rows, i, text));
    }
    return CLI_EXIT_FAILED;
}

static int find(struct cli_call *call, const struct search *search, const char *video_id,
                struct cv_error *error)
{
    cv_auto_free char *sql = NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    const char *only = cli_given(call, "exact") ? " WHERE h.match_kind IN ('exact', 'text')" : "";
    CV_TRY(cv_format(&sql, error,
                     "SELECT h.*, to_jsonb(h) || jsonb_build_object('video',"
                     " coalesce(v.original_name, v.title, v.id::text)) AS line,"
                     " coalesce(v.original_name, v.title, v.id::text) AS name,"
                     " v.s3_original_path AS key, h.bounding_box ->> 'x' AS x,"
                     " h.bounding_box ->> 'y' AS y, h.bounding_box ->> 'width' AS width,"
                     " h.bounding_box ->> 'height' AS height"
                     " FROM %s AS h JOIN videos v ON v.id = h.video_id%s"
                     " ORDER BY h.rank DESC, h.confidence DESC, h.video_id, h.t_start,"
                     " h.segment_id",
                     search->from, only));
    struct cv_db_statement statement = {sql, search->count, search->parameters};
    if (cv_db_query(call->session.db, &statement, &rows, error) < 0) {
        bool is_refused = strcmp(cv_db_sqlstate(call->session.db), REFUSED_QUERY) == 0;
        return is_refused ? cli_usage(call, "%s", error->message) : -1;
    }
    if (call->json) {
        cli_print_lines(rows);
    }
    for (int i = 0; !call->json && i < cv_db_rows(rows); i++) {
        CV_TRY(print_hit(call, rows, i, error));
    }
    if (cv_db_rows(rows) == 0) {
        return say_nothing_found(call, video_id, error);
    }
    (void)fflush(stdout);
    if (!cli_given(call, "open")) {
        return 0;
    }
    const struct cli_moment moment = {.video_id = cv_db_text(rows, 0, "video_id"),
                                      .key = cv_db_text(rows, 0, "key"),
                                      .query = search->query,
                                      .at_ms = cv_db_int(rows, 0, "t_start", 0)};
    return cli_open_moment(call, &moment, error);
}

/* Background work may wait while somebody searches. A login or a standby that may not write is told
 * nothing of it. */
static void report_search(struct cli_call *call)
{
    struct cv_error ignored;
    if (cv_db_run(call->session.db, NULL, &ignored,
                  "SELECT touch_session(NULL, 'search', '60 seconds')"
                  " WHERE NOT pg_is_in_recovery()") != 0) {
        cv_log(CV_LOG_DEBUG, "no session for this search, ignoring: %s", ignored.message);
    }
}

int cli_search(struct cli_call *call, struct cv_error *error)
{
    bool semantic = cli_given(call, "semantic");
    const char *video = cli_value(call, "video");
    int64_t number = 0;
    int64_t context = 0;
    char limit[24];
    char id[CLI_UUID_SIZE];
    cv_auto_free char *query = NULL;
    CV_TRY(cli_number(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &number));
    CV_TRY(cli_number(call, "context", 0, CONTEXT_MAX, 0, &context));
    CV_TRY(join_words(call, &query, error));
    if (query[strspn(query, " ")] == '\0') {
        return cli_usage(call, "there is nothing to look for");
    }
    if (!semantic && (cli_given(call, "filter") || cli_given(call, "model"))) {
        return cli_usage(call, "--filter and --model belong to --semantic");
    }
    (void)snprintf(limit, sizeof(limit), "%" PRId64, number);
    CV_TRY(cli_open(call, error));
    report_search(call);
    if (video) {
        CV_TRY(cli_find(call, "video", video, id, error));
    }
    cv_auto(search_deinit) struct search search = {0};
    cv_auto(cv_db_result_free) struct cv_db_result *model = NULL;
    const char *video_id = video ? id : NULL;
    prepare_words(call, query, video_id, limit, &search);
    if (semantic) {
        CV_TRY(prepare_semantic(call, query, video_id, limit, &model, &search, error));
    }
    return find(call, &search, video_id, error);
}
