#include "common/embed/embed.h"

#include "cli/commands/languages.h"
#include "cli/commands/operation.h"
#include "cli/commands/page.h"
#include "cli/commands/verbs.h"

#include <string.h>

enum { CONTEXT_MAX = 50 };

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

/* Embeds the query, and adds the vector to the request; with the model in use if none is named. */
static int add_vector(struct cli_call *call, const char *query, json_t *values,
                      struct cv_error *error)
{
    cv_auto(cv_embedder_close) struct cv_embedder *embedder = NULL;
    cv_auto(cv_embeddings_deinit) struct cv_embeddings found = {0};
    cv_auto(json_decref) json_t *me = NULL;
    cv_auto(json_decref) json_t *vector = json_array();
    const char *model = cli_value(call, "model");
    if (!model) {
        CV_TRY(cli_ask(call, "me", NULL, &me, error));
        model = json_string_value(cli_find_member(me, "features.embedding_model"));
    }
    if (!model) {
        return cv_fail(
            error, CV_ERROR_CONFIGURATION,
            "no model is in use; name one with --model, or see cortana embeddings --help");
    }
    CV_TRY(cv_embedder_open(&embedder, error));
    CV_TRY(cv_embed(embedder, model, &query, 1, call->cancel, &found, error));
    bool is_good = vector != NULL;
    for (size_t i = 0; is_good && i < found.dimensions; i++) {
        is_good = json_array_append_new(vector, json_real((double)found.values[i])) == 0;
    }
    is_good = is_good && json_object_set(values, "vector", vector) == 0 &&
              json_object_set_new(values, "model", json_string(model)) == 0;
    CV_TRY_MEMORY(is_good, error, "a vector");
    return 0;
}

/* ---- the hits -------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static int64_t number_of(const json_t *object, const char *name)
{
    return (int64_t)json_number_value(cli_find_member(object, name));
}

/* Prints the text of a hit, what was found in bold or in brackets. */
static void print_snippet(const json_t *pieces, bool has_colors)
{
    size_t i;
    json_t *piece;
    (void)fputs("    ", stdout);
    json_array_foreach(pieces, i, piece)
    {
        bool is_hit = json_is_true(json_object_get(piece, "hit"));
        (void)fputs(!is_hit ? "" : has_colors ? "\033[1;33m" : "[", stdout);
        cli_put(stdout, text_of(piece, "text"));
        (void)fputs(!is_hit ? "" : has_colors ? "\033[0m" : "]", stdout);
    }
    (void)putchar('\n');
}

static int by_place(const void *one, const void *other)
{
    double difference = json_number_value(cli_find_member(*(json_t *const *)one, "box.y")) -
                        json_number_value(cli_find_member(*(json_t *const *)other, "box.y"));
    return (difference > 0) - (difference < 0);
}

/* Prints the hit between the `most` lines above it and below it on screen at its moment. */
static int print_among_lines(struct cli_call *call, const json_t *hit, size_t most, bool has_colors,
                             struct cv_error *error)
{
    size_t i;
    json_t *line;
    cv_auto(json_decref) json_t *lines = NULL;
    cv_auto(json_decref) json_t *values =
        json_pack("{s:O, s:O, s:O}", "id", json_object_get(hit, "video_id"), "from_ms",
                  json_object_get(hit, "t_start"), "to_ms", json_object_get(hit, "t_start"));
    CV_TRY_MEMORY(values, error, "a request");
    CV_TRY(cli_ask_items(call, "segments", values, 0, &lines, error));
    size_t count = 0;
    cv_auto_free const json_t **shown = calloc(json_array_size(lines) + 1, sizeof(*shown));
    CV_TRY_MEMORY(shown, error, "lines");
    json_array_foreach(lines, i, line)
    {
        if (strcmp(text_of(line, "id"), text_of(hit, "segment_id")) != 0) {
            shown[count++] = line;
        }
    }
    qsort(shown, count, sizeof(*shown), by_place);
    size_t above = 0;
    while (above < count && by_place(&shown[above], &hit) < 0) {
        above++;
    }
    for (i = above > most ? above - most : 0; i <= count && i <= above + most; i++) {
        if (i == above) {
            print_snippet(json_object_get(hit, "snippet"), has_colors);
        }
        if (i < count && i < above + most) {
            (void)fputs("  - ", stdout);
            cli_put(stdout, text_of(shown[i], "text"));
            (void)putchar('\n');
        }
    }
    return 0;
}

/* Prints where a line comes from besides the screen. */
static void print_sources(const json_t *sources)
{
    size_t i;
    json_t *source;
    json_array_foreach(sources, i, source)
    {
        const char *name = json_string_value(source);
        if (name && strcmp(name, "screen") != 0) {
            (void)printf("%s  ", name);
        }
    }
}

static int print_hit(struct cli_call *call, const json_t *hit, size_t context,
                     struct cv_error *error)
{
    char start[CLI_TIME_SIZE];
    char end[CLI_TIME_SIZE];
    bool has_colors = cli_has_colors();
    const char *title = text_of(hit, "video_title");
    cli_put(stdout, title[0] ? title : text_of(hit, "video_id"));
    (void)printf("  %s – %s  ", cli_time(number_of(hit, "t_start"), start),
                 cli_time(number_of(hit, "t_end"), end));
    if (json_is_object(json_object_get(hit, "box"))) {
        (void)printf("at %lld,%lld  %lld×%lld  ", (long long)number_of(hit, "box.x"),
                     (long long)number_of(hit, "box.y"), (long long)number_of(hit, "box.width"),
                     (long long)number_of(hit, "box.height"));
    }
    print_sources(json_object_get(hit, "sources"));
    (void)printf("%s %.2f  video %.8s\n", text_of(hit, "match"),
                 json_number_value(json_object_get(hit, "rank")), text_of(hit, "video_id"));
    if (context > 0) {
        return print_among_lines(call, hit, context, has_colors, error);
    }
    print_snippet(json_object_get(hit, "snippet"), has_colors);
    return 0;
}

/* Prints that nothing was found, and whether there is text that no model has read. */
static int say_nothing_found(struct cli_call *call, const json_t *values, struct cv_error *error)
{
    size_t i;
    json_t *item;
    char text[CLI_UNREAD_TEXT_SIZE];
    cv_auto(json_decref) json_t *body = NULL;
    cli_print_note(call, "nothing found");
    CV_TRY(json_object_get(values, "q") ? cli_ask(call, "search", values, &body, error) : 0);
    const json_t *unread = json_object_get(body, "unread");
    const char *video = json_string_value(json_object_get(values, "video"));
    json_array_foreach(unread, i, item)
    {
        cli_print_note(call, "%s", cli_unread_text(item, video, text));
    }
    return CLI_EXIT_FAILED;
}

static int show_hits(struct cli_call *call, const json_t *hits, const char *query, size_t context,
                     struct cv_error *error)
{
    size_t i;
    json_t *hit;
    CV_TRY(call->json ? cli_print_objects(hits, error) : 0);
    json_array_foreach(hits, i, hit)
    {
        CV_TRY(call->json ? 0 : print_hit(call, hit, context, error));
    }
    (void)fflush(stdout);
    hit = json_array_get(hits, 0);
    const struct cli_moment moment = {
        .video_id = text_of(hit, "video_id"), .query = query, .at_ms = number_of(hit, "t_start")};
    return cli_given(call, "open") ? cli_open_moment(call, &moment, error) : 0;
}

/* Background work may wait while somebody searches. A login or a standby that may not write is told
 * nothing of it; a server knows by itself. */
static void report_search(struct cli_call *call)
{
    struct cv_error ignored;
    if (!call->server && cv_db_run(call->session.db, NULL, &ignored,
                                   "SELECT touch_session(NULL, 'search', '60 seconds')"
                                   " WHERE NOT pg_is_in_recovery()") != 0) {
        cv_log(CV_LOG_DEBUG, "no session for this search, ignoring: %s", ignored.message);
    }
}

int cli_search(struct cli_call *call, struct cv_error *error)
{
    bool semantic = cli_given(call, "semantic");
    int64_t context = 0;
    cv_auto_free char *query = NULL;
    cv_auto(json_decref) json_t *values = NULL;
    cv_auto(json_decref) json_t *hits = NULL;
    CV_TRY(cli_number(call, "context", 0, CONTEXT_MAX, 0, &context));
    CV_TRY(join_words(call, &query, error));
    if (query[strspn(query, " ")] == '\0') {
        return cli_usage(call, "there is nothing to look for");
    }
    if (!semantic && (cli_given(call, "filter") || cli_given(call, "model"))) {
        return cli_usage(call, "--filter and --model belong to --semantic");
    }
    CV_TRY(cli_open(call, error));
    report_search(call);
    CV_TRY(cli_read_values(call, &values, error));
    int64_t limit = json_integer_value(json_object_get(values, "limit"));
    CV_TRY(semantic ? add_vector(call, query, values, error) : 0);
    CV_TRY_MEMORY(semantic || json_object_set_new(values, "q", json_string(query)) == 0, error,
                  "a query");
    int result =
        cli_ask_items(call, semantic ? "search_by_meaning" : "search", values, limit, &hits, error);
    if (result < 0 && error->type == CV_ERROR_INVALID_PAYLOAD) {
        return cli_usage(call, "%s", error->message);
    }
    CV_TRY(result);
    return json_array_size(hits) > 0 ? show_hits(call, hits, query, (size_t)context, error)
                                     : say_nothing_found(call, values, error);
}
